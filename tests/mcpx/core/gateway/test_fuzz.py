"""Any schema, arguments, result, notification: nothing but CallError comes out, and nothing is held up.

A real hub with a real server is run in a thread of its own; hypothesis says what the server lists, says and
answers, and what it is called with. How long the event loop is held is measured as the processor time of its
thread in one callback, which other load on the machine does not change.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.catalog.snapshot import State
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.protocol.messages import Exec
from mcpx.core.validation.bounds import why_too_large
from mcpx.errors import CallError
from mcpx.parts import open_hub
from supervisors import Reply
from tests.mcpx.scripted import config_of, entry

BUDGET_S = 0.05  # that nothing may hold the loop for
MARGIN = 6  # what a slow machine, and the collector, may make of it
LONGEST_ERROR = 20_000  # characters
SHOWN = 1000  # values in a schema that is looked at with inspect
NUMBERS = count()

# --- schemas

KEYWORDS = """
    $ref $schema $id $defs $anchor $dynamicRef additionalItems additionalProperties allOf anyOf const contains
    default dependencies dependentRequired dependentSchemas description disallow else enum exclusiveMaximum
    exclusiveMinimum extends format id if items maxItems maxLength maxProperties maximum minItems minLength
    minProperties minimum multipleOf not oneOf pattern patternProperties prefixItems properties propertyNames
    required then title type unevaluatedItems unevaluatedProperties uniqueItems
    """
WORDS = st.sampled_from(KEYWORDS.split())
NAMES = st.sampled_from(["a", "b", "", "x y", "$ref", "é"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
REFS = st.sampled_from(
    [
        "#",
        "#/$defs/a",
        "#/$defs/b",
        "#/properties/a",
        "#/x/zz",
        "#nowhere",
        "http://127.0.0.1:9/x",
        "http://[::1",
        "",
    ]
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "any", "odd"])
DRAFTS = st.sampled_from(
    [f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 6, 7)]
    + ["https://json-schema.org/draft/2020-12/schema", "http://127.0.0.1:9/none", []]
)
PATTERNS = st.sampled_from(["^a", "[", "(?P<", "\\p{L}", "(a|a)*$", "^(\\w+\\s?)*$"])


def one_word(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A keyword with a value that may be its own, or anything."""
    lists, maps = st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        st.builds(lambda word, value: {word: value}, WORDS, JSON | inner | lists | maps),
        st.builds(lambda word, value: {word: value}, st.sampled_from(["allOf", "anyOf", "oneOf"]), lists),
        st.builds(
            lambda word, value: {word: value},
            st.sampled_from(["properties", "$defs", "dependentSchemas"]),
            maps,
        ),
        st.builds(lambda value: {"$ref": value}, REFS),
        st.builds(lambda value: {"type": value}, TYPES | st.lists(TYPES, max_size=2)),
        st.builds(lambda value: {"pattern": value}, PATTERNS),
        st.builds(lambda value: {"$schema": value}, DRAFTS),
    )


def merged(words: list[dict[str, Any]]) -> dict[str, Any]:
    return {word: value for each in words for word, value in each.items()}


SCHEMAS = st.recursive(
    st.builds(merged, st.lists(one_word(st.booleans()), max_size=3)),
    lambda inner: st.builds(merged, st.lists(one_word(inner), max_size=4)),
    max_leaves=6,
)


def nested(levels: int, word: str) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {word: [schema]} if word in {"allOf", "anyOf"} else {word: schema}
    return schema


def doubling(levels: int, word: str) -> dict[str, Any]:
    defs: dict[str, Any] = {f"A{n}": {word: [{"$ref": f"#/$defs/A{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/A0", "$defs": {**defs, f"A{levels}": {"type": "array"}}}


# --- arguments, results, notifications

HUGE = st.sampled_from(
    [
        b'{"a":1e400}',
        b'{"a":%s}' % (b"9" * 5000),
        b'{"a":%s}' % (b"[" * 980 + b"]" * 980),
        b'{"a":"\\ud800"}',
        b"{",
        b"",
    ]
)
ARGUMENTS = st.builds(msgspec.json.encode, st.dictionaries(NAMES, JSON, max_size=3) | JSON) | HUGE
BLOCKS = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(["text", "image", 5]), "text": JSON, "data": JSON}
)
RESULTS = st.builds(
    msgspec.json.encode,
    JSON
    | st.fixed_dictionaries(
        {},
        optional={
            "content": st.lists(BLOCKS, max_size=3) | JSON,
            "structuredContent": JSON,
            "isError": st.booleans() | JSON,
            "_meta": JSON,
            "resultType": st.sampled_from(["complete", "input_required"]) | JSON,
            "inputRequests": st.dictionaries(NAMES, JSON, max_size=2) | JSON,
            "requestState": JSON,
        },
    ),
) | HUGE.filter(lambda raw: len(raw) > 1)
SAID = "message progress cancelled resources/updated elicitation/complete tasks/status odd"
METHODS = st.sampled_from([f"notifications/{each}" for each in SAID.split()] + ["odd"])
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "level": st.sampled_from(["info", "odd"]) | JSON,
        "data": JSON,
        "logger": JSON,
        "uri": st.text(max_size=5) | JSON,
        "requestId": JSON,
        "progressToken": st.integers(1, 50) | JSON,
        "progress": JSON,
        "elicitationId": JSON,
        "_meta": JSON,
    },
)
NOTICES = st.builds(
    lambda method, params: msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params}),
    METHODS,
    PARAMS | JSON,
) | st.sampled_from([b"{", b"[]", b'{"id":1,"result":5}', b'{"id":"9","error":null}', b"[" * 5000])

BACKTRACKS = {"properties": {"a": {"pattern": "(a+)+$"}}}
NAMED = {
    "properties": {f"{'a_long_name_' * 6}{n:05}": {} for n in range(5000)},
    "additionalProperties": False,
}
UNIQUE = {"properties": {"a": {"uniqueItems": True}}}
OBJECTS = json.dumps({"a": [{"n": n} for n in range(3000)]}).encode()
ROWS = json.dumps({"a": [{"n": n, "text": "row"} for n in range(40_000)]}).encode()
ROW = {"properties": {"n": {"type": "integer"}}}
PLAIN = {"type": "object", "properties": {"a": {"type": "array", "items": ROW}}}
OK = b'{"content":[{"type":"text","text":"ok"}]}'


class Fuzzed:
    """The hub in its thread."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, hub: Any, said: Path) -> None:
        self._portal = portal
        self._said = said
        self.hub = hub
        self.longest_s = 0.0
        self.longest_text = 0

    def play(self, schema: Any, arguments: bytes, result: bytes, notices: list[bytes]) -> None:
        self._said.write_bytes(b"\n".join([*notices, result]))
        self._portal.call(self._call, schema, arguments)

    async def _call(self, schema: Any, arguments: bytes) -> None:
        # a server of its own as the checker sees it, or those that are held up would spare the others
        tool = ToolInfo(server_name=f"s{next(NUMBERS)}", name="t", input_schema=schema)
        self.hub.upstreams["s"].catalogue.tools["t"] = tool
        message = Exec("s", "t", arguments)
        asks = [self._exec, self._execute]
        if (
            why_too_large(schema, SHOWN) is None
        ):  # what it costs to show a larger one is the converter's matter
            asks.insert(0, self._inspect)
        with anyio.fail_after(50):
            for ask in asks:
                try:
                    await ask(message)
                except CallError as error:
                    self.longest_text = max(self.longest_text, len(str(error)))

    async def _inspect(self, message: Exec) -> None:
        await self.hub.calls.inspect(message.server_name, message.tool_name)

    async def _exec(self, message: Exec) -> None:
        reply: Reply[msgspec.Raw] = Reply()
        self.hub.calls.call(message, reply)
        raw = await reply.wait()
        for stamp in (None, b"{}"):
            try:
                ResultEncoder(self.hub.views, structured=True, stamp=stamp).tool(raw, message)
            except CallError:
                continue

    async def _execute(self, message: Exec) -> None:
        try:
            arguments = json.loads(message.arguments or b"null")
        except (ValueError, RecursionError):
            return
        await self.hub.executor.execute(message.server_name, message.tool_name, arguments)


@contextmanager
def held_measured(fuzzed: Fuzzed) -> Iterator[None]:
    """Note the most processor time of one callback of the event loop."""
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        fuzzed.longest_s = max(fuzzed.longest_s, time.thread_time() - began)

    asyncio.Handle._run = measured
    try:
        yield
    finally:
        asyncio.Handle._run = run


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    said = tmp_path_factory.mktemp("fuzz") / "said"
    answers = {"tools/call t": [{"raw": str(said)}]}
    server = entry(offers={"tools": ["t"]}, answers=answers, tolerant=True, settings={"call_timeout": 10.0})
    config = config_of({"s": server})
    with (
        anyio.from_thread.start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(open_hub(config)) as hub,
    ):
        portal.call(hub.settled, 20.0)
        made = Fuzzed(portal, hub, said)
        made.play({"type": "object"}, b"{}", OK, [])
        gc.freeze()  # as MCPX does at its start: a look through all that the tests have loaded takes 0.3 s
        try:
            yield made
        finally:
            gc.unfreeze()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(SCHEMAS, ARGUMENTS, RESULTS, st.lists(NOTICES, max_size=3))
@example(BACKTRACKS, b'{"a":"%s!"}' % (b"a" * 40), OK, [])
@example(doubling(26, "allOf"), b"{}", OK, [])
@example(doubling(26, "anyOf"), b"{}", OK, [])
@example(UNIQUE, OBJECTS, OK, [])
@example(NAMED, b'{"a_long_name_":1}', OK, [])
@example({"properties": {"a": {"enum": [str(n) for n in range(49_000)]}}}, b'{"a":"x"}', OK, [])
@example({"anyOf": [{"properties": {"a": {"minLength": n}}} for n in range(4000)]}, b'{"a":""}', OK, [])
@example(PLAIN, ROWS, OK, [])
@example(nested(150, "allOf"), b'{"a":1}', OK, [])
@example(nested(300, "properties"), b'{"a":1}', OK, [])
@example({"$ref": "#"}, b"{}", b'{"resultType":"input_required","requestState":5}', [])
@example({"items": {"$ref": "#"}, "pattern": "x"}, b"[" * 900 + b"]" * 900, OK, [])
@example({}, b"{}", b'{"content":%s}' % (b"[" * 960 + b"]" * 960), [])
def test_nothing_but_a_call_error_comes_out_and_the_loop_is_not_held(
    fuzzed, schema, arguments, result, notices
):
    fuzzed.longest_s = 0.0
    with held_measured(fuzzed):
        fuzzed.play(schema, arguments, result, notices)
    assert fuzzed.longest_s < BUDGET_S * MARGIN
    assert fuzzed.longest_text < LONGEST_ERROR


def test_afterwards_it_is_as_it_was(fuzzed):
    info = fuzzed.hub.upstreams["s"].info()
    assert info.state is State.READY
    assert info.catalogue.generation == 1, "the server's session was lost"
    fuzzed.play({"type": "object"}, b"{}", OK, [])

"""Results, requests and progress over stdio and HTTP, in JSON and in events: byte for byte what was sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.core.servers.raw import entry, result
from tests.mcpx.core.servers.raw_http import MODERN_ONLY, raw_http
from tests.mcpx.scripted import config_of, open_watched

pytestmark = pytest.mark.anyio

TEXT = '"content":[{"type":"text","text":"pong"}]'
EVERYTHING = """{"z":1,@,"isError":null,"structuredContent":{"a":1e400,"b":-0.0,"c":1e2,
"d":18446744073709551616,"e":1.0,"f":0.1234567890123456789012345678901234567,"f":0},"é":"\\u0000\\u2028\\u00e9\\ud83d\\ude00\\/",
"_meta":{"a":null,"io.modelcontextprotocol/serverInfo":{}},"blocks":[{"type":"hologram"},{"text":5}],"x":null,
"resultType":"com.acme/odd"}""".replace("\n", "")
RESULTS = {
    "everything": EVERYTHING,
    "no content": '{"structuredContent":[1]}',
    "unknown blocks": '{"content":[{"type":"hologram","x":[1]},{"text":"x"},{"type":"text","text":5}]}',
    "deep": '{@,"_meta":{"deep":' + "[" * 600 + "]" * 600 + "}}",
    "large": '{@,"rows":[' + ",".join(['{"x":1e400}'] * 10_000) + "]}",
}
BAD = {"a NaN": '{@,"structuredContent":{"a":NaN}}', "an infinity": '{@,"a":-Infinity}'}
STEPS = [
    '{"progressToken":@ID@,"progress":1,"total":10}',
    '{"progress":1.50,"progressToken":@ID@,"message":"x","_meta":{"a":null},"com.acme/x":[1e2]}',
]
NO_STEPS = [
    '{"progressToken":@ID@}',
    '{"progressToken":@ID@,"progress":"1"}',
    '{"progressToken":7000,"progress":1}',
]


def notification(params: str) -> str:
    return f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}'


Serve = Callable[..., Any]


WAYS = [
    f"{era}-{how}"
    for era in ("handshake", "modern")
    for how in ("stdio", "json", "events", "resumed", "sse")
    if (era, how) != ("modern", "sse")  # which is not spoken there
]


@pytest.fixture(params=WAYS)
def serve(request: Any, tmp_path: Path) -> Serve:
    """What starts a server that answers a call in this way, with these notifications before it."""
    era, how = request.param.split("-")
    answers = MODERN_ONLY if era == "modern" else {}

    @contextmanager
    def over_http(before: dict[str, list[str]], said: dict[str, str]) -> Iterator[dict[str, Any]]:
        with raw_http(said, how=how, before=before) as server:
            yield {"url": server.url}

    @contextmanager
    def start(call: str, steps: list[str] | None = None) -> Iterator[dict[str, Any]]:
        said = answers | {"tools/call": call}
        before = {"tools/call": [notification(each) for each in steps or []]}
        if how == "stdio":
            yield entry(tmp_path, answers=said, before=before)
        else:
            with over_http(before, said) as server:
                yield server

    start.has_steps = how != "json"  # type: ignore[attr-defined]
    return start


async def call(server: dict[str, Any], **context: Any) -> bytes:
    """The result of a call, as the upstream layer gives it."""
    async with open_watched(config_of({"s": server}, auto_describe=False)) as watch:
        request = Exec("s", "echo", b"{}", RequestContext(**context))
        raw: bytes = await watch.hub.calls.run(request, bytes)  # type: ignore[assignment]
        return raw


@pytest.mark.parametrize("name", RESULTS)
async def test_a_result_is_what_was_sent(name, serve):
    text = RESULTS[name].replace("@", TEXT)
    with serve(result(text)) as server:
        assert await call(server) == text.encode()


@pytest.mark.parametrize("name", BAD)
async def test_a_number_that_is_no_json_is_an_error_of_an_unknown_outcome(name, serve):
    text = result(BAD[name].replace("@", TEXT))
    with serve(text) as server, pytest.raises(CallError, match="NaN or an infinity") as caught:
        await call(server)
    assert (caught.value.code, caught.value.outcome) == (Code.PROTOCOL_ERROR, Outcome.UNKNOWN)


async def test_in_a_large_result_it_is_found_when_the_result_is_read(serve):
    text = result(f'{{{TEXT},"rows":[{"1," * 20_000}NaN]}}')
    with serve(text) as server:
        async with open_watched(config_of({"s": server}, auto_describe=False)) as watch:
            error = await watch.failure("echo", {})
    assert "not JSON" in str(error)
    assert (error.code, error.outcome) == (Code.PROTOCOL_ERROR, Outcome.UNKNOWN)


async def test_an_error_of_the_servers_keeps_its_code_message_and_data(serve):
    error = {"code": -32042, "message": "no", "data": {"a": None, "b": 2**70, "c": 1.0}}
    said = f'{{"jsonrpc":"2.0","id":@ID@,"error":{json.dumps(error)}}}'
    with serve(said) as server, pytest.raises(CallError) as caught:
        await call(server)
    assert caught.value.details["upstream"] == error


async def test_progress_is_what_was_sent_but_for_its_token(serve):
    steps: list[bytes] = []
    with serve(result(f"{{{TEXT}}}"), [*NO_STEPS, *STEPS]) as server:
        await call(server, on_progress=steps.append)
    first, second = (
        b'"progress":1,"total":10',
        b'"progress":1.50,"message":"x","_meta":{"a":null},"com.acme/x":[1e2]',
    )
    if not serve.has_steps:
        assert steps == []
        return
    assert steps[0] == first
    assert json.loads(b"{%s}" % steps[1]) == json.loads(b"{%s}" % second)

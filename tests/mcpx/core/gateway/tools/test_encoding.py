"""Results on the hot path: passed through as they came, or reshaped by the same rules as everywhere else."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.results.views import ResultViews
from mcpx.core.config import Config, ServerConfig, Stdio
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.rendering.results import members_of, shape_tool_result
from mcpx.core.wire.workers.pool import WorkerPool
from mcpx.errors import CallError, Code

SERVER = ServerConfig(name="s", transport=Stdio(command="x"), result_token_budget=0)
VIEWS = ResultViews(ResultRenderer(Config(source="test", servers={"s": SERVER})), {}, WorkerPool())
CALL, READ = Exec("s", "t", b""), Read("s", "a:b")
STAMP = b'{"io.modelcontextprotocol/serverInfo":{"name":"mcpx"}}'
TEXTS = st.text(max_size=20) | st.sampled_from(['{"a": [1, 2]}', "[1]", ' {"b": 1}', "\n[2]", "{", '"x"', ""])
META = st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(), max_size=2)
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(lambda text: {"text": text, "type": "text", "annotations": {"priority": 1}}, TEXTS),
    st.builds(lambda text: {"type": "text", "text": text + "x" * 20_000}, TEXTS),
    st.just({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
    st.just({"type": "resource", "resource": {"uri": "a:b", "text": '{"not": "touched"}'}}),
)
RESULTS = st.fixed_dictionaries(
    {"content": st.lists(BLOCKS, max_size=4)},
    optional={
        "isError": st.booleans(),
        "structuredContent": st.none()
        | st.dictionaries(st.text(max_size=3), st.integers())
        | st.just([1, 2]),
        "_meta": META,
    },
)


def whole(pieces):
    return json.loads(b"".join(pieces))


@given(RESULTS, st.booleans(), st.sampled_from([None, STAMP]), st.booleans())
def test_bytes_and_objects_are_rendered_alike(result, structured, stamp, spaced):
    raw = json.dumps(result, separators=None if spaced else (",", ":")).encode()
    pieces = ResultEncoder(VIEWS, structured=structured, stamp=stamp).tool(msgspec.Raw(raw), CALL)
    shaped = shape_tool_result(result, server="s")
    expected = members_of(shaped, structured=structured)
    if stamp is not None:
        expected |= {"resultType": "complete", "_meta": json.loads(STAMP) | (expected.get("_meta") or {})}
    assert whole(pieces) == expected


def test_plain_text_is_neither_parsed_nor_copied():
    text = "plain " * 100_000
    raw = json.dumps({"content": [{"type": "text", "text": text}]}).encode()
    pieces = ResultEncoder(VIEWS, structured=True).tool(msgspec.Raw(raw), CALL)
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert sum(map(len, views)) > len(text)
    assert whole(pieces)["content"][0]["text"] == text


@pytest.mark.parametrize("raw", [b"[]", b'"text"', b"{", b'{"content": 3}', b'{"content": [3]}', b""])
def test_what_is_not_mcp_is_a_protocol_error(raw):
    with pytest.raises(CallError) as caught:
        ResultEncoder(VIEWS, structured=True).tool(msgspec.Raw(raw), CALL)
    assert caught.value.code is Code.PROTOCOL_ERROR
    with pytest.raises(CallError):
        ResultEncoder(VIEWS, structured=True).resource(msgspec.Raw(raw), READ)

"""Results that are too large to be read: what is passed on, and that nothing is built for it."""

from __future__ import annotations

import json
import tracemalloc

import anyio
import msgspec
import pytest

from mcpx.core.calls.results.large import Apart
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.results.views import ResultViews
from mcpx.core.config import Config, ServerConfig, Stdio
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.rendering import large_results
from mcpx.core.rendering.result_reading import InputRequired, read_resource_result, read_tool_result
from mcpx.core.rendering.results import shape_tool_result
from mcpx.core.wire.workers.pool import WorkerPool
from mcpx.errors import CallError, Code

STAMP = b'{"io.modelcontextprotocol/serverInfo":{"name":"mcpx"}}'
CALL = Exec("s", "t", b"")
MEGABYTE = 1_000_000
ROWS = json.dumps([{"id": n, "name": f"row {n}", "ok": True} for n in range(50_000)])
DENSE = {
    "deep": "[" + ",".join(["[[[[[[[[1]]]]]]]]"] * 60_000) + "]",
    "empty objects": "{" + ",".join(f'"{n}":{{}}' for n in range(120_000)) + "}",
    "ones": "[" + "1," * 500_000 + "1]",
    "lists": "[" + "[]," * 300_000 + "[]]",
}


def raw_of(result):
    return msgspec.Raw(msgspec.json.encode(result))


def text_result(text):
    return {"content": [{"type": "text", "text": text}]}


def made(encoder, raw, request):
    """The result in pieces; one that is for a worker as the worker makes it."""
    pieces = encoder.tool(raw, request) if isinstance(request, Exec) else encoder.resource(raw, request)
    if not isinstance(pieces, Apart):
        return pieces

    async def wait():
        try:
            return await pieces
        finally:
            encoder._views.large._pool.close()

    return anyio.run(wait)


def encoder_of(largest, *, structured=True, stamp=None):
    server = ServerConfig(name="s", transport=Stdio(command="x"), result_token_budget=0)
    config = Config(source="test", servers={"s": server}, toon_compression_max_size=largest)
    return ResultEncoder(
        ResultViews(ResultRenderer(config), {}, WorkerPool()), structured=structured, stamp=stamp
    )


def on_the_wire(raw, *, structured=True, stamp=None, largest=MEGABYTE):
    encoder = encoder_of(largest, structured=structured, stamp=stamp)
    return json.loads(b"".join(made(encoder, raw, CALL)))


def for_programs(raw, *, largest=MEGABYTE):
    read = read_tool_result(raw, server="s")
    large = large_results.is_large(raw, largest)
    return shape_tool_result(read, is_large=large, server="s")


@pytest.mark.parametrize("text", [ROWS, *DENSE.values()], ids=["rows", *DENSE])
def test_large_json_is_passed_on_as_the_text_it_is_on_both_paths(text):
    raw = raw_of(text_result(text))
    assert on_the_wire(raw) == {**text_result(text), "isError": False}
    shaped = for_programs(raw)
    assert (shaped.content, shaped.structured_content) == (text_result(text)["content"], None)


@pytest.mark.parametrize("text", DENSE.values(), ids=DENSE)
def test_what_is_dense_is_large_below_the_size_too(text):
    assert large_results.is_large(raw_of(text_result(text)), 100 * MEGABYTE)


def test_what_is_not_large_becomes_toon():
    text = json.dumps([{"id": n, "name": f"row {n}"} for n in range(5_000)])
    raw = raw_of(text_result(text))
    assert len(on_the_wire(raw)["content"][0]["text"]) < len(text)
    assert on_the_wire(raw)["structuredContent"] == {"result": json.loads(text)}
    assert on_the_wire(raw, largest=100_000)["content"][0]["text"] == text


@pytest.mark.parametrize("stamp", [None, STAMP])
@pytest.mark.parametrize("meta", [None, {}, {"a": 1}, {"io.modelcontextprotocol/serverInfo": {"name": "x"}}])
@pytest.mark.parametrize("given", [None, {"a": 1}, [1]])
def test_a_large_result_keeps_what_the_server_gave(stamp, meta, given):
    result = {**text_result("x" * 2 * MEGABYTE), "structuredContent": given, "_meta": meta, "isError": True}
    answer = on_the_wire(raw_of(result), stamp=stamp)
    assert answer["content"] == result["content"]
    assert answer["isError"] is True
    assert answer.get("structuredContent") == (
        given if given is None or given == {"a": 1} else {"result": given}
    )
    theirs = {key: value for key, value in (meta or {}).items() if key not in json.loads(STAMP)}
    assert answer.get("_meta", {}) == (theirs if stamp is None else theirs | json.loads(STAMP))


@pytest.mark.parametrize("content", [{}, {"content": []}], ids=repr)
def test_large_structured_content_alone_is_the_text_of_a_block(content):
    value = {"rows": json.loads(DENSE["ones"])}
    raw = raw_of({**content, "structuredContent": value})
    answer = on_the_wire(raw, structured=False)
    assert json.loads(answer["content"][0]["text"]) == value
    assert json.loads(for_programs(raw).content[0]["text"]) == value


@pytest.mark.parametrize("content", ["3", '"x"', "{}", "["])
def test_a_large_result_that_is_not_mcp_is_a_protocol_error(content):
    raw = msgspec.Raw(f'{{"content":{content},"x":"{"y" * 2 * MEGABYTE}"}}'.encode())
    for shape in (on_the_wire, for_programs):
        with pytest.raises(CallError) as caught:
            shape(raw)
        assert caught.value.code is Code.PROTOCOL_ERROR


def test_a_dense_result_keeps_the_blocks_of_every_kind():
    blocks = [
        {"type": "text", "text": DENSE["lists"]},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "a:b", "name": "n"},
        {"type": "resource", "resource": {"uri": "a:b", "text": "t", "mimeType": "text/plain"}},
    ]
    assert for_programs(raw_of({"content": blocks})).content == blocks


def test_millions_of_tiny_blocks_cost_no_memory():
    raw = msgspec.Raw(b'{"content":[' + b"{}," * 3_000_000 + b"{}]}")
    tracemalloc.start()
    on_the_wire_pieces = made(encoder_of(MEGABYTE), raw, CALL)
    with pytest.raises(CallError, match="more than 1024 blocks"):
        for_programs(raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(len, on_the_wire_pieces)) > 9_000_000
    assert peak < 40_000_000  # a copy or two of the bytes


URI = "file:///a"
TEXT = "a,b\n" * 600_000
BLOB = "YWFh" * 500_000


@pytest.mark.parametrize("stamp", [None, STAMP])
@pytest.mark.parametrize(
    "contents",
    [
        [{"uri": "file:///a", "text": TEXT, "mimeType": "text/csv"}],
        [{"text": TEXT}],
        [{"uri": "file:///b", "blob": BLOB}],
        [{"uri": "file:///b", "blob": BLOB + "YQ==", "mimeType": "application/pdf"}],
        [{"uri": "file:///b", "blob": BLOB, "mimeType": "image/png"}],
        [{"uri": "file:///b", "blob": BLOB, "mimeType": "image/png", "_meta": {"a": 1}}],
        [{"uri": "file:///b", "text": TEXT}, {"uri": "file:///b", "blob": "YQ=="}],
    ],
    ids=range(7),
)
def test_a_large_resource_is_shown_as_a_small_one_is(contents, stamp):
    raw = raw_of({"contents": contents})
    by_size = [
        made(encoder_of(size, stamp=stamp), raw, Read("s", URI)) for size in (MEGABYTE, 100 * MEGABYTE)
    ]
    large, small = (json.loads(b"".join(pieces)) for pieces in by_size)
    assert large == small
    assert msgspec.json.decode(msgspec.json.encode(read_resource_result(raw)["contents"])) == [
        {key: value for key, value in item.items() if key != "_meta" or not large_results.is_dense(raw)}
        for item in contents
    ]


@pytest.mark.parametrize("blob", [BLOB + "a", "=" + BLOB + "YWF", BLOB[:-4] + "YQ==YWFh", BLOB + "!!!!"])
def test_a_large_blob_that_is_not_base64_is_a_protocol_error(blob):
    with pytest.raises(CallError) as caught:
        made(encoder_of(MEGABYTE), raw_of({"contents": [{"blob": blob}]}), Read("s", URI))
    assert caught.value.code is Code.PROTOCOL_ERROR


def test_a_blob_with_escaped_slashes_is_base64_all_the_same():
    raw = msgspec.Raw(b'{"contents":[{"blob":"' + b"aG\\/k" * 400_000 + b'"}]}')
    answer = json.loads(b"".join(made(encoder_of(MEGABYTE), raw, Read("s", URI))))
    assert answer["structuredContent"]["blob"] == "aG/k" * 400_000


def test_a_question_is_read_and_one_that_is_too_large_is_refused():
    question = {"resultType": "input_required", "inputRequests": {"q": {"method": "roots/list"}}}
    with pytest.raises(InputRequired):
        on_the_wire(raw_of({**question, "requestState": "x" * 2 * MEGABYTE}))
    for shape in (on_the_wire, for_programs):
        with pytest.raises(CallError, match="too large"):
            shape(raw_of({**question, "requestState": json.loads(DENSE["lists"])}))


MESSAGE = b'{"role":"user","content":{"type":"text","text":"a"}}'


@pytest.mark.parametrize(
    "result",
    [
        b'{"messages":[' + b",".join([MESSAGE] * 40_000) + b"]}",
        b'{"completion":{"values":[' + b",".join([b'"a"'] * 700_000) + b"]}}",
        b'{"messages":[],' + b",".join(b'"k%d":1' % each for each in range(700_000)) + b"}",
        b'{"messages":' + b"[" * 80_000 + b"]" * 80_000 + b"}",
    ],
    ids=["messages", "values", "members", "depth"],
)
def test_very_many_messages_of_a_prompt_are_refused_unread(result):
    with pytest.raises(CallError):
        large_results.refuse_dense_messages(msgspec.Raw(result), "s")


@pytest.mark.parametrize(
    "result",
    [
        b'{"messages":[' + b",".join([MESSAGE] * 1000) + b'],"_meta":{"a":1},"later":null}',
        b'{"messages":[' + MESSAGE.replace(b'"a"', b'"' + b"{,}" * 400_000 + b'"') + b'],"description":"d"}',
    ],
    ids=["few", "text"],
)
def test_a_large_prompt_is_read(result):
    large_results.refuse_dense_messages(msgspec.Raw(result), "s")

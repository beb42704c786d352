"""What the official clients take from a server over HTTP, MCPX takes; answered with bytes, in plain JSON."""

from __future__ import annotations

import pytest
from mcp.shared.inbound import decode_header_value

from mcpx.core.calls.calls import ExecutionResult
from mcpx.core.catalog.snapshot import State
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.core.servers.raw import ECHO, OBJECT, initialize, result, tools
from tests.mcpx.core.servers.raw_http import MODERN_ONLY, raw_http
from tests.mcpx.scripted import config_of, open_watched

pytestmark = pytest.mark.anyio

ODD = [
    {"name": "typeless", "inputSchema": {}},
    {"name": "list_out", "inputSchema": OBJECT, "outputSchema": {"type": "array"}},
    {"name": "icon", "inputSchema": OBJECT, "icons": [{"src": "data:,", "sizes": "1x1"}]},
    {"name": "task", "inputSchema": OBJECT, "execution": {"taskSupport": "sometimes"}},
]
CASES = {
    "odd tools": ({"tools/list": tools(*ODD)}, []),
    "unusable tools": ({"tools/list": tools({"name": 5}, 7, {"name": "x"})}, ["tool"] * 3),
    "a deep tool": (
        {"tools/list": tools('{"name":"deep","inputSchema":{"a":%s}}' % ("[" * 170 + "]" * 170))},
        [],
    ),
    "a refused list": ({"initialize": initialize()}, ["resources/list", "prompts/list"]),
    "no capabilities": ({"initialize": initialize(capabilities={})}, []),
    "half a pair": ({"tools/list": tools('{"name":"half","description":"\\ud83d","inputSchema":{}}')}, []),
}


@pytest.mark.parametrize("case", CASES)
async def test_an_odd_server_over_http_is_taken(case):
    answers, left_out = CASES[case]
    with raw_http(answers) as server:
        async with open_watched(config_of({"s": {"url": server.url}}, auto_describe=False)) as watch:
            assert watch.state() is State.READY, watch.hub.upstreams["s"].info().cause
            assert await watch.text(ECHO["name"], {}) == "pong"
            assert [each.kind for each in watch.hub.upstreams["s"].info().left_out] == left_out


async def result_of(text: str) -> ExecutionResult:
    """The result of a call that is answered with that JSON."""
    with raw_http({"tools/call": result(text)}) as server:
        async with open_watched(config_of({"s": {"url": server.url}}, auto_describe=False)) as watch:
            await watch.becomes(State.READY)
            return await watch.hub.calls.exec("s", ECHO["name"], {})


@pytest.mark.parametrize("value", ["NaN", "-Infinity"])
async def test_a_number_that_json_does_not_have_is_no_null(value):
    with pytest.raises(CallError, match="NaN or an infinity") as caught:
        await result_of('{"content":[],"structuredContent":{"a":' + value + "}}")
    assert (caught.value.code, caught.value.outcome) == (Code.PROTOCOL_ERROR, Outcome.UNKNOWN)


async def test_a_result_may_be_as_deep_as_over_a_stream():
    deep = "[" * 600 + "]" * 600
    done = await result_of('{"content":[{"type":"text","text":"pong"}],"_meta":{"deep":' + deep + "}}")
    assert done.compressed_data == "pong"


async def test_a_server_of_2026_07_28_gets_name_and_parameters_in_headers_too():
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    answers = MODERN_ONLY | {"tools/list": tools({"name": "odd é", "inputSchema": schema})}
    with raw_http(answers) as server:
        async with open_watched(config_of({"s": {"url": server.url}}, auto_describe=False)) as watch:
            await watch.text("odd é", {"region": "eu", "n": 1})
            await watch.text(ECHO["name"], {"region": "eu"})
    plain = [{name.lower(): value for name, value in each.items()} for each in server.headers["tools/call"]]
    assert [each["mcp-method"] for each in plain] == ["tools/call"] * 2
    assert [decode_header_value(each["mcp-name"]) for each in plain] == ["odd é", ECHO["name"]]
    assert [each.get("mcp-param-region") for each in plain] == ["eu", None]
    assert server.body("tools/call")["params"]["arguments"] == {"region": "eu"}

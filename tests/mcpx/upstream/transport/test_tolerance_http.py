"""What the official clients take from a server over HTTP, MCPX takes; answered with bytes, in plain JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mcpx.catalog.model import State
from mcpx.core.calls import ExecutionResult
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.scripted import config_of, open_watched
from tests.mcpx.upstream.raw import ECHO, OBJECT, initialize, refusal, result, tools

pytestmark = pytest.mark.anyio

DEFAULTS = {
    "initialize": initialize(capabilities={"tools": {}}),
    "tools/list": tools(),
    "tools/call": result('{"content":[{"type":"text","text":"pong"}]}'),
}


@contextmanager
def raw_http(answers: dict[str, str]) -> Iterator[str]:
    """The URL of a server that answers with these lines."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said = (answers | {}).get(asked["method"]) or DEFAULTS.get(asked["method"]) or refusal(-32601)
            body = said.replace("@ID@", json.dumps(asked.get("id"))).encode() if "id" in asked else b""
            self.answer(200 if body else 202, body)

        def do_GET(self) -> None:
            self.answer(405, b"")

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()


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
    with raw_http(answers) as url:
        async with open_watched(config_of({"s": {"url": url}}, auto_describe=False)) as watch:
            assert watch.state() is State.READY, watch.hub.upstreams["s"].info().cause
            assert await watch.text(ECHO["name"], {}) == "pong"
            assert [each.kind for each in watch.hub.upstreams["s"].info().left_out] == left_out


async def result_of(text: str) -> ExecutionResult:
    """The result of a call that is answered with that JSON."""
    with raw_http({"tools/call": result(text)}) as url:
        async with open_watched(config_of({"s": {"url": url}}, auto_describe=False)) as watch:
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

"""A raw HTTP server in this process: answers with given bytes, as JSON or events, and keeps what it got."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.mcpx.upstream.raw import initialize, refusal, result, tools

MODERN = "2026-07-28"
DEFAULTS = {
    "initialize": initialize(capabilities={"tools": {}}),
    "tools/list": tools(),
    "tools/call": result('{"content":[{"type":"text","text":"pong"}]}'),
}


def discover(**capabilities: Any) -> str:
    """The answer to `server/discover` of a server that speaks 2026-07-28 alone."""
    about = {"supportedVersions": [MODERN], "capabilities": {"tools": {}, **capabilities}}
    stamp = {"io.modelcontextprotocol/serverInfo": {"name": "raw", "version": "1"}}
    cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return result({**about, **cached, "_meta": stamp})


MODERN_ONLY = {"server/discover": discover(), "initialize": refusal(-32601)}


class RawHttp:
    """What the server was sent: the bodies of requests by method, and their headers."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: dict[str, list[bytes]] = {}
        self.headers: dict[str, list[dict[str, str]]] = {}

    def body(self, method: str) -> dict[str, Any]:
        """The last request of that method."""
        message: dict[str, Any] = json.loads(self.bodies[method][-1])
        return message

    def note(self, method: str, body: bytes, headers: dict[str, str]) -> None:
        self.bodies.setdefault(method, []).append(body)
        self.headers.setdefault(method, []).append(headers)


def as_events(said: str, before: list[str]) -> bytes:
    """The messages as events, the answer last; each has a comment and an id with it."""
    lines = [
        f": hello\r\nid: {at}\r\nevent: message\r\ndata: {each}\r\n\r\n" for at, each in enumerate(before)
    ]
    return "".join([*lines, f"data: {said}\n\n"]).encode()


@contextmanager
def raw_http(
    answers: dict[str, str], *, events: bool = False, before: dict[str, list[str]] | None = None
) -> Iterator[RawHttp]:
    """A server that answers with these lines, where `@ID@` is the id of the request.

    With `events` a call is answered by a stream of events; `before` has, by method, the messages on it that
    come first.
    """
    got = RawHttp()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            asked = json.loads(body)
            method = asked.get("method", "")
            got.note(method, body, dict(self.headers.items()))
            if "id" not in asked or not method:
                self.answer(202, b"")
                return
            said = (answers | {}).get(method) or DEFAULTS.get(method) or refusal(-32601)
            first = [self.filled(each, asked) for each in (before or {}).get(method, [])]
            said = self.filled(said, asked)
            if events and method not in {"initialize", "server/discover"}:
                self.answer(200, as_events(said, first), "text/event-stream")
            else:
                self.answer(200, said.encode(errors="surrogatepass"))

        def filled(self, text: str, asked: dict[str, Any]) -> str:
            return text.replace("@ID@", json.dumps(asked["id"]))

        def do_GET(self) -> None:
            self.answer(405, b"")

        def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    got.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    try:
        yield got
    finally:
        server.shutdown()
        server.server_close()

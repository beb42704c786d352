"""A raw HTTP server in this process: answers with given bytes, as JSON or events, and keeps what it got."""

from __future__ import annotations

import json
import queue
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.mcpx import http_server
from tests.mcpx.core.servers.raw import initialize, refusal, result, tools

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
    """The server's script, and what it was sent: the bodies of requests by method, and their headers."""

    def __init__(self, answers: dict[str, str], how: str, before: dict[str, list[str]]) -> None:
        self.url = ""
        self.answers = DEFAULTS | answers
        self.how = how
        self.before = before
        self.bodies: dict[str, list[bytes]] = {}
        self.headers: dict[str, list[dict[str, str]]] = {}
        self.stream: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.broken_off: list[list[str]] = []
        self.admits: Callable[[dict[str, str]], bool] = lambda _headers: True
        """Decides by its headers if a request is served, or answered with 401."""
        self.refused = 0

    def body(self, method: str) -> dict[str, Any]:
        """The last request of that method."""
        message: dict[str, Any] = json.loads(self.bodies[method][-1])
        return message

    def note(self, method: str, body: bytes, headers: dict[str, str]) -> None:
        self.bodies.setdefault(method, []).append(body)
        self.headers.setdefault(method, []).append(headers)

    def messages(self, method: str, request_id: Any) -> list[str]:
        """What a request is answered with, the answer last."""
        lines = [*self.before.get(method, []), self.answers.get(method) or refusal(-32601)]
        return [line.replace("@ID@", json.dumps(request_id)) for line in lines]


def as_events(messages: list[str]) -> bytes:
    """The messages as events, each with a comment and an id with it, and one without data first."""
    lines = [
        f": hello\r\nid: {at}\r\nevent: message\r\ndata: {each}\r\n\r\n" for at, each in enumerate(messages)
    ]
    return "".join(["id: first\nretry: 1\ndata:\n\n", *lines]).encode()


class Handler(http_server.Handler):
    raw: RawHttp

    def post(self) -> None:
        raw, body = self.raw, self.body()
        asked = json.loads(body)
        if not raw.admits({name.lower(): value for name, value in self.headers.items()}):
            raw.refused += 1
            self.answer(401)
            return
        method = asked.get("method", "")
        raw.note(method, body, dict(self.headers.items()))
        if "id" not in asked or not method:
            self.answer(202)
            return
        messages = raw.messages(method, asked["id"])
        if raw.how == "sse":
            self.answer(202)
            for each in messages:
                raw.stream.put(each)
        elif raw.how == "json" or method in {"initialize", "server/discover"}:
            self.answer(200, messages[-1].encode())
        elif raw.how == "resumed" and method == "tools/call":
            raw.broken_off.append(messages)
            self.answer(200, as_events([]), "text/event-stream")
        else:
            self.answer(200, as_events(messages), "text/event-stream")

    def get(self) -> None:
        raw = self.raw
        if raw.how == "sse":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
            while (message := raw.stream.get()) is not None:
                self.wfile.write(f"event: message\ndata: {message}\n\n".encode())
            self.close_connection = True
        elif self.headers["last-event-id"] == "first":
            self.answer(200, as_events(raw.broken_off.pop()), "text/event-stream")
        else:
            self.answer(405)


@contextmanager
def raw_http(
    answers: dict[str, str],
    *,
    how: str = "json",
    before: dict[str, list[str]] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[RawHttp]:
    """A server that answers with these lines, where `@ID@` is the id of the request.

    `how` is "json"; "events": answers come in streams; "resumed": the stream of a call breaks off before its
    first message, and the rest is on the stream that resumes it; "sse": the older transport. `before` has, by
    method, the messages that come before the answer; they are left out in plain JSON. With `tls`
    it speaks https.
    """
    raw = RawHttp(answers, how, before or {})
    with http_server.serving_http(Handler, tls=tls, raw=raw) as origin:
        raw.url = f"{origin}/{'sse' if how == 'sse' else 'mcp'}"
        try:
            yield raw
        finally:
            raw.stream.put(None)

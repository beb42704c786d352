"""A server over HTTP that speaks both eras, or refuses one in some way; in this process. For tests.

It knows which era a request is of by its session and its `_meta`, as a server of both does. Its tool `era`
answers with the era in which it was called.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.mcpx.http_server import Handler, serving_http

ABOUT = {"name": "dual", "version": "1"}
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
NOT_MODERN = {"subscriptions/listen", "resources/subscribe"}
TOOL = {"name": "era", "inputSchema": {"type": "object"}}
INITIALIZE, DISCOVER = "initialize", "server/discover"
PATIENCE_S = 50.0


class DualHttp:
    """The server, at `url`. `answers` holds an HTTP status or an error in place of the answer, by method."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.heard: list[str] = []
        """The method of each request, without lists and what comes later."""
        self.calls: list[str] = []
        """The era of each call."""
        self.sessions: set[str] = set()
        """The sessions of the handshake era that are open."""
        self.tools = [TOOL]
        self.release = threading.Event()
        """Lets the requests go on that have to wait."""
        self.subscribed: list[str] = []
        """The URIs that were subscribed to, in the handshake era: there is no other way."""
        self.url = ""
        self.streams: list[Any] = []

    def result(self, method: str, era: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": ABOUT}
            case "server/discover":
                return {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}, "resources": {}},
                    "_meta": {"a": 1},
                }
            case "tools/list":
                return {"tools": self.tools}
            case "resources/subscribe":
                self.subscribed.append(params["uri"])
            case "resources/list":
                return {"resources": [{"uri": "a:b", "name": "b"}]}
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case "tools/call":
                self.calls.append(era)
                return {"content": [{"type": "text", "text": era}]}
        return {}

    def notify(self, method: str, params: str = "{}") -> None:
        """Send a notification on the streams of the handshake era."""
        event = f'data: {{"jsonrpc":"2.0","method":"{method}","params":{params}}}\n\n'.encode()
        for stream in self.streams:
            stream.write(b"%x\r\n%s\r\n" % (len(event), event))
            stream.flush()


class _Handler(Handler):
    dual: DualHttp

    def post(self) -> None:
        asked = json.loads(self.body())
        method, dual = asked["method"], self.dual
        if "id" not in asked:
            self._answer(202)
            return
        if method in {INITIALIZE, DISCOVER}:
            dual.heard.append(method)
        era = "modern" if "_meta" in asked.get("params", {}) and self._is_modern(asked) else "handshake"
        if era == "handshake" and method != INITIALIZE and self._session not in dual.sessions:
            self._answer(404)
            return
        said = dual.answers.get(method)
        if said == "silent":
            dual.release.wait(PATIENCE_S)
            said = None
        if era == "modern" and method in NOT_MODERN:
            said = {"code": -32601, "message": f"Method not found: {method}"}
        if isinstance(said, int):
            self._answer(said)
        elif said is not None:
            self._answer(200, {"jsonrpc": "2.0", "id": asked["id"], "error": said})
        else:
            result = dual.result(method, era, asked.get("params", {}))
            if era == "modern":
                result |= {"resultType": "complete"}
            session = uuid.uuid4().hex if method == INITIALIZE else None
            if session is not None:
                dual.sessions.add(session)
            self._answer(200, {"jsonrpc": "2.0", "id": asked["id"], "result": result}, session=session)

    @property
    def _session(self) -> str:
        return self.headers.get("mcp-session-id") or ""

    @staticmethod
    def _is_modern(asked: Any) -> bool:
        return "io.modelcontextprotocol/protocolVersion" in asked["params"]["_meta"]

    def get(self) -> None:
        if self._session not in self.dual.sessions:
            self._answer(405)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.dual.streams.append(self.wfile)
        self.dual.release.wait(PATIENCE_S)
        self.close_connection = True

    def delete(self) -> None:
        self.dual.sessions.discard(self._session)
        self._answer(200)

    def _answer(self, status: int, body: Any = None, *, session: str | None = None) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # whoever asked has left
            self.answer(status, b"" if body is None else json.dumps(body).encode(), mcp_session_id=session)


@contextmanager
def dual_http(**answers: Any) -> Iterator[DualHttp]:
    """A running server; `initialize` and `discover` may be an HTTP status, an error, or `silent`."""
    named = {"initialize": INITIALIZE, "discover": DISCOVER, "call": "tools/call"}
    dual = DualHttp({named[key]: answer for key, answer in answers.items()})
    with serving_http(_Handler, dual=dual) as origin:
        dual.url = f"{origin}/mcp"
        try:
            yield dual
        finally:
            dual.release.set()

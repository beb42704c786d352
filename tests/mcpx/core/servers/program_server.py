"""A server over HTTP that MCPX starts: MCP of 2025-11-25, with sessions, on the port that it is told.

Run as `python -S -E program_server.py PORT [OPTIONS]`, a JSON object: `wait_s` before it listens, in which it
writes a line each 0.1 s; `exit` before that, with this code; `sse`: the transport of 2024-11-05, at /sse;
`refuse`: the first so many requests get HTTP 503; `ears`: a file that gets a line `PID` at each start.

Its tools do what their names say, in the process that is asked: `pid`, `where`, `env` and `session` tell;
`die` kills it in the middle of the call, `forget` forgets all sessions, `deaf` takes no connections for so
many seconds, `hang` stops it (SIGSTOP), `hoard` takes so many MiB. Standard library only.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OPTIONS = json.loads(sys.argv[2]) if sys.argv[2:] else {}
SESSIONS: dict[str, queue.SimpleQueue] = {}
HOARD: list[bytes] = []
TOOLS = ("pid", "where", "env", "session", "die", "forget", "deaf", "hang", "hoard")
CALLED: list[str] = []


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is none."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if not self.path.startswith("/sse"):
            self._send(405)
            return
        session = uuid.uuid4().hex
        SESSIONS[session] = events = queue.SimpleQueue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(f"event: endpoint\ndata: /post?{session}\n\n".encode())
        while (event := events.get()) is not None:
            self.wfile.write(f"event: message\ndata: {event}\n\n".encode())
        self.close_connection = True

    def do_DELETE(self) -> None:
        SESSIONS.pop(self.headers.get("Mcp-Session-Id", ""), None)
        self._send(204)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        by_stream = self.path.startswith("/post")
        session = self.path.partition("?")[2] if by_stream else self.headers.get("Mcp-Session-Id", "")
        method = message.get("method", "")
        if OPTIONS.get("refuse", 0) > 0:
            OPTIONS["refuse"] -= 1
            self._send(503)
            return
        if method != "initialize" and session not in SESSIONS:
            self._send(404 if session else 400)
            return
        if method == "initialize" and not by_stream:
            session = uuid.uuid4().hex
            SESSIONS[session] = queue.SimpleQueue()
        result = answer(method, message.get("params") or {}, session, self.server)
        if result is None or "id" not in message:
            self._send(202)
            return
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **result})
        if by_stream:
            SESSIONS[session].put(body)
            self._send(202)
        else:
            self._send(200, body.encode(), Content_Type="application/json", Mcp_Session_Id=session)


def answer(method: str, params: dict, session: str, server: Server) -> dict | None:
    """The members of the answer to a request."""
    if method == "initialize":
        about = {"name": "program", "version": "1"}
        return {
            "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
        }
    if method == "tools/list":
        return {"result": {"tools": [{"name": each, "inputSchema": {"type": "object"}} for each in TOOLS]}}
    if method == "tools/call":
        text = call(params["name"], params.get("arguments") or {}, session, server)
        return {"result": {"content": [{"type": "text", "text": text}]}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": "no such method"}}


def call(tool: str, given: dict, session: str, server: Server) -> str:
    """Do what a tool is for."""
    if tool == "where":
        return os.getcwd()
    if tool == "env":
        return os.environ.get(given.get("name", "PORT"), "")
    if tool == "session":
        return session
    if tool == "die":
        print("dying on request", file=sys.stderr, flush=True)
        os._exit(given.get("code", 3))
    if tool == "forget":
        for events in SESSIONS.values():
            events.put(None)
        SESSIONS.clear()
    if tool == "deaf":
        threading.Thread(target=deafen, args=(server, given.get("seconds", 1)), daemon=False).start()
    if tool == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)
    if tool == "hoard":
        HOARD.append(b"x" * (int(given.get("mib", 1)) << 20))
    return str(os.getpid())


def deafen(server: Server, seconds: float) -> None:
    """Close the port and open it again."""
    SESSIONS.clear()
    server.shutdown()
    server.server_close()
    time.sleep(seconds)
    listen()


def listen() -> None:
    """Serve until it is shut down."""
    with Server(("127.0.0.1", int(sys.argv[1])), Handler) as server:
        server.serve_forever(0.05)


if __name__ == "__main__":
    if "ears" in OPTIONS:
        with open(OPTIONS["ears"], "a", encoding="utf-8") as ears:
            ears.write(f"{os.getpid()}\n")
    print("on standard output", flush=True)
    for _ in range(int(OPTIONS.get("wait_s", 0) * 10)):
        print("still downloading", file=sys.stderr, flush=True)
        time.sleep(0.1)
    if "exit" in OPTIONS:
        print("cannot start", file=sys.stderr, flush=True)
        sys.exit(OPTIONS["exit"])
    threading.Thread(target=listen).start()

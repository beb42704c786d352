"""A server over HTTP whose tokens expire, and the command that prints the one of now.

Run as `python -S -E expiring_server.py FOLDER LIFE_S token`, it prints the token that is in force; where that
has expired, it issues the next. `asked` in FOLDER has a line for each time, `issued` one for each token. Run
with a port in place of the word, it serves MCP there: a request with any other token is answered with 401
before anything is done. It notes each call of `count` in `counted`. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER, LIFE_S = Path(sys.argv[1]), float(sys.argv[2])
TOKEN = FOLDER / "token"
SESSION = uuid.uuid4().hex


def note(name: str, line: str) -> None:
    with (FOLDER / name).open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def in_force() -> str | None:
    """The token that counts now, if any does."""
    try:
        token, _, at = TOKEN.read_text().partition(" ")
    except OSError:
        return None
    return token if time.time() - float(at) < LIFE_S else None


def print_token() -> None:
    note("asked", "x")
    token = in_force()
    if token is None:
        token = uuid.uuid4().hex
        note("issued", token)
        new = TOKEN.with_suffix(f".{os.getpid()}")
        new.write_text(f"{token} {time.time()}")
        new.replace(TOKEN)
    print(token)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _send(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Mcp-Session-Id", SESSION)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self) -> None:
        self._send(405)

    do_DELETE = do_GET  # noqa: N815 - the standard library's

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = in_force()
        if token is None or self.headers.get("Authorization") != f"Bearer {token}":
            self._send(401)
            return
        method, params = message.get("method"), message.get("params") or {}
        if method == "initialize":
            about = {"name": "expiring", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
        elif method == "tools/list":
            result = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            note("counted", params["arguments"]["key"])
            result = {"content": [{"type": "text", "text": "counted"}]}
        else:
            result = {}
        if "id" not in message:
            self._send(202)
        else:
            self._send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    if sys.argv[3] == "token":
        print_token()
    else:
        Server(("127.0.0.1", int(sys.argv[3])), Handler).serve_forever(0.1)

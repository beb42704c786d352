"""HTTP servers of the standard library, each in a thread of this process; for tests.

`serving_http` runs one with the given handler. `answering` is a whole MCP server over plain JSON, made of a
function from a message to its answer.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Says nothing of what it does. Those derived from it have `post`, `get` and `delete`."""

    protocol_version = "HTTP/1.1"

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"]))

    def answer(
        self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str | None
    ) -> None:
        """Answer whole; `_` in the name of a header stands for `-`, and None for no header."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def post(self) -> None:
        self.answer(405)

    get = delete = post

    def do_POST(self) -> None:
        self.post()

    def do_GET(self) -> None:
        self.get()

    def do_DELETE(self) -> None:
        self.delete()

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that has left is none."""


@contextmanager
def serving_http(
    handler: type[Handler], *, tls: ssl.SSLContext | None = None, **members: Any
) -> Iterator[str]:
    """Serve meanwhile with a handler that has these members; gives the origin."""
    with _Server(("127.0.0.1", 0), type(handler.__name__, (handler,), members)) as server:
        if tls is not None:  # the handshake is for the thread of the connection
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


Answer = Callable[[bytes, Mapping[str, str]], bytes | None]
"""The answer to a message with these headers; None to a notification."""


class _Answering(Handler):
    given: Answer

    def post(self) -> None:
        answered = type(self).given(self.body(), self.headers)
        self.answer(202 if answered is None else 200, answered or b"")


@contextmanager
def answering(given: Answer) -> Iterator[str]:
    """Serve MCP meanwhile; gives the URL."""
    with serving_http(_Answering, given=staticmethod(given)) as origin:
        yield f"{origin}/mcp"

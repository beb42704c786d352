"""A Streamable HTTP server that wants a header: `Authorization: Bearer SECRET`, else it answers 401.

Run as `python guarded.py SECRET`. Made with the SDK's own server; it has one tool, `whoami`. Listens on a
free port of loopback, and says `serving at URL` on standard error once it accepts connections.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send


def build() -> MCPServer:
    server = MCPServer("guarded")

    @server.tool()
    def whoami() -> str:
        """Say who was let in."""
        return "the one with the secret"

    return server


def guarded(app: ASGIApp, secret: str) -> ASGIApp:
    """The application, behind the check."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", []))
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {secret}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await app(scope, receive, send)

    return checked


class Announcing(uvicorn.Server):
    """Says where it listens, once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"serving at http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)


if __name__ == "__main__":
    application = guarded(build().streamable_http_app(), sys.argv[1])
    Announcing(uvicorn.Config(application, port=0, log_config=None)).run()

"""A protected MCP server on the SDK: `notes_server.py ISSUER`.

The resource server of `provider.mjs`: it tells where to sign in (RFC 9728), asks the authorization server
about each token (RFC 7662), and takes only those for itself (RFC 8707). All tools want `notes:read`, `write`
wants `notes:write` too, and says so with a 403. `/mcp` is Streamable HTTP, `/sse` the older transport.
Listens on a free port of loopback, and says `serving at URL` on standard error once it accepts connections;
`/_seen` has what was asked, and how it was answered.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CREDENTIALS = ("resource-server", "of-the-resource-server")


class Introspection:
    """Asks the authorization server about tokens."""

    def __init__(self, issuer: str) -> None:
        self._address = f"{issuer}/token/introspection"
        self._client = httpx2.AsyncClient(auth=CREDENTIALS)

    async def verify_token(self, token: str) -> AccessToken | None:
        """What a token allows; None for one that does not count any more."""
        said = (await self._client.post(self._address, data={"token": token})).json()
        if not said.get("active"):
            return None
        return AccessToken(
            token=token,
            client_id=said["client_id"],
            scopes=said.get("scope", "").split(),
            expires_at=said["exp"],
            resource=said.get("aud"),
            subject=said.get("sub", said["client_id"]),
        )


def build(url: str, issuer: str, verifier: Introspection) -> MCPServer:
    settings = AuthSettings(
        issuer_url=issuer,
        resource_server_url=url,
        required_scopes=["notes:read"],
        validate_token_resource=True,
    )
    server = MCPServer("notes", auth=settings, token_verifier=verifier)

    @server.tool()
    def whoami() -> str:
        """Say who has signed in."""
        token = get_access_token()
        assert token is not None
        return str(token.subject)

    @server.tool()
    def read(note: int) -> str:
        """Read a note."""
        return f"note {note}"

    @server.tool()
    def write(text: str) -> str:
        """Write a note."""
        return f"written: {text}"

    return server


class Seen:
    """Both applications, with a record of what `/mcp` was asked; `write` only for those who may."""

    def __init__(self, app: ASGIApp, sse: ASGIApp, metadata: str, verifier: Introspection) -> None:
        self._app = app
        self._sse = sse
        self._metadata = metadata
        self._verifier = verifier
        self._seen: list[dict[str, Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == "/_seen":
            await JSONResponse(self._seen)(scope, receive, send)
        elif scope["path"] == "/mcp" and scope["method"] == "POST":
            await self._post(scope, receive, send)
        elif scope["path"].endswith("/sse") or scope["path"].startswith("/messages/"):
            await self._sse(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        asked = json.loads(body or b"null")
        record = {"method": asked.get("method"), "tool": (asked.get("params") or {}).get("name")}
        again = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def repeated() -> Message:
            return next(again, None) or await receive()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._seen.append({**record, "status": message["status"]})
            await send(message)

        if record["tool"] == "write" and not await self._may_write(scope):
            wanted = f'error="insufficient_scope", scope="notes:write", resource_metadata="{self._metadata}"'
            refusal = JSONResponse({}, status_code=403, headers={"WWW-Authenticate": f"Bearer {wanted}"})
            await refusal(scope, repeated, noted)
        else:
            await self._app(scope, repeated, noted)

    async def _may_write(self, scope: Scope) -> bool:
        """Whether the token allows to write; yes for one that is refused anyway."""
        header = dict(scope["headers"]).get(b"authorization", b"").decode()
        token = await self._verifier.verify_token(header.removeprefix("Bearer "))
        return token is None or "notes:write" in token.scopes


class Server(uvicorn.Server):
    """Ends at once when it is told to: nobody who is connected matters then."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    issuer = sys.argv[1]
    introspection = Introspection(issuer)
    streamable = build(f"{base}/mcp", issuer, introspection).streamable_http_app()
    sse = build(f"{base}/sse", issuer, introspection).sse_app()
    seen = Seen(streamable, sse, f"{base}/.well-known/oauth-protected-resource/mcp", introspection)
    print(f"serving at {base}/mcp", file=sys.stderr, flush=True)
    Server(uvicorn.Config(seen, log_config=None)).run(sockets=[listener])

"""CORS for the pages that the configuration names, so that a browser lets them talk to MCPX, and no others.

It stands before everything else: a preflight request has no token, and a page must be able to read refusals
too. Whether a request is served is not decided here: the checks of Host, Origin and token come after it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALLOWED_METHODS: Final = "GET, POST, DELETE"
ALLOWED_HEADERS: Final = (
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
)
EXPOSED_HEADERS: Final = "mcp-session-id, mcp-protocol-version, www-authenticate"
PREFLIGHT_VALID_S: Final = 600
_MCP: Final = "mcp-"  # how the headers of parameters begin, which have names of their own
_VARY: Final = "Origin, Access-Control-Request-Headers"


class CORS:
    """An ASGI application before another one."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        """`origins` are exact values of the Origin header; `*` is none, and lets nobody in."""
        self._app = app
        self._origins = frozenset(origins) - {"*"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight request of such a page; have all other responses say what the page may see."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        origin = asked.get("origin")
        if origin not in self._origins:
            origin = None
        elif scope["method"] == "OPTIONS" and "access-control-request-method" in asked:
            response = Response(status_code=204, headers=_preflight(asked))
            await response(scope, receive, _with_headers(send, origin))
            return
        await self._app(scope, receive, _with_headers(send, origin))


def _preflight(asked: Headers) -> dict[str, str]:
    wanted = [name.strip().lower() for name in asked.get("access-control-request-headers", "").split(",")]
    allowed = dict.fromkeys((*ALLOWED_HEADERS, *(name for name in wanted if name.startswith(_MCP))))
    headers = {
        "Access-Control-Allow-Methods": ALLOWED_METHODS,
        "Access-Control-Allow-Headers": ", ".join(allowed),
        "Access-Control-Max-Age": str(PREFLIGHT_VALID_S),
    }
    if asked.get("access-control-request-private-network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


def _with_headers(send: Send, origin: str | None) -> Send:
    """A `send` that adds what lets a page of that origin read the response; None lets none."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            headers.add_vary_header(_VARY)
            if origin is not None:
                headers["Access-Control-Allow-Origin"] = origin
                headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
        await send(message)

    return send_with_headers

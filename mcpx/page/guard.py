"""What each request to the page must bring, whatever it is for; and the headers of each response.

A request is served if it came to a loopback address under one of its names (against DNS rebinding), from the
page itself or from no page at all, and with the cookie of a session; only the address with a one-time code is
for those without. Everything else gets a short refusal that says nothing of MCPX but how to open the page.
One that changes something has to come from the page itself, by its `Origin`, and as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpx.config.urls import is_loopback
from mcpx.page.access import Access

PREFIX: Final = "/ui"
OPEN: Final = f"{PREFIX}/open"
HINT: Final = "Open this page with: mcpx ui\n"
SESSION: Final = "mcpx.session"
"""In the scope of a request that was let in: the digest of its session."""
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_OWN: Final = frozenset({"same-origin", "none"})
_SAFE: Final = frozenset({"GET", "HEAD"})
_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """An ASGI application around the page's."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, own = Headers(scope=scope), own_authorities(scope)
        if headers.get("host") not in own:
            return PlainTextResponse("Invalid Host header\n", 421)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_own_origin = origin in {f"http://{name}" for name in own} and origin == f"http://{headers['host']}"
        is_opening = scope["path"] == OPEN and scope["method"] in _SAFE
        if (origin is not None and not is_own_origin) or not (is_opening or site is None or site in _OWN):
            return PlainTextResponse("Not from this page\n", 403)
        if is_opening:
            return None
        session = self._access.session(_cookie(headers.get("cookie", ""), cookie_name(scope)))
        if session is None:
            return PlainTextResponse(HINT, 401)
        scope[SESSION] = session
        if scope["method"] in _SAFE:
            return None
        if origin is None or headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return PlainTextResponse("Not from this page\n", 403)
        return None


def own_authorities(scope: Scope) -> frozenset[str]:
    """The values of `Host` by which the page may be asked for: none where it came in over a network."""
    host, port = scope["server"]
    if not is_loopback(host):
        return frozenset()
    return frozenset(f"{name}:{port}" for name in _NAMES)


def cookie_name(scope: Scope) -> str:
    """Cookies know no ports: each daemon of this computer has one of its own name."""
    return f"mcpx_{scope['server'][1]}"


def _cookie(text: str, name: str) -> str:
    try:
        found = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value

"""Checks of each request to the page, whatever it is for; and the headers of each response.

A request is served if it came from a process of this user, as far as the system says, to a loopback address
under one of its names (against DNS rebinding), from the page itself or from no page at all, and with the
cookie of a session; only the address with a one-time code is for those without. The process is looked for
once a connection, which ends where it is another user's. Everything else gets a short refusal that says
nothing of MCPX but how to open the page. One that changes something has to come from the page itself, by its
`Origin`, and as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpx.core.config.urls import is_loopback
from mcpx.core.gateway.frontends.http.asgi import NOTED
from mcpx.core.system.peers import is_own
from mcpx.core.telemetry.contained import containing
from mcpx.core.telemetry.log import Throttle
from mcpx.page.access import Access

log = structlog.get_logger()
PREFIX: Final = "/ui"
OPEN: Final = f"{PREFIX}/open"
HINT: Final = "Open this page with: mcpx ui\n"
SESSION: Final = "mcpx.session"
"""In the scope of a request that was let in: the digest of its session."""
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_OWN: Final = frozenset({None, "same-origin", "none"})
_OWN_USER: Final = "own user"
_SAFE: Final = frozenset({"GET", "HEAD"})
_SINGLE: Final = ("host", "origin", "sec-fetch-site", "content-type")
_DEFAULT_PORT: Final = 80
_MAX_COOKIES: Final = 32  # of our name: other programs of this computer can set it, too
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
        self._throttle = Throttle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        with containing("page"):  # no address fills the log; Starlette has answered it with 500
            await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._is_from_own_user(scope):
            return PlainTextResponse("This page is another user's\n", 403, {"connection": "close"})
        if any(len(headers.getlist(name)) > 1 for name in _SINGLE):
            return PlainTextResponse("A header stands there twice\n", 400)
        host = headers.get("host")
        if host is None or host not in own_authorities(scope):
            return PlainTextResponse("Invalid Host header\n", 421)
        if not _is_from_page(headers, host, is_opening=_is_opening(scope)):
            return PlainTextResponse("Not from this page\n", 403)
        if _is_opening(scope):
            return None
        session = self._session(scope, headers)
        if session is None:
            return PlainTextResponse(HINT, 401)
        scope[SESSION] = session
        if scope["method"] in _SAFE or _may_change(headers):
            return None
        return PlainTextResponse("Not from this page\n", 403)

    def _is_from_own_user(self, scope: Scope) -> bool:
        noted: dict[str, bool] = scope[NOTED]
        if _OWN_USER not in noted:
            client = scope["client"]  # None for one that had left before it was looked at
            noted[_OWN_USER] = client is not None and is_own(client, scope["server"])
            if not noted[_OWN_USER] and self._throttle.lets_through():
                log.warning("page.refused", reason="a process of another user, or one that left at once")
        return noted[_OWN_USER]

    def _session(self, scope: Scope, headers: Headers) -> bytes | None:
        """The session whose cookie a request has. Another program may have set one of that name before."""
        found = islice(_cookies(headers, cookie_name(scope)), _MAX_COOKIES)
        port = port_of(scope)
        return next(filter(None, (self._access.session(secret, port) for secret in found)), None)


def own_authorities(scope: Scope) -> frozenset[str]:
    """The values of `Host` by which the page may be asked for: none where it came in over a network."""
    host, port = scope["server"] or ("", 0)
    if not is_loopback(host):
        return frozenset()
    names = {*_NAMES, f"[{host}]" if ":" in host else host}
    with_port = frozenset(f"{name}:{port}" for name in names)
    return with_port | names if port == _DEFAULT_PORT else with_port


def cookie_name(scope: Scope) -> str:
    """Cookies know no ports: each daemon of this computer has one of its own name."""
    return f"mcpx_{port_of(scope)}"


def port_of(scope: Scope) -> int:
    """The port by which a request came in."""
    return int(scope["server"][1])


def _is_opening(scope: Scope) -> bool:
    return scope["path"] == OPEN and scope["method"] in _SAFE


def _is_from_page(headers: Headers, host: str, *, is_opening: bool) -> bool:
    """Return True if the page itself sent it, or no page; the address that opens it may be linked to."""
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return False
    return is_opening or headers.get("sec-fetch-site") in _OWN


def _may_change(headers: Headers) -> bool:
    """Return True for a request, whose origin fits, that no form and no other program's page can send."""
    kind = headers.get("content-type", "").partition(";")[0]
    return "origin" in headers and kind.strip().lower() == "application/json"


def _cookies(headers: Headers, name: str) -> Iterator[str]:
    """The cookies of that name, whatever others there are: any program of this computer can set some."""
    for pair in ";".join(headers.getlist("cookie")).split(";"):
        key, _, value = pair.partition("=")
        if key.strip() == name:
            yield value.strip()

"""Access to the HTTP frontend: the bearer tokens that let a request in, and browser pages (CORS).

The SDK's middleware reads the header, refuses a request without a token that `KnownTokens` knows, and binds
each session to the principal that has begun it. `BearerRequests` stands behind it. A token that is revoked,
expires or is changed lets no request in from then on; what its clients have open ends within
`LOOK_INTERVAL_S`, or with the next request of anybody.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Final

import anyio
import structlog
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types import INTERNAL_ERROR
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpx.core.gateway.clients.identity import Bearer, put_bearer
from mcpx.core.policy.tokens import NamedToken, NamedTokens
from mcpx.core.telemetry.contained import contain
from mcpx.errors import Code, Outcome
from supervisors import Signal

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
    """An ASGI application before another one: has a browser let the pages that are named talk to MCPX.

    It stands before everything else, for a preflight request has no token, and a page must be able to read
    refusals too. Which requests are served is decided by the checks of Host, Origin and token, which follow.
    """

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


log = structlog.get_logger()
LOOK_INTERVAL_S: Final = 1.0  # at the tokens, while somebody uses one that has a name
DEFAULT_PRINCIPAL: Final = "mcpx"
_ENDED: Final = {"error": "invalid_token", "error_description": "The token was revoked, or has expired"}
_CUT_OFF: Final = {
    "code": INTERNAL_ERROR,
    "message": "The token was revoked, or has expired; what was begun may or may not have taken effect",
    "data": {"code": str(Code.CANCELLED), "outcome": str(Outcome.UNKNOWN)},
}


class Bearers:
    """The bearers of one frontend, by their tokens. `on_end` is called once with each whose token ended."""

    def __init__(self, tokens: NamedTokens, on_end: Callable[[Bearer], None]) -> None:
        self._tokens = tokens
        self._on_end = on_end
        self._bearers: dict[str, Bearer] = {}
        self._added = Signal()
        self._logged: str | None = None  # the problem with the file

    def __len__(self) -> int:
        """The number of tokens with names that let in."""
        return len(self._tokens.current(datetime.now(UTC)))

    def find(self, secret: str) -> Bearer | None:
        """The bearer of a token that was presented; None for a wrong one. Compares in constant time."""
        token = self._tokens.find(secret, datetime.now(UTC))
        self._end_invalid()
        if token is None:
            return None
        if token.sha256 not in self._bearers:
            self._bearers[token.sha256] = Bearer(token)
            self._added.set()
        return self._bearers[token.sha256]

    def get(self, sha256: str) -> Bearer | None:
        """The bearer of the token with that digest, if it was found before and has not ended."""
        return self._bearers.get(sha256)

    async def run(self) -> None:
        """End the bearers whose tokens end, until cancelled; then all of them."""
        try:
            while True:
                await self._added.wait()
                self._added.clear()
                while self._bearers:
                    await anyio.sleep(LOOK_INTERVAL_S)
                    self._end_invalid()
        finally:
            self._end_all_but(frozenset())

    def _end_invalid(self) -> None:
        self._end_all_but(frozenset(self._tokens.current(datetime.now(UTC))))
        if self._tokens.problem != self._logged:
            self._logged = self._tokens.problem
            if self._logged is not None:
                log.warning("http.tokens_unusable", problem=self._logged)

    def _end_all_but(self, valid: frozenset[NamedToken]) -> None:
        for sha256, bearer in list(self._bearers.items()):
            if bearer.token in valid:
                continue
            del self._bearers[sha256]
            log.info("http.token_ended", token=bearer.token.name)
            for scope in list(bearer.open_requests):
                scope.cancel()
            try:
                self._on_end(bearer)
            except Exception as error:  # noqa: BLE001 - what one leaves behind must not keep the others from their end
                contain(error, "token ended")


class KnownTokens:
    """A token verifier for the SDK's middleware: the default token, and those with names."""

    def __init__(self, default: str, bearers: Bearers) -> None:
        self._default = default.encode()
        self._bearers = bearers

    async def verify_token(self, token: str) -> AccessToken | None:
        """The principal behind a token, or None for a wrong one. Compares in constant time."""
        is_default = hmac.compare_digest(token.encode(), self._default)
        bearer = self._bearers.find(token)
        if is_default:
            return AccessToken(token=token, client_id=DEFAULT_PRINCIPAL, scopes=[])
        if bearer is None:
            return None
        name, sha256 = bearer.token.name, bearer.token.sha256
        return AccessToken(token=sha256, client_id=name, subject=sha256, scopes=[])


class BearerRequests:
    """An ASGI application around another one: notes each request's bearer, and ends it with the token."""

    def __init__(self, app: ASGIApp, bearers: Bearers) -> None:
        self._app = app
        self._bearers = bearers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that was let in."""
        user = scope.get("user")
        sha256 = user.access_token.subject if isinstance(user, AuthenticatedUser) else None
        if sha256 is None:
            await self._app(scope, receive, send)
        elif (bearer := self._bearers.get(sha256)) is None:
            await _refuse(scope, receive, send)
        else:
            put_bearer(scope, bearer)
            await self._serve(bearer, scope, receive, send)

    async def _serve(self, bearer: Bearer, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request for as long as its token lets in."""
        begun = finished = False

        async def watched(message: Message) -> None:
            nonlocal begun, finished
            begun = True
            finished = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        with anyio.CancelScope() as open_request:
            bearer.open_requests.add(open_request)
            try:
                await self._app(scope, receive, watched)
            finally:
                bearer.open_requests.discard(open_request)
        if open_request.cancelled_caught and not begun:  # no 401, after which it would be sent again
            body = {"jsonrpc": "2.0", "id": None, "error": _CUT_OFF}
            await JSONResponse(body, 500)(scope, receive, send)
        elif open_request.cancelled_caught and not finished:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    response = JSONResponse(_ENDED, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
    await response(scope, receive, send)

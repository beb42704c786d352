"""Access to the HTTP frontend: `Host` and `Origin`, the bearer tokens that let in, and browsers (CORS).

Each check is a plain function of the head of a request, which gives its refusal, or None. A token is looked
up once for each connection, and compared with what the connection has sent before; of one that has a name,
the file is looked at for each request. A token that is revoked, expires or is changed lets no request in from
then on; what its clients have open ends within `LOOK_INTERVAL_S`, or with the next request of anybody who
brings one with a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hmac import compare_digest
from typing import Final

import anyio
import structlog

from mcpx.core.config.urls import is_loopback
from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.frontends.http.exchange import JSON, HeaderPairs, Refusal
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.policy.tokens import NamedToken, NamedTokens
from mcpx.core.telemetry.contained import containing
from mcpx.core.telemetry.log import Throttle
from supervisors import Signal

log = structlog.get_logger()
ALLOWED_METHODS: Final = b"GET, POST, DELETE"
ALLOWED_HEADERS: Final = (
    b"accept authorization content-type last-event-id mcp-method mcp-name mcp-protocol-version mcp-session-id"
)
EXPOSED_HEADERS: Final = b"mcp-session-id, mcp-protocol-version, www-authenticate"
PREFLIGHT_VALID_S: Final = 600
LOOK_INTERVAL_S: Final = 1.0  # at the tokens, while somebody uses one that has a name
WAS_REVOKED: Final = "The token was revoked, or has expired; what was begun may or may not have taken effect"
_MCP: Final = b"mcp-"  # how the headers of parameters begin, which have names of their own
_VARY: Final = b"vary: Origin, Access-Control-Request-Headers\r\n"
_BEARER: Final = b"bearer "
_ANY_PORT: Final = ":*"
_UNAUTHORIZED: Final = b'{"error": "invalid_token", "error_description": "Authentication required"}'
_CHALLENGE: Final = b'Bearer error="invalid_token", error_description="Authentication required"'
_NO_TOKEN: Final = Refusal(401, _UNAUTHORIZED, (*JSON, (b"www-authenticate", _CHALLENGE)))
_HOST: Final = Refusal(421, b"Invalid Host header")
_ORIGIN: Final = Refusal(403, b"Invalid Origin header")
_CONTENT: Final = Refusal(400, b"Invalid Content-Type header")


class Places:
    """The values of `Host` and `Origin` that are let in; one that ends with `:*` stands for every port."""

    def __init__(self, hosts: Collection[str], origins: Collection[str]) -> None:
        self._hosts = frozenset(each.lower().encode() for each in hosts)
        self._origins = frozenset(each.encode() for each in origins)
        self._throttle = Throttle()

    def refusal(self, exchange: HttpExchange) -> Refusal | None:
        """Return the refusal of a request that names another host, or comes from another page."""
        host, origin = exchange.headers.get(b"host", b"").lower(), exchange.headers.get(b"origin")
        if not _is_among(host, self._hosts):
            return self._refused(_HOST, host)
        if origin and not _is_among(origin, self._origins):
            return self._refused(_ORIGIN, origin)
        return None

    def _refused(self, refusal: Refusal, value: bytes) -> Refusal:
        if self._throttle.lets_through():
            log.warning("http.refused", reason=refusal.text.decode(), value=value.decode("latin-1"))
        return refusal


def no_json(exchange: HttpExchange) -> Refusal | None:
    """Return the refusal of a POST of anything but JSON."""
    if exchange.method != "POST":
        return None
    kind = exchange.headers.get(b"content-type", b"")
    return None if kind.lower().startswith(b"application/json") else _CONTENT


def _is_among(value: bytes | None, allowed: Collection[bytes]) -> bool:
    if not value:
        return False
    if value in allowed:
        return True
    name, colon, _port = value.rpartition(b":")
    return bool(colon) and name + _ANY_PORT.encode() in allowed


def claims_loopback(exchange: HttpExchange) -> Refusal | None:
    """Return the refusal of a request that names the loopback as its Host, but came in from elsewhere."""
    noted = exchange.carrier.noted
    if _LOCAL not in noted:
        server = exchange.carrier.ends[1]
        noted[_LOCAL] = server is None or is_loopback(server[0])
    is_claimed = not noted[_LOCAL] and _names_loopback(exchange.headers.get(b"host", b""))
    return _HOST if is_claimed else None


_LOCAL: Final = "came in over loopback"


@lru_cache(maxsize=64)
def _names_loopback(host: bytes) -> bool:
    return is_loopback(re.sub(r":\d*$", "", host.decode("latin-1")))


class CORS:
    """Has a browser let the pages that are named talk to MCPX.

    It stands before everything else, for a preflight request has no token, and a page must be able to read
    refusals too. Which requests are served is decided by the checks of Host, Origin and token, which follow.
    """

    def __init__(self, origins: Collection[str]) -> None:
        """`origins` are exact values of the Origin header; `*` is none, and lets nobody in."""
        self._origins = frozenset(each.encode() for each in origins) - {b"*"}

    def answer(self, exchange: HttpExchange) -> Refusal | None:
        """Return the answer to a preflight request of such a page; have others say what the page may see."""
        headers = exchange.headers
        exchange.head.more_headers = _VARY
        if (origin := headers.get(b"origin")) not in self._origins:
            return None
        exchange.head.more_headers += (
            b"access-control-allow-origin: %b\r\naccess-control-expose-headers: %b\r\n"
            % (origin, EXPOSED_HEADERS)
        )
        if exchange.method == "OPTIONS" and b"access-control-request-method" in headers:
            return Refusal(204, b"", _preflight(headers))
        return None


def _preflight(asked: Mapping[bytes, bytes]) -> HeaderPairs:
    given = asked.get(b"access-control-request-headers", b"").split(b",")
    wanted = [name.strip().lower() for name in given]
    allowed = dict.fromkeys((*ALLOWED_HEADERS.split(), *(name for name in wanted if name.startswith(_MCP))))
    headers = (
        (b"access-control-allow-methods", ALLOWED_METHODS),
        (b"access-control-allow-headers", b", ".join(allowed)),
        (b"access-control-max-age", b"%d" % PREFLIGHT_VALID_S),
    )
    if asked.get(b"access-control-request-private-network") == b"true":
        return (*headers, (b"access-control-allow-private-network", b"true"))
    return headers


class Tokens:
    """Lets in who has the default token, or one with a name, which makes it a `Bearer`."""

    def __init__(self, default: str, bearers: Bearers) -> None:
        self._default = default.encode()
        self._bearers = bearers
        self._last: tuple[bytes, Bearer | None] = b"", None

    def refusal(self, exchange: HttpExchange) -> Refusal | None:
        """Return the refusal of a request without a token that lets in; note whose the token is."""
        given, carrier = exchange.headers.get(b"authorization", b""), exchange.carrier
        if carrier.token is not None and compare_digest(carrier.token[0], given):
            bearer: Bearer | None = carrier.token[1]
            if bearer is None or self._bearers.is_valid(bearer):
                exchange.bearer = exchange.head.bearer = bearer
                return None
            carrier.token = None
        if given[: len(_BEARER)].lower() != _BEARER:
            return _NO_TOKEN
        secret = given[len(_BEARER) :]
        is_default = compare_digest(secret, self._default)
        bearer = self._bearers.find(secret.decode("latin-1"))
        if is_default:
            bearer = None
        elif bearer is None:
            return _NO_TOKEN
        if (given, bearer) != self._last:
            self._last = given, bearer
        carrier.token = self._last  # one object for thousands of connections
        exchange.bearer = exchange.head.bearer = bearer
        return None


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

    def is_valid(self, bearer: Bearer) -> bool:
        """Return True if the token of a bearer that was found before lets in."""
        self._end_invalid()
        return self._bearers.get(bearer.token.sha256) is bearer

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
            with containing("token ended"):  # one must not keep the others from their end
                self._on_end(bearer)

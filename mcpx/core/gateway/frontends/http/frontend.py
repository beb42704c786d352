"""The HTTP frontend: Streamable HTTP on loopback, with a bearer token and checks of Host and Origin.

A `Site`: it looks at the head of each request (`access`), and gives one that is let in to the endpoints of
`/mcp` (`endpoints`), to `monitoring`, or to the page. The socket is bound before anything else, so that a
port in use is a clear error.

Metrics are for those who may see all servers: where there are tokens, the default one, or one with a name and
no profile. `/healthz` and `/readyz` are for whoever comes, and say in a few words how MCPX is, without a name
in them. A request to any of them is no use of the daemon (`mcpx.core.daemon.leaving`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import structlog

from mcpx.core.config import Config, HttpGateway
from mcpx.core.config.urls import is_loopback
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.leaving import Use
from mcpx.core.daemon.ports import OpenForwarder
from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.access import (
    CORS,
    WAS_REVOKED,
    Bearers,
    Places,
    Tokens,
    claims_loopback,
    no_json,
)
from mcpx.core.gateway.frontends.http.asgi import serve_app, task_ended
from mcpx.core.gateway.frontends.http.connection import Shared
from mcpx.core.gateway.frontends.http.endpoints import PATH, HttpEndpoints
from mcpx.core.gateway.frontends.http.exchange import TEXT, HeaderPairs, Refusal
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.gateway.frontends.http.server import BACKLOG, FIRST_REQUEST_S, GRACEFUL_S, HttpServer
from mcpx.core.policy.tokens import NamedTokens, token_file
from mcpx.core.system.peers import UNREAD_S, keep_alive
from mcpx.core.telemetry.contained import contain
from mcpx.errors import MCPXError
from supervisors import Incarnation, Shutdown

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mcpx.core.daemon.monitoring import Scrapes


log = structlog.get_logger()
PAGE: Final = "/ui"
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_BELOW: Final = f"{PATH}/"
_BELOW_PAGE: Final = f"{PAGE}/"
_NOT_FOUND: Final = Refusal(404, b"Not Found")


class BindError(MCPXError):
    """The address cannot be listened on."""


class ListenerLostError(MCPXError):
    """The listening socket has become unusable while it was served on."""


def listen(host: str, port: int, *, configured: bool = False) -> socket.socket:
    """A socket on which clients can connect from now on. `configured`: the address is in the configuration.

    Raises:
        BindError: The address cannot be listened on; its text says what to do.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # the protocol is named, for asyncio turns Nagle's delay off only where it is: 40 ms an answer
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keep_alive(listener, UNREAD_S)  # what is accepted has it from here
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)  # before the address is logged
    except OSError as error:
        listener.close()
        name = "port" if port else "host"
        hint = f"choose another http.{name}" if configured else f"choose another with --{name}"
        raise BindError(f"cannot listen on {host}:{port}: {error.strerror}; {hint}") from error
    return listener


def http_shutdown(config: Config) -> Shutdown:
    """Return the time that the frontend may take to leave: the grace time, and then for its last answers."""
    return Shutdown(grace=config.shutdown_grace + FIRST_REQUEST_S + 2 * GRACEFUL_S)


class HttpFrontend:
    """Serves any number of sessions on one socket. Without `token` everybody who reaches it may connect.

    With it, tokens that have a name let in as well (`mcpx.core.policy.tokens`). `page` serves what is under
    `/ui`, on a loopback address alone, and sees itself to who may.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        listener: socket.socket,
        settings: HttpGateway,
        *,
        token: str | None,
        limit: int,
        page: ASGIApp | None = None,
        open_forwarder: OpenForwarder | None = None,
    ) -> None:
        self._endpoints = endpoints
        self._listener = listener
        self._address: tuple[str, int] = listener.getsockname()[:2]
        self._is_local = is_loopback(self._address[0])
        self._settings = settings
        self._has_token = token is not None
        self._page = page if self._is_local else None
        self._open_forwarder = open_forwarder
        self._bearers = Bearers(NamedTokens(), self._end)
        self._tokens = None if token is None else Tokens(token, self._bearers)
        self._places = self._places_let_in()
        self._cors = CORS(settings.allowed_origins) if settings.allowed_origins else None
        self._served = HttpEndpoints(endpoints, limit)
        self._serve: Callable[[HttpExchange], None] = self._served.serve
        self._monitoring = Monitoring(endpoints, self._spawn)
        self._shared = Shared(limit, endpoints.hub.clients.count_dropped)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL at which clients connect."""
        host, port = self._address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"

    def use(self) -> Use:
        """Return if there is a session or an open request, and the number of requests of clients so far."""
        is_used = self._shared.is_busy or len(self._served) > 0
        return Use(is_used, self._shared.served - self._monitoring.served)

    @property
    def named_tokens(self) -> int:
        """The number of tokens with names that let in."""
        return len(self._bearers) if self._has_token else 0

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the supervisor asks to leave."""
        leaving = self._endpoints.hub.leaving
        server = HttpServer(
            self,
            self._shared,
            grace_s=lambda: leaving.grace_left_s,
            max_connections=self._settings.max_connections,
        )
        leaving.drain_s, leaving.on_begin = self._settings.drain, self._shared.leave
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._served.running())
            await self._join_replicas(stack)
            incarnation.ready()
            log.info(
                "http.listening", url=self.url, token_file=str(token_file()) if self._has_token else None
            )
            self._warn_of_exposure()
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(end_when_asked, incarnation, server)
            tasks.start_soon(self._bearers.run)
            # a copy of the socket: the server closes what it is given, and a restart needs it again
            server.on_close = lambda: self._close_listener(incarnation)
            await server.serve(self._listener.dup())
            for task in self._tasks:
                task.cancel()
            tasks.cancel_scope.cancel()
        if server.lost is not None and not incarnation.stopping.is_set():
            raise ListenerLostError(f"the socket of {self.url} was lost: {server.lost}")

    def _close_listener(self, incarnation: Incarnation) -> None:
        """Have the system refuse connections, unless there will be another server on the socket."""
        if incarnation.stopping.is_set():
            self._listener.close()

    def _warn_of_exposure(self) -> None:
        """Warn where other hosts can connect: plain HTTP can be read on the way, with the token in it."""
        host = self._address[0]
        if is_loopback(host):
            return
        if not self._has_token:
            log.warning("http.open_to_everybody", host=host, hint="whoever reaches it runs every tool")
        else:
            log.warning("http.unencrypted", host=host, hint="token and data can be read on the way; use TLS")

    # --- its site

    def look(self, exchange: HttpExchange) -> Refusal | None:
        """Return the answer to a request that is not let in, by its head."""
        path = exchange.path
        if not self._is_local and (refusal := claims_loopback(exchange)) is not None:
            return refusal
        if self._is_for_page(path):  # with tokens and origins of the endpoints it has nothing to do
            return None
        if self._cors is not None and (answer := self._cors.answer(exchange)) is not None:
            return answer
        if path == PATH or path.startswith(_BELOW):
            exchange.head.is_steady = True
            return self._stranger(exchange) or no_json(exchange)
        if path not in self._monitoring.paths:
            return _NOT_FOUND
        self._monitoring.served += 1
        if path == METRICS:
            return self._stranger(exchange)
        return self._places.refusal(exchange) if self._is_local else None

    def is_valid(self, bearer: Bearer) -> bool:
        """Return True if the token of a bearer still lets in."""
        return self._bearers.is_valid(bearer)

    def _stranger(self, exchange: HttpExchange) -> Refusal | None:
        """Return the refusal of a request that has no token, or is from elsewhere."""
        refusal = None if self._tokens is None else self._tokens.refusal(exchange)
        return refusal or self._places.refusal(exchange)

    def _is_for_page(self, path: str) -> bool:
        return self._page is not None and (path == PAGE or path.startswith(_BELOW_PAGE))

    def serve(self, exchange: HttpExchange) -> None:
        """Have a request that was let in served."""
        path = exchange.path
        if exchange.head.is_steady:
            self._serve(exchange)
        elif self._page is not None and self._is_for_page(path):
            serve_app(self._page, exchange, self._tasks)
        else:
            self._monitoring.serve(exchange)

    def _spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        task = asyncio.get_running_loop().create_task(function(*arguments))
        self._tasks.add(task)
        task.add_done_callback(partial(task_ended, self._tasks))

    async def _join_replicas(self, stack: AsyncExitStack) -> None:
        """Pass requests on to the replicas that hold what they need, where there are several."""
        replica = self._settings.replica
        if self._open_forwarder is None or not replica.url:
            return
        forwarder = self._open_forwarder(replica.url, replica.secret)
        self._endpoints.hub.views.kept.seal = forwarder.seal_kept
        await stack.enter_async_context(forwarder.running())
        self._serve = forwarder.around(self._served.serve)

    def _end(self, bearer: Bearer) -> None:
        """End what belongs to a token that lets nobody in any more."""
        self._served.end_of(bearer)  # which answers the requests of sessions
        for connection in list(self._shared.connections):
            for exchange in [each for each in connection.exchanges if each.bearer is bearer]:
                exchange.keep_alive = False
                exchange.cut_off(WAS_REVOKED)
        self._endpoints.hub.client_left(bearer.sessionless)
        self._endpoints.hub.fleet.direct.leave(bearer.direct)

    def _places_let_in(self) -> Places:
        """Allow requests that name this host and come from no foreign page."""
        host, port = self._address
        names = [*LOOPBACK, f"[{host}]" if ":" in host else host]
        own = urlsplit(self._settings.replica.url).netloc
        hosts = [*(f"{name}:{port}" for name in names), own]  # the last as other replicas name this one
        origins = [f"http://{name}:{port}" for name in names]
        return Places([*hosts, *self._settings.allowed_hosts], [*origins, *self._settings.allowed_origins])


async def end_when_asked(incarnation: Incarnation, server: HttpServer) -> None:
    """Have a server end when the supervisor asks its child to leave."""
    await incarnation.stopping.wait()
    server.end()


METRICS: Final = "/metrics"
HEALTHY: Final = "/healthz"
READY: Final = "/readyz"
_METHODS: Final = ("GET", "HEAD")
_NO_STORE: Final[HeaderPairs] = ((b"cache-control", b"no-store"),)
_ALLOW: Final[HeaderPairs] = (*TEXT, (b"allow", b"GET, HEAD"))
_PLAIN: Final[HeaderPairs] = (*TEXT, *_NO_STORE)
_HEALTHY: Final = Refusal(200, b"ok\n", _PLAIN)
_READY: Final = Refusal(200, b"ready\n", _PLAIN)
_OTHER_METHOD: Final = Refusal(405, b"Method Not Allowed\n", _ALLOW)
_OF_PROFILE: Final = Refusal(403, b"this token is for a profile; metrics are of all servers\n")
_FAILED: Final = Refusal(500, b"the metrics could not be made; the log of MCPX says why\n", _PLAIN)


class Monitoring:
    """The three addresses; who is let in, the frontend has seen to. `spawn` runs what takes a task."""

    paths: Final = frozenset({METRICS, HEALTHY, READY})

    def __init__(self, endpoints: Endpoints, spawn: Callable[..., Any]) -> None:
        self.served = 0
        """The number of requests so far, also of those that were not let in."""
        self._endpoints = endpoints
        self._spawn = spawn
        self._scraping: tuple[Scrapes, anyio.CapacityLimiter] | None = None
        """State of all scrapes, from the first on: what one knows of those before, and their turns."""

    def serve(self, exchange: HttpExchange) -> None:
        """Serve a request to one of them."""
        if exchange.method not in _METHODS:
            exchange.respond_with(_OTHER_METHOD)
        elif exchange.path == HEALTHY:
            exchange.respond_with(_HEALTHY)
        elif exchange.path == READY:
            problem = why_not_ready(self._endpoints.hub)
            refusal = _READY if problem is None else Refusal(503, f"not ready: {problem}\n".encode(), _PLAIN)
            exchange.respond_with(refusal)
        elif exchange.bearer is not None and exchange.bearer.token.profile is not None:
            exchange.respond_with(_OF_PROFILE)
        else:
            self._spawn(self._metrics, exchange)

    async def _metrics(self, exchange: HttpExchange) -> None:
        await anyio.to_thread.run_sync(import_module, "mcpx.core.daemon.monitoring")
        from mcpx.core.daemon import monitoring  # noqa: PLC0415 - for those who scrape: it was imported in a thread

        if self._scraping is None:
            self._scraping = monitoring.Scrapes(), anyio.CapacityLimiter(1)
        scrapes, limiter = self._scraping
        hub, accept = self._endpoints.hub, exchange.headers.get(b"accept", b"").decode("latin-1")
        clients = len(self._endpoints.clients.attached.all())
        try:
            reading = monitoring.read(hub, clients=clients)
            body, content_type = await anyio.to_thread.run_sync(
                monitoring.exposition, reading, scrapes, accept, limiter=limiter
            )
        except Exception as error:  # noqa: BLE001 - the boundary: the scraper is told, and the log says what it was
            contain(error, "metrics")
            exchange.respond_with(_FAILED)
        else:
            exchange.respond(200, ((b"content-type", content_type.encode()), *_NO_STORE), [body])


def why_not_ready(hub: Hub) -> str | None:
    """Say why MCPX is not ready to serve calls, without a name in it; None if it is.

    It is once each server that is started with it has listed what it offers or has failed once, if one of
    those that are not disabled can be called, or all are disabled, and no call is refused for want of an
    audit log; and until it is asked to leave.
    """
    if hub.leaving.begun:
        return "MCPX is stopping"
    if not hub.fleet.readiness.is_settled:
        return "servers are starting"
    wanted = [upstream for upstream in hub.upstreams.values() if upstream.config.disabled is None]
    if wanted and not any(upstream.info().available for upstream in wanted):
        return "no server can be called"
    if hub.config.audit_required and hub.audit.is_written and hub.audit.problem is not None:
        return "the audit log cannot be written"
    return None

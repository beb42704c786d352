"""The HTTP frontend: Streamable HTTP on loopback, with a bearer token and checks of Host and Origin.

Protocol, sessions and all checks are the SDK's; uvicorn serves, within the bounds of `http_server` and
`http_connection`. The socket is bound before anything else, so that a port in use is a clear error.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import anyio
import structlog
import uvicorn
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from mcpx.core.config import Config, HttpGateway
from mcpx.core.config.urls import is_loopback
from mcpx.core.daemon.leaving import Use
from mcpx.core.daemon.ports import OpenForwarder
from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.access import CORS, BearerRequests, Bearers, KnownTokens
from mcpx.core.gateway.frontends.http.connection import Shared
from mcpx.core.gateway.frontends.http.endpoints import (
    PATH,
    PEERS_PATH,
    PROFILE_PATH,
    SERVERS_PATH,
    HttpEndpoints,
)
from mcpx.core.gateway.frontends.http.exchange import Guard, over_asgi
from mcpx.core.gateway.frontends.http.monitoring import Monitoring
from mcpx.core.gateway.frontends.http.server import BACKLOG, FIRST_REQUEST_S, GRACEFUL_S, HttpServer
from mcpx.core.policy.tokens import NamedTokens, token_file
from mcpx.errors import MCPXError
from supervisors import Incarnation, Shutdown

log = structlog.get_logger()
PAGE_PREFIX = "/ui/"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


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
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)  # before the address is logged; uvicorn would do it later
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
        self._page = page
        self._open_forwarder = open_forwarder
        self._endpoints = endpoints
        self._listener = listener
        self._address: tuple[str, int] = listener.getsockname()[:2]
        self._settings = settings
        self._token = token
        self._limit = limit
        self._bearers = None if token is None else Bearers(NamedTokens(), self._end)
        self._served: HttpEndpoints | None = None
        self._monitoring: Monitoring | None = None
        self._state: ServerState | None = None

    @property
    def url(self) -> str:
        """The URL at which clients connect."""
        host, port = self._address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"

    def use(self) -> Use:
        """Return if there is a session or an open request, and the number of requests of clients so far."""
        requests = 0 if self._state is None else self._state.total_requests
        requests -= 0 if self._monitoring is None else self._monitoring.served
        is_open = self._state is not None and bool(self._state.tasks)
        return Use(is_open or (self._served is not None and len(self._served) > 0), requests)

    @property
    def named_tokens(self) -> int:
        """The number of tokens with names that let in."""
        return 0 if self._bearers is None else len(self._bearers)

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the supervisor asks to leave."""
        hub = self._endpoints.hub
        shared = Shared(2 * self._limit, hub.clients.count_dropped)
        leaving = hub.leaving
        uvicorn_server = HttpServer(
            self._app(),
            shared,
            lifespan="on",
            grace_s=lambda: leaving.grace_left_s,
            max_connections=self._settings.max_connections,
        )
        leaving.drain_s, leaving.on_begin = self._settings.drain, shared.leave
        self._state = uvicorn_server.server_state
        incarnation.ready()
        log.info("http.listening", url=self.url, token_file=str(token_file()) if self._token else None)
        self._warn_of_exposure()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exit_when_asked, incarnation, uvicorn_server)
            if self._bearers is not None:
                tasks.start_soon(self._bearers.run)
            # a copy of the socket: the server closes what it is given, and a restart needs it again
            uvicorn_server.on_close = lambda: self._close_listener(incarnation)
            await uvicorn_server.serve([self._listener.dup()])
            tasks.cancel_scope.cancel()
        if uvicorn_server.lost is not None and not incarnation.stopping.is_set():
            raise ListenerLostError(f"the socket of {self.url} was lost: {uvicorn_server.lost}")

    def _close_listener(self, incarnation: Incarnation) -> None:
        """Have the system refuse connections, unless there will be another server on the socket."""
        if incarnation.stopping.is_set():
            self._listener.close()

    def _warn_of_exposure(self) -> None:
        """Warn where other hosts can connect: plain HTTP can be read on the way, with the token in it."""
        host = self._address[0]
        if is_loopback(host):
            return
        if self._token is None:
            log.warning("http.open_to_everybody", host=host, hint="whoever reaches it runs every tool")
        else:
            log.warning("http.unencrypted", host=host, hint="token and data can be read on the way; use TLS")

    def _app(self) -> ASGIApp:
        guard = TransportSecurityMiddleware(self._security()).validate_request
        self._served = served = HttpEndpoints(self._endpoints, self._limit)
        probe_guard = guard if is_loopback(self._address[0]) else _let_in
        self._monitoring = monitoring = Monitoring(self._endpoints, guard, self._guarded, probe_guard)
        among, routing = self._among_replicas(guard)
        checked = partial(_checked, guard)
        clients = self._guarded(among(_App(over_asgi(served.serve, limit=self._limit, guard=checked))))
        routes = dict.fromkeys((PATH, SERVERS_PATH, PEERS_PATH, PROFILE_PATH), clients) | monitoring.routes
        middleware: list[Middleware] = []
        if self._token is not None and self._bearers is not None:
            backend = BearerAuthBackend(KnownTokens(self._token, self._bearers))
            middleware.append(Middleware(AuthenticationMiddleware, backend=backend))
        app = Starlette(
            routes=[Route(path, endpoint=each) for path, each in routes.items()],
            middleware=middleware,
            lifespan=lambda _app: _running(served.running(), *routing),
        )
        origins = self._settings.allowed_origins
        return self._with_page(CORS(app, origins) if origins else app)

    def _among_replicas(
        self, guard: Guard
    ) -> tuple[Callable[[ASGIApp], ASGIApp], list[AbstractAsyncContextManager[None]]]:
        """Return what stands around the endpoints where this is one of several replicas, and runs for it."""
        replica = self._settings.replica
        if self._open_forwarder is None or not replica.url:
            return lambda app: app, []
        forwarder = self._open_forwarder(replica.url, replica.secret, guard=guard, limit=self._limit)
        self._endpoints.hub.views.kept.seal = forwarder.seal_kept
        return forwarder.around, [forwarder.running()]

    def _with_page(self, app: ASGIApp) -> ASGIApp:
        """The page beside the endpoints: with their tokens and origins it has nothing to do."""
        page = self._page
        if page is None or not is_loopback(self._address[0]):
            return app

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            is_for_page = scope["type"] == "http" and (f"{scope['path']}/").startswith(PAGE_PREFIX)
            await (page if is_for_page else app)(scope, receive, send)

        return serve

    def _guarded(self, app: ASGIApp) -> ASGIApp:
        """The application, for those who have a token."""
        if self._bearers is None:
            return app
        return RequireAuthMiddleware(BearerRequests(app, self._bearers), required_scopes=[])

    def _end(self, bearer: Bearer) -> None:
        """End what belongs to a token that lets nobody in any more."""
        if self._served is not None:
            self._served.end_of(bearer)
        self._endpoints.hub.client_left(bearer.sessionless)
        self._endpoints.hub.fleet.direct.leave(bearer.direct)

    def _security(self) -> TransportSecuritySettings:
        """Allow requests that name this host and come from no foreign page."""
        host, port = self._address
        names = [*LOOPBACK, f"[{host}]" if ":" in host else host]
        own = urlsplit(self._settings.replica.url).netloc
        return TransportSecuritySettings(
            allowed_hosts=[
                *(f"{name}:{port}" for name in names),
                *((own,) if own else ()),  # as other replicas name this one
                *self._settings.allowed_hosts,
            ],
            allowed_origins=[f"http://{name}:{port}" for name in names]
            + list(self._settings.allowed_origins),
        )


class _App:
    """An application as an object: a function would be taken for a handler of starlette's."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)


async def _checked(guard: Guard, request: Request) -> Response | None:
    """Ask the guard; of a POST, it checks the Content-Type too."""
    return await guard(request, is_post=request.method == "POST")  # type: ignore[call-arg]  # of the SDK


async def _let_in(_request: Request) -> None:
    """A guard that refuses nothing."""


@asynccontextmanager
async def _running(*parts: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for part in parts:
            await stack.enter_async_context(part)
        yield


async def exit_when_asked(incarnation: Incarnation, uvicorn_server: uvicorn.Server) -> None:
    """Have a server of uvicorn exit when the supervisor asks its child to leave."""
    await incarnation.stopping.wait()
    uvicorn_server.should_exit = True

"""Clients over HTTP of an endpoint that the SDK's server is behind: by the fast path, and by the SDK's.

`EndpointService` is what the sessions of such an endpoint serve by (the `Service` of
`mcpx.core.gateway.frontends.http.sessions`): a `SessionClient` for each session of the handshake era, and one
`SessionlessClient` for all requests of 2026-07-28, each of which is a client of its own. Both offer a request
to the fast path of streams, and what that leaves to the SDK's server, in a task. Of 2026-07-28, headers
repeat what stands in the body: where they do not agree, the SDK's rules say so.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, Final, Protocol

import anyio
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner, serve_one
from mcp.shared.dispatcher import Outbound
from mcp_types import InitializeRequestParams
from mcp_types.version import LATEST_MODERN_VERSION

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.handles import Wire, stream_caller
from mcpx.core.gateway.clients.identity import Bearer, Connection, Opening, as_sdk
from mcpx.core.gateway.clients.projects import Arrival, arrive
from mcpx.core.gateway.endpoint_server import EndpointServer, envelope_connection
from mcpx.core.gateway.eras import ROOTS_CHANGED, Era
from mcpx.core.gateway.fast.parameters import NativeParams, Params, ReadParams
from mcpx.core.gateway.fast.path import FastPath
from mcpx.core.gateway.http_headers import METHOD, VERSION, RepeatingTools, Request, acknowledge, route_of
from mcpx.core.gateway.sdk_path import own_errors
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.protocol.context import SESSIONLESS, Caller, ClientId, Transport
from mcpx.core.wire import envelope
from mcpx.core.wire.context import WireContext
from mcpx.core.wire.enclosed import encode_restored
from mcpx.core.wire.envelope import RequestId, RPCMessage
from mcpx.core.wire.incoming import MAX_DECODED_BYTES, UNREADABLE, decode_params, encoded_error, refusal_of
from mcpx.core.wire.outgoing import Outgoing

NAME: Final = b"mcp-name"
INITIALIZE: Final = "initialize"
_MAX_ABOUT: Final = 256  # kinds of clients
_MAX_ABOUT_BYTES: Final = 16384  # of what one of a kind says of itself
_BRACE: Final = ord("{")
_ENCODED: Final = b"=?"  # with which a header begins whose value is encoded
_FAST: Final = frozenset({"tools/call", "resources/read"})
"""Methods of which a fast path may take requests."""
_SETTLED: Final = frozenset({"notifications/cancelled", "notifications/progress"})
"""Notifications that the session has dealt with."""


class Posted(Wire, Protocol):
    """A request that was posted (`mcpx.core.gateway.frontends.http.posted`)."""

    id: RequestId
    client: Any
    """What serves it where the fast path gives it back (`take_slowly`)."""

    @property
    def outgoing(self) -> Outgoing | None: ...
    @property
    def exchange(self) -> Request: ...
    def write(self, *pieces: envelope.Bytes) -> None: ...
    def say(self, *pieces: envelope.Bytes, lossy: bool = False) -> None: ...


class Session(Outbound, Protocol):
    """A session of the handshake era (`mcpx.core.gateway.frontends.http.sessions`)."""

    id: str
    bearer: Bearer | None

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None: ...


class EndpointService:
    """Serves the clients of one token at an endpoint. `make_fast` makes the fast path of a client.

    `elsewhere` gives what serves a client at the endpoint where it belongs by its project.
    """

    def __init__(
        self,
        server: EndpointServer,
        bearer: Bearer | None,
        make_fast: Callable[[HttpClient], Callable[[Wire, RequestId, str, msgspec.Raw], bool]],
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.elsewhere = elsewhere
        self.server = server
        self.bearer = bearer
        # where calls are traced, the SDK's path has the spans, and the headers that name the client's trace
        self.make_fast = _take_nothing if server.hub.tracing.on else make_fast
        self.sessionless = SessionlessClient(self)
        self._about: dict[bytes, Opening | InitializeRequestParams] = {}

    def shared(
        self, raw: msgspec.Raw, about: Opening | InitializeRequestParams | None
    ) -> Opening | InitializeRequestParams | None:
        """Return what a client says of itself: the same object for all that say the same."""
        if about is None or len(raw) > _MAX_ABOUT_BYTES:
            return about
        if len(self._about) >= _MAX_ABOUT:
            self._about.clear()
        return self._about.setdefault(bytes(raw), about)

    def open(self, session: Session) -> SessionClient:
        """Serve one more session."""
        return SessionClient(self, session)


def _take_nothing(_client: HttpClient) -> Callable[..., bool]:
    return lambda *_request: False


class Elsewhere(Protocol):
    """The endpoints to which the clients of one belong by their projects."""

    hub: Hub

    def service_for(self, client: ClientId) -> EndpointService:
        """Return what serves a client at the endpoint where it belongs now."""


def gateway_service(
    server: GatewayServer, bearer: Bearer | None, elsewhere: Elsewhere | None = None
) -> EndpointService:
    """Make what serves an endpoint at which servers are shown."""
    return EndpointService(server, bearer, lambda client: FastPath(server.offer, client).take, elsewhere)


class HttpClient:
    """A client over HTTP, as the fast path knows it."""

    era: Era
    identity: ClientId
    connection: Connection
    transport: Transport = "http"
    has_one_wire = False
    agrees: Callable[[Any, Any], bool] | None = None

    def __init__(self, service: EndpointService) -> None:
        self._service = service
        self.token = None if service.bearer is None else service.bearer.token.name
        self._fast: Callable[[Wire, RequestId, str, msgspec.Raw], bool] | None = None

    def caller(self, posted: Posted, client: object, capabilities: Any, **more: Any) -> Caller:
        """Make the caller of a request; without a session each is a client of its own."""
        return stream_caller(
            posted,
            object() if self.era is Era.MODERN else client,
            capabilities,
            is_local=self._service.bearer is None and posted.exchange.is_local,
            **more,
        )

    def take(self, posted: Posted, message: RPCMessage) -> None:
        """Serve a request."""
        posted.client = self
        method = message.method or ""
        if self._fast is None and method in _FAST:  # there may be thousands of sessions that never call
            self._fast = self._service.make_fast(self)
        if self._fast is None or not self._fast(posted, posted.id, method, message.params):
            self.take_slowly(posted, posted.id, method, message.params)

    def take_slowly(self, posted: Posted, request_id: RequestId, method: str, raw: msgspec.Raw) -> None:
        """Have the SDK's server serve a request, unless that is refused at once."""
        refusal = refusal_of(method, raw, MAX_DECODED_BYTES)
        try:
            params = None if refusal else decode_params(raw)
        except (msgspec.DecodeError, RecursionError):
            refusal = UNREADABLE
        if refusal is not None:
            posted.write(*envelope.failure(request_id, refusal))
            return
        context = WireContext(posted, request_id, params, raw)
        context.is_local, context.headers = posted.exchange.is_local, posted.exchange.headers
        scope = anyio.CancelScope()
        posted.fast_cancels[request_id] = scope.cancel
        posted.spawn(self._serve, posted, context, scope, method, params)

    async def _serve(
        self, posted: Posted, context: WireContext, scope: anyio.CancelScope, method: str, params: JSON | None
    ) -> None:
        answer = None
        try:
            with scope:
                result = await self._on_request(posted, context, method, params)
                answer = envelope.answer(posted.id, [encode_restored(result)])
        except Exception as error:  # noqa: BLE001 - the one boundary from handlers to the client
            answer = envelope.failure(posted.id, encoded_error(error, method))
        finally:
            context.close()
        if answer is not None:
            posted.write(*answer)

    async def _on_request(
        self, posted: Posted, context: WireContext, method: str, params: JSON | None
    ) -> dict[str, Any]:
        raise NotImplementedError


class SessionClient(HttpClient):
    """The client of one session."""

    era = Era.HANDSHAKE

    def __init__(self, service: EndpointService, session: Session) -> None:
        super().__init__(service)
        bearer = service.bearer
        self._session = session
        self.identity = ClientId(principal="" if bearer is None else bearer.principal)
        self.connection = Connection(session, self.identity, "http", bearer=bearer, session_id=session.id)

    def _follow_project(self) -> None:
        """Be at the endpoint where the client belongs, from now on."""
        server = self._service.server
        if self.identity.project is not None and isinstance(server, GatewayServer):
            server.offer.clients.place(self.identity, self.move)
        self.move()

    def move(self) -> None:
        """Go to the endpoint where the client belongs now."""
        before = self._service
        if before.elsewhere is None or (after := before.elsewhere.service_for(self.identity)) is before:
            return
        self._service, self._fast = after, None
        if isinstance(after.server, GatewayServer):
            clients, lists = after.server.offer.clients, (before.server.tool_list, after.server.tool_list)
            clients.moved(self.connection, self.identity, *lists, modern=False)

    @property
    def version(self) -> str | None:
        """The revision that was agreed on."""
        return self.connection.protocol_version if self.connection.client_params is not None else None

    async def _on_request(
        self, _posted: Posted, context: WireContext, method: str, params: JSON | None
    ) -> dict[str, Any]:
        connection = self.connection
        if (elsewhere := self._service.elsewhere) is not None:
            is_local = self._service.bearer is None and context.is_local
            given = self.identity, connection, context, method, params or {}
            await arrive(elsewhere.hub, Arrival(*given, is_local=is_local))
            self._follow_project()
        runner: ServerRunner[Any] = ServerRunner(self._service.server, as_sdk(connection), None)
        with own_errors():
            result = await runner.on_request(context, method, params)
        if method == INITIALIZE:
            connection.client_params = self._service.shared(context.raw, connection.client_params)
            connection.protocol_version = intern(connection.protocol_version)
        return result

    def notice(self, request: Request, message: RPCMessage) -> None:
        """Take a notification; one that cannot be read is dropped."""
        method = message.method or ""
        if method == ROOTS_CHANGED:
            self.identity.roots_changed()  # at once: it counts for the next request
        if method in _SETTLED or refusal_of(method, message.params, MAX_DECODED_BYTES):
            return
        try:
            params = decode_params(message.params)
        except (msgspec.DecodeError, RecursionError):
            return
        context = WireContext(self._session, None, params, message.params)
        context.is_local, context.headers = request.is_local, request.headers
        runner: ServerRunner[Any] = ServerRunner(self._service.server, as_sdk(self.connection), None)
        self._session.spawn(runner.on_notify, context, method, params)

    def close(self) -> None:
        """End what belongs to the client."""
        self._session.spawn(self.connection.close)
        self._service.server.hub.client_left(self.identity)


class SessionlessClient(HttpClient):
    """All requests of 2026-07-28."""

    era = Era.MODERN
    version = LATEST_MODERN_VERSION

    def __init__(self, service: EndpointService) -> None:
        super().__init__(service)
        self.identity = SESSIONLESS if service.bearer is None else service.bearer.sessionless
        self.connection = envelope_connection(LATEST_MODERN_VERSION, None, None, self.identity, "http")
        self.agrees = self._agrees
        self._repeating = RepeatingTools(service.server.get_tool_input_schema)

    def take(self, posted: Posted, message: RPCMessage) -> None:
        """Serve a request."""
        request, method = posted.exchange, message.method or ""
        if request.headers.get(METHOD) != method.encode(errors="replace") or request.repeated:
            self.take_slowly(posted, posted.id, method, message.params)
        else:
            super().take(posted, message)

    def _agrees(self, posted: Posted, params: Params | NativeParams | ReadParams) -> bool:
        """Return True if the headers agree with params that are whole; the SDK's path says what is wrong."""
        headers, meta = posted.exchange.headers, params.meta
        about = None if meta is None else meta.client_info
        name = params.uri if isinstance(params, ReadParams) else params.name
        header = headers.get(NAME, b"")
        return (
            meta is not None
            and headers[VERSION] == meta.version.encode()
            and header == name.encode()
            and not header.startswith(_ENCODED)
            and (about is None or bool(about.name and about.version))
            and memoryview(meta.capabilities)[0] == _BRACE
            and not self._repeating.has(name)
        )

    async def _on_request(
        self, posted: Posted, context: WireContext, method: str, params: JSON | None
    ) -> dict[str, Any]:
        service = self._service
        route = route_of(posted.exchange, method, params, service.server.get_tool_input_schema)
        about = route.protocol_version, route.client_info, route.client_capabilities
        connection = envelope_connection(*about, self.identity, "http", bearer=service.bearer)
        context.forbid_requests()
        server: Server[Any] = service.server
        with own_errors():
            return await serve_one(
                server, context, method, params, connection=as_sdk(connection), lifespan_state=None
            )

    def notice(self, request: Request, _message: RPCMessage) -> None:
        """Acknowledge a notification: at this revision clients have none that means something."""
        acknowledge(request)

    def close(self) -> None:
        """Do nothing: these clients come and go."""

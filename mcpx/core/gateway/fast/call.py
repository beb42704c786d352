"""The shared half of the fast paths: a request's context, and its answer, without SDK and task.

`FastContexts` is the base of what decodes requests: it knows which client they come from, and how that is
reached. A `FastCall` is one request until it is answered: what follows on its result, up to the response.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import anyio
import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from mcpx.core.calls.calls import ToolCalls
from mcpx.core.calls.names import await_listing
from mcpx.core.calls.recording import note_refused
from mcpx.core.calls.results.large import Apart
from mcpx.core.calls.results.large_requests import LargeCall, NotTakenApart
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.events.meter import ClientMeter, tool_label
from mcpx.core.events.stats import RESOURCES
from mcpx.core.gateway.clients.handles import StreamLog, Wire, capabilities_of
from mcpx.core.gateway.clients.identity import Connection
from mcpx.core.gateway.eras import Era
from mcpx.core.gateway.fast.parameters import NOTHING, Meta, Named, NativeParams, Params, ReadParams
from mcpx.core.protocol.context import (
    Caller,
    Capabilities,
    ClientId,
    InputAnswers,
    Origin,
    Transport,
    client_text,
    name_kept,
    read_capabilities,
)
from mcpx.core.protocol.messages import Exec, Read, as_call_error
from mcpx.core.protocol.requests import RequestContext, Watched
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.servers.call_errors import SignInNeeded
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.system.users import this_user
from mcpx.core.telemetry.contained import contain
from mcpx.core.telemetry.tracing import ServedRequest
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import Bytes, RequestId
from mcpx.core.wire.incoming import FAILED, UNREADABLE, overloaded
from mcpx.errors import CallError
from supervisors import Reply

CALL: Final = "tools/call"
TakeLarge = Callable[[LargeCall], bool]
"""Serves a call that was taken apart, or leaves it to the SDK."""
Encoded = list[Bytes] | Apart[list[Bytes]]
"""A result in pieces; of a large one, they are made apart."""


class Encoder(Protocol):
    """Makes the `result` of responses to one client, in pieces."""

    def tool(self, raw: msgspec.Raw, request: Exec) -> Encoded:
        """Encode the result of a tool."""

    def resource(self, raw: msgspec.Raw, request: Read) -> Encoded:
        """Encode the result of a read."""

    def members(self, result: JSON) -> list[Bytes]:
        """Encode input requests in the place of a result."""

    def failed(self, error: CallError, request: Exec | Read) -> list[Bytes] | bytes:
        """Encode a failure: as a result, or as the `error` of the response."""


class Connected(Protocol):
    """The client that requests come from. `wire` is what one of them came over."""

    era: Era
    identity: ClientId
    transport: Transport
    token: str | None
    """The name of its token, if that has one."""
    has_one_wire: bool
    """True if all its requests come over the same."""
    agrees: Callable[[Any, Any], bool] | None
    """Returns True if the headers of a request of 2026-07-28 say what its params say; None: it has none."""

    @property
    def connection(self) -> Connection:
        """Its connection."""

    @property
    def caller(self) -> Callable[..., Caller]:
        """Makes the caller of a request (`stream_caller`)."""


class _Named(Protocol):
    """A client's name and version: a struct of ours, or a model of the SDK."""

    name: str
    version: str


class FastCall(Reply[msgspec.Raw], eq=False, kw_only=True):
    """A request that was taken, and the slot for its result, until it is answered.

    `key` is its id, which cancels it. `meter` counts its answer, where answers are counted; `served` is its
    span, where calls are traced.
    """

    key: RequestId
    wire: Wire
    request: Exec | Read
    encoder: Encoder
    calls: ToolCalls
    meter: ClientMeter | None = None
    served: ServedRequest | None = None

    def send(self, tool: ToolInfo | None = None) -> None:
        """Send the request, and answer it when it is settled, perhaps at once; `tool` as for the pipeline."""
        self.wire.fast_cancels[self.key] = self.abandon
        if self.served is None:
            self.on_settled = FastCall._settled  # type: ignore[assignment]  # it is called with itself
            self.calls.call(self.request, self, tool)
        else:
            self.on_settled = FastCall._settled_in_span  # type: ignore[assignment]  # likewise
            with self.served.current():
                self.calls.call(self.request, self)

    def _settled_in_span(self) -> None:
        assert self.served is not None  # `send` has looked
        with self.served.current():
            self._settled()

    def _settled(self) -> None:
        """Answer the request; or, where the server or MCPX asks for input, see to that first."""
        error = self.error
        if error is None:
            try:
                pieces = self._encoded(self.value or NOTHING)
            except Exception as fault:  # noqa: BLE001 - the boundary: whatever a result makes us raise is the answer
                error = fault
        if error is None:
            if isinstance(pieces, list):
                self._write(envelope.answer(self.key, pieces))
            else:
                self._go_on(pieces)
        elif isinstance(error, InputRequired):
            self._go_on(error)
        else:
            self.fail(error)

    def _encoded(self, raw: msgspec.Raw) -> Encoded:
        """Encode a result, and count it."""
        request, encoder = self.request, self.encoder
        if isinstance(request, Exec):
            pieces, label = encoder.tool(raw, request), request.tool_name
        else:
            pieces, label = encoder.resource(raw, request), RESOURCES
        meter = self.meter
        if meter is None:
            return pieces
        if isinstance(pieces, Apart):
            return pieces.then(lambda made: meter.note(request.server_name, label, raw, made, request))
        meter.note(request.server_name, label, raw, pieces, request)
        return pieces

    def _go_on(self, with_: InputRequired | Apart[list[Bytes]]) -> None:
        scope = anyio.CancelScope()
        self.wire.fast_cancels[self.key] = scope.cancel
        self.wire.spawn(self._answer_later, with_, scope)

    async def _answer_later(
        self, with_: InputRequired | Apart[list[Bytes]], scope: anyio.CancelScope
    ) -> None:
        try:
            with scope:
                try:
                    pieces = await self._input(with_) if isinstance(with_, InputRequired) else await with_
                except Exception as error:  # noqa: BLE001 - as in `_settled`
                    if isinstance(error, InputRequired) and not isinstance(with_, InputRequired):
                        self._go_on(error)  # a large result that asks for input
                    else:
                        self.fail(error)  # of input that was asked for, SignInNeeded is the end
                else:
                    self._write(envelope.answer(self.key, pieces))
        finally:
            if self.served is not None:
                self.served.end("cancelled")  # unless it was answered

    async def _input(self, need: InputRequired) -> list[Bytes]:
        result = await self.calls.rounds.provide_input(self.request, need, self._encoded)
        return result if isinstance(result, list) else self.encoder.members(result)

    def fail(self, error: BaseException) -> None:
        """Answer the request with a failure."""
        request = self.request
        try:
            said = self.encoder.failed(as_call_error(error, request), request)
        except Exception as unsayable:  # noqa: BLE001 - its details cannot be encoded: they are nested too deeply
            said = self.encoder.failed(as_call_error(unsayable, request), request)
        if isinstance(said, bytes):
            self._write(envelope.failure(self.key, said))
            return
        if self.meter is not None:
            self.meter.note(request.server_name, tool_label(request), NOTHING, said, request)
        self._write(envelope.answer(self.key, said))

    def _write(self, response: list[Bytes]) -> None:
        """Send the response, after which nothing more belongs to the request."""
        self.wire.fast_cancels.pop(self.key, None)
        caller = self.request.context.caller
        if caller is not None and caller.modern and isinstance(caller.log, StreamLog):
            caller.log.is_open = False
        self.wire.channel.write(*response)
        if self.served is not None:
            self.served.end()


class FastContexts:
    """The contexts of one connection's requests."""

    def __init__(self, hub: HubView, connection: Connected) -> None:
        self._clients = hub.clients
        self._records = hub.records
        self._profile = hub.endpoint.profile
        self._peer = hub.endpoint.peer
        self._connection = connection
        self._large_requests = hub.large_requests
        self._plain: RequestContext | None = None  # of calls without members of their own, over one wire
        self._about_session: tuple[Capabilities, Origin] | None = None

    def _is_open(self, wire: Wire, params: Params | NativeParams | ReadParams | Named) -> bool:
        """Return True if the connection is past its opening, and the request is of its era."""
        connection, meta = self._connection, params.meta
        if connection.era is Era.HANDSHAKE:
            is_open = self._about_session is not None or connection.connection.initialize_accepted
            return is_open and not (meta and meta.version)
        if connection.era is Era.MODERN:
            agrees = connection.agrees
            return bool(
                meta
                and meta.version in MODERN_PROTOCOL_VERSIONS
                and meta.capabilities
                and (agrees is None or agrees(wire, params))
            )
        return False

    def _context(self, wire: Wire, params: Params | NativeParams | ReadParams) -> RequestContext:
        """The context of a request."""
        meta, repeats = params.meta, params.state is not None or params.responses
        watched = None if self._records.watch is None else Watched()
        if meta is None and not repeats and watched is None:
            return self._plain or self._context_of_client(wire, None)
        token = None if meta is None else meta.progressToken
        return replace(
            self._context_of_client(wire, meta),
            answers=InputAnswers(params.responses, params.state) if repeats else None,
            on_progress=None if token is None else partial(wire.notify_progress, token),
            meta=b"" if meta is None else meta.for_server,
            fresh=meta is not None and meta.fresh,
            watched=watched,
        )

    def _context_of_client(self, wire: Wire, meta: Meta | None) -> RequestContext:
        connection = self._connection
        client = connection.identity
        if connection.era is Era.MODERN and meta is not None:
            self._clients.note_sessionless(meta.log_level)
            capabilities = read_capabilities(bytes(meta.capabilities))
            caller = connection.caller(wire, client, capabilities, level=meta.log_level, peer=self._peer)
            return RequestContext(client=client, caller=caller, origin=self._origin(meta))
        if self._plain is not None:
            return self._plain
        if self._about_session is None:
            declared = connection.connection.client_capabilities
            self._about_session = capabilities_of(declared), self._origin(meta)
        capabilities, origin = self._about_session
        caller = connection.caller(wire, client, capabilities, clients=self._clients, peer=self._peer)
        context = RequestContext(client=client, caller=caller, origin=origin)
        if connection.has_one_wire:
            self._plain = context
        return context

    def _origin(self, meta: Meta | None) -> Origin:
        """Return the origin of a request."""
        info = self._client_info(meta)
        name, client = (None, None) if info is None else (info.name, client_text(info.name, info.version))
        return Origin(
            transport=self._connection.transport,
            client=client,
            name=name_kept(name),
            user=this_user(),
            profile=self._profile,
            token=self._connection.token,
        )

    def _client_info(self, meta: Meta | None) -> _Named | None:
        """Return what the client says of itself."""
        if self._connection.era is Era.MODERN:
            return meta.client_info if meta else None
        params = self._connection.connection.client_params
        return params.client_info if params else None

    def _client_name(self, meta: Meta | None) -> str | None:
        """Return the client's name for itself."""
        info = self._client_info(meta)
        return None if info is None else info.name

    # --- large calls

    def _take_large(self, wire: Wire, request_id: RequestId, raw: msgspec.Raw, take: TakeLarge) -> None:
        """Serve a large call, once a worker has taken it apart."""
        scope = anyio.CancelScope()
        wire.fast_cancels[request_id] = scope.cancel
        wire.spawn(self._serve_large, wire, request_id, raw, take, scope)

    async def _serve_large(
        self, wire: Wire, request_id: RequestId, raw: msgspec.Raw, take: TakeLarge, scope: anyio.CancelScope
    ) -> None:
        with scope:
            refusal = None
            try:
                call = await self._large_requests.call(raw, self._connection.identity)
            except NotTakenApart as error:
                refusal = UNREADABLE if error.unreadable else overloaded(f"{error}")
        if scope.cancelled_caught:
            return
        wire.fast_cancels.pop(request_id, None)
        if refusal is not None:
            wire.channel.write(*envelope.failure(request_id, refusal))
        else:
            self._take_again(wire, request_id, raw, lambda: call is not None and self._is_taken(call, take))

    def _take_again(
        self, wire: Wire, request_id: RequestId, raw: msgspec.Raw, take: Callable[[], bool]
    ) -> None:
        """Serve a call that had to wait, or leave it to the SDK."""
        try:
            if not take():
                wire.take_slowly(request_id, CALL, raw)
        except Exception as error:  # noqa: BLE001 - as where messages are received: its sender is answered
            contain(error, "request", method=CALL)
            wire.channel.write(*envelope.failure(request_id, FAILED))

    # --- calls of servers that are asleep

    async def _take_listed(
        self,
        call: FastCall,
        upstream: VisibleServer,
        raw: msgspec.Raw,
        take: Callable[[], bool],
        scope: anyio.CancelScope,
    ) -> None:
        """Serve a call once its server has listed in this run: what it offers may be other than last time."""
        request, wire = call.request, call.wire
        assert isinstance(request, Exec)  # reads go by the SDK's path until then
        error = None
        with scope:
            try:
                await await_listing(upstream, request.tool_name)
            except CallError as refusal:
                error = refusal
        if scope.cancelled_caught:
            return
        wire.fast_cancels.pop(call.key, None)
        if error is None or isinstance(error, SignInNeeded):  # which is asked for, or said, on the SDK's path
            self._take_again(wire, call.key, raw, lambda: upstream.has_listed and take())
        else:
            note_refused(self._records, request, error)
            call.fail(error)

    def _is_taken(self, call: LargeCall, take: TakeLarge) -> bool:
        try:
            return take(call)
        except msgspec.DecodeError:
            return False

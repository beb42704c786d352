"""The fast path of clients: `exec` and `resources` from line to line, with no SDK and no task.

A request that is plainly one of these, on a connection whose era is settled, is decoded just far enough to
find its server and tool, and is handed to `ToolCalls` at once; the response is written when the result comes.
Anything unusual (a name is missing, a server has not listed yet, another tool) is left to the SDK's server.
Both paths give the same answers; a test holds them against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import msgspec
from msgspec.structs import replace

from mcpx.core.calls.exposure import Shown, has_output_schema
from mcpx.core.calls.results.large_requests import LargeCall
from mcpx.core.catalog.model import ToolInfo
from mcpx.core.config import StructuredContent
from mcpx.core.events.meter import ClientMeter
from mcpx.core.gateway.clients.handles import Wire
from mcpx.core.gateway.clients.known_clients import writes_strictly
from mcpx.core.gateway.eras import Era
from mcpx.core.gateway.fast.call import CALL, Connected, FastCall, FastContexts
from mcpx.core.gateway.fast.parameters import (
    CALLS,
    NATIVE_CALLS,
    NOTHING,
    Arguments,
    Decoder,
    Meta,
    Named,
    NativeParams,
    Params,
    decode_named,
)
from mcpx.core.gateway.offer import Offer
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.gateway.tracing import carrier_in, client_attributes
from mcpx.core.protocol.context import MAX_CLIENT_CHARS, NO_CAPABILITIES, Caller, Capabilities
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.protocol.result_address import PREFIX as KEPT_RESULTS
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.telemetry.tracing import ServedRequest, Tracing
from mcpx.core.validation.arguments import unreadable
from mcpx.core.validation.bounds import MAX_INLINE_BYTES
from mcpx.core.validation.errors import unreadable_arguments
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import RequestId
from mcpx.core.wire.intake import LARGE_BYTES

MAX_ENCODERS: Final = 64  # that are kept for clients of 2026-07-28, who say with each request what they are
_Modern = tuple[StructuredContent, str | None, Capabilities]
_BRACE: Final = ord("{")


class FastPath(FastContexts):
    """Serves what it can of one connection's requests. It is offered each before the SDK."""

    def __init__(
        self,
        offer: Offer,
        connection: Connected,
        opening: Callable[[RequestId, str, msgspec.Raw], bool] | None = None,
    ) -> None:
        """`opening` is offered what is no call."""
        hub = offer.hub
        super().__init__(hub, connection)
        self._hub = hub
        self._calls = hub.calls
        self._views = hub.views
        self._results = hub.views.results
        self._upstreams = hub.upstreams
        self._meter = hub.meter
        self._records = hub.records
        self._exposure = offer.exposure
        self._shows_query = offer.tool_list.shows_query
        self._hub = offer.hub
        self._judged: tuple[Shown | None, bool] = (None, False)
        """Whether the client is shown strict forms, and by which exposure that was found."""
        self._opening = opening
        self._params = Decoder(CALLS)
        self._decode_native = Decoder(NATIVE_CALLS)
        self._encoders: dict[StructuredContent | _Modern, ResultEncoder] = {}
        self._client_meter: ClientMeter | None = None  # before 2026-07-28, where a name is for good
        self._stamp = offer.stamp
        self._of_project = hub.endpoint.project is not None  # which a client may leave
        self._tracing = hub.tracing if hub.tracing.on else None

    def take(self, wire: Wire, request_id: RequestId, method: str, raw: msgspec.Raw) -> bool:
        """Serve a request, or leave it to the SDK: then the result is false and nothing was done."""
        if method != CALL:
            return self._opening is not None and self._opening(request_id, method, raw)
        if self._of_project and not self._connection.identity.roots_known:
            return False
        if len(raw) > LARGE_BYTES:
            self._take_large(wire, request_id, raw, partial(self._take_call, wire, request_id, raw))
            return True
        shown = self._exposure.last or self._exposure.shown
        try:
            if shown.native and (call := self._decode_native(raw)).name in shown.native:
                return self._take_native(wire, request_id, call, shown, raw)
            params = self._params.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            if (rich := self._decoded_richly(raw, error)) is None:
                return False
            params = rich
        plain = self._plain if params.meta is None else None  # as most calls are, once the first was taken
        if plain is None and not self._is_open(wire, params):
            return False
        if params.state is not None or params.responses or self._records.watch is not None:
            plain = None
        found = self._request(wire, params, raw, plain)
        if found is None:
            return self._runs_a_tool(params) and (
                self._waits(wire, request_id, params, raw) or self._refuses(wire, request_id, params)
            )
        self._run(wire, request_id, params, *found)
        return True

    def _take_call(self, wire: Wire, request_id: RequestId, raw: msgspec.Raw, call: LargeCall) -> bool:
        """Serve a large call, as `take` does a small one."""
        shown = self._exposure.shown
        native = NATIVE_CALLS.rich(msgspec.Raw(call.params))
        if native.name in shown.native:
            native.arguments = call.arguments
            return self._take_native(wire, request_id, native, shown, raw)
        params = CALLS.rich(msgspec.Raw(call.exec_params))
        params.arguments.arguments = call.tool_arguments
        if not self._is_open(wire, params) or (found := self._request(wire, params, raw)) is None:
            return False
        self._run(wire, request_id, params, *found)
        return True

    def _take_native(
        self, wire: Wire, request_id: RequestId, params: NativeParams, shown: Shown, raw: msgspec.Raw
    ) -> bool:
        """Serve a call of a native tool whose server has listed, unless its arguments are no object."""
        tool, arguments = shown.native[params.name], params.arguments
        if self._judged[0] is not shown or self._connection.era is Era.MODERN:
            is_strict = writes_strictly(self._hub.config, self._client_name(params.meta))
            self._judged = shown, is_strict
        if self._judged[1]:
            return False  # the SDK's path takes the strict form back
        if not self._is_open(wire, params) or (arguments and memoryview(arguments)[0] != _BRACE):
            return False
        upstream = self._upstreams.get(tool.server_name)
        if upstream is None or (upstream.wants_project and not self._knows_project(upstream)):
            return False
        if tool.change is not None and not self._connection.identity.roots_known:
            return False
        request = shown.call_of(tool, arguments, self._context(wire, params), raw)
        if not upstream.has_listed:
            return self._waits_for(upstream, wire, request_id, params, request)
        self._run(wire, request_id, params, request)
        return True

    def _waits(self, wire: Wire, request_id: RequestId, params: Params, raw: msgspec.Raw) -> bool:
        """Have a call of exec or query wait until its server has listed; false if it lacks something else."""
        given = params.arguments
        upstream = self._upstreams.get(given.server_name)
        if upstream is None or upstream.has_listed or given.uri or given.select:
            return False
        context = self._context(wire, params)
        request = Exec(given.server_name, given.tool_name, given.arguments, context, given=raw)
        return self._waits_for(upstream, wire, request_id, params, request)

    def _waits_for(
        self,
        upstream: VisibleServer,
        wire: Wire,
        request_id: RequestId,
        params: Params | NativeParams,
        request: Exec,
    ) -> bool:
        """Have a call wait until its server has listed; false if only the SDK's path knows how."""
        if upstream.catalogue is None or upstream.wants_project:
            return False
        encoder, raw = self._encoder(params.meta, request.context.caller), msgspec.Raw(request.given)
        call = FastCall(key=request_id, wire=wire, request=request, encoder=encoder, calls=self._calls)
        call.meter, scope = self._meter_of(params.meta), anyio.CancelScope()
        wire.fast_cancels[request_id] = scope.cancel
        take = partial(self.take, wire, request_id, CALL, raw)
        wire.spawn(self._take_listed, call, upstream, raw, take, scope)
        return True

    def _run(
        self,
        wire: Wire,
        request_id: RequestId,
        params: Params | NativeParams,
        request: Exec | Read,
        tool: ToolInfo | None = None,
    ) -> None:
        """Hand a request on, to be answered with its result; `tool` is the one that is called, if known."""
        meta = params.meta
        meter = self._client_meter or self._meter_of(meta)
        policy = self._results.settings.include_structured_content
        encoder = self._encoders.get(policy) or self._encoder(meta, request.context.caller)
        served = None if self._tracing is None else self._begin_span(self._tracing, request_id, params)
        call = FastCall(key=request_id, wire=wire, request=request, encoder=encoder, calls=self._calls)
        call.meter, call.served = meter, served
        call.send(tool)

    def _begin_span(
        self, tracing: Tracing, request_id: RequestId, params: Params | NativeParams | Named
    ) -> ServedRequest:
        """Begin the span of a request, in the client's trace."""
        meta = params.meta
        version = (meta and meta.version) or self._connection.connection.protocol_version
        about = client_attributes(self._origin(meta), request_id, version)
        carrier = {} if meta is None else carrier_in(meta.for_server)
        return tracing.serve(CALL, params.name, carrier, about)

    def _decoded_richly(self, raw: msgspec.Raw, error: Exception) -> Params | None:
        """Decode params with what `_meta` holds for the server; None if `error` is about something else."""
        try:
            return self._params.otherwise(raw, error)
        except (msgspec.DecodeError, RecursionError):
            return None

    def refuse_too_deep(self, wire: Wire, request_id: RequestId, method: str, raw: msgspec.Raw) -> bool:
        """Refuse a call whose arguments are nested too deeply; false for any other request."""
        if method != CALL:
            return False
        try:
            named = self._named(raw)
        except msgspec.DecodeError:
            return False
        if named is None or not self._is_open(wire, named):
            return False
        self._refuse(wire, request_id, named, unreadable(RecursionError()))
        return True

    def _named(self, raw: msgspec.Raw) -> Named | None:
        """The call of a tool, by the names of its server and of its own; None for no such call."""
        native = self._exposure.shown.native
        if native and (call := NATIVE_CALLS.rich(raw)).name in native:
            tool = native[call.name]
            return Named(call.name, Arguments(tool.server_name, tool.name), call.meta)
        named = decode_named(raw)
        return named if self._runs_a_tool(named) else None

    def _runs_a_tool(self, params: Params | Named) -> bool:
        """Return True for a call of exec, or of query where its client has that."""
        if params.name == tools.EXEC:
            return True
        return params.name == tools.QUERY and self._shows_query(self._client_name(params.meta))

    def _refuses(self, wire: Wire, request_id: RequestId, params: Params) -> bool:
        """Refuse arguments that cannot be read, which the SDK could not explain; false where they can."""
        given = params.arguments
        try:
            if len(given.arguments) <= MAX_INLINE_BYTES:
                msgspec.json.decode(given.arguments or b"null")
        except (msgspec.DecodeError, RecursionError) as error:
            self._refuse(wire, request_id, params, unreadable(error))
            return True
        return False

    def _refuse(self, wire: Wire, request_id: RequestId, params: Params | Named, problem: str) -> None:
        if self._tracing is None:
            self._say_refused(wire, request_id, params, problem)
            return
        served = self._begin_span(self._tracing, request_id, params)
        with served.current():
            self._say_refused(wire, request_id, params, problem)
        served.end()

    def _say_refused(self, wire: Wire, request_id: RequestId, params: Params | Named, problem: str) -> None:
        given = params.arguments
        refusal = unreadable_arguments(given.server_name, given.tool_name, problem)
        tool = self._exposure.shown.native.get(params.name)
        in_meta = tool is not None and has_output_schema(tool)
        origin = self._origin(params.meta)
        self._records.refused("tool", given.server_name, given.tool_name, refusal.code, origin=origin)
        pieces = self._encoder(params.meta).failure(refusal, in_meta=in_meta)
        self._meter_of(params.meta).note(given.server_name, given.tool_name, NOTHING, pieces)
        wire.channel.write(*envelope.answer(request_id, pieces))

    # --- the request

    def _request(
        self, wire: Wire, params: Params, raw: msgspec.Raw, context: RequestContext | None = None
    ) -> tuple[Exec, ToolInfo] | tuple[Read] | None:
        """The request for `ToolCalls`, and its tool; None if it is not complete, or nothing is listed yet."""
        given = params.arguments
        upstream = self._upstreams.get(given.server_name)
        if upstream is None or not upstream.has_listed or (known := upstream.catalogue) is None:
            return None
        if upstream.wants_project and not self._knows_project(upstream):
            return None
        if params.name == tools.EXEC or self._runs_a_tool(params):
            tool = known.tools.get(given.tool_name)
            if tool is None or given.uri or given.select:
                return None
            if tool.change is not None and not self._connection.identity.roots_known:
                return None
            context = context or self._context(wire, params)
            if given.fresh is not None:
                if not self._hub.keeps_reads:
                    return None  # it is a parameter of the tool
                context = replace(context, fresh=given.fresh or context.fresh)
            request = Exec(
                given.server_name,
                given.tool_name,
                given.arguments,
                context,
                None,
                given.max_tokens,
                read_only=params.name == tools.QUERY,
                given=raw,
            )
            return request, tool
        if params.name == tools.RESOURCES and given.uri and not given.uri.startswith(KEPT_RESULTS):
            return (Read(given.server_name, given.uri, self._context(wire, params)),)
        return None

    def _knows_project(self, upstream: VisibleServer) -> bool:
        """Return True if it is known in which project the client is, and all see the same of the server."""
        return self._connection.identity.roots_known and upstream.is_alike

    def _meter_of(self, meta: Meta | None) -> ClientMeter:
        """Return the meter of this client."""
        meter = self._meter.of_client(self._client_name(meta))
        if self._connection.era is not Era.MODERN:
            self._client_meter = meter
        return meter

    def _encoder(self, meta: Meta | None, caller: Caller | None = None) -> ResultEncoder:
        """Make the encoder of results for this client, by the settings in force."""
        name = self._client_name(meta)
        if self._connection.era is Era.MODERN:
            capabilities = NO_CAPABILITIES if caller is None else caller.capabilities
            key = self._results.settings.include_structured_content, name, capabilities
            if (known := self._encoders.get(key)) is None:
                known = ResultEncoder.for_client(self._views, name, self._stamp, capabilities)
                if len(self._encoders) < MAX_ENCODERS and len(name or "") <= MAX_CLIENT_CHARS:
                    self._encoders[key] = known
            return known
        encoder = ResultEncoder.for_client(self._views, name, None)
        self._encoders[self._results.settings.include_structured_content] = encoder
        return encoder

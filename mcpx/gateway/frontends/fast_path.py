"""The hot path of the stdio door: `exec` and `resources` from line to line, with no SDK and no task.

A request that is plainly one of these, on a connection whose era is settled, is decoded just far enough to
find its server and tool, and goes to the router actor at once; the answer is written when it comes. Anything
unusual (names missing, a server that has not listed yet, another tool) is left to the SDK's server, which
knows how to say what is wrong. Both give the same answers; a test holds them against each other.
"""

from __future__ import annotations

from typing import Final

import anyio
import msgspec
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import LOG_LEVEL_META_KEY, PROTOCOL_VERSION_META_KEY, SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.config import Config
from mcpx.core.hub import Hub
from mcpx.core.router import Exec, Read
from mcpx.errors import CallError, Code
from mcpx.gateway import input_required as inputs
from mcpx.gateway.clients.handles import StreamCaller, capabilities_of
from mcpx.gateway.clients.sessions import wants_structured_content
from mcpx.gateway.eras import Era, EraServer
from mcpx.gateway.tools import definitions as tools
from mcpx.gateway.tools.encoding import Shaper, shaper_for
from mcpx.observe.contained import contain
from mcpx.rendering.results import InputRequired
from mcpx.upstream.context import InputAnswers, read_capabilities
from mcpx.upstream.queue import RawReply
from mcpx.upstream.requests import OnProgress, Origin
from mcpx.validation.arguments import unreadable
from mcpx.validation.bounds import MAX_INLINE_BYTES
from mcpx.validation.errors import unreadable_arguments
from mcpx.wire import envelope
from mcpx.wire.dispatcher import WireDispatcher
from mcpx.wire.envelope import Bytes, RequestId
from supervisors import Reply, SupervisorError

_NOTHING: Final = msgspec.Raw()


class _Arguments(msgspec.Struct, gc=False):
    server_name: str = ""
    tool_name: str = ""
    uri: str = ""
    arguments: msgspec.Raw = _NOTHING


class _ClientInfo(msgspec.Struct, gc=False):
    name: str = ""


class _Meta(msgspec.Struct, gc=False, rename={"version": PROTOCOL_VERSION_META_KEY}):
    version: str = ""
    progressToken: int | str | None = None  # noqa: N815 - the protocol's name
    client_info: _ClientInfo | None = msgspec.field(name="io.modelcontextprotocol/clientInfo", default=None)
    capabilities: msgspec.Raw = msgspec.field(
        name="io.modelcontextprotocol/clientCapabilities", default=_NOTHING
    )
    log_level: str | None = msgspec.field(name=LOG_LEVEL_META_KEY, default=None)


class _Params(msgspec.Struct, gc=False):
    name: str
    arguments: _Arguments = msgspec.field(default_factory=_Arguments)
    meta: _Meta | None = msgspec.field(name="_meta", default=None)
    responses: msgspec.Raw = msgspec.field(name="inputResponses", default=_NOTHING)
    state: str | None = msgspec.field(name="requestState", default=None)


_decode = msgspec.json.Decoder(_Params).decode


class FastLane:
    """Serves what it can of one connection's requests."""

    def __init__(self, hub: Hub, connection: EraServer, shaper: Shaper, server_info: bytes) -> None:
        self._router = hub.router_ref
        self._audience = hub.audience
        self._caller: StreamCaller | None = None  # the same for all calls, before 2026-07-28
        self._upstreams = hub.upstreams
        self._hub = hub
        self._config = hub.config
        self._connection = connection
        self._client = connection.identity
        self._shaper = shaper
        self._stamp = b'{"' + SERVER_INFO_META_KEY.encode() + b'":' + server_info + b"}"

    def take(self, wire: WireDispatcher, request_id: RequestId, method: str, raw: msgspec.Raw) -> bool:
        """Serve a request, or leave it to the SDK: then the result is false and nothing was done."""
        if method != "tools/call":
            return False
        try:
            params = _decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return False
        if not self._is_open(params.meta):
            return False
        message = self._message(wire, params)
        if message is None:
            return params.name == tools.EXEC and self._refuses(wire, request_id, params)
        self._send(wire, request_id, message, params)
        return True

    def refuse_too_deep(
        self, wire: WireDispatcher, request_id: RequestId, method: str, raw: msgspec.Raw
    ) -> bool:
        """Refuse a call whose arguments are too deep; false for any other request."""
        if method != "tools/call":
            return False
        try:
            params = _decode(raw)
        except msgspec.DecodeError:
            return False
        if not self._is_open(params.meta) or params.name != tools.EXEC:
            return False
        self._refuse(wire, request_id, params, unreadable(RecursionError()))
        return True

    def _refuses(self, wire: WireDispatcher, request_id: RequestId, params: _Params) -> bool:
        """Refuse arguments that cannot be read, for the SDK could not say so; false where they can."""
        given = params.arguments
        try:
            if len(given.arguments) <= MAX_INLINE_BYTES:
                msgspec.json.decode(given.arguments or b"null")
        except (msgspec.DecodeError, RecursionError) as error:
            self._refuse(wire, request_id, params, unreadable(error))
            return True
        return False

    def _refuse(self, wire: WireDispatcher, request_id: RequestId, params: _Params, problem: str) -> None:
        given = params.arguments
        refusal = unreadable_arguments(given.server_name, given.tool_name, problem)
        stamp = self._stamp if self._connection.era is Era.MODERN else None
        structured = self._wants_structured(params.meta)
        wire.channel.write(
            *envelope.answer(request_id, self._shaper.failure(refusal, structured=structured, stamp=stamp))
        )

    def _is_open(self, meta: _Meta | None) -> bool:
        """Whether the connection is past its opening, and the request is of its era."""
        connection = self._connection
        if connection.era is Era.HANDSHAKE:
            return connection.connection.initialize_accepted and not (meta and meta.version)
        if connection.era is Era.MODERN:
            return bool(meta and meta.version in MODERN_PROTOCOL_VERSIONS and meta.capabilities)
        return False

    def _message(self, wire: WireDispatcher, params: _Params) -> Exec | Read | None:
        given = params.arguments
        upstream = self._upstreams.get(given.server_name)
        if upstream is None or upstream.catalogue is None:
            return None
        if params.name == tools.EXEC and given.tool_name:
            origin = self._origin(wire, params)
            return Exec(given.server_name, given.tool_name, given.arguments, origin)
        if params.name == tools.RESOURCES and given.uri:
            return Read(given.server_name, given.uri, self._origin(wire, params))
        return None

    def _origin(self, wire: WireDispatcher, params: _Params) -> Origin:
        return Origin(
            client=self._client,
            caller=self._caller_of(wire, params.meta),
            answers=_answers(params),
            on_progress=self._progress(wire, params.meta),
        )

    def _caller_of(self, wire: WireDispatcher, meta: _Meta | None) -> StreamCaller:
        if self._connection.era is Era.MODERN and meta is not None:
            capabilities = read_capabilities(bytes(meta.capabilities))
            self._audience.pass_by(meta.log_level)
            return StreamCaller(wire, self._client, capabilities, level=meta.log_level)
        if self._caller is None:
            capabilities = capabilities_of(self._connection.connection.client_capabilities)
            self._caller = StreamCaller(wire, self._client, capabilities, audience=self._audience)
        return self._caller

    def _progress(self, wire: WireDispatcher, meta: _Meta | None) -> OnProgress | None:
        if meta is None or meta.progressToken is None:
            return None
        token = meta.progressToken

        def progressed(progress: float, total: float | None, message: str | None) -> None:
            told = {"progressToken": token, "progress": progress, "total": total, "message": message}
            params = envelope.encode({key: value for key, value in told.items() if value is not None})
            wire.notify_lossy("notifications/progress", params)

        return progressed

    def _send(
        self, wire: WireDispatcher, request_id: RequestId, message: Exec | Read, params: _Params
    ) -> None:
        if self._config is not self._hub.config:
            self._reconfigure(self._hub.config)
        call = _Call(wire, request_id, message, structured=self._wants_structured(params.meta))

        def answer(reply: RawReply) -> None:
            try:
                call.answer(self._result(reply, call))
            except InputRequired as need:
                scope = anyio.CancelScope()
                wire.fast_cancels[call.key] = scope.cancel
                wire.spawn(self._settle, call, need, scope)

        reply: RawReply = Reply(answer)
        wire.fast_cancels[call.key] = reply.abandon
        try:
            self._router.request(message, reply)
        except SupervisorError as error:  # flooded, or on its way out
            text = f"MCPX takes no more requests ({error}); nothing was sent, try again later"
            reply.reject(CallError(Code.OVERLOADED, text, server=message.server_name))

    def _wants_structured(self, meta: _Meta | None) -> bool:
        return wants_structured_content(self._config.include_structured_content, self._client_name(meta))

    def _reconfigure(self, config: Config) -> None:
        """The configuration was reloaded: shape answers by the new one."""
        self._config = config
        self._shaper = shaper_for(config)

    def _client_name(self, meta: _Meta | None) -> str | None:
        if meta is not None and meta.client_info is not None:
            return meta.client_info.name
        params = self._connection.connection.client_params
        return params.client_info.name if params else None

    def _result(self, reply: RawReply, call: _Call) -> list[Bytes]:
        """The result for the wire. Raises InputRequired: the client has to be asked (before 2026-07-28)."""
        stamp = self._stamp if self._connection.era is Era.MODERN else None
        try:
            return self._shape(_value(reply), call, stamp)
        except InputRequired:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever an answer makes us raise is told
            return self._failure(error, call, stamp)

    def _failure(self, error: Exception, call: _Call, stamp: bytes | None) -> list[Bytes]:
        try:
            if isinstance(error, CallError):
                return self._shaper.failure(error, structured=call.structured, stamp=stamp)
        except Exception as unsayable:  # noqa: BLE001 - its details cannot be written: nested too deeply
            error = unsayable
        contain(error, "answer", server=call.message.server_name)
        return self._shaper.broken(error, call.message, structured=call.structured, stamp=stamp)

    def _shape(self, raw: msgspec.Raw, call: _Call, stamp: bytes | None) -> list[Bytes]:
        shape = self._shaper.resource if isinstance(call.message, Read) else self._shaper.tool
        try:
            return shape(call.message, raw, structured=call.structured, stamp=stamp)  # type: ignore[arg-type]
        except InputRequired as need:
            if stamp is None or call.caller is None:
                raise
            return self._shaper.questions(inputs.as_result(need, call.caller), stamp=stamp)

    async def _settle(self, call: _Call, need: InputRequired, scope: anyio.CancelScope) -> None:
        """Ask the client, repeat the call with its answers, and answer its request at last."""
        reply = RawReply()
        with scope:
            try:
                call.answer(
                    await inputs.settle(
                        need,
                        call.caller,
                        call.message,
                        send=self._router.ask,
                        shape=lambda raw: self._shape(raw, call, None),
                        seconds=self._upstreams[call.message.server_name].config.limits.call_timeout,
                    )
                )
            except Exception as error:  # noqa: BLE001 - as in `_result`, which words it
                reply.reject(error)
                call.answer(self._result(reply, call))


class _Call:
    """One request that the fast lane has taken."""

    __slots__ = ("caller", "key", "message", "request_id", "structured", "wire")

    def __init__(
        self, wire: WireDispatcher, request_id: RequestId, message: Exec | Read, *, structured: bool
    ) -> None:
        self.wire = wire
        self.request_id = request_id
        self.key = coerce_request_id(request_id)
        self.message = message
        self.structured = structured
        self.caller = message.origin.caller

    def answer(self, pieces: list[Bytes]) -> None:
        """It is over."""
        self.wire.fast_cancels.pop(self.key, None)
        if isinstance(self.caller, StreamCaller):
            self.caller.close()
        self.wire.channel.write(*envelope.answer(self.request_id, pieces))


def _answers(params: _Params) -> InputAnswers | None:
    """What a request brings that repeats an earlier one."""
    if params.state is None and not params.responses:
        return None
    return InputAnswers(params.responses, params.state)


def _value(reply: RawReply) -> msgspec.Raw:
    """What a settled reply holds, as `wait` would give it."""
    if reply.error is not None:
        raise reply.error
    return reply.value if reply.value is not None else _NOTHING

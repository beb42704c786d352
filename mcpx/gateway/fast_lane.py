"""The hot path of the stdio door: `exec` and `resources` from line to line, with no SDK and no task.

A request that is plainly one of these, on a connection whose era is settled, is decoded just far enough to
find its server and tool, and goes to the router actor at once; the answer is written when it comes. Anything
unusual (names missing, a server that has not listed yet, another tool) is left to the SDK's server, which
knows how to say what is wrong. Both give the same answers; a test holds them against each other.
"""

from __future__ import annotations

from typing import Final

import msgspec
import structlog
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import PROTOCOL_VERSION_META_KEY, SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.config import Config
from mcpx.errors import CallError, Code
from mcpx.gateway import tools
from mcpx.gateway.clients import wants_structured_content
from mcpx.gateway.eras import Era, EraServer
from mcpx.gateway.shaping import Shaper
from mcpx.hub import Hub
from mcpx.router import Exec, Message, Read
from mcpx.upstream.queue import RawReply
from mcpx.upstream.requests import OnProgress
from mcpx.wire import envelope
from mcpx.wire.dispatcher import WireDispatcher
from mcpx.wire.envelope import Bytes, RequestId
from supervisors import Reply, SupervisorError

log = structlog.get_logger()
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


class _Params(msgspec.Struct, gc=False):
    name: str
    arguments: _Arguments = msgspec.field(default_factory=_Arguments)
    meta: _Meta | None = msgspec.field(name="_meta", default=None)


_decode = msgspec.json.Decoder(_Params).decode


class FastLane:
    """Serves what it can of one connection's requests."""

    def __init__(self, hub: Hub, connection: EraServer, shaper: Shaper, server_info: bytes) -> None:
        self._router = hub.router_ref
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
        except msgspec.DecodeError:
            return False
        if not self._is_open(params.meta):
            return False
        message = self._message(wire, params)
        if message is None:
            return False
        self._send(wire, request_id, message, params)
        return True

    def _is_open(self, meta: _Meta | None) -> bool:
        """Whether the connection is past its opening, and the request is of its era."""
        connection = self._connection
        if connection.era is Era.HANDSHAKE:
            return connection.connection.initialize_accepted and not (meta and meta.version)
        if connection.era is Era.MODERN:
            return bool(meta and meta.version in MODERN_PROTOCOL_VERSIONS and meta.capabilities)
        return False

    def _message(self, wire: WireDispatcher, params: _Params) -> Message | None:
        given = params.arguments
        upstream = self._upstreams.get(given.server_name)
        if upstream is None or upstream.catalogue is None:
            return None
        if params.name == tools.EXEC and given.tool_name:
            progress = self._progress(wire, params.meta)
            return Exec(given.server_name, given.tool_name, given.arguments, progress, client=self._client)
        if params.name == tools.RESOURCES and given.uri:
            return Read(given.server_name, given.uri, client=self._client)
        return None

    def _progress(self, wire: WireDispatcher, meta: _Meta | None) -> OnProgress | None:
        if meta is None or meta.progressToken is None:
            return None
        token = meta.progressToken

        def progressed(progress: float, total: float | None, message: str | None) -> None:
            told = {"progressToken": token, "progress": progress, "total": total, "message": message}
            params = envelope.encode({key: value for key, value in told.items() if value is not None})
            wire.channel.write(*envelope.notification("notifications/progress", params))

        return progressed

    def _send(self, wire: WireDispatcher, request_id: RequestId, message: Message, params: _Params) -> None:
        if self._config is not self._hub.config:
            self._reconfigure(self._hub.config)
        policy = self._config.include_structured_content
        structured = wants_structured_content(policy, self._client_name(params.meta))
        key = coerce_request_id(request_id)

        def answer(reply: RawReply) -> None:
            wire.fast_cancels.pop(key, None)
            wire.channel.write(
                *envelope.answer(request_id, self._result(reply, message, structured=structured))
            )

        reply: RawReply = Reply(answer)
        wire.fast_cancels[key] = reply.abandon
        try:
            self._router.request(message, reply)
        except SupervisorError as error:  # flooded, or on its way out
            text = f"MCPX takes no more requests ({error}); nothing was sent, try again later"
            reply.reject(CallError(Code.OVERLOADED, text, server=message.server_name))

    def _reconfigure(self, config: Config) -> None:
        """The configuration was reloaded: shape answers by the new one."""
        self._config = config
        self._shaper = Shaper(
            toon=config.toon_compression_enabled, toon_min_size=config.toon_compression_min_size
        )

    def _client_name(self, meta: _Meta | None) -> str | None:
        if meta is not None and meta.client_info is not None:
            return meta.client_info.name
        params = self._connection.connection.client_params
        return params.client_info.name if params else None

    def _result(self, reply: RawReply, message: Message, *, structured: bool) -> list[Bytes]:
        modern = self._connection.era is Era.MODERN
        stamp = self._stamp if modern else None
        try:
            raw = _value(reply)
            if isinstance(message, Read):
                return self._shaper.resource(message, raw, structured=structured, stamp=stamp)
            return self._shaper.tool(message, raw, structured=structured, stamp=stamp)
        except CallError as error:
            return self._shaper.failure(error, structured=structured, stamp=stamp)
        except Exception as error:
            log.exception("answer.failed", server=message.server_name)
            return self._shaper.broken(error, message, structured=structured, stamp=stamp)


def _value(reply: RawReply) -> msgspec.Raw:
    """What a settled reply holds, as `wait` would give it."""
    if reply.error is not None:
        raise reply.error
    return reply.value if reply.value is not None else _NOTHING

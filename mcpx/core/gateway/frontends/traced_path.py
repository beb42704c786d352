"""The fast path where calls are traced: each that it takes is a span of the client's trace.

In the place of `FastPath` and `FastCall`, so that these cost nothing more where nobody traces.
"""

from __future__ import annotations

from typing import Any, Final

import anyio
import msgspec

from mcpx.core.calls.results.large import Apart
from mcpx.core.gateway.eras import EraServer
from mcpx.core.gateway.frontends.fast_call import FastCall
from mcpx.core.gateway.frontends.fast_parameters import Meta, Named, NativeParams, Params
from mcpx.core.gateway.frontends.fast_path import FastPath
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.gateway.tracing import client_attributes
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.telemetry.tracing import NOT_SERVED, ServedRequest, served_request
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.envelope import Bytes, RequestId

_METHOD: Final = "tools/call"


class _Trace(msgspec.Struct, gc=False):
    """What a `_meta` says of the trace; anything may stand there."""

    traceparent: Any = None
    tracestate: Any = None


_decode_trace: Final = msgspec.json.Decoder(_Trace).decode


class TracedCall(FastCall):
    """One request that the fast path has taken, whose span ends when it is answered.

    Made while that span is current. One that is given up is ended by its `CallTrace`.
    """

    __slots__ = ("_served",)

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._served = served_request() or NOT_SERVED

    def settled(self, reply: RawReply) -> None:
        with self._served.current():
            super().settled(reply)

    async def _answer_later(
        self, with_: InputRequired | Apart[list[Bytes]], scope: anyio.CancelScope
    ) -> None:
        try:
            await super()._answer_later(with_, scope)
        finally:
            self._served.end("cancelled")  # unless it was answered

    def _answer(self, pieces: list[Bytes]) -> None:
        super()._answer(pieces)
        self._served.end()


class TracedFastPath(FastPath):
    """Serves as `FastPath` does, and begins the span of each request that it takes."""

    call_type = TracedCall

    def __init__(self, server: GatewayServer, connection: EraServer) -> None:
        super().__init__(server, connection)
        self._tracing = server.hub.tracing

    def _run(
        self,
        wire: WireDispatcher,
        request_id: RequestId,
        request: Exec | Read,
        params: Params | NativeParams,
        *,
        fails_in_meta: bool = False,
    ) -> None:
        with self._serve(request_id, params).current():
            super()._run(wire, request_id, request, params, fails_in_meta=fails_in_meta)

    def _refuse(
        self, wire: WireDispatcher, request_id: RequestId, params: Params | Named, problem: str
    ) -> None:
        served = self._serve(request_id, params)
        with served.current():
            super()._refuse(wire, request_id, params, problem)
        served.end()

    def _serve(self, request_id: RequestId, params: Params | NativeParams | Named) -> ServedRequest:
        meta, origin = params.meta, self._origin(params.meta)
        about = client_attributes(origin, request_id, self._version(meta))
        return self._tracing.serve(_METHOD, params.name, _carrier_of(meta), about)

    def _version(self, meta: Meta | None) -> str | None:
        return (meta and meta.version) or self._connection.connection.protocol_version


def _carrier_of(meta: Meta | None) -> dict[str, Any]:
    """What a `_meta` says of the trace."""
    if meta is None or not meta.for_server:
        return {}
    try:
        return msgspec.structs.asdict(_decode_trace(b"{%b}" % meta.for_server))
    except (msgspec.DecodeError, RecursionError):
        return {}

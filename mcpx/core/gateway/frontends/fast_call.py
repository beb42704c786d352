"""One request that a fast path has taken: what follows on its result, up to the response; with no task."""

from __future__ import annotations

from typing import Protocol

import anyio
import msgspec

from mcpx.core.calls.calls import ToolCalls
from mcpx.core.calls.results.large import Apart
from mcpx.core.catalog.model import JSON
from mcpx.core.events.meter import ClientMeter, tool_label
from mcpx.core.gateway.clients.handles import StreamCaller
from mcpx.core.gateway.frontends.fast_parameters import NOTHING
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.protocol.messages import Exec, Read, as_call_error
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.wire import envelope
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.envelope import Bytes, RequestId

Encoded = list[Bytes] | Apart[list[Bytes]]
"""A result in pieces; of a large one, they are made apart."""


class Encoder(Protocol):
    """Makes the `result` of responses to one client, in pieces."""

    def tool(self, raw: msgspec.Raw, request: Exec) -> Encoded:
        """The result of a tool."""
        ...

    def resource(self, raw: msgspec.Raw, request: Read) -> Encoded:
        """The result of a read."""
        ...

    def members(self, result: JSON) -> list[Bytes]:
        """Input requests in the place of a result."""
        ...


class TakenCall:
    """A request that was taken from a stream, until it is answered. `key` is its id, which cancels it.

    Of a subclass, `_encoded` makes the result, and `_fail` answers with an error.
    """

    __slots__ = ("_calls", "_encoder", "_request", "_request_id", "_wire", "key")

    def __init__(
        self,
        calls: ToolCalls,
        wire: WireDispatcher,
        request_id: RequestId,
        request: Exec | Read,
        encoder: Encoder,
    ) -> None:
        self.key = request_id
        self._calls = calls
        self._wire = wire
        self._request_id = request_id
        self._request = request
        self._encoder = encoder

    def settled(self, reply: RawReply) -> None:
        """Answer the request; or, where the server or MCPX asks for input, see to that first."""
        error = reply.error
        if error is None:
            try:
                pieces = self._encoded(reply.value or NOTHING)
            except Exception as fault:  # noqa: BLE001 - the boundary: whatever a result makes us raise is the answer
                error = fault
        if error is None:
            if isinstance(pieces, list):
                self._answer(pieces)
            else:
                self._go_on(pieces)
        elif isinstance(error, InputRequired):
            self._go_on(error)
        else:
            self._fail(error)

    def _go_on(self, with_: InputRequired | Apart[list[Bytes]]) -> None:
        scope = anyio.CancelScope()
        self._wire.fast_cancels[self.key] = scope.cancel
        self._wire.spawn(self._answer_later, with_, scope)

    async def _answer_later(
        self, with_: InputRequired | Apart[list[Bytes]], scope: anyio.CancelScope
    ) -> None:
        with scope:
            try:
                pieces = await self._input(with_) if isinstance(with_, InputRequired) else await with_
            except Exception as error:  # noqa: BLE001 - as in `settled`
                if isinstance(error, InputRequired) and not isinstance(with_, InputRequired):
                    self._go_on(error)  # a large result that asks for input
                else:
                    self._fail(error)  # of input that was asked for, SignInNeeded is the end
            else:
                self._answer(pieces)

    async def _input(self, need: InputRequired) -> list[Bytes]:
        result = await self._calls.rounds.provide_input(self._request, need, self._encoded)
        return result if isinstance(result, list) else self._encoder.members(result)

    def _encoded(self, raw: msgspec.Raw) -> Encoded:
        request = self._request
        if isinstance(request, Exec):
            return self._encoder.tool(raw, request)
        return self._encoder.resource(raw, request)

    def _fail(self, error: BaseException) -> None:
        raise NotImplementedError

    def _answer(self, pieces: list[Bytes]) -> None:
        self._write(envelope.answer(self._request_id, pieces))

    def _write(self, response: list[Bytes]) -> None:
        """Send the response, after which nothing more belongs to the request."""
        self._wire.fast_cancels.pop(self.key, None)
        caller = self._request.context.caller
        if caller is not None and caller.modern and isinstance(caller, StreamCaller):
            caller.close()
        self._wire.channel.write(*response)


class FastCall(TakenCall):
    """A call whose failure is a result, and which the meter counts."""

    __slots__ = ("_fails_in_meta", "_meter")

    _encoder: ResultEncoder

    def __init__(
        self,
        calls: ToolCalls,
        wire: WireDispatcher,
        request_id: RequestId,
        request: Exec | Read,
        encoder: ResultEncoder,
        *,
        meter: ClientMeter,
        fails_in_meta: bool,
    ) -> None:
        super().__init__(calls, wire, request_id, request, encoder)
        self._meter = meter
        self._fails_in_meta = fails_in_meta

    def _encoded(self, raw: msgspec.Raw) -> Encoded:
        pieces, request = super()._encoded(raw), self._request
        if isinstance(pieces, Apart):
            return pieces.then(lambda made: self._note(raw, made))
        self._meter.note(request.server_name, tool_label(request), raw, pieces, request)
        return pieces

    def _note(self, raw: msgspec.Raw, pieces: list[Bytes]) -> None:
        request = self._request
        self._meter.note(request.server_name, tool_label(request), raw, pieces, request)

    def _fail(self, error: BaseException) -> None:
        request, in_meta = self._request, self._fails_in_meta
        try:
            pieces = self._encoder.failure(as_call_error(error, request), in_meta=in_meta)
        except Exception as unsayable:  # noqa: BLE001 - its details cannot be encoded: they are nested too deeply
            pieces = self._encoder.failure(as_call_error(unsayable, request), in_meta=in_meta)
        self._meter.note(request.server_name, tool_label(request), NOTHING, pieces, request)
        self._answer(pieces)

"""A JSON-RPC peer over a channel, behind the SDK's `Dispatcher` protocol.

The SDK's `ClientSession` and server runner drive handshakes, listings and everything rare on it; calls on
the hot path go through as bytes (`outgoing.call`, and the `fast` hook for requests that come in). One task
group serves the slow path; the fast path has no task at all.

Semantics follow the SDK's own `JSONRPCDispatcher`: a request that the peer cancelled is never answered,
`initialize` holds back what follows it, abandoning a request cancels it at the peer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import anyio.abc
import msgspec
from mcp.shared.dispatcher import (
    CallOptions,
    Dispatcher,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    coerce_request_id,
    run_notify_intercept,
)
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, ErrorData

from mcpx.observe.contained import contain
from mcpx.wire import envelope
from mcpx.wire.channel import Channel, flush_all
from mcpx.wire.context import WireContext
from mcpx.wire.envelope import Bytes, RequestId
from mcpx.wire.lines import KEPT, TooLong
from mcpx.wire.outgoing import OnProgress, Outgoing, ResponseTooLarge, Unreadable
from mcpx.wire.shallow import shallow
from mcpx.wire.turns import Lines, Turns

Rubbish = Callable[[bytes, str], None]
"""Told of a line that was skipped: its first bytes, and what is wrong with it."""
Fast = Callable[["WireDispatcher", RequestId, str, msgspec.Raw], bool]
"""Offered each request before the SDK; true if it is dealt with. If it raises, the request is failed."""

_TOO_DEEP: Final = Unreadable("the answer is nested too deeply")
_NO_JSON: Final = Unreadable("the answer is not JSON")
SHOWN: Final = 200  # bytes of a bad line that are worth showing
INLINE: Final = "initialize"  # what follows it may depend on its outcome
STANDING: Final = "subscriptions/listen"  # answered when the connection ends


class WireDispatcher(Dispatcher[TransportContext]):
    """One peer. `run` it once; it ends with the channel, or when `end` is called."""

    def __init__(
        self,
        channel: Channel,
        *,
        limit: int,
        on_rubbish: Rubbish,
        on_end: Callable[[], None] | None = None,
        aside_limit: int | None = None,
    ) -> None:
        """`aside_limit` is the most bytes of the peer's own requests and notifications, if not `limit`."""
        self.channel = channel
        self.outgoing = Outgoing(channel)
        self.fast: Fast | None = None
        self.too_deep: Fast | None = None
        """Offered each request that is nested too deeply to be read, without its depths."""
        self.fast_cancels: dict[RequestId, Callable[[], None]] = {}
        """What to do when the peer cancels a request that the fast hook took, by its id."""
        self._turns = Turns(channel, limit, self._take_few)
        self._aside_limit = aside_limit
        self._on_rubbish = on_rubbish
        self._serving: dict[RequestId, tuple[WireContext, anyio.CancelScope]] = {}
        self._parked: deque[bytes | TooLong] | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._ended = anyio.Event()
        channel.on_data = self._turns.feed
        channel.on_end = on_end or self.end

    @property
    def behind(self) -> bool:
        """Whether the peer has sent what is not dealt with yet."""
        return self._turns.behind

    @property
    def busy(self) -> bool:
        """Whether requests of the peer are not answered yet, but for those that stay open for good."""
        return bool(self.fast_cancels) or not all(held.standing for held, _ in self._serving.values())

    # --- out

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its result. Raises MCPError: an error answer, a timeout, the end."""
        opts = opts or {}
        on_progress = opts.get("on_progress")
        told = self._in_task(on_progress) if on_progress is not None else None
        return await self.outgoing.ask(method, params, opts, told)

    def _in_task(self, on_progress: Any) -> OnProgress:
        """The SDK's progress callbacks are coroutines."""

        def progressed(progress: float, total: float | None, message: str | None) -> None:
            if self._tasks is not None:
                self._tasks.start_soon(_contained, on_progress, progress, total, message)

        return progressed

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002 - the protocol's signature; a stream needs none
    ) -> None:
        """Send a notification; after the end it is dropped."""
        encoded = None if params is None else envelope.encode(params)
        self.channel.write(*envelope.notification(method, encoded))

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function for as long as the connection lives; what it raises is logged."""
        if self._tasks is not None:
            self._tasks.start_soon(_contained, function, *arguments)

    # --- its life

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until the channel ends; then what is open fails and what is being served is cancelled."""
        self._on_request, self._on_notify, self._intercept = on_request, on_notify, on_notify_intercept
        try:
            async with anyio.create_task_group() as self._tasks:
                self.channel.start_reading()
                task_status.started()
                await self._ended.wait()
                self._close()
                self._tasks.cancel_scope.cancel()
        finally:
            self._tasks = None
            self._close()

    def end(self) -> None:
        """No more messages will come."""
        self._ended.set()

    def _close(self) -> None:
        self._turns.stop()
        self.outgoing.close()
        cancels, self.fast_cancels = self.fast_cancels, {}
        for cancel in cancels.values():
            cancel()

    # --- in

    def _take_few(self, lines: Lines) -> None:
        for line in lines:
            try:
                self._take_or_park(line)
            except Exception as error:  # noqa: BLE001 - one message must not cost the session, nor those behind it
                contain(error, "message")
        flush_all()  # the end of this turn, without another round of the loop

    def _take_or_park(self, line: bytes | TooLong) -> None:
        if self._parked is not None:
            self._parked.append(line)
        else:
            self._take(line)

    def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            too_large = ResponseTooLarge(f"the answer is over {line.limit} bytes")
            self._skip(line.head, line.tail, f"a line over {line.limit} bytes", too_large)
            return
        try:
            if not line.isascii():
                line.decode()  # strictly: what is passed on must not break the next reader
            message = envelope.split_answer(line) or envelope.decode_envelope(line)
        except UnicodeDecodeError:
            self._skip(line[:KEPT], line[-KEPT:], "not UTF-8", Unreadable("the answer is not UTF-8"))
            return
        except RecursionError:
            self._take_too_deep(line)
            return
        except msgspec.DecodeError:
            self._skip(line[:KEPT], line[-KEPT:], "not a JSON-RPC message", _NO_JSON)
            return
        if message.method is None:
            self.outgoing.answered(message)
        elif message.id is None:
            self._take_notification(message.method, message.params)
        else:
            try:
                if self.fast is not None and self.fast(self, message.id, message.method, message.params):
                    return
                self._take_request(message.id, message.method, message.params)
            except Exception as error:  # noqa: BLE001 - the boundary: its sender is answered, whatever it sent
                contain(error, "request", method=message.method)
                self.channel.write(*envelope.failure(message.id, _FAILED))

    def _take_too_deep(self, line: bytes) -> None:
        """A line that is nested too deeply to be read."""
        if not self._is_refused_whole(line):
            self._skip(line[:KEPT], line[-KEPT:], "nested too deeply", _TOO_DEEP)

    def _is_refused_whole(self, line: bytes) -> bool:
        """Whether it was a request that whoever knows such has answered."""
        if self.too_deep is None or (rest := shallow(line)) is None:
            return False
        try:
            message = envelope.decode_envelope(rest)
        except msgspec.DecodeError:
            return False
        if message.id is None or message.method is None:
            return False
        return self.too_deep(self, message.id, message.method, message.params)

    def _skip(self, head: bytes, tail: bytes, problem: str, error: Exception) -> None:
        """A line that cannot be read costs the request that it answers, and no more."""
        self.outgoing.skipped(head, tail, error)
        self._on_rubbish(head[:SHOWN], problem)

    def _take_notification(self, method: str, raw: msgspec.Raw) -> None:
        if method == "notifications/progress":
            self.outgoing.progressed(raw)
        elif method == "notifications/cancelled":
            self._cancelled_by_peer(raw)
        if self._tasks is None or self._is_too_large(method, raw):
            return
        try:
            params = _object(raw)
        except (msgspec.DecodeError, RecursionError):
            return
        if not run_notify_intercept(self._intercept, method, params):
            self._tasks.start_soon(_contained, self._on_notify, WireContext(self, None), method, params)

    def _cancelled_by_peer(self, raw: msgspec.Raw) -> None:
        try:
            key = coerce_request_id(envelope.decode_cancelled(raw).request_id)
        except (msgspec.DecodeError, RecursionError):
            return
        if (cancel := self.fast_cancels.pop(key, None)) is not None:
            cancel()
        elif (serving := self._serving.get(key)) is not None:
            context, scope = serving
            context.cancel_requested.set()
            scope.cancel()

    def _is_too_large(self, method: str, raw: msgspec.Raw) -> bool:
        """Whether it would take too long to read what the peer was not asked for; told as rubbish."""
        if self._aside_limit is None or len(raw) <= self._aside_limit:
            return False
        self._on_rubbish(method[:SHOWN].encode(), f"a message of its own over {self._aside_limit} bytes")
        return True

    # --- requests of the peer, for the SDK

    def _take_request(self, request_id: RequestId, method: str, raw: msgspec.Raw) -> None:
        if self._tasks is None:
            return
        if self._is_too_large(method, raw):
            self.channel.write(*envelope.failure(request_id, _TOO_LARGE))
            return
        try:
            params = _object(raw)
        except (msgspec.DecodeError, RecursionError):
            self.channel.write(*envelope.failure(request_id, _UNREADABLE))
            return
        context = WireContext(self, request_id, params)
        context.standing = method == STANDING
        scope = anyio.CancelScope()
        self._serving[coerce_request_id(request_id)] = (context, scope)
        if method == INLINE:
            self._parked = deque()
        self._tasks.start_soon(self._serve, context, scope, method, params)

    async def _serve(
        self, context: WireContext, scope: anyio.CancelScope, method: str, params: dict[str, Any] | None
    ) -> None:
        """Run the SDK's handler for one request, and answer."""
        request_id: RequestId = context.request_id  # type: ignore[assignment]  # it is a request
        answer = envelope.failure(request_id, _CLOSED)
        try:
            with scope:
                result = await self._on_request(context, method, params)
                answer = envelope.answer(request_id, [envelope.encode(result)])
        except Exception as error:  # noqa: BLE001 - the one boundary from handlers to the wire
            answer = envelope.failure(request_id, _encoded(_error_data(error, method)))
        finally:
            self._settle(context, answer)
            if method == INLINE:
                self._unpark()

    def _settle(self, context: WireContext, answer: list[Bytes]) -> None:
        """The request is over; one that the peer has cancelled is not answered."""
        context.close()
        key = coerce_request_id(context.request_id or 0)
        if (serving := self._serving.get(key)) is not None and serving[0] is context:
            del self._serving[key]
        if not context.cancel_requested.is_set():
            self.channel.write(*answer)

    def _unpark(self) -> None:
        parked, self._parked = self._parked, None
        for line in parked or ():
            self._take_or_park(line)  # behind another `initialize` the rest is parked again


async def _contained(function: Any, *arguments: Any) -> None:
    """A callback that fails must not end the session."""
    try:
        await function(*arguments)
    except Exception as error:  # noqa: BLE001 - the boundary that the docstring names
        contain(error, "callback")


def _object(raw: msgspec.Raw) -> dict[str, Any] | None:
    if not raw:
        return None
    value = msgspec.json.decode(raw)
    return value if isinstance(value, dict) else None


def _error_data(error: Exception, method: str) -> ErrorData:
    known = handler_exception_to_error_data(error)
    if known is None:
        contain(error, "handler", method=method)
        return ErrorData(code=INTERNAL_ERROR, message="Internal server error")
    return known


def _encoded(error: ErrorData) -> bytes:
    return envelope.encode(error.model_dump(mode="json", exclude_none=True))


_UNREADABLE: Final = _encoded(ErrorData(code=PARSE_ERROR, message="The parameters cannot be read"))
_TOO_LARGE: Final = _encoded(ErrorData(code=INVALID_REQUEST, message="The request is too large"))
_FAILED: Final = _encoded(ErrorData(code=INTERNAL_ERROR, message="MCPX failed while it read this request"))
_CLOSED: Final = _encoded(ErrorData(code=CONNECTION_CLOSED, message="Connection closed"))

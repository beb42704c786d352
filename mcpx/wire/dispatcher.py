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
from mcp import MCPError
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
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ErrorData,
)

from mcpx.observe.contained import contain
from mcpx.wire import envelope, unreadable
from mcpx.wire.channel import Channel, flush_all
from mcpx.wire.context import WireContext
from mcpx.wire.envelope import Bytes, RequestId
from mcpx.wire.lines import TooLong
from mcpx.wire.mending import may_have_halves, mend_halves, mend_numbers
from mcpx.wire.outgoing import OnProgress, Outgoing, ResponseTooLarge, Unreadable, readable
from mcpx.wire.shallow import shallow
from mcpx.wire.turns import Lines, Turns
from mcpx.wire.unreadable import Problem
from supervisors import Signal

Rubbish = Callable[[bytes, str], None]
"""Told of a line that was skipped: its first bytes, and what is wrong with it."""
Fast = Callable[["WireDispatcher", RequestId, str, msgspec.Raw], bool]
"""Offered each request before the SDK; true if it is dealt with. If it raises, the request is failed."""

LOSSY: Final = frozenset({"notifications/message", "notifications/progress"})
"""Notifications that a peer goes without while it does not read what it is sent."""
UPDATED: Final = "notifications/resources/updated"
MOST_SERVED: Final = 1024  # requests of one peer that the SDK serves at a time; each is a task
SHOWN: Final = 200  # bytes of a bad line, or of a method that nobody knows, that are worth showing
INLINE: Final = "initialize"  # what follows it may depend on its outcome
STANDING: Final = "subscriptions/listen"  # answered when the connection ends


class WireDispatcher(Dispatcher[TransportContext]):
    """One peer. `run` it once; it ends with the channel, or when `end` is called.

    With `mends`, what strict readers refuse and the official clients take is mended (`wire.mending`).
    """

    def __init__(
        self,
        channel: Channel,
        *,
        limit: int,
        on_rubbish: Rubbish,
        on_end: Callable[[], None] | None = None,
        mends: bool = False,
        aside_limit: int | None = None,
        refuses: bool = False,
    ) -> None:
        """`aside_limit` is the most bytes of the peer's own requests and notifications, if not `limit`.

        `refuses`: what is no message is answered with an error, as servers do and clients do not.
        """
        self.channel = channel
        self.outgoing = Outgoing(channel)
        self.fast: Fast | None = None
        self.too_deep: Fast | None = None
        """Offered each request that is nested too deeply to be read, without its depths."""
        self.fast_cancels: dict[RequestId, Callable[[], None]] = {}
        """What to do when the peer cancels a request that the fast hook took, by its id."""
        self.on_drained: Callable[[], None] = lambda: None
        """Called when the peer reads again. Must not raise."""
        self.on_dropped: Callable[[], None] = lambda: None
        """Called for each log or progress message that the peer goes without, because it does not read."""
        self._refuses = refuses
        self._writable = Signal()  # pulsed when the peer reads again, and at the end
        self._turns = Turns(channel, limit, self._take_few)
        self._aside_limit = limit if aside_limit is None else aside_limit
        self._on_rubbish = on_rubbish
        self._mends = mends
        self._serving: dict[RequestId, tuple[WireContext, anyio.CancelScope]] = {}
        self._parked: deque[bytes | TooLong] | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._ended = anyio.Event()
        channel.on_data = self._turns.feed
        channel.on_end = on_end or self.end
        channel.on_drained = self._drained

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
        """Send a request and wait for its result.

        Raises:
            MCPError: An error answer, one that cannot be read, a timeout, the end.
        """
        try:
            return readable(await self.send_for_bytes(method, params, opts))
        except (Unreadable, ResponseTooLarge) as error:  # whoever uses the SDK knows its errors only
            raise MCPError(INTERNAL_ERROR, str(error)) from error

    async def send_for_bytes(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> msgspec.Raw:
        """The same, and give the result as it came.

        Raises:
            MCPError: As in `send_raw_request`.
            Unreadable: The line that answers it cannot be read; so for ResponseTooLarge.
        """
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
        """Send a notification; after the end it is dropped.

        A peer that does not read goes without the lossy ones, and is waited for with those that tell it of
        one resource after another: their sender keeps what is new meanwhile.
        """
        encoded = None if params is None else envelope.encode(params)
        if method in LOSSY:
            self.tell(method, encoded)
            return
        while method == UPDATED and self.channel.congested and not self._ended.is_set():
            await self._writable.wait()
        self.channel.write(*envelope.notification(method, encoded))

    def tell(self, method: str, params: Bytes | None) -> None:
        """Send a notification that a peer goes without if it does not read: progress, a log message."""
        if self.channel.congested:
            self.on_dropped()
        else:
            self.channel.write(*envelope.notification(method, params))

    def _drained(self) -> None:
        self._writable.pulse()
        self.on_drained()

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
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                try:
                    self.channel.start_reading()
                    task_status.started()
                    await self._ended.wait()
                finally:  # what comes now starts nothing more, or a flood of it would keep the group open
                    self._tasks = None
                    self._close()
                    tasks.cancel_scope.cancel()
        finally:
            self._tasks = None
            self._close()

    def end(self) -> None:
        """No more messages will come."""
        self._ended.set()
        self._writable.pulse()

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
                self._refuse(unreadable.problem(line))
        flush_all()  # the end of this turn, without another round of the loop

    def _take_or_park(self, line: bytes | TooLong) -> None:
        if self._parked is not None:
            self._parked.append(line)
        else:
            self._take(line)

    def _take(self, line: bytes | TooLong) -> None:  # noqa: C901 - the hot path: a call more is a microsecond
        if isinstance(line, TooLong):
            self._skip(unreadable.problem(line))
            return
        if len(line) > self._aside_limit and self._turned_away(line):
            return
        try:
            if not line.isascii():
                line.decode()  # strictly: what is passed on must not break the next reader
            if self._mends and may_have_halves(line):
                line = mend_halves(line)
            message = envelope.split_answer(line) or envelope.decode_envelope(line)
        except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
            self._take_unreadable(line, error)
            return
        if message.method is None:
            if not self.outgoing.answered(message) and not (message.result or message.error):
                self._refuse(unreadable.invalid(line, unreadable.NEITHER))
        elif message.id is None:
            self._take_notification(message.method, message.params, line)
        else:
            try:
                if self.fast is not None and self.fast(self, message.id, message.method, message.params):
                    return
                self._take_request(message.id, message.method, message.params)
            except Exception as error:  # noqa: BLE001 - the boundary: its sender is answered, whatever it sent
                contain(error, "request", method=message.method[:SHOWN])
                self.channel.write(*envelope.failure(message.id, _FAILED))

    def _is_refused_whole(self, line: bytes) -> bool:
        """Whether a line that is too deep was a request that whoever knows such has answered."""
        if self.too_deep is None or (rest := shallow(line)) is None:
            return False
        try:
            message = envelope.decode_envelope(rest)
        except msgspec.DecodeError:
            return False
        if message.id is None or message.method is None:
            return False
        return self.too_deep(self, message.id, message.method, message.params)

    def _take_unreadable(self, line: bytes, error: Exception) -> None:
        """A line that strict readers refuse: mend it, refuse it whole, or skip it."""
        if isinstance(error, RecursionError) and self._is_refused_whole(line):
            return
        if self._mends and isinstance(error, msgspec.DecodeError) and (mended := mend_numbers(line)) != line:
            self._take(mended)
            return
        self._skip(unreadable.problem(line, error))

    def _skip(self, problem: Problem) -> None:
        """A line that cannot be read costs the request that it answers, or that it is, and no more."""
        is_request = self._refuses and unreadable.is_request(problem)
        if is_request or not self.outgoing.skipped(problem.head, problem.tail, problem.error):
            self._refuse(problem)
        self._on_rubbish(problem.head[:SHOWN], problem.text)

    def _refuse(self, problem: Problem) -> None:
        """Answer what may have been a request of the peer's, if that is our part."""
        if self._refuses:
            self.channel.write(*unreadable.refusal(problem))

    def _take_notification(self, method: str, raw: msgspec.Raw, line: bytes) -> None:
        if self._refuses and unreadable.has_null_id(line):
            self._refuse(unreadable.invalid(line, unreadable.NULL_ID))
            return
        if method == "notifications/progress":
            self.outgoing.progressed(raw)
        elif method == "notifications/cancelled":
            self._cancelled_by_peer(raw)
        if self._tasks is None or self._is_too_large(raw):
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

    def _is_too_large(self, raw: msgspec.Raw) -> bool:
        return len(raw) > self._aside_limit

    def _turned_away(self, line: bytes) -> bool:
        """Whether a large line is no answer: reading what the peer was not asked for would take too long."""
        own = envelope.split_own(line)
        if own is None:
            return False
        if own.id is not None:
            self.channel.write(*envelope.failure(own.id, _TOO_LARGE))
        self._on_rubbish(line[:SHOWN], f"a request or notification over {self._aside_limit} bytes")
        return True

    # --- requests of the peer, for the SDK

    def _take_request(self, request_id: RequestId, method: str, raw: msgspec.Raw) -> None:
        if self._tasks is None:
            return
        if self._is_too_large(raw):
            self.channel.write(*envelope.failure(request_id, _TOO_LARGE))
            return
        if len(method) > SHOWN:  # the SDK says it back whole
            self.channel.write(*envelope.failure(request_id, _NO_METHOD))
            return
        try:
            params = _object(raw)
        except (msgspec.DecodeError, RecursionError):
            self.channel.write(*envelope.failure(request_id, _UNREADABLE))
            return
        if len(self._serving) >= MOST_SERVED:
            self.channel.write(*envelope.failure(request_id, _TOO_MANY))
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
_TOO_MANY: Final = _encoded(
    ErrorData(
        code=CONNECTION_CLOSED,  # -32000, the first of those that are a server's own
        message=f"Overloaded: {MOST_SERVED} requests are open; nothing was done, try again later",
    )
)
_NO_METHOD: Final = _encoded(ErrorData(code=METHOD_NOT_FOUND, message="Method not found"))
_TOO_LARGE: Final = _encoded(ErrorData(code=INVALID_REQUEST, message="The request is too large"))
_FAILED: Final = _encoded(ErrorData(code=INTERNAL_ERROR, message="MCPX failed while it read this request"))
_CLOSED: Final = _encoded(ErrorData(code=CONNECTION_CLOSED, message="Connection closed"))

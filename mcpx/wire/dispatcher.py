"""A JSON-RPC peer over a channel, behind the SDK's `Dispatcher` protocol.

The SDK's `ClientSession` and server runner drive handshakes, listings and everything rare on it; calls on
the hot path go through as bytes (`call`, and the `fast` hook for requests that come in). Correlates ids,
applies cancellation and progress, and fails what is open when the channel ends. One task group serves the
slow path; the fast path has no task at all.

Semantics follow the SDK's own `JSONRPCDispatcher`: a request that the peer cancelled is never answered,
`initialize` holds back what follows it, abandoning a request cancels it at the peer.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import anyio.abc
import msgspec
import structlog
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
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT, ErrorData

from mcpx.wire import envelope
from mcpx.wire.channel import Channel, flush_all
from mcpx.wire.context import WireContext
from mcpx.wire.envelope import Bytes, Envelope, RequestId
from mcpx.wire.lines import LineSplitter, TooLong

log = structlog.get_logger()

Rubbish = Callable[[bytes, str], None]
"""Told of a line that was skipped: its first bytes, and what is wrong with it."""
OnAnswer = Callable[[msgspec.Raw | None, Exception | None], None]
"""Called once with the raw result or the error. Must not raise."""
OnProgress = Callable[[float, float | None, str | None], None]
Fast = Callable[["WireDispatcher", RequestId, str, msgspec.Raw], bool]
"""Offered each request before the SDK; true if it is dealt with. Must not raise."""

SHOWN: Final = 200  # bytes of a bad line that are worth showing
INLINE: Final = "initialize"  # what follows it may depend on its outcome


_ID: Final = rb'"id"\s*:\s*(-?\d+|"[^"\\]*")'
_ID_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST: Final = re.compile(rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class ResponseTooLarge(Exception):  # noqa: N818 - a condition
    """The answer was longer than a message may be, and was skipped."""


class _Open:
    """A request of ours that awaits its answer."""

    __slots__ = ("on_answer", "on_progress")

    def __init__(self, on_answer: OnAnswer, on_progress: OnProgress | None) -> None:
        self.on_answer = on_answer
        self.on_progress = on_progress


class WireDispatcher(Dispatcher[TransportContext]):
    """One peer. `run` it once; it ends with the channel, or when `end` is called."""

    def __init__(
        self,
        channel: Channel,
        *,
        limit: int,
        on_rubbish: Rubbish,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self.channel = channel
        self.fast: Fast | None = None
        self._splitter = LineSplitter(limit)
        self._on_rubbish = on_rubbish
        self._next_id = 0
        self._open: dict[RequestId, _Open] = {}
        self._serving: dict[RequestId, tuple[WireContext, anyio.CancelScope]] = {}
        self.fast_cancels: dict[RequestId, Callable[[], None]] = {}
        """What to do when the peer cancels a request that the fast hook took, by its id."""
        self._parked: deque[bytes | TooLong] | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._closed = False
        self._ended = anyio.Event()
        channel.on_data = self._feed
        channel.on_end = on_end or self.end

    @property
    def busy(self) -> bool:
        """Whether requests of the peer are not answered yet."""
        return bool(self._serving or self.fast_cancels)

    # --- out, as bytes

    def call(self, method: str, params: Bytes, on_answer: OnAnswer, on_progress: OnProgress | None) -> int:
        """Send a request made of bytes; returns its id. With `on_progress`, the id is its progress token."""
        request_id = self._mint()
        self._open[request_id] = _Open(on_answer, on_progress)
        self.channel.write(*envelope.request(request_id, method, params))
        return request_id

    @property
    def next_id(self) -> int:
        """The id that the next `call` will have."""
        candidate = self._next_id + 1
        while candidate in self._open:
            candidate += 1
        return candidate

    def _mint(self) -> int:
        self._next_id = self.next_id
        return self._next_id

    def forget(self, request_id: RequestId, reason: str) -> None:
        """Cancel a request of ours at the peer; a late answer is dropped."""
        if self._open.pop(coerce_request_id(request_id), None) is not None:
            params = envelope.encode({"requestId": request_id, "reason": reason})
            self.channel.write(*envelope.notification("notifications/cancelled", params))

    def write_result(self, request_id: RequestId, result: list[Bytes]) -> None:
        """Answer a request that the fast hook took."""
        self.channel.write(*envelope.answer(request_id, result))

    # --- out, for the SDK

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its result. Raises MCPError: an error answer, a timeout, the end."""
        if self._closed:
            raise MCPError(CONNECTION_CLOSED, "Connection closed")
        opts = opts or {}
        request_id: RequestId = opts["request_id"] if "request_id" in opts else self._mint()
        key = coerce_request_id(request_id)
        if key in self._open:
            raise ValueError(f"request id {request_id!r} is already in flight")
        body = dict(params or {})
        on_progress = opts.get("on_progress")
        if on_progress is not None:
            body["_meta"] = {**(body.get("_meta") or {}), "progressToken": request_id}
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._open[key] = _Open(_into(answer), self._in_task(on_progress) if on_progress else None)
        self.channel.write(*envelope.request(request_id, method, envelope.encode(body) if body else None))
        timeout = opts.get("timeout")
        try:
            with anyio.fail_after(timeout if timeout is not None else math.inf):
                result: dict[str, Any] = msgspec.json.decode(await answer)
        except TimeoutError:
            self._abandon(request_id, opts, f"timed out after {timeout}s")
            raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out") from None
        except asyncio.CancelledError:
            self._abandon(request_id, opts, "caller cancelled")
            raise
        finally:
            self._open.pop(key, None)
        return result

    def _abandon(self, request_id: RequestId, opts: CallOptions, reason: str) -> None:
        if opts.get("cancel_on_abandon", True):
            self.forget(request_id, reason)

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
        if not self._closed:
            encoded = None if params is None else envelope.encode(params)
            self.channel.write(*envelope.notification(method, encoded))

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
                self._fail_open()
                self._tasks.cancel_scope.cancel()
        finally:
            self._tasks = None
            self._fail_open()

    def end(self) -> None:
        """No more messages will come."""
        self._ended.set()

    def _fail_open(self) -> None:
        self._closed = True
        opened, self._open = self._open, {}
        for one in opened.values():
            one.on_answer(None, MCPError(CONNECTION_CLOSED, "Connection closed"))
        cancels, self.fast_cancels = self.fast_cancels, {}
        for cancel in cancels.values():
            cancel()

    # --- in

    def _feed(self, chunk: bytes) -> None:
        for line in self._splitter.feed(chunk):
            self._take_or_park(line)
        flush_all()  # the end of this turn, without another round of the loop

    def _take_or_park(self, line: bytes | TooLong) -> None:
        if self._parked is not None:
            self._parked.append(line)
        else:
            self._take(line)

    def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            self._take_too_long(line)
            return
        try:
            message = envelope.decode_envelope(line)
        except (msgspec.DecodeError, RecursionError):
            self._on_rubbish(line[:SHOWN], "not a JSON-RPC message")
            return
        if message.method is None:
            self._take_answer(message, line)
        elif message.id is None:
            self._take_notification(message.method, message.params)
        elif self.fast is None or not self.fast(self, message.id, message.method, message.params):
            self._take_request(message.id, message.method, message.params)

    def _take_too_long(self, line: TooLong) -> None:
        """Fail the request that was answered with it, if it can be told which; the session lives on."""
        found = _ID_FIRST.match(line.head) or _ID_LAST.search(line.tail)
        key = coerce_request_id(msgspec.json.decode(found[1])) if found else None
        if key is None and len(self._open) == 1:
            key = next(iter(self._open))
        if key is not None and (waiting := self._open.pop(key, None)) is not None:
            waiting.on_answer(None, ResponseTooLarge(f"the answer is over {line.limit} bytes"))
        self._on_rubbish(line.head[:SHOWN], f"a line over {line.limit} bytes")

    def _take_answer(self, message: Envelope, line: bytes) -> None:
        if message.id is None:
            self._on_rubbish(line[:SHOWN], "neither a request nor an answer")
            return
        waiting = self._open.pop(coerce_request_id(message.id), None)
        if waiting is None:
            return  # late, or never asked for
        if not message.error:
            waiting.on_answer(message.result, None)
            return
        try:
            error = envelope.decode_error(message.error)
        except msgspec.DecodeError:
            waiting.on_answer(None, MCPError(INTERNAL_ERROR, "the peer's error is not a JSON-RPC error"))
            return
        data = None if error.data is msgspec.UNSET else error.data
        waiting.on_answer(None, MCPError(error.code, error.message, data))

    def _take_notification(self, method: str, raw: msgspec.Raw) -> None:
        if method == "notifications/progress":
            self._progressed(raw)
        elif method == "notifications/cancelled":
            self._cancelled_by_peer(raw)
        if self._tasks is None:
            return
        params = _object(raw)
        if not run_notify_intercept(self._intercept, method, params):
            self._tasks.start_soon(_contained, self._on_notify, WireContext(self, None), method, params)

    def _progressed(self, raw: msgspec.Raw) -> None:
        try:
            progress = envelope.decode_progress(raw)
        except msgspec.DecodeError:
            return
        waiting = self._open.get(coerce_request_id(progress.progress_token))
        if waiting is not None and waiting.on_progress is not None:
            waiting.on_progress(progress.progress, progress.total, progress.message)

    def _cancelled_by_peer(self, raw: msgspec.Raw) -> None:
        try:
            key = coerce_request_id(envelope.decode_cancelled(raw).request_id)
        except msgspec.DecodeError:
            return
        if (cancel := self.fast_cancels.pop(key, None)) is not None:
            cancel()
        elif (serving := self._serving.get(key)) is not None:
            context, scope = serving
            context.cancel_requested.set()
            scope.cancel()

    def _take_request(self, request_id: RequestId, method: str, raw: msgspec.Raw) -> None:
        if self._tasks is None:
            return
        params = _object(raw)
        context = WireContext(self, request_id, params)
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
        lines: list[Bytes] | None = None
        try:
            with scope:
                result = await self._on_request(context, method, params)
                lines = envelope.answer(request_id, [envelope.encode(result)])
        except Exception as error:  # noqa: BLE001 - the one boundary from handlers to the wire
            lines = envelope.failure(request_id, _encoded(_error_data(error, method)))
        finally:
            context.close()
            key = coerce_request_id(request_id)
            if (serving := self._serving.get(key)) is not None and serving[0] is context:
                del self._serving[key]
            if lines is None and not context.cancel_requested.is_set():
                lines = envelope.failure(request_id, _CLOSED)
            if lines is not None and not context.cancel_requested.is_set():
                self.channel.write(*lines)
            if method == INLINE:
                self._unpark()

    def _unpark(self) -> None:
        parked, self._parked = self._parked, None
        for line in parked or ():
            self._take_or_park(line)  # behind another `initialize` the rest is parked again


def _into(answer: asyncio.Future[msgspec.Raw]) -> OnAnswer:
    def settle(result: msgspec.Raw | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result or msgspec.Raw(b"{}"))

    return settle


async def _contained(function: Any, *arguments: Any) -> None:
    """A callback that fails must not end the session."""
    try:
        await function(*arguments)
    except Exception:
        log.exception("callback.failed")


def _object(raw: msgspec.Raw) -> dict[str, Any] | None:
    if not raw:
        return None
    value = msgspec.json.decode(raw)
    return value if isinstance(value, dict) else None


def _error_data(error: Exception, method: str) -> ErrorData:
    known = handler_exception_to_error_data(error)
    if known is None:
        log.error("handler.failed", method=method, exc_info=error)
        return ErrorData(code=INTERNAL_ERROR, message="Internal server error")
    return known


def _encoded(error: ErrorData) -> bytes:
    return envelope.encode(error.model_dump(mode="json", exclude_none=True))


_CLOSED: Final = _encoded(ErrorData(code=CONNECTION_CLOSED, message="Connection closed"))

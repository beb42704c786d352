"""The peer's own requests and notifications, as the SDK's handlers serve them: a task for each.

Owned by the dispatcher, which hands over what nothing faster took. Every request is answered exactly once,
unless the peer cancelled it. At most `MAX_OPEN_REQUESTS` are served at a time; `initialize` holds back what
follows it, because that may depend on its outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc
import msgspec

from mcpx.core.telemetry.contained import contain
from mcpx.core.text.json_work import takes_long
from mcpx.core.wire import envelope
from mcpx.core.wire.batch import Batch
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.context import WireContext
from mcpx.core.wire.enclosed import encode_restored, restore
from mcpx.core.wire.envelope import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Bytes,
    MCPError,
    RequestId,
    coerce_request_id,
)
from mcpx.core.wire.intake import LARGE_BYTES

if TYPE_CHECKING:
    from mcp.shared.dispatcher import Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.transport_context import TransportContext

MAX_OPEN_REQUESTS: Final = 1024  # of one peer, served at a time; each is a task
MAX_DECODED_BYTES: Final = 16 << 20  # of a message that is read whole
MAX_METHOD_CHARS: Final = 200  # the SDK repeats the name of an unknown method whole
INITIALIZE: Final = "initialize"
STANDING: Final = "subscriptions/listen"  # answered when the connection ends


def spellings(request_id: RequestId) -> tuple[RequestId, RequestId]:
    """Return the ids that a cancellation may mean, the likelier first: some clients write 7 as "7"."""
    other = str(request_id) if isinstance(request_id, int) else coerce_request_id(request_id)
    return request_id, other


class Incoming:
    """Serves one peer's messages between `start` and `stop`.

    `on_initialized` is called when an `initialize` has been answered and `initializing` is false again. It
    may hand over the next messages, but must not raise.
    """

    def __init__(
        self,
        dispatcher: Dispatcher[TransportContext],
        channel: Channel,
        max_bytes: int,
        on_initialized: Callable[[], None],
    ) -> None:
        """`max_bytes` limits the parameters of a message."""
        self.initializing = False
        """Whether an `initialize` is being served, or messages are held: what follows has to wait."""
        self._dispatcher = dispatcher
        self._channel = channel
        self._max_bytes = min(max_bytes, MAX_DECODED_BYTES)
        self._on_initialized = on_initialized
        self.open: dict[RequestId, tuple[WireContext, anyio.CancelScope]] = {}
        """The requests that are being served, by their ids as they came: 7 and "7" are two."""
        self._tasks: anyio.abc.TaskGroup | None = None

    @property
    def busy(self) -> bool:
        """True if requests are unanswered, but for those that stay open for good."""
        return not all(context.standing for context, _ in self.open.values())

    def start(
        self,
        tasks: anyio.abc.TaskGroup,
        on_request: OnRequest,
        on_notify: OnNotify,
        intercept: OnNotifyIntercept | None,
    ) -> None:
        """Serve with these handlers from now on."""
        self._on_request, self._on_notify, self._intercept = on_request, on_notify, intercept
        self._tasks = tasks

    def stop(self) -> None:
        """Start nothing more. What is being served ends with its task group."""
        self._tasks = None

    def hold(self) -> Callable[[], None]:
        """Have the messages that follow wait, in their order, until the returned callable is called."""
        if self.initializing:  # they do, until it has been answered
            return lambda: None
        self.initializing = True

        def release() -> None:
            self.initializing = False
            self._on_initialized()

        return release

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function for as long as messages are served; what it raises is logged."""
        if self._tasks is not None:
            self._tasks.start_soon(contained, function, *arguments)

    # --- messages

    def take_notification(self, method: str, raw: msgspec.Raw) -> None:
        """Serve a notification. One that is too large, or has no proper parameters, is dropped."""
        if self._tasks is None or self._is_too_large(raw):
            return
        try:
            params = decode_params(raw)
        except (msgspec.DecodeError, RecursionError):
            return
        if self._intercept is None or not self._intercept(method, params):
            context = WireContext(self._dispatcher, None)
            self._tasks.start_soon(contained, self._on_notify, context, method, params)

    def take_request(
        self, request_id: RequestId, method: str, raw: msgspec.Raw, batch: Batch | None = None
    ) -> None:
        """Serve a request, or answer it with an error at once; one of a batch is answered with the batch."""
        if self._tasks is None:
            return
        try:
            refusal = self._refusal(method, raw)
            params = None if refusal else decode_params(raw)
        except (msgspec.DecodeError, RecursionError):
            refusal, params = UNREADABLE, None
        if refusal is not None:
            self._respond(request_id, envelope.failure(request_id, refusal), batch)
            return
        context = WireContext(self._dispatcher, request_id, params, raw)
        context.batch = batch
        if batch is not None:
            batch.open()
        context.standing = method == STANDING
        scope = anyio.CancelScope()
        self.open[request_id] = (context, scope)
        if method == INITIALIZE:
            self.initializing = True
        self._tasks.start_soon(self._serve, context, scope, method, params)

    def _refusal(self, method: str, raw: msgspec.Raw) -> bytes | None:
        if len(self.open) >= MAX_OPEN_REQUESTS:
            return TOO_MANY
        return refusal_of(method, raw, self._max_bytes)

    def _is_too_large(self, raw: msgspec.Raw) -> bool:
        return is_too_large(raw, self._max_bytes)

    def cancel(self, request_id: RequestId) -> bool:
        """Cancel a request for the peer; False for an unknown one."""
        if (served := self.open.get(request_id)) is None:
            return False
        context, scope = served
        context.cancel_requested.set()
        scope.cancel()
        return True

    async def _serve(
        self, context: WireContext, scope: anyio.CancelScope, method: str, params: dict[str, Any] | None
    ) -> None:
        """Run the SDK's handler for one request, and answer."""
        request_id: RequestId = context.request_id  # type: ignore[assignment]  # it is a request
        answer = envelope.failure(request_id, _CLOSED)
        try:
            with scope:
                result = await self._on_request(context, method, params)
                answer = envelope.answer(request_id, [encode_restored(result)])
        except Exception as error:  # noqa: BLE001 - the one boundary from handlers to the wire
            answer = envelope.failure(request_id, encoded_error(error, method))
        finally:
            self._settle(context, answer)
            if method == INITIALIZE:
                self.initializing = False
                self._on_initialized()

    def _settle(self, context: WireContext, answer: list[Bytes]) -> None:
        """The request is over; one that the peer has cancelled is not answered."""
        context.close()
        request_id: RequestId = context.request_id  # type: ignore[assignment]  # as in `_serve`
        if (served := self.open.get(request_id)) is not None and served[0] is context:
            del self.open[request_id]
        if not context.cancel_requested.is_set():
            self._respond(request_id, answer, context.batch)
        if context.batch is not None:
            context.batch.close()

    def _respond(self, request_id: RequestId, answer: list[Bytes], batch: Batch | None) -> None:
        if batch is None:
            self._channel.write(*answer)
        else:
            batch.add(request_id, answer)


def is_too_large(raw: msgspec.Raw, max_bytes: int) -> bool:
    """Return True if the parameters of a message are too large, or too dense, to be decoded here."""
    size = len(raw)
    return size > max_bytes or (size > LARGE_BYTES and takes_long(bytes(raw)))


def refusal_of(method: str, raw: msgspec.Raw, max_bytes: int) -> bytes | None:
    """Return the error of a request that is not even looked at; None for one that is."""
    if is_too_large(raw, max_bytes):
        return TOO_LARGE
    return NO_METHOD if len(method) > MAX_METHOD_CHARS else None


async def contained(function: Any, *arguments: Any) -> None:
    """Run a coroutine function; what it raises is logged, and ends nothing else."""
    try:
        await function(*arguments)
    except Exception as error:  # noqa: BLE001 - the boundary that the docstring names
        contain(error, "callback")


def decode_params(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Decode the parameters of a message; None where there are none, or they are no object.

    Raises:
        msgspec.DecodeError: They are no JSON.
        RecursionError: They are nested too deeply.
    """
    if not raw:
        return None
    value = msgspec.json.decode(raw)
    return value if isinstance(value, dict) else None


def encoded_error(error: Exception, method: str) -> bytes:
    """Encode an exception of a handler of that method as the `error` of the answer."""
    if not isinstance(error, MCPError):
        contain(error, "handler", method=method)
        error = MCPError(INTERNAL_ERROR, "Internal server error")
    return _encoded(error)


def _encoded(error: MCPError) -> bytes:
    return restore(envelope.encode(error.members()))


TOO_LARGE: Final = _encoded(MCPError(INVALID_REQUEST, "The request is too large"))
FAILED: Final = _encoded(MCPError(INTERNAL_ERROR, "MCPX failed while it read this request"))
UNREADABLE: Final = _encoded(MCPError(PARSE_ERROR, "The parameters cannot be read"))


def overloaded(why: str) -> bytes:
    """Encode the error of a request that was not even read."""
    message = f"Overloaded: {why}; nothing was done, try again later"
    return _encoded(MCPError(CONNECTION_CLOSED, message))  # -32000, the first of a server's own


TOO_MANY: Final = overloaded(f"{MAX_OPEN_REQUESTS} requests are open")
IN_USE: Final = _encoded(
    MCPError(
        INVALID_REQUEST,
        "The id of this request is in use: another request with it is not answered yet."
        " Give each request an id of its own.",
    )
)
NO_METHOD: Final = _encoded(MCPError(METHOD_NOT_FOUND, "Method not found"))
_CLOSED: Final = _encoded(MCPError(CONNECTION_CLOSED, "Connection closed"))

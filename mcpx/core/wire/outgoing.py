"""Our requests to a peer: their ids, answers and progress.

Owned by the dispatcher; the receiver hands it every answer and every progress notification. A request is
made of bytes and has a callback (`call`, the hot path), or is awaited (`request`, for the SDK). Each is
answered exactly once: with a raw result, an error, or the end of the connection.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import msgspec

from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    Bytes,
    MCPError,
    RequestId,
    RPCMessage,
    coerce_request_id,
)
from mcpx.core.wire.malformed import MalformedMessage, ResponseTooLarge, UnreadableAnswer, find_id

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions

__all__ = [
    "ConnectionEnded",
    "MalformedMessage",
    "OnAnswer",
    "OnProgress",
    "Opened",
    "Outgoing",
    "PeerError",
    "ResponseTooLarge",
    "UnreadableAnswer",
    "settling",
]

OnAnswer = Callable[[msgspec.Raw | None, Exception | None], None]
"""Called once with the raw result or the error. Must not raise."""
OnProgress = Callable[[bytes], None]
"""Called with the params of a progress notification: the members in JSON as they came, without the braces and
the token. Must not raise."""

MAX_ERROR_BYTES: Final = 1 << 18  # of an error that is read with its data
MAX_ERROR_HEAD_BYTES: Final = 8192
_ERROR_HEAD: Final = re.compile(
    rb'\s*\{\s*"code"\s*:\s*(-?\d{1,15})\s*,\s*"message"\s*:\s*("[^"\\]*+(?:\\.[^"\\]*+)*+")'
)
_NULL: Final = b"null"  # in the place of an error: there is none


class ConnectionEnded(MCPError):
    """The connection ended with the request open; a server's own error of that code is another matter."""

    def __init__(self) -> None:
        super().__init__(CONNECTION_CLOSED, "Connection closed")


class PeerError(MCPError):
    """The peer's error answer. `raw` is the error object as it came."""

    def __init__(self, code: int, message: str, data: Any, raw: bytes | msgspec.Raw) -> None:
        super().__init__(code, message, data)
        self.raw = raw


Write = Callable[..., object]
"""Sends the pieces of one message, with the line's end."""


class Writer(Protocol):
    """Sends messages to the peer."""

    def write(self, *pieces: Bytes) -> object:
        """Send a message in pieces, with the line's end."""


class Open(Protocol):
    """A request that awaits its answer; with `is_raw`, as it comes or not at all."""

    @property
    def on_answer(self) -> OnAnswer: ...

    @property
    def on_progress(self) -> OnProgress | None: ...

    @property
    def is_raw(self) -> bool: ...


class Opened(msgspec.Struct):
    """One that was sent as a line."""

    on_answer: OnAnswer
    on_progress: OnProgress | None
    is_raw: bool


class Outgoing:
    """The requests that are open on one channel."""

    def __init__(self, channel: Writer) -> None:
        self._channel = channel
        self._last_id = 0
        self._open: dict[RequestId, Open] = {}
        self.closed = False
        """Whether the connection has ended, so that no more answers will come."""

    # --- asking

    def new_id(self) -> int:
        """Return an id that no open request has."""
        self._last_id += 1
        while self._last_id in self._open:  # chosen by a caller for a request of its own
            self._last_id += 1
        return self._last_id

    def call(
        self,
        request_id: int,
        method: str,
        params: list[Bytes],
        on_answer: OnAnswer,
        on_progress: OnProgress | None,
        *_about: object,
    ) -> None:
        """Send a request under an id from `new_id`; `params` is an encoded object, in pieces.

        With `on_progress`, the id is its progress token, which `params` has to name. What it is about
        (`Receiver.about`) matters over HTTP.
        """
        if self.closed:
            on_answer(None, ConnectionEnded())
            return
        self._open[request_id] = Opened(on_answer, on_progress, is_raw=True)
        self._channel.write(*envelope.request(request_id, method, *params))

    def call_as(
        self,
        request_id: RequestId,
        method: str,
        params: Bytes | None,
        on_answer: OnAnswer,
        write: Write | None = None,
        *,
        about: object = None,
    ) -> None:
        """Send a request under an id of the caller's, which no open one has.

        `write` is as for `request`, `about` as for `call`.
        """
        if self.closed:
            on_answer(None, ConnectionEnded())
            return
        opened = Opened(on_answer, None, is_raw=True)
        self._start(request_id, method, params, opened, write=write, about=about, opts=None)

    def _start(
        self,
        request_id: RequestId,
        method: str,
        params: Bytes | None,
        opened: Opened,
        *,
        write: Write | None,
        **_of_http: Any,
    ) -> None:
        """Send a request that `opened` describes. Over HTTP it matters what it is `about`, and its `opts`."""
        self._open[coerce_request_id(request_id)] = opened
        (write or self._channel.write)(*envelope.request(request_id, method, params))

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions,
        on_progress: OnProgress | None,
        *,
        is_raw: bool,
        write: Write | None = None,
    ) -> msgspec.Raw:
        """Send a request and wait for its result; unless `is_raw`, numbers that are no JSON are null in it.

        `write` sends it another way than over the channel, and what cancels it too.

        Raises:
            MCPError: An error answer, a timeout, the end.
            MalformedMessage: The line that answers it cannot be read.
            ResponseTooLarge: That line is over the limit.
            ValueError: The id in `opts` is in use.
        """
        if self.closed:
            raise ConnectionEnded
        request_id: RequestId = opts["request_id"] if "request_id" in opts else self.new_id()
        key = coerce_request_id(request_id)
        if key in self._open:
            raise ValueError(f"request id {request_id!r} is already in flight")
        body = dict(params or {})
        if on_progress is not None:
            body["_meta"] = {**(body.get("_meta") or {}), "progressToken": request_id}
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        opened = Opened(settling(answer), on_progress, is_raw=is_raw)
        encoded = envelope.encode(body) if body else None
        send = write or self._channel.write
        self._start(request_id, method, encoded, opened, write=send, about=None, opts=opts)
        timeout = opts.get("timeout")
        try:
            with anyio.fail_after(timeout if timeout is not None else math.inf):
                return await answer
        except TimeoutError:
            self._abandon(request_id, opts, f"timed out after {timeout}s", send)
            raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out") from None
        except asyncio.CancelledError:
            self._abandon(request_id, opts, "caller cancelled", send)
            raise
        finally:
            self._open.pop(key, None)

    def _abandon(self, request_id: RequestId, opts: CallOptions, reason: str, write: Write) -> None:
        if opts.get("cancel_on_abandon", True):
            self.cancel(request_id, reason, write)
        else:
            self.discard(request_id)

    def recall(self, _request_id: RequestId, /) -> bool:
        """Take a request back if nothing was sent yet; True if that is known to have succeeded.

        On a stream it is in the pipe by now: what the peer has read is known by position.
        """
        return False

    def cancel(self, request_id: RequestId, reason: str, write: Write | None = None, /) -> None:
        """Cancel a request at the peer; a late answer is dropped."""
        if self._open.pop(coerce_request_id(request_id), None) is not None:
            params = envelope.encode({"requestId": request_id, "reason": reason})
            (write or self._channel.write)(*envelope.notification("notifications/cancelled", params))

    def discard(self, request_id: RequestId) -> None:
        """Forget a request that was cancelled by other means; a late answer is dropped."""
        self._open.pop(coerce_request_id(request_id), None)

    # --- what comes back

    def take_answer(self, message: RPCMessage) -> bool:
        """Settle the request that `message` answers; false if none is open, as after a cancellation."""
        answered = message.id
        if answered is not None and type(answered) is not int:
            answered = coerce_request_id(answered)
        if answered is None or (waiting := self._open.pop(answered, None)) is None:
            return False
        if message.error and has_error(message):
            waiting.on_answer(None, read_error(message.error))
        else:
            waiting.on_answer(message.result, None)
        return True

    def take_progress(self, raw: msgspec.Raw) -> None:
        """Hand the parameters of a progress notification to the request that they are about."""
        try:
            token, members = envelope.split_progress(raw)
        except (msgspec.DecodeError, RecursionError):
            return
        waiting = self._open.get(coerce_request_id(token))
        if waiting is not None and waiting.on_progress is not None:
            waiting.on_progress(members)

    def fail_answered(self, head: bytes, tail: bytes, error: Exception) -> bool:
        """Fail the request that a malformed line answers; false if its id is not found, or not open.

        `head` and `tail` are the ends of the line.
        """
        found = find_id(head, tail)
        if found is None or (waiting := self._open.pop(coerce_request_id(found), None)) is None:
            return False
        waiting.on_answer(None, error)
        return True

    def fail_raw(self, request_id: RequestId | None, error: Exception) -> bool:
        """Fail a request that takes its result as it came; false if it is none, or not open."""
        key = None if request_id is None else coerce_request_id(request_id)
        waiting = None if key is None else self._open.get(key)
        if key is None or waiting is None or not waiting.is_raw:
            return False
        del self._open[key]
        waiting.on_answer(None, error)
        return True

    def close(self) -> None:
        """No more answers will come: fail what is open."""
        self.closed = True
        opened, self._open = self._open, {}
        for one in opened.values():
            one.on_answer(None, ConnectionEnded())


def has_error(message: RPCMessage) -> bool:
    """Return True if an answer is an error; `"error": null` beside a result is none."""
    error = message.error  # which may be large, and is not copied for this
    return bool(error) and (len(error) != len(_NULL) or bytes(error) != _NULL)


def read_error(raw: msgspec.Raw) -> PeerError:
    """Read the error of an answer; of a large one, what stands at its beginning."""
    if len(raw) > MAX_ERROR_BYTES:
        return _read_head(raw)
    try:
        error = envelope.decode_error(raw)
    except (msgspec.DecodeError, RecursionError):
        return PeerError(INTERNAL_ERROR, "the peer's error is not a JSON-RPC error", None, bytes(raw))
    return PeerError(
        error.code, error.message, None if error.data is msgspec.UNSET else error.data, bytes(raw)
    )


def _read_head(raw: msgspec.Raw) -> PeerError:
    """An error that is too large to be read, with its code and message where these stand first."""
    found = _ERROR_HEAD.match(memoryview(raw)[:MAX_ERROR_HEAD_BYTES])
    if found is None:
        return PeerError(INTERNAL_ERROR, "the peer's error is too large to be read", None, raw)
    return PeerError(int(found[1]), msgspec.json.decode(found[2]), None, raw)


def decode_result(raw: msgspec.Raw) -> dict[str, Any]:
    """Decode a result; an absent or null one is empty.

    Raises:
        MCPError: It is no JSON, or no object.
    """
    try:
        result = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise MCPError(INTERNAL_ERROR, f"the peer's answer cannot be read ({error})") from None
    if result is None:
        return {}
    if not isinstance(result, dict):
        raise MCPError(INTERNAL_ERROR, "the peer's answer is not an object")
    return result


def settling(answer: asyncio.Future[msgspec.Raw]) -> OnAnswer:
    """A callback that settles a future with the result or the error, unless nobody waits for it any more."""

    def settle(result: msgspec.Raw | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result or msgspec.Raw(b"{}"))

    return settle

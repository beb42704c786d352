"""Messages of Streamable HTTP that are kept for a while, so that a client whose stream broke gets its answer.

An event store for the SDK's transport, one for each session of the handshake era, and what all of them hold
together. A client that comes again with `Last-Event-ID` gets what its stream has had since, and then what
comes, until the answer: here the store itself follows the stream, for the SDK's way loses what is sent while
it turns from the one to the other. An older connection of that stream ends.

Log and progress messages are not kept, as they are not for any client that does not read. An answer that is
too large to be kept is kept as an error that says so.
"""

from __future__ import annotations

import math
import secrets
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventMessage, EventStore
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
)

from mcpx.core.wire.dispatcher import LOSSY

MAX_EVENTS: Final = 256  # kept of a session
MAX_BYTES: Final = 16 << 20  # kept of a session
MAX_BYTES_ALL: Final = 64 << 20  # kept of all sessions of a frontend
MAX_AGE_S: Final = 300.0
OVERHEAD_BYTES: Final = 1000  # of each event
MAX_DIGITS: Final = 15  # of a number that is counted here
RETRY_MS: Final = 1000  # what clients are told to wait before they come again


class _Stream:
    """The messages of the server for one request, or by itself."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.answered = False
        self.kept = 0
        self.follower: MemoryObjectSendStream[EventMessage] | None = None


class _Event:
    """One message that is kept."""

    def __init__(self, store: SessionEvents, stream: _Stream, message: JSONRPCMessage, size: int) -> None:
        self.store = store
        self.stream = stream
        self.message = message
        self.size = size
        self.at = time.monotonic()


class KeptEvents:
    """The events that all sessions of one frontend keep."""

    def __init__(self) -> None:
        self.bytes = 0
        self._events: OrderedDict[_Event, None] = OrderedDict()  # the oldest first

    def add(self, event: _Event) -> None:
        """Keep one more."""
        self._events[event] = None
        self.bytes += event.size
        while self.bytes > MAX_BYTES_ALL:
            next(iter(self._events)).store.drop_oldest()

    def discard(self, event: _Event) -> None:
        """Keep it no longer."""
        del self._events[event]
        self.bytes -= event.size

    def expire(self) -> None:
        """Drop what is too old."""
        oldest_allowed = time.monotonic() - MAX_AGE_S
        while self._events and (event := next(iter(self._events))).at < oldest_allowed:
            event.store.drop_oldest()


class SessionEvents(EventStore):
    """The event store of one session. `end_stream` ends the connection that a stream has."""

    def __init__(self, kept: KeptEvents, end_stream: Callable[[str], None]) -> None:
        self.bytes = 0
        self._kept = kept
        self._end_stream = end_stream
        self._prefix = secrets.token_hex(4)  # so that an event of another session is unknown
        self._last = 0
        self._events: OrderedDict[int, _Event] = OrderedDict()
        self._streams: dict[int, _Stream] = {}
        self._current: dict[str, _Stream] = {}  # by the SDK's name

    # --- what is sent

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep a message, and give it to who follows the stream. None begins the stream of a request."""
        self._last += 1
        stream = self._stream(stream_id, begins=message is None)
        event_id = f"{self._prefix}-{stream.number}-{self._last}"
        if message is None:
            return event_id
        is_lossy = isinstance(message, JSONRPCNotification) and message.method in LOSSY
        if not is_lossy:
            self._keep(stream, message)
        if stream.follower is not None:
            with suppress(anyio.BrokenResourceError):  # its client has left again
                stream.follower.send_nowait(EventMessage(message, event_id))
        if stream_id != GET_STREAM_KEY and isinstance(message, JSONRPCResponse | JSONRPCError):
            self._end(stream)
        return event_id

    def _stream(self, name: str, *, begins: bool) -> _Stream:
        stream = self._current.get(name)
        if stream is None or begins:
            if stream is not None:
                self._end(stream)
            stream = self._current[name] = self._streams[self._last] = _Stream(name, self._last)
        return stream

    def _end(self, stream: _Stream) -> None:
        """Nothing more will come on it."""
        stream.answered = True
        self._current.pop(stream.name, None)
        _stop_following(stream)
        self._forget_if_over(stream)

    def _keep(self, stream: _Stream, message: JSONRPCMessage) -> None:
        size = _size(message)
        if size > MAX_BYTES:
            if not isinstance(message, JSONRPCResponse):
                return
            message = _too_large(message, size)
            size = _size(message)
        event = self._events[self._last] = _Event(self, stream, message, size)
        stream.kept += 1
        self.bytes += size
        self._kept.expire()
        self._kept.add(event)
        while len(self._events) > MAX_EVENTS or self.bytes > MAX_BYTES:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Keep the oldest message no longer."""
        _, event = self._events.popitem(last=False)
        self.bytes -= event.size
        self._kept.discard(event)
        event.stream.kept -= 1
        self._forget_if_over(event.stream)

    def _forget_if_over(self, stream: _Stream) -> None:
        if stream.answered and not stream.kept:
            self._streams.pop(stream.number, None)

    # --- a client that comes again

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what a stream has had since that event, and what comes, until its answer or another client.

        Returns None always: the SDK has nothing more to do.
        """
        self._kept.expire()
        prefix, _, position = last_event_id.partition("-")
        number, _, last = position.partition("-")
        if prefix != self._prefix or not (_is_number(number) and _is_number(last)):
            return None
        stream = self._streams.get(int(number))
        if stream is None:
            return None
        events = self._follow(stream, int(last))
        follower = stream.follower
        try:
            with events:
                async for event in events:
                    await send_callback(event)
        finally:
            if stream.follower is follower:
                _stop_following(stream)
        return None

    def _follow(self, stream: _Stream, last: int) -> MemoryObjectReceiveStream[EventMessage]:
        """Return what is kept of the stream since `last`, and then what comes."""
        _stop_following(stream)
        sender, events = anyio.create_memory_object_stream[EventMessage](math.inf)
        for number, event in self._events.items():
            if event.stream is stream and number > last:
                sender.send_nowait(EventMessage(event.message, f"{self._prefix}-{stream.number}-{number}"))
        if stream.answered:
            sender.close()
        else:
            self._end_stream(stream.name)
            stream.follower = sender
        return events

    def stop_following(self, stream_id: str) -> None:
        """End what a client has that came again for this stream."""
        if (stream := self._current.get(stream_id)) is not None:
            _stop_following(stream)

    def close(self) -> None:
        """The session is over."""
        for stream in list(self._streams.values()):
            _stop_following(stream)
        while self._events:
            self.drop_oldest()


def _stop_following(stream: _Stream) -> None:
    if stream.follower is not None:
        stream.follower.close()
        stream.follower = None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def _size(message: JSONRPCMessage) -> int:
    """About how many bytes a message takes in memory."""
    match message:
        case JSONRPCResponse():
            body = message.result
        case JSONRPCError():
            body = {"error": message.error.message, "data": message.error.data}
        case _:
            body = message.params or {}
    return OVERHEAD_BYTES + sum(map(_size_of_value, body.values()))


def _size_of_value(value: object) -> int:
    if isinstance(value, str):
        return sys.getsizeof(value)
    try:
        return len(msgspec.json.encode(value))
    except (OverflowError, TypeError, ValueError, RecursionError):  # what others write as JSON all the same
        return len(repr(value))


def _too_large(answer: JSONRPCResponse, size: int) -> JSONRPCError:
    text = f"The stream of this answer broke, and its {size} bytes are too many to be kept for another one"
    error = ErrorData(code=INTERNAL_ERROR, message=f"{text}. The request was carried out")
    return JSONRPCError(jsonrpc="2.0", id=answer.id, error=error)

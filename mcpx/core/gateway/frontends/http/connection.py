"""One HTTP connection: uvicorn's protocol, with bounds on time and memory that it lacks.

A request's head must be complete within `HEAD_TIMEOUT_S` and its body within `BODY_TIMEOUT_S`; the bodies of
all connections together are bounded. Nothing waits for a client to read: what it has not taken stays in the
connection's buffer, where it is counted. While the buffer is congested, events with log and progress
messages are dropped. A connection with more than `MAX_UNSENT_BYTES` in its buffer is ended; if all buffers
together hold too much, the fullest is. An `EventResponse` on it is a stream only where there is need.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import anyio
import h11
import structlog
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from mcpx.core.config.urls import is_loopback
from mcpx.core.wire.channel import HIGH_WATER, LOW_WATER, MAX_UNSENT_BYTES
from supervisors import Signal

log = structlog.get_logger()
HEAD_TIMEOUT_S: Final = 10.0  # from the connection, or the last response, to the end of a request's head
BODY_TIMEOUT_S: Final = 60.0  # for the largest message over a slow line
MIN_COUNTED_BYTES: Final = 65536  # of a body; smaller ones do not count in the sum
MAX_UNSENT_ALL: Final = 2 * MAX_UNSENT_BYTES  # bytes in the buffers of all connections together
PING_S: Final = 15.0  # of silence in a response, after which a proxy may end it
_PING: Final = b": ping\r\n\r\n"
TAKEN: Final = "mcpx.taken"
"""In the scope of a request: a coroutine function that waits while the client leaves too much unread."""
NOTED: Final = "mcpx.noted"
"""In the scope of a request: a dictionary for what is found out once for the whole connection."""
_LOSSY: Final = re.compile(
    rb"(?:id: [^\r\n]*\r?\n)?"  # of an event that can be resumed after
    rb'(?:event: message\r?\n)?data: \{(?:"jsonrpc":"2\.0",)?"method":"notifications/(?:message|progress)"'
)


async def cancel_when_gone(receive: Receive, cancel: Callable[[], object]) -> None:
    """Cancel what is done for a request, whose body has been read, once its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel()


def event(message: bytes) -> bytes:
    """A message, which is one line, as an event."""
    return b"event: message\r\ndata: %s\r\n\r\n" % message


class EventResponse:
    """A response that becomes a stream of events where something has to be said before its last words."""

    def __init__(self, limit: float = math.inf) -> None:
        """At most `limit` events wait to be sent."""
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._changed = Signal()
        self._is_over = False

    def put(self, event: bytes) -> bool:
        """Have an event sent. Returns whether it was taken: false where too many wait."""
        if len(self._waiting) >= self._limit:
            return False
        self._waiting.append(event)
        self._changed.set()
        return True

    def end(self) -> None:
        """Say that nothing more comes but the last words."""
        self._is_over = True
        self._changed.set()

    async def _next(self, silence_s: float) -> bytes | None:
        """The next event, or a ping after that long a silence; None at the end."""
        with anyio.move_on_after(silence_s):
            while not self._waiting and not self._is_over:
                self._changed.clear()
                await self._changed.wait()
        if self._waiting:
            return self._waiting.popleft()
        return None if self._is_over else _PING

    async def stream(
        self,
        send: Send,
        headers: list[tuple[bytes, bytes]],
        last: Callable[[], bytes],
        *,
        after_s: float | None = None,
    ) -> bool:
        """Respond with the events and the `last` words, once there is an event or `after_s` have passed.

        False, and nothing is sent, if the end comes first.
        """
        event = await self._next(PING_S if after_s is None else after_s)
        if event is None:
            return False
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while event is not None:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            event = await self._next(PING_S)
        await send({"type": "http.response.body", "body": last(), "more_body": False})
        return True


class Shared:
    """State that the connections of one frontend share. `max_body_bytes` is for all bodies together.

    `on_dropped` is called for each log or progress message that was dropped.
    """

    def __init__(self, max_body_bytes: int, on_dropped: Callable[[], None]) -> None:
        self.connections: set[HttpConnection] = set()
        self.max_body_bytes = max_body_bytes
        self.body_bytes = 0
        self.on_dropped = on_dropped
        self.leaving = False
        """True if MCPX ends, or will soon: every response tells its client to close the connection."""

    def leave(self) -> None:
        """MCPX ends soon."""
        self.leaving = True


class _NoFlowControl(FlowControl):
    """Writing does not wait for the client to read."""

    async def drain(self) -> None:
        return

    async def taken(self) -> None:
        await super().drain()


class HttpConnection(H11Protocol):
    """One connection. `idle_since` is when it began to wait for a request; None while it has one."""

    def __init__(self, shared: Shared, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._shared = shared
        self.idle_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._counted = 0  # bytes of this request in the sum
        self._warned = False
        self._noted: dict[str, bool] = {}
        self._inner = self.app
        self.app = self._serve

    # --- its life

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        self.flow = flow = _NoFlowControl(transport)
        self._taken = flow.taken
        self._shared.connections.add(self)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.connections.discard(self)
        self._set_timer(None)
        self._release_body()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_waiting = self.idle_since is not None
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            return
        if was_waiting:
            self.idle_since = None
            self._set_timer(BODY_TIMEOUT_S if self._receives_body() else None)
        elif not self._receives_body():
            self._set_timer(None)
        self._count_body(len(data))

    def on_response_complete(self) -> None:
        self._release_body()
        super().on_response_complete()  # may begin with the next request
        if self.cycle.response_complete and not self.transport.is_closing():
            self._await_head()

    def _receives_body(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY

    # --- time

    def _await_head(self) -> None:
        self.idle_since = self.loop.time()
        self._set_timer(HEAD_TIMEOUT_S)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        """End the connection: the head or the body did not come in time."""
        log.debug("http.overdue", waits_for="head" if self.idle_since is not None else "body")
        self.transport.abort()

    @property
    def is_new(self) -> bool:
        """True if no request has come yet."""
        cycle: object = self.cycle  # before the first request there is none
        return cycle is None and not self.transport.is_closing()

    def give_up_at_end(self) -> None:
        """End the connection of a client that has not taken its answer in time."""
        log.warning("client.gone", reason="MCPX ends, and it leaves its answer unread")
        self.transport.abort()

    def end_idle(self) -> None:
        """End the connection, to make room for another one."""
        self.transport.abort()

    # --- bodies

    def _count_body(self, more: int) -> None:
        self._counted += more
        if self._counted <= MIN_COUNTED_BYTES:
            return
        self._shared.body_bytes += more if self._counted - more > MIN_COUNTED_BYTES else self._counted
        if self._shared.body_bytes > self._shared.max_body_bytes and self._receives_body():
            log.warning("http.bodies_full", bytes=self._shared.body_bytes)
            self._refuse(503, "Too many large requests at a time; nothing was done, try again later")

    def _release_body(self) -> None:
        if self._counted > MIN_COUNTED_BYTES:
            self._shared.body_bytes -= self._counted
        self._counted = 0

    def _refuse(self, status: int, text: str) -> None:
        """Answer in place of the application, which is told that the client has gone."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        if not self.cycle.response_started:
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
            response = h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status])
            for event in (response, h11.Data(data=text.encode()), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self._release_body()
        self.transport.close()

    # --- what is sent

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._claims_loopback(scope):
            await _answer(send, 421, b"Invalid Host header")
            return

        scope[TAKEN], scope[NOTED] = self._taken, self._noted

        async def watched(message: Message) -> None:
            if self._shared.leaving and message["type"] == "http.response.start":
                message = {**message, "headers": _closing(message.get("headers", []))}
            body = message.get("body", b"")
            if self.flow.write_paused and _LOSSY.match(body):
                self._drop()
                return
            await send(message)
            if self.flow.write_paused:
                self._check_unsent(len(body))

        await self._inner(scope, receive, watched)

    def _drop(self) -> None:
        self._shared.on_dropped()
        if not self._warned:
            self._warned = True
            unsent = self.transport.get_write_buffer_size()
            log.warning("client.not_reading", unsent=unsent, dropped="its log and progress messages")

    def _check_unsent(self, added: int) -> None:
        if self.transport.get_write_buffer_size() - added > MAX_UNSENT_BYTES:
            self.give_up(MAX_UNSENT_BYTES)
            return
        others = self._shared.connections
        if sum(each.transport.get_write_buffer_size() for each in others) > MAX_UNSENT_ALL:
            max(others, key=lambda each: each.transport.get_write_buffer_size()).give_up(MAX_UNSENT_ALL)

    def give_up(self, limit: int) -> None:
        """End the connection: its buffer, or all of them, hold more than `limit` bytes."""
        where = "" if limit == MAX_UNSENT_BYTES else ", with others over HTTP"
        log.warning("client.gone", reason=f"it leaves more than {limit >> 20} MB unread{where}")
        self.transport.abort()

    # --- its Host

    def _claims_loopback(self, scope: Scope) -> bool:
        """Return True if a request names the loopback in its Host, but came in over another address."""
        if self.server is None or is_loopback(self.server[0]):
            return False
        host = next((value for key, value in scope["headers"] if key == b"host"), b"")
        return is_loopback(re.sub(r":\d*$", "", host.decode("latin-1")))


def _closing(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response after which the connection ends."""
    kept = [(name, value) for name, value in headers if name.lower() != b"connection"]
    return [*kept, (b"connection", b"close")]


async def _answer(send: Send, status: int, text: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})

"""One HTTP connection: uvicorn's protocol, with bounds on time and memory that it lacks.

A head has to be whole within `HEAD_S`, a body within `BODY_S`, and all bodies together take no more than a
sum. Nothing waits for a client to read: what it has not taken stands in the connection's buffer, where it is
counted. While that is congested, events with log and progress messages are dropped; with more than
`MOST_UNSENT` in it the connection is ended, and where all of them together hold too much, the fullest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final

import h11
import structlog
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from mcpx.config.transport import is_loopback
from mcpx.wire.channel import HIGH_WATER, LOW_WATER, MOST_UNSENT

log = structlog.get_logger()
HEAD_S: Final = (
    10.0  # from the connection, or the end of the answer before it, to the end of a request's head
)
BODY_S: Final = 60.0  # for the largest message over a slow line
COUNTED: Final = 65536  # bytes of a body from which on it counts in the sum
MOST_UNSENT_ALL: Final = 2 * MOST_UNSENT  # bytes that stand unread in all connections together
_LOSSY: Final = re.compile(
    rb'(?:event: message\r?\n)?data: \{(?:"jsonrpc":"2\.0",)?"method":"notifications/(?:message|progress)"'
)


class Shared:
    """What the connections of one door have in common. `most_bodies` is the sum, in bytes.

    `on_dropped` is called for each log or progress message that a client goes without.
    """

    def __init__(self, most_bodies: int, on_dropped: Callable[[], None]) -> None:
        self.connections: set[HttpConnection] = set()
        self.most_bodies = most_bodies
        self.bodies = 0
        self.on_dropped = on_dropped


class _NoWaiting(FlowControl):
    """What is written is counted, not waited for."""

    async def drain(self) -> None:
        return


class HttpConnection(H11Protocol):
    """One connection. `idle_since` is since when it waits for a request's head; None while it has one."""

    shared: Shared

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.idle_since: float | None = None
        self._due: asyncio.TimerHandle | None = None
        self._body = 0  # bytes of this request in the sum
        self._said = False
        self._inner = self.app
        self.app = self._serve

    # --- its life

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        self.flow = _NoWaiting(transport)
        self.shared.connections.add(self)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.connections.discard(self)
        self._set_due(None)
        self._release_body()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_waiting = self.idle_since is not None
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            return
        if was_waiting:
            self.idle_since = None
            self._set_due(BODY_S if self._receives_body() else None)
        elif not self._receives_body():
            self._set_due(None)
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
        self._set_due(HEAD_S)

    def _set_due(self, seconds: float | None) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = None if seconds is None else self.loop.call_later(seconds, self._overdue)

    def _overdue(self) -> None:
        """The head or the body did not come."""
        log.debug("http.overdue", waits_for="head" if self.idle_since is not None else "body")
        self.transport.abort()

    def end_idle(self) -> None:
        """Make room for somebody else."""
        self.transport.abort()

    # --- bodies

    def _count_body(self, more: int) -> None:
        self._body += more
        if self._body <= COUNTED:
            return
        self.shared.bodies += more if self._body - more > COUNTED else self._body
        if self.shared.bodies > self.shared.most_bodies and self._receives_body():
            log.warning("http.bodies_full", bytes=self.shared.bodies)
            self._refuse(503, "Too many large requests at a time; nothing was done, try again later")

    def _release_body(self) -> None:
        if self._body > COUNTED:
            self.shared.bodies -= self._body
        self._body = 0

    def _refuse(self, status: int, text: str) -> None:
        """Answer in place of the application, which takes the client for gone."""
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

        async def watched(message: Message) -> None:
            body = message.get("body", b"")
            if self.flow.write_paused and _LOSSY.match(body):
                self._drop()
                return
            await send(message)
            if self.flow.write_paused:
                self._look_at_unsent(len(body))

        await self._inner(scope, receive, watched)

    def _drop(self) -> None:
        self.shared.on_dropped()
        if not self._said:
            self._said = True
            unsent = self.transport.get_write_buffer_size()
            log.warning("client.not_reading", unsent=unsent, dropped="its log and progress messages")

    def _look_at_unsent(self, added: int) -> None:
        if self.transport.get_write_buffer_size() - added > MOST_UNSENT:
            self.give_up(MOST_UNSENT)
            return
        others = self.shared.connections
        if sum(each.transport.get_write_buffer_size() for each in others) > MOST_UNSENT_ALL:
            max(others, key=lambda each: each.transport.get_write_buffer_size()).give_up(MOST_UNSENT_ALL)

    def give_up(self, most: int) -> None:
        """End it, because it or the door holds more unread bytes than `most`."""
        where = "" if most == MOST_UNSENT else ", with others over HTTP"
        log.warning("client.gone", reason=f"it leaves more than {most >> 20} MB unread{where}")
        self.transport.abort()

    # --- whom it is for

    def _claims_loopback(self, scope: Scope) -> bool:
        """Whether a request names this machine's loopback, though it came in over another address."""
        if self.server is None or is_loopback(self.server[0]):
            return False
        host = next((value for key, value in scope["headers"] if key == b"host"), b"")
        return is_loopback(re.sub(r":\d*$", "", host.decode("latin-1")))


async def _answer(send: Send, status: int, text: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})

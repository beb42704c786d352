"""One HTTP connection: its requests are served one at a time, within bounds on time and on what is unread.

A request's head must be complete within `HEAD_TIMEOUT_S` and its body within `BODY_TIMEOUT_S`. Requests that
follow before the response is out wait for it, and nothing more is read meanwhile. Nothing waits for a client
to read: what it has not taken stays in the connection's channel, where it is counted. While that is
congested, lossy messages are dropped; with more than the channel takes the connection ends, and if all
channels together hold too much, the fullest does.

The end of what a client sends looks the same whether it has left or only says no more (`nc -N`). They are
told apart by what they are sent: the system of one that has left refuses it. To HTTP/1.0 there is nothing to
be sent before the response, and who listens has nothing to wait for: those have left.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

import structlog

from mcpx.core.config.urls import is_loopback
from mcpx.core.gateway.frontends.http.http_exchange import CONTINUE, Address, HttpExchange
from mcpx.core.gateway.frontends.http.requests import Bodies, RequestReader, Site
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire.channel import MAX_UNSENT_BYTES, Channel, PeerNotReading
from mcpx.core.wire.envelope import Bytes

log = structlog.get_logger()
HEAD_TIMEOUT_S: Final = 10.0  # from the connection, or its first byte, to the end of a request's head
BODY_TIMEOUT_S: Final = 60.0  # for the largest message over a slow line
KEEP_ALIVE_S: Final = 75.0  # between requests: longer than the usual pools of clients and proxies
LINGER_S: Final = 1.0  # for a client that still sends to read why it is refused
LOOK_S: Final = 1.0  # between looks at what is overdue
KNOCK_S: Final = 0.05  # before a second look at a client that says no more; doubled each time, up to LOOK_S
KNOCKED_S: Final = 0.5  # between looks from which on it is sent nothing more: clients take a few, not many
MAX_SKIPPED_BYTES: Final = 16 << 20  # of what comes behind a refusal
MAX_UNSENT_ALL: Final = 2 * MAX_UNSENT_BYTES  # bytes in the buffers of all connections together


class Shared:
    """State that the connections of one server share; a body has at most `limit` bytes.

    `on_dropped` is called for each log or progress message that was dropped.
    """

    def __init__(self, limit: int, on_dropped: Callable[[], None]) -> None:
        self.connections: set[HttpConnection] = set()
        self.bodies = Bodies(limit)
        self.on_dropped = on_dropped
        self.served = 0
        """The number of responses so far."""
        self.leaving = False
        """True if MCPX ends, or will soon: every response tells its client to close the connection."""
        self._look: asyncio.TimerHandle | None = None

    def leave(self) -> None:
        """MCPX ends soon."""
        self.leaving = True

    @property
    def is_busy(self) -> bool:
        """True if a request is served, or is coming."""
        return any(each.current is not None or each.reader.part == "body" for each in self.connections)

    def watch(self) -> None:
        """Look for connections that are overdue, for as long as there are any."""
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_S, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        now = asyncio.get_running_loop().time()
        for each in list(self.connections):
            if each.due < now:
                each.time_out()
            else:
                each.reader.rest()
        if self.connections:
            self.watch()


class HttpConnection:
    """One connection. `idle_since` is when it began to wait for a request; None while it has one."""

    __slots__ = (
        "_dropped",
        "_is_closed",
        "_is_local",
        "_is_paused",
        "_is_serving",
        "_loop",
        "_noted",
        "_shared",
        "_site",
        "_skipped",
        "_socket",
        "_taken",
        "channel",
        "current",
        "due",
        "idle_since",
        "reader",
        "token",
    )

    def __init__(self, accepted: socket.socket, site: Site, shared: Shared) -> None:
        self.channel = channel = Channel(accepted.fileno(), accepted.fileno())
        self.reader = RequestReader(self, site, shared.bodies)
        self.current: HttpExchange | None = None
        """The request that is being served."""
        self.token: tuple[bytes, Any] | None = None
        """The Authorization that its last request was let in with, and whose it is."""
        self._socket = accepted
        self._site = site
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self.idle_since: float | None = (now := self._loop.time())
        self.due = now + HEAD_TIMEOUT_S
        """The time at which it ends, if nothing comes."""
        self._noted: dict[str, Any] | None = None
        self._is_local: bool | None = None
        self._is_serving = False
        self._is_closed = False
        self._is_paused = False
        self._skipped = 0  # bytes behind the last request that is taken
        self._dropped = False
        self._taken: asyncio.Event | None = None
        shared.connections.add(self)
        shared.watch()
        channel.on_data = self._data
        channel.on_end = self._ended
        channel.on_broken = self._broken
        channel.start_reading()

    # --- what comes

    def _data(self, data: bytes) -> None:
        reader = self.reader
        if reader.stops:
            self._skipped += len(data)
            if self._skipped > MAX_SKIPPED_BYTES:
                self.abort()
            return
        before = reader.part
        reader.feed(data)
        if reader.part != before and reader.part is not None:
            seconds = HEAD_TIMEOUT_S if reader.part == "head" else BODY_TIMEOUT_S
            self.due = self._loop.time() + seconds
        self._serve_waiting()

    def go_on(self, exchange: HttpExchange) -> None:
        """Ask for the body of a request that waits to be asked, if its turn has come."""
        if self.reader.incoming is exchange and not self.exchanges:
            self.send(CONTINUE)

    # --- what is served

    def _serve_waiting(self) -> None:
        """Serve what is whole, one after the other."""
        if self._is_serving:
            return
        self._is_serving = True
        reader = self.reader
        while reader.waiting and self.current is None:
            exchange = self.current = reader.waiting.pop(0)
            self.idle_since = None
            try:
                if exchange.refusal is None:
                    self._site.serve(exchange)
                else:
                    exchange.respond_with(exchange.refusal)
            except Exception as error:  # noqa: BLE001 - the boundary: whatever a request makes us raise is the answer
                contain(error, "http")
                exchange.fail()
        self._is_serving = False
        if bool(reader.waiting) != self._is_paused and not self._is_closed:
            self._is_paused = not self._is_paused
            (self.channel.pause_reading if self._is_paused else self.channel.start_reading)()

    def finished(self, *, closes: bool) -> None:
        """Go on with the next request; or end, with the response that is whole now."""
        exchange, self.current = self.current, None
        if exchange is None:
            return
        if exchange.counted:
            self._shared.bodies.release(exchange)
        self._shared.served += 1
        if closes:
            self._end()
            return
        if self.reader.part != "body":
            self.idle_since = now = self._loop.time()
            if self.reader.part is None:
                self.due = now + KEEP_ALIVE_S
        if self.reader.waiting:
            self._serve_waiting()

    @property
    def exchanges(self) -> list[HttpExchange]:
        """The requests that are whole and have no response yet."""
        waiting = self.reader.waiting
        return waiting if self.current is None else [self.current, *waiting]

    @property
    def ends(self) -> tuple[Address | None, Address | None]:
        """The addresses of the client and of this side."""
        try:
            return self._socket.getpeername()[:2], self._socket.getsockname()[:2]
        except OSError:
            return None, None

    @property
    def is_local(self) -> bool:
        """True if the client is on this machine."""
        if self._is_local is None:
            self._is_local = all(end is not None and is_loopback(end[0]) for end in self.ends)
        return self._is_local

    @property
    def noted(self) -> dict[str, Any]:
        """For what is found out once."""
        if self._noted is None:
            self._noted = {}
        return self._noted

    # --- what is sent

    @property
    def is_last(self) -> bool:
        """True if it ends with its next response."""
        return self._shared.leaving

    def send(self, *pieces: Bytes) -> None:
        """Write to the client."""
        self.channel.write(*pieces)
        if self.channel.congested:
            others = self._shared.connections
            if sum(each.channel.unsent for each in others) > MAX_UNSENT_ALL:
                max(others, key=lambda each: each.channel.unsent).give_up(
                    MAX_UNSENT_ALL, ", with others over HTTP"
                )

    def drop(self) -> None:
        """Note that a message was not sent."""
        self._shared.on_dropped()
        if not self._dropped:
            self._dropped = True
            unsent = self.channel.unsent
            log.warning("client.not_reading", unsent=unsent, dropped="its log and progress messages")

    async def wait_taken(self) -> None:
        """Wait while the client leaves too much unread."""
        while self.channel.congested and not self._is_closed:
            self._taken = self._taken or asyncio.Event()
            self.channel.on_drained = self._drained
            await self._taken.wait()

    def _drained(self) -> None:
        if self._taken is not None:
            self._taken.set()
            self._taken = None

    def _broken(self, error: OSError) -> None:
        if isinstance(error, PeerNotReading):
            self.give_up(MAX_UNSENT_BYTES)
        else:
            self.abort()

    def give_up(self, limit: int, where: str = "") -> None:
        """End it: its buffer, or all of them, hold more than `limit` bytes."""
        log.warning("client.gone", reason=f"it leaves more than {limit >> 20} MB unread{where}")
        self.abort()

    # --- its end

    def time_out(self) -> None:
        """End it, unless it waits for itself: what was due did not come in time."""
        if self.current is not None:
            return
        log.debug("http.overdue", waits_for=self.reader.part or "head")
        self.abort()

    def shutdown(self) -> None:
        """End it, once it has no request."""
        if not self.exchanges and self.reader.incoming is None:
            self._end()

    def give_up_at_end(self) -> None:
        """End it, whatever its client has not taken in time."""
        if self.channel.unsent:
            log.warning("client.gone", reason="MCPX ends, and it leaves its answer unread")
        self.abort()

    def _ended(self) -> None:
        """Let go of a client that has left, or says no more; what it was answered is still sent."""
        current, self.reader.stops_within = self.current, False
        if current is not None and not current.is_listening and not current.head.is_http_1_0:
            self.reader.close()
            current.keep_alive = False
            self._knock(KNOCK_S)
        elif self.exchanges or self.reader.incoming is not None:
            self.abort()
        else:
            self._end()

    def _knock(self, pause_s: float) -> None:
        """Let go of a client that says no more, once it has left; it is owed an answer meanwhile."""
        if self.current is None:
            return
        if pause_s < KNOCKED_S:
            self.current.knock()
            self.channel.flush()
        if self._is_closed or self.channel.hung_up():
            self.abort()
        else:
            self._loop.call_later(pause_s, self._knock, min(2 * pause_s, LOOK_S))

    def _end(self) -> None:
        """Take nothing more, and end when everything is sent."""
        self.idle_since = None
        self._let_go()
        self.due = self._loop.time() + KEEP_ALIVE_S
        self.channel.when_sent(self._all_sent)

    def _all_sent(self) -> None:
        if not self.reader.stops_within:
            self.abort()
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.abort()
        else:  # closed now, it would lose what the client has not read
            self.reader.stops_within = False
            self.due = self._loop.time() + LINGER_S

    def _let_go(self) -> None:
        """Take nothing more, and have nobody wait for what was taken."""
        self.reader.close()
        open_ones, self.current = self.exchanges, None
        self.reader.waiting = []
        for exchange in open_ones:
            self._shared.bodies.release(exchange)
            exchange.leave()

    def abort(self) -> None:
        """End it now."""
        if self._is_closed:
            return
        self._is_closed = True
        self._shared.connections.discard(self)
        channel = self.channel
        channel.close()
        channel.on_data = channel.on_end = channel.on_broken = channel.on_drained = _nothing
        self._socket.close()
        self._let_go()
        self._drained()


def _nothing(*_arguments: object) -> None:
    """Serve as a callback that is called no more."""

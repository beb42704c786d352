"""The calls of one incarnation: requests from the queue to the server, and answers back to their callers.

Attached to the actor's mailbox while its session lives, so that a request goes out in the turn of the event
loop in which it was made. Every request that was accepted is settled exactly once, whatever happens:
answered, refused by the server, timed out, or lost with the connection. A lost request goes back to the head
of the queue if the server provably read nothing of it, or, once, if it was turned away unread or is safe to
repeat; nothing else is ever sent twice. A call whose caller leaves, or whose deadline passes, is cancelled at
the server, and its slot is free.

A lost connection is settled in one place: `close`, after the link has noted the loss and its reason. What
the transport calls back meanwhile, because it has ended too, says nothing of any one call and is ignored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import msgspec

from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.config.profiles import fits
from mcpx.core.protocol.requests import Request
from mcpx.core.servers.call_errors import call_error, error_unsent, server_died
from mcpx.core.servers.call_queue import CallQueue
from mcpx.core.servers.in_flight import InFlight
from mcpx.core.servers.session.senders import Sender
from mcpx.core.servers.transport.exchange import ConnectionDropped, NotExecuted
from mcpx.core.servers.transport.link import ConnectionLost, Link
from mcpx.core.servers.transport.process import EXIT_WAIT_S
from mcpx.core.system.linux import LINUX
from mcpx.core.telemetry.metrics import Counters
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.envelope import MCPError
from mcpx.core.wire.expiry import Expiry
from mcpx.core.wire.outgoing import ConnectionEnded
from mcpx.core.wire.turn import after_turn
from mcpx.errors import CallError, Code
from supervisors import Envelope, Signal

IDLE_AFTER_S: Final = 0.00025  # without an answer: longer than a client pauses that calls as fast as it can
DRAIN_TIMEOUT_S: Final = 5.0  # for a server that takes nothing new; its calls end sooner where it is dead


class Calls:
    """Serves one session, from `open` to `close`; at most `max_concurrency` requests are in flight.

    `on_proof` is called once, when the server has first answered a call of a client; it must not raise.
    """

    _link: Link
    _sender: Sender
    _wire: WireDispatcher

    def __init__(
        self, config: ServerConfig, counters: Counters, queue: CallQueue, on_proof: Callable[[], None]
    ) -> None:
        self._mailbox = queue.ref.mailbox
        self._put_back = queue.put_back
        self._server = config.name
        self._call_error = partial(
            call_error,
            redact=redactor_of(config),
            server=config.name,
            from_mcpx=config.is_remote_mcpx,
            peer=config.peer,
        )
        self._timeout = config.call_limits.call_timeout
        self._patience_s = config.call_limits.queue_timeout / 2  # of those that wait for the next session
        self._max_in_flight = config.call_limits.max_concurrency
        self._in_flight: Expiry[InFlight] = Expiry(self._timeout, self._expire)
        self._timeouts = config.timeouts
        self._own_expiry: dict[float, Expiry[InFlight]] = {}  # of tools with timeouts of their own
        self.taken = 0
        """Requests that were begun so far."""
        self.on_taken: Callable[[], None] | None = None
        """Called with each request that is begun; must not wait or raise."""
        self._is_draining = False  # somebody waits, or has waited, until no call is in flight
        self._is_pausing = False  # then no more are to be taken
        self._counters = counters
        self._on_proof: Callable[[], None] | None = on_proof
        self._open = False
        self._alive_at = 0.0  # when the server last showed that it works on a call
        self._idle = Signal()
        self.on_sent: Callable[[InFlight], None] | None = None
        """Called with each call that was sent; must not wait or raise."""
        self.overdue = Signal()
        """Set when a call has passed its deadline."""
        self.answered_at = time.monotonic()
        """When the server last answered, on the clock of the event loop."""

    @property
    def busy(self) -> bool:
        """True if the server may be working on a call.

        Not counted: a call past its deadline, and one that the server has not begun to read. A server that
        the kernel has stopped works on nothing.
        """
        if not len(self._in_flight.deadlines) or self._link.is_stopped():
            return False
        unread = self._link.first_unread()
        return unread is None or any(
            call.position is None or call.position < unread for call in self._in_flight
        )

    def silent_since(self) -> float | None:
        """When something last came of the calls in flight, by `time.monotonic`; None if there are none."""
        started = min((call.started for call in self._in_flight), default=None)
        return None if started is None else max(started, self.answered_at, self._alive_at)

    def running(self) -> list[InFlight]:
        """The calls in flight, the oldest first."""
        return list(self._in_flight)

    def renew(self, call: InFlight) -> None:
        """Restart the timeout of a call: the server has shown signs of life on it."""
        self._alive_at = time.monotonic()
        self._in_flight.renew(call)
        if call.timeout is not None:
            self._own_expiry[call.timeout].renew(call)

    # --- its life

    def open(self, link: Link, sender: Sender) -> None:
        """Send requests over that link from now on, those that wait first."""
        self._link, self._sender, self._wire = link, sender, link.wire
        self._open = True
        self._counters.silences.add(self.silent_since)
        self._wire.on_drained = self._resume
        self._mailbox.attach(self._take)

    def _resume(self) -> None:
        """Take requests again, after the server was congested or all slots were in use."""
        if self._open and len(self._in_flight.deadlines) < self._max_in_flight:
            self._mailbox.attach(self._take)

    async def drain(self) -> None:
        """Take no more requests, and wait until those in flight are settled."""
        self.detach()
        await self._none_in_flight()

    async def pause(self) -> None:
        """Wait for a moment in which none is in flight, and take no more requests from then on."""
        self._is_pausing = True
        try:
            await self._none_in_flight()
            self.detach()
        finally:
            self._is_pausing = False

    async def drain_until_closed(self) -> None:
        """Once the server takes nothing new, give it time to finish what it has; then end the connection."""
        reason = await self._link.closing.wait()
        with anyio.move_on_after(min(DRAIN_TIMEOUT_S, self._patience_s)):
            await self._none_in_flight()
        self._link.lost.set(reason)

    async def _none_in_flight(self) -> None:
        self._is_draining = True
        while self._in_flight.deadlines:
            self._idle.clear()
            await self._idle.wait()

    def close(self) -> None:
        """Settle what is still in flight: the session is over."""
        self.detach()
        self._counters.silences.discard(self.silent_since)
        unread = self._link.first_unread()
        for each in self._own_expiry.values():
            each.clear()
        for call in reversed(self._in_flight.clear()):  # so that what goes back keeps its order
            self._counters.in_flight -= 1
            self._lose(call, unread)

    def detach(self) -> None:
        """Take no more requests; those in flight go on."""
        self._open = False
        self._mailbox.detach()

    def attach(self) -> None:
        """Take requests again."""
        self._open = True
        self._resume()

    # --- one call

    def _take(self, envelope: Envelope[Request]) -> None:
        reply, request = envelope.reply, envelope.message
        if reply is None or reply.settled:
            return
        alone = not self._in_flight.deadlines
        if not self._takes_calls(alone=alone):
            self._mailbox.detach()
            self._mailbox.put_back(envelope)
            return
        context, position = request.context, self._wire.channel.position
        call = InFlight(request, reply, position, time.monotonic(), context.caller, context.on_progress)
        if context.trace is not None:
            call.endings.append(context.trace.released)
        self._counters.sent()
        self.taken += 1
        if self.on_taken is not None:
            self.on_taken()
        self._in_flight.add(call)
        if self._timeouts:
            self._limit(call)
        reply.on_abandon = partial(self._abandon, call)
        try:
            call.sent = self._sender.send(
                request, partial(self._answered, call), partial(self._progressed, call)
            )
        except Exception as error:  # noqa: BLE001 - one request that cannot be written must not cost the others
            self._release(call)
            self._reject(call, error_unsent(error, server=self._server, tool=call.tool))
            return
        if self.on_sent is not None:
            self.on_sent(call)
        if len(self._in_flight.deadlines) >= self._max_in_flight:
            self._mailbox.detach()
        if alone and self._link.pid is not None:  # when it has been written
            after_turn(partial(call.check_seen, self._link))

    def _limit(self, call: InFlight) -> None:
        """Give a call the timeout that its tool has of its own, if any."""
        tool = call.tool
        names = {} if tool is None else {tool, getattr(call.request, "name", tool)}
        found = (each for name, each in self._timeouts.items() if any(fits(one, name) for one in names))
        if (seconds := next(found, None)) is None:
            return
        expiry = self._own_expiry.get(seconds)
        if expiry is None:
            expiry = self._own_expiry[seconds] = Expiry(seconds, self._expire_own)
        call.timeout = seconds
        expiry.add(call)

    def _takes_calls(self, *, alone: bool) -> bool:
        """True if the server can take a call: it reads what it is sent, and is neither dead nor dying.

        In a busy moment the kernel is not asked, if it can say afterwards what the server has read: a call to
        a dead server is unread, and goes to the next incarnation.
        """
        link = self._link
        if self._wire.channel.congested:
            return False  # `_resume` is called when it has read
        is_idle = alone and time.monotonic() - self.answered_at > IDLE_AFTER_S
        if is_idle or not LINUX or not link.by_pipe:
            return link.is_alive() and not link.is_doomed()
        return not link.lost.happened

    def _answered(self, call: InFlight, result: msgspec.Raw | None, error: Exception | None) -> None:
        if error is not None and self._is_of_the_loss(call, error):
            return
        now = time.monotonic()  # asyncio's clock
        if error is None or not isinstance(error, (ConnectionDropped, NotExecuted)):
            self.answered_at = now
        if self._on_proof is not None and not call.request.context.own:
            self._take_as_proof(error)
        if not self._release(call) or (error is not None and self._goes_again(call, error)):
            return
        if error is not None:
            self._reject(call, self._call_error(error, tool=call.tool))
        elif result is not None:
            self._counters.answered(now - call.started)
            call.reply.resolve(result)

    def _is_of_the_loss(self, call: InFlight, error: Exception) -> bool:
        """True if an error says only that the connection has ended: `close` settles the call.

        Where MCPX has started the program behind the connection, that may be ending, and is waited for.
        """
        lost = self._link.lost.happened and not isinstance(error, NotExecuted)
        if lost or isinstance(error, ConnectionEnded):
            return True
        if not self._link.by_program or not isinstance(error, ConnectionDropped):
            return False
        if call.was_dropped and not self._link.is_exiting():
            return False
        call.was_dropped = True
        asyncio.get_running_loop().call_later(EXIT_WAIT_S, self._answered, call, None, error)
        return True

    def _take_as_proof(self, error: Exception | None) -> None:
        """Report the server's first own answer to a client's call: it does its work."""
        if self._on_proof is not None and (error is None or isinstance(error, MCPError)):
            on_proof, self._on_proof = self._on_proof, None
            on_proof()

    def _progressed(self, call: InFlight, step: bytes) -> None:
        """Restart the call's timeout, and pass the progress on to its caller."""
        self.renew(call)
        if call.on_progress is not None and not call.reply.settled:
            call.on_progress(step)

    # --- its end

    def _release(self, call: InFlight, *, expired: bool = False) -> bool:
        """Free the call's slot, which an `expired` one has left; return False if it was free already."""
        running = self._in_flight.deadlines
        if running.pop(call, None) is None and not expired:
            return False
        if call.timeout is not None:
            self._own_expiry[call.timeout].discard(call)
        if call.endings:
            call.end()
        self._counters.in_flight -= 1
        if self._is_draining and not running:
            self._idle.set()
            if self._is_pausing:
                self.detach()
        if len(running) == self._max_in_flight - 1:
            self._resume()
        return True

    def _abandon(self, call: InFlight) -> bool:
        if self._release(call) and call.sent is not None:
            self._counters.failed(str(Code.CANCELLED))
            call.sent.cancel("the caller cancelled")
        return True

    def _expire_own(self, call: InFlight) -> None:
        seconds, call.timeout = call.timeout or self._timeout, None
        if self._in_flight.discard(call):
            self._expire(call, seconds)

    def _expire(self, call: InFlight, seconds: float | None = None) -> None:
        if call.timeout is not None:  # the one of its own counts
            self._in_flight.add(call)
            return
        seconds = seconds or self._timeout
        self._release(call, expired=True)
        self.overdue.set()
        code, text = Code.TIMEOUT, "did not answer within {:g} s; the call may have taken effect"
        if call.sent is not None:
            if call.sent.recall():  # it waited for a connection, or for a token
                code, text = Code.SERVER_UNAVAILABLE, "did not take the call within {:g} s; it was not run"
            call.sent.cancel(f"no answer within {seconds:g} s")
        text = f"{self._server} {text.format(seconds)}"
        self._reject(call, CallError(code, text, server=self._server, tool=call.tool))

    def _goes_again(self, call: InFlight, error: Exception) -> bool:
        """Queue again a request that was lost by itself, where that is safe; the session may live on."""
        again = call.again_after(error) if self._open and not call.reply.settled else None
        if again is None:
            return False
        not_sent = isinstance(error, NotExecuted)
        self._put_back(again, call.reply, None if not_sent else self._call_error(error, tool=call.tool))
        self._resume()
        return True

    def _lose(self, call: InFlight, unread: int | None) -> None:
        """Queue again a request that was in flight when the session ended, if that is safe; else fail it."""
        if call.endings:
            call.end()
        lost = self._link.lost.happened
        loss = self._link.failure() if lost else ConnectionLost("MCPX closed the session")
        error = server_died(str(loss), loss.stderr, server=self._server, tool=call.tool)
        again = call.again_after_loss(unread) if lost and not call.reply.settled else None
        if again is None:
            self._reject(call, error)
        else:
            self._put_back(again, call.reply, None if again is call.request else error)

    def _reject(self, call: InFlight, error: CallError) -> None:
        if call.reply.reject(error):
            self._counters.failed(str(error.code))

"""The calls of one incarnation: requests out of the queue, to the server, and their answers to the askers.

Attached to the actor's mailbox while its session lives, so that a request goes out in the turn in which it
was asked. Every request that was accepted is settled, exactly once, whatever happens: answered, refused by
the server, timed out, or lost with the connection. A lost request goes back to the head of the queue if the
server provably read nothing of it, or, once, if it was turned away unread or is safe to repeat; nothing else
is ever sent twice. A caller that goes away, and a call past its deadline, are cancelled at the server, and
their slot is free.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import anyio
import msgspec
from mcp import MCPError
from msgspec.structs import replace

from mcpx.config import ServerConfig, redactor_of
from mcpx.errors import CallError, Code, Outcome, internal_error
from mcpx.observe.contained import contain
from mcpx.observe.metrics import Counters
from mcpx.upstream.errors import ConnectionLost, call_error, died
from mcpx.upstream.expiry import Expiry
from mcpx.upstream.in_flight import InFlight
from mcpx.upstream.queue import RawReply
from mcpx.upstream.relay.suspended import Running
from mcpx.upstream.requests import Request, tool_of
from mcpx.upstream.session.senders import Sender
from mcpx.upstream.session.upstream_session import UpstreamSession
from mcpx.upstream.signal import Flag
from mcpx.upstream.transport.exchange import Dropped, NotCarriedOut
from mcpx.wire.channel import CAN_COUNT_UNREAD
from mcpx.wire.outgoing import ConnectionEnded
from supervisors import ActorRef, Envelope

RESTED_S: Final = 0.001  # without an answer: longer than a client takes that calls without a pause
SEE_OUT_S: Final = 5.0  # for a server that takes nothing new; its calls end sooner where it is dead
PutBack = Callable[[Request, RawReply, CallError | None], None]
"""Queue a request again whose connection was lost.

The error is for the case that nobody takes it in time; without one it counts as never sent.
"""


class Calls:
    """Serves one session; at most `max_concurrency` requests are in flight.

    `on_proof` is called once, when the server has first answered somebody's call.
    """

    def __init__(
        self,
        session: UpstreamSession,
        sender: Sender,
        *,
        ref: ActorRef[Request],
        config: ServerConfig,
        counters: Counters,
        put_back: PutBack,
        on_proof: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = session.link
        self._lost_as = session.lost
        self._sender = sender
        self._mailbox = ref.mailbox
        self._server = config.name
        self._redact = redactor_of(config)
        self._timeout = config.limits.call_timeout
        self._most = config.limits.max_concurrency
        self._in_flight: Expiry[InFlight] = Expiry(self._timeout, self._expire)
        self._counters = counters
        self._put_back = put_back
        self._on_proof: Callable[[], None] | None = on_proof
        self._open = False
        self._idle = anyio.Event()
        self.overdue = Flag()
        """Set when a call has passed its deadline."""
        self.answered_at = time.monotonic()
        """When the server last answered, by the loop's clock."""

    @property
    def busy(self) -> bool:
        """Whether the server may be at work on a call; one past its deadline does not count.

        Nor does one that the server has not begun to read, and nothing does while the kernel has stopped it.
        """
        if not len(self._in_flight) or self._link.stopped():
            return False
        unread = self._link.first_unread()
        return unread is None or any(
            call.position is None or call.position < unread for call in self._in_flight
        )

    def running(self) -> list[Running]:
        """What the server works on now, the oldest first."""
        return list(self._in_flight)

    def renew(self, call: Running) -> None:
        """The server has shown signs of life on that call: its timeout starts anew."""
        self._in_flight.renew(call)  # type: ignore[arg-type]  # it came out of `running`

    # --- its life

    def open(self) -> None:
        """Take requests from now on, those that wait first."""
        self._open = True
        self._sender.on_drained(self._take_on)
        self._mailbox.attach(self._take)

    def _take_on(self) -> None:
        """The server reads again: what has waited for that can go."""
        if self._open and len(self._in_flight) < self._most:
            self._mailbox.attach(self._take)

    async def drain(self) -> None:
        """Take no more, and wait until what is running is done."""
        self._shut()
        await self._none_running()

    async def see_out(self) -> None:
        """Once the server takes nothing new, let it finish what it has, for a time, and end the session."""
        await self._link.closing.wait()
        with anyio.move_on_after(SEE_OUT_S):
            await self._none_running()
        self._link.lose(self._link.reason)

    async def _none_running(self) -> None:
        while len(self._in_flight):
            if self._idle.is_set():
                self._idle = anyio.Event()
            await self._idle.wait()

    def close(self) -> None:
        """The session is over: settle what is still running."""
        self._shut()
        unread = self._link.first_unread()
        for call in reversed(self._in_flight.clear()):  # so that what goes back keeps its order
            self._counters.in_flight -= 1
            self._lose(call, unread)

    def _shut(self) -> None:
        self._open = False
        self._mailbox.detach()

    # --- one call

    def _take(self, envelope: Envelope[Request]) -> None:
        reply = envelope.reply
        if reply is None or reply.settled:
            return
        alone = not len(self._in_flight)
        if not self._takes_calls(alone=alone):
            self._mailbox.detach()
            self._mailbox.put_back(envelope)
            return
        call = InFlight(envelope.message, reply, self._sender.position())
        self._counters.calls += 1
        self._counters.in_flight += 1
        self._in_flight.add(call)
        reply.on_abandon = lambda: self._abandon(call)
        try:
            call.sent = self._sender.send(
                call.request,
                lambda result, error: self._answered(call, result, error),
                lambda progress, total, message: self._progressed(call, progress, total, message),
            )
        except Exception as error:  # noqa: BLE001 - one request that cannot be written must not cost the others
            self._not_sent(call, error)
            return
        if len(self._in_flight) >= self._most:
            self._mailbox.detach()
        if alone and call.position is not None:
            self._loop.call_soon(self._look_after, call)  # when it has been written

    def _not_sent(self, call: InFlight, error: Exception) -> None:
        """The request could not be put into a message."""
        contain(error, "send", server=self._server)
        self._release(call)
        tool = tool_of(call.request)
        self._reject(
            call.reply, internal_error(error, server=self._server, tool=tool, outcome=Outcome.NOT_SENT)
        )

    def _takes_calls(self, *, alone: bool) -> bool:
        """Whether the server is not dead or dying, though we may not have been told yet.

        In a busy moment that is not asked of the kernel where it tells afterwards what the server has read:
        a call to a dead one is unread, and goes to the next.
        """
        link = self._link
        if self._sender.congested():
            return False  # `_take_on` comes when it has read
        if not CAN_COUNT_UNREAD or link.pid is None or (alone and self._is_rested()):
            return link.alive() and not link.doomed()
        return not link.lost.is_set()

    def _is_rested(self) -> bool:
        """Whether nothing came for a while: then there is time for a closer look before a call is sent."""
        return time.monotonic() - self.answered_at > RESTED_S

    def _look_after(self, call: InFlight) -> None:
        """See whether the server was killed before the call reached it.

        A process for which a fatal signal waits runs no more code of its own, though a read that it is
        blocked in may still take what is written: what is unread then, it never sees.
        """
        if call.position is not None and self._link.doomed():
            unread = self._link.first_unread()
            call.never_seen = unread is not None and call.position >= unread

    def _answered(self, call: InFlight, result: msgspec.Raw | None, error: Exception | None) -> None:
        lost = isinstance(error, ConnectionEnded) or (error is not None and self._link.lost.is_set())
        if lost and not isinstance(error, NotCarriedOut):
            return  # `close` settles it, and knows why
        if not isinstance(error, Dropped | NotCarriedOut):
            self.answered_at = time.monotonic()  # asyncio's clock
        if self._on_proof is not None:
            self._take_as_proof(call, error)
        if not self._release(call) or (error is not None and self._goes_again(call, error)):
            return
        if error is not None:
            self._reject(
                call.reply,
                call_error(error, server=self._server, tool=tool_of(call.request), redact=self._redact),
            )
        elif result is not None:
            self._counters.answered(time.monotonic() - call.started)
            call.reply.resolve(result)

    def _take_as_proof(self, call: InFlight, error: Exception | None) -> None:
        """The first answer of the server's own to somebody's call: it does its work."""
        if self._on_proof is None or call.request.origin.own:
            return
        if error is None or isinstance(error, MCPError):
            told, self._on_proof = self._on_proof, None
            told()

    def _goes_again(self, call: InFlight, error: Exception) -> bool:
        """Queue a request again that was lost alone, where that is safe; the session may live on."""
        request = call.request
        if call.reply.settled or not self._open:
            return False
        if isinstance(error, NotCarriedOut) and not request.turned_away:
            self._put_back(replace(request, turned_away=True), call.reply, None)
        elif isinstance(error, Dropped) and request.safe:
            told = call_error(error, server=self._server, tool=tool_of(request), redact=self._redact)
            self._put_back(replace(request, safe=False), call.reply, told)
        else:
            return False
        self._take_on()
        return True

    def _release(self, call: InFlight) -> bool:
        """Free the call's slot; false if that was done before."""
        if not self._in_flight.discard(call):
            return False
        if call.endings:
            call.end()
        self._freed()
        return True

    def _freed(self) -> None:
        self._counters.in_flight -= 1
        if not len(self._in_flight):
            self._idle.set()
        if len(self._in_flight) == self._most - 1:
            self._take_on()

    def _progressed(self, call: InFlight, progress: float, total: float | None, message: str | None) -> None:
        """Progress starts the call's timeout anew, and goes to whoever asked."""
        self._in_flight.renew(call)
        if call.on_progress is not None and not call.reply.settled:
            call.on_progress(progress, total, message)

    def _abandon(self, call: InFlight) -> None:
        if self._release(call) and call.sent is not None:
            self._counters.errors[str(Code.CANCELLED)] += 1
            call.sent.cancel("the caller cancelled")

    def _expire(self, call: InFlight) -> None:
        if call.endings:
            call.end()
        self._freed()
        self.overdue.set()
        if call.sent is not None:
            call.sent.cancel(f"no answer within {self._timeout:g} s")
        text = f"{self._server} did not answer within {self._timeout:g} s; the call may have taken effect"
        tool = tool_of(call.request)
        self._reject(call.reply, CallError(Code.TIMEOUT, text, server=self._server, tool=tool))

    def _lose(self, call: InFlight, unread: int | None) -> None:
        """The session ended with the request in flight: queue it again if that is safe, else say so."""
        if call.endings:
            call.end()
        lost = self._link.lost.is_set()
        reason = self._lost_as() if lost else ConnectionLost("MCPX closed the session")
        error = died(str(reason), reason.stderr, server=self._server, tool=tool_of(call.request))
        if call.reply.settled or not lost:
            self._reject(call.reply, error)
        elif call.is_unread(unread):
            self._put_back(call.request, call.reply, None)
        elif call.request.safe:
            self._put_back(replace(call.request, safe=False), call.reply, error)
        else:
            self._reject(call.reply, error)

    def _reject(self, reply: RawReply, error: CallError) -> None:
        if reply.reject(error):
            self._counters.errors[str(error.code)] += 1

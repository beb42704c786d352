"""The queue of one upstream server: requests on their way to it, and why those are refused that cannot go.

Belongs to the actor and outlives its incarnations. While a session serves the mailbox, a request passes
straight through; otherwise it waits for the server up to `queue_timeout`, and its coming makes the
supervisor try at once. Whatever does not get through is settled with `server_unavailable` or `overloaded`:
it was not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio
import msgspec

from mcpx.catalog.model import ServerInfo
from mcpx.config import ServerConfig
from mcpx.errors import CallError, Code
from mcpx.observe.metrics import Counters
from mcpx.upstream.expiry import Expiry
from mcpx.upstream.requests import Request, size_of, tool_of
from supervisors import ActorRef, ChildState, Envelope, MailboxClosed, MailboxFull, Phase, Reply, Supervisor

RawReply = Reply[msgspec.Raw]
LARGE: Final = 65536  # bytes of a request; smaller ones are bounded well enough by their number
MOST_BYTES: Final = 64 << 20  # of the requests that wait for one server
_OVER = frozenset({Phase.STOPPING, Phase.DONE})
_HELD_BACK = frozenset({Phase.WAITING, Phase.PARKED})


class CallQueue:
    """Requests for one server, the supervisor's `child`. `info` gives its state for error texts."""

    def __init__(
        self,
        config: ServerConfig,
        supervisor: Supervisor,
        counters: Counters,
        info: Callable[[], ServerInfo],
        *,
        child: str,
    ) -> None:
        self.ref: ActorRef[Request] = ActorRef(config.name, config.limits.queue_size)
        self._config = config
        self._child = child
        self._supervisor = supervisor
        self._counters = counters
        self._info = info
        self._expiry: Expiry[_Waiting] = Expiry(config.limits.queue_timeout, self._expire)
        self.closed = False
        """Whether it takes requests no more: MCPX is stopping, or this server is not wanted any more."""
        self.held: str | None = None
        """Why the server is not under supervision yet, where it will be soon: requests wait for that."""
        self._awaiting = 0  # callers that wait for something else than a request: the first listing
        self._news = anyio.Event()

    def lifecycle(self) -> ChildState:
        """The supervisor's view of the server. Raises NoSuchChild for a disabled one."""
        return ChildState(child=self._child) if self.held else self._supervisor.state(self._child)

    def lifecycle_or_none(self) -> ChildState | None:
        """The same; None for a server that is disabled, or not wanted any more."""
        return None if self._config.disabled is not None or self.closed else self.lifecycle()

    @property
    def waiting(self) -> int:
        """How many requests wait for the server."""
        return len(self.ref.mailbox)

    # --- in

    def submit(self, request: Request, reply: RawReply) -> None:
        """Send a request, or queue it until the server is there.

        Raises:
            CallError: `server_unavailable` or `overloaded`; nothing was sent.
        """
        if self.lifecycle_phase() is not Phase.UP and not self._is_wanted():
            raise self.unavailable(request)
        try:
            envelope = self.ref.request(request, reply)
        except MailboxFull:
            raise self._overloaded(request, f"{self._config.limits.queue_size} calls are waiting") from None
        except MailboxClosed:
            raise self.unavailable(request) from None
        if len(self.ref.mailbox):  # it stands at the end of a queue: it was not taken
            if size_of(request) > LARGE and self._waiting_bytes() > MOST_BYTES:
                self.ref.mailbox.discard(envelope)
                raise self._overloaded(request, f"calls of {MOST_BYTES >> 20} MB are waiting")
            self._expiry.add(_Waiting(envelope, None))

    def _waiting_bytes(self) -> int:
        return sum(size_of(envelope.message) for envelope in self.ref.mailbox)

    def put_back(self, request: Request, reply: RawReply, error: CallError | None) -> None:
        """Queue a request at the head that was lost; it fails with `error` if it must wait too long."""
        self._expiry.add(_Waiting(self.ref.put_back(request, reply), error))

    def lifecycle_phase(self) -> Phase:
        """Where the server stands; a disabled one is done, one that is being restarted is starting."""
        if self._config.disabled is not None or self.closed:
            return Phase.DONE
        life = self.lifecycle()
        is_coming_back = life.phase is Phase.STOPPING and life.again_at is not None
        return Phase.STARTING if is_coming_back else life.phase

    def _is_wanted(self) -> bool:
        """Whether a call may wait: the server is coming, or will be tried at once for its sake."""
        phase = self.lifecycle_phase()
        if phase in _OVER:
            return False
        return phase not in _HELD_BACK or self._supervisor.demand(self._child)

    @property
    def has_callers(self) -> bool:
        """Whether somebody waits for this server to be ready."""
        return bool(len(self.ref.mailbox) or self._awaiting)

    async def wait_for(self, known: Callable[[], bool]) -> None:
        """Wait until `known`, while the server is on its way: up to `queue_timeout`, as a call would."""
        if known() or not self._is_wanted():
            return
        self._awaiting += 1
        try:
            with anyio.move_on_after(self._config.limits.queue_timeout):
                while not known() and self.lifecycle_phase() not in _OVER | {Phase.PARKED}:
                    await self._news.wait()
        finally:
            self._awaiting -= 1

    def tell_waiters(self) -> None:
        """Something changed that callers in `wait_for` may want to know."""
        news, self._news = self._news, anyio.Event()
        news.set()

    # --- out, unserved

    def refuse_waiting(self) -> None:
        """Fail everything in the queue: the server is given up for now."""
        for envelope in self.ref.mailbox.drain():
            self._refuse(envelope)
        self.tell_waiters()

    def close(self) -> None:
        """Take no more requests; fail those in the queue."""
        self.closed = True
        for envelope in self.ref.mailbox.close():
            self._refuse(envelope)
        self.tell_waiters()

    def _refuse(self, envelope: Envelope[Request]) -> None:
        if envelope.reply is not None:
            envelope.reply.reject(self.unavailable(envelope.message))

    def _expire(self, waiting: _Waiting) -> None:
        envelope = waiting.envelope
        if envelope.reply is None or not self.ref.mailbox.discard(envelope):
            return  # it has been taken meanwhile
        envelope.reply.reject(waiting.error or self._expired(envelope.message))

    # --- why

    def unavailable(self, request: Request) -> CallError:
        """Why the server cannot take this request now, and when it will be tried again."""
        info = self._info()
        return self._failed(Code.SERVER_UNAVAILABLE, info.refuse("is not available"), request, info.why())

    def _expired(self, request: Request) -> CallError:
        if self.lifecycle_phase() is Phase.UP:
            return self._overloaded(request, f"{self._counters.in_flight} calls are running")
        return self.unavailable(request)

    def _overloaded(self, request: Request, why: str) -> CallError:
        text = f"{self._config.name} is overloaded ({why}); nothing was sent, try again later"
        return self._failed(Code.OVERLOADED, text, request, {})

    def _failed(self, code: Code, text: str, request: Request, details: dict[str, Any]) -> CallError:
        self._counters.errors[str(code)] += 1
        return CallError(code, text, server=self._config.name, tool=tool_of(request), details=details)


class _Waiting:
    """A request in the queue; `error` is what it fails with, where that is known beforehand."""

    __slots__ = ("envelope", "error")

    def __init__(self, envelope: Envelope[Request], error: CallError | None) -> None:
        self.envelope = envelope
        self.error = error

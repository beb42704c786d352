"""The queue of one upstream server: where requests wait for it, and the errors of those it cannot take.

Belongs to the actor and outlives its incarnations. While a session serves the mailbox, a request passes
straight through; otherwise it waits for the server up to `queue_timeout`, and makes the supervisor try to
start it at once. Where it wakes a server that was asleep, that time counts only from the end of the start,
which has its own bounds. A request that does not get through fails with `server_unavailable` or `overloaded`:
it was not sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

import anyio
import msgspec

from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import ServerConfig
from mcpx.core.protocol.requests import Request, size_of, tool_of
from mcpx.core.servers.call_errors import unavailable
from mcpx.core.telemetry.metrics import Counters
from mcpx.core.wire.expiry import Expiry
from mcpx.errors import CallError, Code
from supervisors import (
    ActorRef,
    ChildState,
    Envelope,
    MailboxClosed,
    MailboxFull,
    Phase,
    Reply,
    Signal,
    Supervisor,
)

RawReply = Reply[msgspec.Raw]
LARGE_REQUEST_BYTES: Final = 65536  # smaller requests are bounded well enough by their number
MAX_WAITING_BYTES: Final = 64 << 20  # of all requests that wait for one server
_OVER: Final = frozenset({Phase.STOPPING, Phase.DONE})
_DELAYED: Final = frozenset({Phase.IDLE, Phase.WAITING, Phase.PARKED})


class CallQueue:
    """The requests for one server, the supervisor's `child`. `info` gives its state for error messages.

    `refusal` says why a request that has waited may not be sent any more, if so.
    """

    def __init__(
        self,
        config: ServerConfig,
        supervisor: Supervisor,
        counters: Counters,
        info: Callable[[], ServerInfo],
        *,
        child: str,
        refusal: Callable[[Request], CallError | None] = lambda _request: None,
    ) -> None:
        self.ref: ActorRef[Request] = ActorRef(config.name, config.call_limits.queue_size)
        self._config = config
        self._child = child
        self._supervisor = supervisor
        self._counters = counters
        self._info = info
        self._refusal = refusal
        self._expiry: Expiry[_Waiting] = Expiry(config.call_limits.queue_timeout, self._expire)
        self.closed = False
        """True if it refuses all requests: MCPX is stopping, or the server was removed."""
        self.pending_reason: str | None = None
        """Reason why the server is not supervised yet, though it soon will be; requests wait until then."""
        self.is_waking = False
        """True if it is being started from its sleep, and has neither succeeded nor failed yet."""
        self.wanted_at = -math.inf
        """When somebody last waited for the server, or was likely to call it soon; never since it rested."""
        self._awaiting = 0  # callers of `wait_for`
        self._changed = Signal()

    def lifecycle(self) -> ChildState:
        """The state of the server at the supervisor.

        Raises:
            NoSuchChild: The server is disabled, or was removed.
        """
        return ChildState(child=self._child) if self.pending_reason else self._supervisor.state(self._child)

    def lifecycle_or_none(self) -> ChildState | None:
        """The state of the server at the supervisor; None if it is disabled or was removed."""
        return None if self._config.disabled is not None or self.closed else self.lifecycle()

    @property
    def waiting(self) -> int:
        """Number of requests that wait for the server."""
        return len(self.ref.mailbox)

    @property
    def in_flight(self) -> int:
        """Number of calls that run at the server, in all its sessions."""
        return self._counters.in_flight

    # --- in

    def submit(self, request: Request, reply: RawReply) -> None:
        """Send a request, or queue it until the server is there.

        Raises:
            CallError: `server_unavailable` or `overloaded`; nothing was sent.
        """
        if self.lifecycle_phase() is not Phase.UP and not self.wake():
            raise self.unavailable(request)
        try:
            envelope = self.ref.request(request, reply)
        except MailboxFull:
            raise self._overloaded(
                request, f"{self._config.call_limits.queue_size} calls are waiting"
            ) from None
        except MailboxClosed:
            raise self.unavailable(request) from None
        if self.ref.mailbox.messages:  # it was not taken
            if size_of(request) > LARGE_REQUEST_BYTES and self._waiting_bytes() > MAX_WAITING_BYTES:
                self.ref.mailbox.discard(envelope)
                raise self._overloaded(request, f"calls of {MAX_WAITING_BYTES >> 20} MB are waiting")
            self._expect(envelope, None)
            if self.lifecycle_phase() is Phase.STARTING:
                self._supervisor.reprioritize()

    def _waiting_bytes(self) -> int:
        return sum(size_of(envelope.message) for envelope in self.ref.mailbox)

    def put_back(self, request: Request, reply: RawReply, error: CallError | None) -> None:
        """Queue again, at the head, a request whose connection was lost.

        `error` is what it fails with if no session takes it in time; without one it counts as never sent.
        One that may not be sent any more fails at once.
        """
        if (refused := self._refusal(request)) is not None:
            self._reject(reply, error or refused)
            return
        self._expect(self.ref.put_back(request, reply), error)

    def _expect(self, envelope: Envelope[Request], error: CallError | None) -> None:
        """Let a request wait no longer than `queue_timeout`, and keep nothing of it once it is answered."""
        waiting = _Waiting(envelope, error)
        self._expiry.add(waiting)
        if envelope.reply is not None:
            envelope.reply.observe(lambda _reply: self._answered(waiting))

    def _answered(self, waiting: _Waiting) -> None:
        """Forget a request that waited: its reply has the whole result."""
        self._expiry.discard(waiting)

    def lifecycle_phase(self) -> Phase:
        """The phase that the server has, or will have without anybody's doing; a disabled one is done."""
        if self._config.disabled is not None or self.closed:
            return Phase.DONE
        child = None if self.pending_reason else self._supervisor.children.get(self._child)
        life = self.lifecycle() if child is None else child.state
        phase = life.phase
        if phase is Phase.IDLE or phase is Phase.STOPPING:
            if life.resting:
                return Phase.IDLE
            if phase is Phase.IDLE or life.again_at is not None:
                return Phase.STARTING
        return phase

    @property
    def is_asleep(self) -> bool:
        """True if the server was stopped, or not started, because nobody needs it."""
        return self.lifecycle_phase() is Phase.IDLE

    def wake(self, *, for_use: bool = True) -> bool:
        """Have the server tried at once, if it is asleep or waits; whether a call may wait for it then.

        `for_use` says that the server is to be used then, and not only listed.
        """
        if for_use:
            self.wanted_at = time.monotonic()
        phase = self.lifecycle_phase()
        if phase in _OVER or self.is_held:
            return False
        if phase not in _DELAYED:
            return True
        self.is_waking |= phase is Phase.IDLE
        return self._supervisor.demand(self._child)

    @property
    def is_held(self) -> bool:
        """True if the server waits for a person to sign in, so that no call can start it."""
        life = self.lifecycle_or_none()
        return life is not None and life.held

    def rest(self) -> None:
        """Stop the server until it is woken."""
        self.wanted_at = -math.inf
        self._supervisor.rest(self._child)

    def recycle(self) -> None:
        """End the server's incarnation in order and begin the next, which counts as no failure."""
        self._supervisor.recycle(self._child)

    def start_ended(self) -> None:
        """Take in that a start has succeeded or failed: those who wait have the usual time from now on."""
        if self.is_waking:
            self.is_waking = False
            for waiting in list(self._expiry):
                self._expiry.renew(waiting)
        self.wake_waiters()

    def start_takes_long(self) -> None:
        """Take in that a start goes on beyond its usual time: nobody waits for that longer than usual."""
        self.is_waking = False
        self.wake_waiters()

    @property
    def has_callers(self) -> bool:
        """True if any caller waits for this server to be ready."""
        return bool(len(self.ref.mailbox) or self._awaiting)

    async def wait_for(self, known: Callable[[], bool], *, for_use: bool = True) -> None:
        """Wait until `known()`, as a call would: up to `queue_timeout`, while the server may come.

        `for_use` is as for `wake`.
        """
        if known() or not self.wake(for_use=for_use):
            return
        self._awaiting += 1
        self._supervisor.reprioritize()
        try:
            with anyio.CancelScope() as scope:
                while not (known() or self.is_held or self.lifecycle_phase() in _OVER | {Phase.PARKED}):
                    if scope.deadline == math.inf and not self.is_waking:
                        scope.deadline = anyio.current_time() + self._config.call_limits.queue_timeout
                    await self._changed.wait()
        finally:
            self._awaiting -= 1

    async def wait_awake(self) -> None:
        """Wake the server, if it is asleep, and wait until that has succeeded or failed."""
        await self.wait_for(lambda: not (self.is_asleep or self.is_waking))

    def wake_waiters(self) -> None:
        """Have callers in `wait_for` check again; to be called after each change of state."""
        self._changed.pulse()

    # --- out, unsent

    def take_waiting(self) -> list[tuple[Request, RawReply]]:
        """Take out all requests that wait, the oldest first, for another session to serve."""
        envelopes = self.ref.mailbox.drain()
        return [(each.message, each.reply) for each in envelopes if each.reply is not None]

    def refuse_waiting(self) -> None:
        """Fail all waiting requests: the server is parked, or a person has to sign in."""
        for envelope in self.ref.mailbox.drain():
            self._refuse(envelope)
        self.wake_waiters()

    def recheck(self) -> None:
        """Fail the waiting requests that may not be sent any more."""
        for envelope in list(self.ref.mailbox):
            refused = self._refusal(envelope.message)
            if refused is not None and envelope.reply is not None and self.ref.mailbox.discard(envelope):
                self._reject(envelope.reply, refused)

    def _reject(self, reply: RawReply, error: CallError) -> None:
        self._counters.failed(str(error.code))
        reply.reject(error)

    def close(self) -> None:
        """Refuse all requests from now on, and fail the waiting ones."""
        self.closed = True
        for envelope in self.ref.mailbox.close():
            self._refuse(envelope)
        self.wake_waiters()

    def _refuse(self, envelope: Envelope[Request]) -> None:
        if envelope.reply is not None:
            envelope.reply.reject(self.unavailable(envelope.message))

    def _expire(self, waiting: _Waiting) -> None:
        envelope = waiting.envelope
        if self.is_waking:
            self._expiry.add(waiting)
            return
        if envelope.reply is None or not self.ref.mailbox.discard(envelope):
            return  # it was taken
        envelope.reply.reject(waiting.error or self._expired(envelope.message))

    # --- errors

    def unavailable(self, request: Request) -> CallError:
        """The error that says why the server cannot take this request, and when it will be tried again."""
        return self._counted(unavailable(self._info(), "is not available", tool_of(request)))

    def _expired(self, request: Request) -> CallError:
        if self.lifecycle_phase() is Phase.UP:
            return self._overloaded(request, f"{self._counters.in_flight} calls are running")
        return self.unavailable(request)

    def _overloaded(self, request: Request, why: str) -> CallError:
        text = f"{self._config.name} is overloaded ({why}); nothing was sent, try again later"
        error = CallError(Code.OVERLOADED, text, server=self._config.name, tool=tool_of(request))
        return self._counted(error)

    def _counted(self, error: CallError) -> CallError:
        self._counters.failed(str(error.code))
        return error


class _Waiting(msgspec.Struct, eq=False):
    """A waiting request; `error` is what it fails with at its timeout, where that is known beforehand."""

    envelope: Envelope[Request]
    error: CallError | None

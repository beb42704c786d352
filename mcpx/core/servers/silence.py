"""Noticing that nothing comes any more from a server over HTTP while calls are in flight.

A process that dies closes its pipes. A server over HTTP may be gone without a word: a laptop has changed
networks, a VPN has fallen, what is in between forwards no more. `Silence` looks after one incarnation. When
nothing has come of its calls for `after_s`, no answer and no progress, it probes the server on a connection
of its own, and on another one tries if a connection can be made at all:

* An answer, of whatever kind, shows that the server is busy. It is probed again after as long a silence.
* If no connection can be made within the time of a probe, or it is dropped, the server is gone. That ends the
  incarnation: what was in flight is `server_died`, with an unknown outcome, and the next one connects anew.
* If the connection is taken and nothing is said, the server may hang, or be one that does one thing at a time
  and is busy: the kernel takes connections for either. It is gone only if it should have answered, by its
  `Manners`: many servers cannot answer while a tool runs, and those are left alone until the deadline.

What it does not see, TCP keep-alive does (`mcpx.core.system.peers`): a call whose own connection is dead
while new ones can be made.

`Manners` are what is known of how a server behaves while requests of one kind run: a tool, or a method. They
are learned from the first of each kind, if it takes longer than `SOON_S`: by one probe beside it.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final

import anyio
import anyio.abc
import structlog

from mcpx.core.config import ServerConfig
from mcpx.core.servers.calls import Calls
from mcpx.core.servers.causes import Unhealthy
from mcpx.core.servers.health import Probe
from mcpx.core.servers.in_flight import InFlight
from mcpx.core.servers.transport.exchange import ConnectionDropped, NotExecuted, Refused
from mcpx.core.servers.transport.link import Link
from mcpx.core.wire.envelope import CONNECTION_CLOSED, MCPError
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from supervisors import Signal

log = structlog.get_logger()
SOON_S: Final = 0.25  # an answer within it says nothing of how the server behaves meanwhile
WAITED_S: Final = 0.25  # a probe that took as long, and until the call was over, waited for it
MIN_PAUSE_S: Final = 0.01  # clocks are not exact
MAX_KINDS: Final = 10_000
_OWN_TROUBLE: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
)  # says nothing of it


class Manner(Enum):
    """A server's usual behaviour while a request of one kind runs."""

    SOON = "was answered too soon to tell"
    MEANWHILE = "answers others meanwhile"
    AFTERWARDS = "answers others only afterwards"


class Manners:
    """The known behaviour of one server. It outlives incarnations."""

    def __init__(self) -> None:
        self._known: dict[str, Manner | None] = {}  # None: it is being learned, or could not be

    def is_new(self, kind: str) -> bool:
        """Return True if nothing is known of a kind yet, which the caller is to learn now."""
        if kind in self._known or len(self._known) >= MAX_KINDS:
            return False
        self._known[kind] = None
        return True

    def learn(self, kind: str, manner: Manner) -> None:
        """Take in what a kind of request does."""
        self._known[kind] = manner

    def should_answer(self, kinds: Iterable[str]) -> bool:
        """Return True if the server should answer a probe while requests of these kinds run.

        It should during a kind during which it has; and, where nothing has shown that it does one thing at a
        time, during one that it always answered at once, or any if it has answered during another.
        """
        every = self._known.values()
        is_doubtful, is_likely = Manner.AFTERWARDS in every, Manner.MEANWHILE in every
        found = [self._known.get(kind) for kind in kinds]
        return all(
            each is Manner.MEANWHILE or (not is_doubtful and (is_likely or each is Manner.SOON))
            for each in found
        )

    def was_given_up(self, kinds: Iterable[str]) -> None:
        """Take in that it did not: it hung, or was only busy. That is believed once."""
        for kind in kinds:
            if self._known.get(kind) is not Manner.MEANWHILE:
                self._known[kind] = Manner.AFTERWARDS


class _Look:
    """The findings of one look."""

    def __init__(self) -> None:
        self.answered = False
        self.connected = False
        self.failure = ""


class Silence:
    """Watches the calls of one incarnation. `give_up`, given the reason, ends its connection.

    `reach` makes a connection to the server, on which it sends nothing; it raises OSError if it cannot.
    """

    def __init__(
        self,
        calls: Calls,
        probe: Probe,
        reach: Callable[[], Awaitable[None]],
        give_up: Callable[[str], None],
        manners: Manners,
        *,
        after_s: float,
        timeout_s: float,
        from_mcpx: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`from_mcpx`: the server is another MCPX, which always answers. `clock` is that of the calls."""
        self._calls = calls
        self._probe = probe
        self._reach = reach
        self._give_up = give_up
        self._manners = manners
        self._after_s = after_s
        self._timeout_s = timeout_s
        self._from_mcpx = from_mcpx
        self._clock = clock
        self._sent, self._learning = Signal(), Signal()
        self._is_watching = False
        self._new: list[InFlight] = []  # of kinds that are to be learned
        self._looked_at = 0.0
        calls.on_sent = self._note

    def _note(self, call: InFlight) -> None:
        """Take in that a call was sent."""
        if not self._from_mcpx and self._manners.is_new(kind_of(call)):
            self._new.append(call)
            self._learning.set()
        if not self._is_watching:
            self._sent.set()

    async def watch(self) -> None:
        """Look whenever nothing has come for too long; return once the server was given up."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._learn_new, tasks)
            while True:
                await self._sent.wait()
                self._sent.clear()
                self._is_watching = True
                reason = await self._watch_calls()
                self._is_watching = False
                if reason is not None:
                    self._give_up(reason)
                    tasks.cancel_scope.cancel()
                    return

    async def _learn_new(self, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            await self._learning.wait()
            self._learning.clear()
            while self._new:
                tasks.start_soon(self._learn, self._new.pop())

    async def _watch_calls(self) -> str | None:
        """Watch until no call is in flight; the reason to give the server up, if there is one."""
        while (since := self._calls.silent_since()) is not None:
            left = max(since, self._looked_at) + self._after_s - self._clock()
            if left > 0:
                await anyio.sleep(max(left, MIN_PAUSE_S))
                continue
            look = await self._look()
            self._looked_at = self._clock()
            if self._calls.silent_since() == since and (reason := self._judge(look, since)) is not None:
                return reason
        return None

    async def _look(self) -> _Look:
        """Probe the server, and see if it takes connections."""
        look = _Look()
        with anyio.move_on_after(self._timeout_s):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._connect, look)
                await self._ask(look)
                tasks.cancel_scope.cancel()
        return look

    async def _ask(self, look: _Look) -> None:
        """Probe the server; return when it has answered, or cannot."""
        try:
            await self._probe()
        except (NotExecuted, ConnectionDropped) as error:
            look.failure = str(error)
        except Unhealthy as error:
            if isinstance(error.__cause__, NotExecuted | ConnectionDropped):
                look.failure = str(error.__cause__)
        except (Refused, MalformedMessage, ResponseTooLarge):
            pass  # that is an answer, too
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await anyio.sleep_forever()  # the session is over, and the link knows
        look.answered = not look.failure

    async def _connect(self, look: _Look) -> None:
        try:
            await self._reach()
        except OSError as error:
            if error.errno in _OWN_TROUBLE:
                look.connected = True
                return
            look.failure = look.failure or f"no connection can be made: {error}"
        else:
            look.connected = True

    def _judge(self, look: _Look, since: float) -> str | None:
        """The reason to give up a server that was looked at; None for one that is busy."""
        if look.answered:
            return None
        silent = f"nothing has come from the server for {self._clock() - since:.0f} s"
        if look.failure:
            return f"{silent}, and it cannot be reached: {look.failure}"
        if not look.connected:
            return f"{silent}, and no connection can be made within {self._timeout_s:g} s"
        kinds = [kind_of(call) for call in self._calls.running()]
        if self._from_mcpx or self._manners.should_answer(kinds):
            self._manners.was_given_up(kinds)
            return f"{silent}, and it does not answer a probe within {self._timeout_s:g} s"
        log.debug("upstream.silent", seconds=round(self._clock() - since), running=kinds[:3])
        return None

    async def _learn(self, call: InFlight) -> None:
        """Learn how the server behaves while a request of a kind runs, of which this is the first."""
        kind = kind_of(call)
        await anyio.sleep(SOON_S)
        if call not in self._calls.running():
            self._manners.learn(kind, Manner.SOON)
            return
        began, look = self._clock(), _Look()
        await self._ask(look)
        if not look.answered:
            return
        if call in self._calls.running():
            self._manners.learn(kind, Manner.MEANWHILE)
        else:
            waited = self._clock() - began > WAITED_S
            self._manners.learn(kind, Manner.AFTERWARDS if waited else Manner.SOON)


def kind_of(call: InFlight) -> str:
    """The kind of a request: its tool, or its method."""
    return call.tool or call.request.method


def open_silence(
    config: ServerConfig, calls: Calls, probe: Probe, link: Link, manners: Manners
) -> Silence | None:
    """The watch over the calls on that link; None where it is none over HTTP, or nothing is to be probed.

    It is to be made before the first call is sent.
    """
    after_s = config.call_limits.silence_probe
    if link.reach is None or not after_s:
        return None
    return Silence(
        calls,
        probe,
        link.reach,
        link.give_up,
        manners,
        after_s=after_s,
        timeout_s=config.health.timeout,
        from_mcpx=config.is_remote_mcpx,
    )

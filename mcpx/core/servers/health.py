"""Watching a session that serves: the health check, and what stops a server that nobody uses.

`Health` tells a hung server from a busy one. It runs beside the calls of one incarnation and ends its
connection when the server does not answer. It is for servers that live and are silent; the death of a process
is noticed without it. What it promises:

* An idle session is probed every `interval`; after a miss it is probed again at once, and `failure_threshold`
  misses of `timeout` each end the connection: `interval + failure_threshold * timeout` at the most.
* A server that answered a call is probed an `interval` after that answer, so the promise holds for it too.
  One that is busy with a call inside its deadline is never judged: many servers cannot answer while a tool
  runs. A call that it has not read does not count as busy, nor any call while the kernel has stopped it.
* After a suspend of the machine (`distrust`) an idle session is probed at once.
* A call past its deadline causes a probe at once, and then one miss is enough: that is a hang.

`Idleness` has a server rest that was not used for `idle_stop`. What it knows, it asks for when it looks; no
call does anything for it. Who wants to end the session for a reason of its own (to move it to another node)
asks here if it is busy, and has it come to rest first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sized
from typing import Final, Protocol

import anyio

from mcpx.core.config import HealthCheck, ServerConfig
from mcpx.core.servers.call_queue import CallQueue
from mcpx.core.servers.calls import Calls
from mcpx.core.servers.causes import Unhealthy
from mcpx.core.servers.transport.link import Link
from mcpx.core.wire.envelope import CONNECTION_CLOSED, MCPError
from supervisors import Phase, Signal

MAX_PROBES_AT_ONCE: Final = 8  # after a suspend
PROBE_PAUSE_S: Final = 0.1  # until the next ones
LOOKS: Final = 10  # within `idle_stop`, so that a use that leaves no trace is seen
MIN_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 30.0
Probe = Callable[[], Awaitable[object]]
"""Sends the server something that it must answer. Any answer will do, an `MCPError` too.

Raises:
    Unhealthy: It is there, but does not answer MCP.
"""


class Health:
    """Watches one session. `give_up`, given the reason, ends the connection to a server that hangs.

    `renew` makes its connections anew; `clock` is that of `answered_at`.
    """

    def __init__(
        self,
        settings: HealthCheck,
        calls: Calls,
        probe: Probe,
        give_up: Callable[[str], None],
        *,
        renew: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._probe = probe
        self._give_up = give_up
        self._renew = renew
        self._clock = clock
        self._doubted_at = -math.inf  # what the server answered before counts no more
        self._probe_wanted = False
        self._problem: str | None = None  # what the server said in place of an answer to the last probe

    def distrust(self) -> None:
        """Make connections anew and have an idle session probed at once, whenever it answered last.

        Its connections may have died unnoticed, while MCPX could not run.
        """
        self._renew()
        self._doubted_at, self._probe_wanted = self._clock(), True
        self._calls.overdue.set()

    async def watch(self) -> None:
        """Probe for as long as the session lives; return once the server was given up."""
        while self._settings.enabled:
            overdue = await self._pause()
            if self._is_excused() and not overdue:
                continue
            misses = 0
            while not await self._answers():
                misses += 1
                if self._is_excused() and not overdue:
                    break  # the server is busy with a call that came meanwhile
                if overdue or misses >= self._settings.failure_threshold:
                    self._give_up(self._explain(misses, overdue=overdue))
                    return

    async def _pause(self) -> bool:
        """Wait until the next probe is due; return whether a call has passed its deadline."""
        overdue = self._calls.overdue
        with anyio.move_on_after(self._next_probe_in()):
            await overdue.wait()
        is_overdue = overdue.is_set() and not self._probe_wanted
        self._probe_wanted = False
        overdue.clear()
        return is_overdue

    def _next_probe_in(self) -> float:
        """An interval after the last answer, or from now if that is over (it is busy, or was probed)."""
        left = self._calls.answered_at + self._settings.interval - self._clock()
        return left if left > 0 else self._settings.interval

    def _is_excused(self) -> bool:
        if self._calls.busy:
            return True
        answered_at = self._calls.answered_at
        return answered_at > self._doubted_at and self._clock() < answered_at + self._settings.interval

    async def _answers(self) -> bool:
        self._problem = None
        with anyio.move_on_after(self._settings.timeout):
            try:
                await self._probe()
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:
                    await anyio.sleep_forever()  # the connection is lost, and the link knows
            except Unhealthy as error:
                self._problem = str(error)
                await anyio.sleep_forever()  # a miss, and it has the rest of the timeout to recover
            return True
        return False

    def _explain(self, misses: int, *, overdue: bool) -> str:
        if self._problem is not None:
            return f"the server does not answer its probe: {self._problem}"
        asked = f"it did not answer {misses} probe{'s' if misses > 1 else ''} of {self._settings.timeout:g} s"
        return f"the server hangs: {asked}" + (" after a call had passed its deadline" if overdue else "")


def open_health(settings: HealthCheck, calls: Calls, probe: Probe, link: Link) -> Health:
    """The health check of a session on that link."""
    return Health(settings, calls, probe, link.give_up, renew=link.renew, clock=time.monotonic)


class Checked(Protocol):
    """A session with a health check while it serves."""

    health: Health | None


async def distrust_all(sessions: Iterable[Checked]) -> None:
    """Have all idle sessions probed over new connections, a few at a time, after a suspend."""
    for number, session in enumerate(sessions, 1):
        if session.health is not None:
            session.health.distrust()
        if number % MAX_PROBES_AT_ONCE == 0:
            await anyio.sleep(PROBE_PAUSE_S)


# --- idleness


class Resting(Protocol):
    """A session that may be put to sleep."""

    config: ServerConfig
    queue: CallQueue
    idleness: Idleness | None
    """None while it does not serve."""

    @property
    def only_lists(self) -> bool:
        """True if it is started on demand, and at first only to list what the server offers."""

    def keeps_something(self) -> bool:
        """True if a client relies on something that would end with the session."""

    def has_open_tasks(self) -> bool:
        """True if the server works on a task."""

    async def await_descriptions(self) -> None:
        """Wait while descriptions are made for the resources of the first listing."""


class Idleness:
    """Watches one session of a server. `changes` is set while the server is to be listed again."""

    def __init__(self, session: Resting, calls: Calls, suspended: Sized, changes: Signal) -> None:
        self._session = session
        self._queue = session.queue
        self._calls = calls
        self._suspended = suspended
        self._changes = changes
        self._opened_at = time.monotonic()

    async def watch(self) -> None:
        """Have the server rest when it has been idle for `idle_stop`; return then.

        One that is on demand and was started only to list what it offers rests when it has done so.
        """
        if self._session.only_lists and not self.is_or_was_in_use():
            await self._session.await_descriptions()
            if not self.is_or_was_in_use():
                self._rest()
                return
        limit, used_at = self._session.config.idle_stop, self._opened_at
        while limit:
            now = time.monotonic()
            used_at = now if self.is_in_use() else max(used_at, self._last_use())
            if (left := used_at + limit - now) <= 0:
                self._rest()
                return
            pause = min(left, max(limit / LOOKS, MIN_PAUSE_S), MAX_PAUSE_S)
            await anyio.sleep(pause)
            used_at += time.monotonic() - now - pause  # in which MCPX could not run: nobody could use it

    def _last_use(self) -> float:
        return max(self._calls.answered_at, self._queue.wanted_at)

    def is_or_was_in_use(self) -> bool:
        """True if anybody has had a use for the server since it was last asleep."""
        has_answered = self._calls.answered_at > self._opened_at
        return self.is_in_use() or has_answered or math.isfinite(self._queue.wanted_at)

    def is_in_use(self) -> bool:
        """True if the server is doing something, or keeps something that a client relies on."""
        return self.is_busy() or self._changes.is_set() or self._session.keeps_something()

    def is_busy(self) -> bool:
        """True if a call runs or waits, or is to be gone on with."""
        return bool(self._calls.running()) or self._queue.has_callers or self.is_bound()

    def is_bound(self) -> bool:
        """True if it keeps something that would be lost with the session, however long it is waited for."""
        return bool(len(self._suspended)) or self._session.has_open_tasks()

    async def quiesce(self, within_s: float) -> bool:
        """Take nothing new until what runs has ended; return True if it has in time, else go on as before.

        Calls that come meanwhile wait in the queue.
        """
        with anyio.move_on_after(within_s):
            await self._calls.drain()
            if not self.is_bound():
                return True
        if self._session.idleness is self and self._queue.lifecycle_phase() is Phase.UP:
            self._calls.attach()
        return False

    def _rest(self) -> None:
        """End the incarnation. What comes from now on waits for the next."""
        self._calls.detach()
        self._queue.rest()

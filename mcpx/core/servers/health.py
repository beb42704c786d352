"""The health check: tells a hung server from a busy one.

Runs beside the calls of one incarnation and ends its connection when the server does not answer. It
is for servers that live and are silent; the death of a process is noticed without it. What it promises:

* An idle session is probed every `interval`; after a miss it is probed again at once, and `failure_threshold`
  misses of `timeout` each end the connection: `interval + failure_threshold * timeout` at the most.
* A server that answered a call is probed an `interval` after that answer, so the promise holds for it too.
  One that is busy with a call inside its deadline is never judged: many servers cannot answer while a tool
  runs. A call that it has not read does not count as busy, nor any call while the kernel has stopped it.
* After a suspend of the machine (`distrust`) an idle session is probed at once.
* A call past its deadline causes a probe at once, and then one miss is enough: that is a hang.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

import anyio
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from mcpx.core.config import HealthCheck
from mcpx.core.servers.causes import Unhealthy
from mcpx.core.servers.transport.link import Link
from supervisors import Signal

MAX_PROBES_AT_ONCE: Final = 8  # after a suspend
PROBE_PAUSE_S: Final = 0.1  # until the next ones
Probe = Callable[[], Awaitable[object]]
"""Sends the server something that it must answer. Any answer will do, an `MCPError` too.

Raises:
    Unhealthy: It is there, but does not answer MCP.
"""


class Activity(Protocol):
    """What the health check must know of the calls."""

    overdue: Signal
    """Set when a call has passed its deadline."""
    answered_at: float
    """When the server last answered a call, on the clock of the event loop."""

    @property
    def busy(self) -> bool:
        """Whether the server may be at work on a call that is inside its deadline."""
        ...


class Health:
    """Watches one session. `give_up`, given the reason, ends the connection to a server that hangs.

    `renew` makes its connections anew; `clock` is that of `answered_at`.
    """

    def __init__(
        self,
        settings: HealthCheck,
        activity: Activity,
        probe: Probe,
        give_up: Callable[[str], None],
        *,
        renew: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._settings = settings
        self._activity = activity
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
        self._activity.overdue.set()

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
        overdue = self._activity.overdue
        with anyio.move_on_after(self._next_probe_in()):
            await overdue.wait()
        is_overdue = overdue.is_set() and not self._probe_wanted
        self._probe_wanted = False
        overdue.clear()
        return is_overdue

    def _next_probe_in(self) -> float:
        """An interval after the last answer, or from now if that is over (it is busy, or was probed)."""
        left = self._activity.answered_at + self._settings.interval - self._clock()
        return left if left > 0 else self._settings.interval

    def _is_excused(self) -> bool:
        if self._activity.busy:
            return True
        answered_at = self._activity.answered_at
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


def open_health(settings: HealthCheck, calls: Activity, probe: Probe, link: Link) -> Health:
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

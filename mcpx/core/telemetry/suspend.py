"""Time in which MCPX could not run: the machine slept, or the process was stopped (SIGSTOP, a freezer).

Two things are done about it. `AwakeLoop` is an event loop whose clock stands still meanwhile, as the system's
own does while the machine sleeps: so timeouts count the time in which there could be an answer, and timers
are not all due at once afterwards. `SuspendWatch` notices that it is over, and calls back: connections may be
dead by then that still look alive.

A suspend is noticed by two clocks that disagree (one of them goes on while the machine sleeps), or by a timer
that fires far too late. A wall clock that is set forward looks the same, and costs a look at the sessions.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import anyio
import structlog

from mcpx.core.telemetry.contained import containing
from supervisors import Incarnation

log = structlog.get_logger()
TICK_S: Final = 1.0  # between two looks at the clocks
MIN_AWAY_S: Final = 3.0  # less is a busy machine
_MAX_STEP_S: Final = TICK_S + MIN_AWAY_S  # of a clock that is looked at at every tick
# goes on while the machine sleeps; time.monotonic does not
_ALWAYS_ON: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class AwakeLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time` counts no time in which the process could not run."""

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        self._looked_at = time.monotonic()
        self._away_s = 0.0
        super().__init__(selector)

    def time(self) -> float:
        """Seconds, by a monotonic clock that is looked at once in `TICK_S` at least, while the loop runs."""
        now = time.monotonic()
        if now - self._looked_at > _MAX_STEP_S:
            self._away_s += now - self._looked_at - TICK_S
        self._looked_at = now
        return now - self._away_s

    def run_forever(self) -> None:
        """Run until stopped."""
        self._looked_at = time.monotonic()
        self._tick()
        try:
            super().run_forever()
        finally:
            self._next_tick.cancel()

    def _tick(self) -> None:
        self._next_tick = self.call_later(TICK_S, self._tick)


class Clocks(NamedTuple):
    """The readings of the clocks at one moment, in seconds."""

    monotonic: float
    always_on: float
    wall: float


def read_clocks() -> Clocks:
    """The clocks now."""
    monotonic = time.monotonic()
    always_on = monotonic if _ALWAYS_ON is None else time.clock_gettime(_ALWAYS_ON)
    return Clocks(monotonic, always_on, time.time())


def away_s(before: Clocks, now: Clocks, slept_s: float) -> float:
    """Seconds in which the process could not run, of the time in which it meant to sleep for `slept_s`."""
    passed = now.monotonic - before.monotonic
    missing = max(now.always_on - before.always_on, now.wall - before.wall) - passed
    return max(0.0, missing) + max(0.0, passed - slept_s)


class SuspendWatch:
    """Has `on_wake` called, with the seconds that were lost, after each suspend of `MIN_AWAY_S` or more.

    What `on_wake` raises is logged. A suspend that begins while it runs is noticed when it has returned.
    """

    def __init__(
        self, on_wake: Callable[[float], Awaitable[None]], *, clocks: Callable[[], Clocks] = read_clocks
    ) -> None:
        self._on_wake = on_wake
        self._clocks = clocks

    async def run(self, incarnation: Incarnation) -> None:
        """Watch until asked to leave: a child's `run`."""
        incarnation.ready()
        await incarnation.while_wanted(self._watch)

    async def _watch(self) -> None:
        before = self._clocks()
        while True:
            await anyio.sleep(TICK_S)
            lost_s = away_s(before, now := self._clocks(), TICK_S)
            before = now
            if lost_s < MIN_AWAY_S:
                continue
            log.info("suspend.over", seconds=round(lost_s, 1))
            with containing("suspend"):  # the class's promise: a look at the sessions ends nothing
                await self._on_wake(lost_s)

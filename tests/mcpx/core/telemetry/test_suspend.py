"""Time in which MCPX could not run: what counts as such, and a loop that does not count it."""

from __future__ import annotations

import time

import anyio
import anyio.lowlevel
import pytest

from mcpx.core.telemetry import suspend
from mcpx.core.telemetry.suspend import (
    MIN_AWAY_S,
    TICK_S,
    AwakeLoop,
    Clocks,
    SuspendWatch,
    away_s,
    read_clocks,
)
from supervisors import Incarnation

NIGHT_S = 8 * 3600.0
START = Clocks(100.0, 5_000.0, 1e9)


def after(*, monotonic: float = TICK_S, always_on: float = TICK_S, wall: float = TICK_S) -> Clocks:
    return Clocks(START.monotonic + monotonic, START.always_on + always_on, START.wall + wall)


@pytest.mark.parametrize(
    ("now", "lost_s"),
    [
        pytest.param(after(), 0, id="nothing"),
        pytest.param(after(always_on=NIGHT_S, wall=NIGHT_S), NIGHT_S - 1, id="the machine slept"),
        pytest.param(after(wall=NIGHT_S), NIGHT_S - 1, id="a virtual machine was paused"),
        pytest.param(after(monotonic=60, always_on=60, wall=60), 59, id="the process was stopped"),
        pytest.param(after(monotonic=1.5, always_on=1.5, wall=1.5), 0.5, id="a busy moment"),
        pytest.param(after(wall=-NIGHT_S), 0, id="the wall clock was set back"),
        pytest.param(after(wall=TICK_S + 0.01), 0.01, id="the wall clock is corrected a little"),
    ],
)
def test_time_that_was_lost(now, lost_s):
    assert away_s(START, now, TICK_S) == pytest.approx(lost_s)


def test_the_clocks_go_on_together():
    before = read_clocks()
    assert away_s(before, read_clocks(), TICK_S) < MIN_AWAY_S


def test_each_suspend_is_called_back_once_whatever_comes_of_it(virtual):
    class Machine:
        """Sleeps for a night after 10 s, and after 20 s."""

        asleep_s = 0.0

        def clocks(self):
            now = anyio.current_time()
            self.asleep_s = NIGHT_S * ((now - started >= 10) + (now - started >= 20))
            return Clocks(now, now + self.asleep_s, now + self.asleep_s)

    woken = []

    async def wake(seconds):
        woken.append(seconds)
        raise ValueError("it fails")

    async def main():
        nonlocal started
        started = anyio.current_time()
        incarnation = Incarnation("suspend", 1, lambda _: None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(SuspendWatch(wake, clocks=Machine().clocks).run, incarnation)
            await anyio.sleep(100)
            incarnation.stop()

    started = 0.0
    virtual(main)
    assert woken == pytest.approx([NIGHT_S, NIGHT_S])


class Stopwatch:
    """The monotonic clock of a process that can be stopped."""

    def __init__(self, monkeypatch):
        self.stopped_s = 0.0
        monkeypatch.setattr(suspend, "time", self)

    def monotonic(self):
        return time.monotonic() + self.stopped_s


def test_timers_are_not_due_for_time_in_which_the_process_was_stopped(monkeypatch):
    watch, fired = Stopwatch(monkeypatch), []

    async def main():
        async with anyio.create_task_group() as tasks:
            for seconds in (0.5 * TICK_S, TICK_S + 60, TICK_S + 61):
                tasks.start_soon(sleep, seconds)
            await anyio.lowlevel.checkpoint()
            before = anyio.current_time()
            watch.stopped_s += 3600
            assert anyio.current_time() - before == pytest.approx(TICK_S, abs=0.5)
            await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    async def sleep(seconds):
        await anyio.sleep(seconds)
        fired.append(seconds)

    anyio.run(main, backend_options={"loop_factory": AwakeLoop})
    assert fired == [0.5 * TICK_S]


def test_a_loop_that_has_nothing_to_do_looks_at_the_clock(monkeypatch):
    """Else a long wait would look like a suspend."""
    monkeypatch.setattr(suspend, "TICK_S", 0.01)
    monkeypatch.setattr(suspend, "_MAX_STEP_S", 0.15)

    async def main():
        started = time.monotonic()
        before = anyio.current_time()
        await anyio.sleep(0.4)
        return time.monotonic() - started - (anyio.current_time() - before)

    assert anyio.run(main, backend_options={"loop_factory": AwakeLoop}) < 0.1

"""The last hour in steps: what they hold, and that there is no timer while nothing is called."""

from __future__ import annotations

import asyncio

import pytest

from mcpx.core.events import history as module
from mcpx.core.events.history import NOTHING, STEP_S, STEPS, History, Point
from mcpx.core.events.meter import Meter
from mcpx.core.events.stats import Count
from mcpx.core.telemetry.metrics import Activity, Counters
from tests.mcpx.scripted import one_server, soon

pytestmark = pytest.mark.anyio


class Clock:
    """The time of day, which goes on when it is told to."""

    def __init__(self, monkeypatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr(module.time, "time", lambda: self.now)


class Timers:
    """The timers that the history sets; a test fires them."""

    def __init__(self, monkeypatch) -> None:
        self.set = []
        monkeypatch.setattr(
            asyncio.get_running_loop(), "call_later", lambda delay, call: self.set.append((delay, call))
        )

    def fire(self, clock) -> None:
        delay, call = self.set.pop()
        clock.now += delay
        call()


class Server:
    def __init__(self, meter) -> None:
        self.meter = meter
        self.counters = Counters()
        self.counters.activity = meter._activity

    def call(self, seconds, count=1):
        self.meter._add("c", "s", "t", Count(count, ok=count))
        for _ in range(count):
            self.counters.sent()
            self.counters.in_flight -= 1
            self.counters.answered(seconds)

    def fail(self, **ends):
        self.meter._add("c", "s", "t", Count(sum(ends.values()), **ends))
        self.counters.failed("timeout")


@pytest.fixture
def kept(monkeypatch):
    meter = Meter({}, activity := Activity())
    servers = {"a": Server(meter), "b": Server(meter)}
    history = History(servers, meter, activity)
    history.servers, history.activity, history.meter = servers, activity, meter
    return history


async def test_a_step_holds_what_was_counted_in_it(kept, monkeypatch):
    clock, timers = Clock(monkeypatch), Timers(monkeypatch)
    assert kept.points() == [NOTHING] * STEPS
    kept.servers["a"].call(0.010, 90)
    kept.servers["b"].call(0.500, 10)
    kept.servers["b"].fail(failed=1, refused=2)
    assert kept.running() == Point(103, 1, 2, 10.0, 500.0, 0, 0)
    timers.fire(clock)
    assert kept.points()[-1] == Point(103, 1, 2, 10.0, 500.0, 0, 0)
    assert kept.points()[:-1] == [NOTHING] * (STEPS - 1)
    kept.servers["a"].call(0.020)
    timers.fire(clock)
    assert kept.points()[-2:] == [Point(103, 1, 2, 10.0, 500.0, 0, 0), Point(1, 0, 0, 20.0, 20.0, 0, 0)]


async def test_there_is_no_timer_while_nothing_is_counted(kept, monkeypatch):
    clock, timers = Clock(monkeypatch), Timers(monkeypatch)
    assert not timers.set
    kept.servers["a"].call(0.010)
    kept.servers["a"].call(0.010)
    assert len(timers.set) == 1
    timers.fire(clock)
    timers.fire(clock)  # a step in which nothing was counted is the last
    assert not timers.set
    assert kept.activity.quiet
    clock.now += 95
    kept.servers["b"].call(0.010)
    assert 0 < timers.set[0][0] <= STEP_S
    timers.fire(clock)
    assert [point.calls for point in kept.points()[-12:]] == [2, *[0] * 10, 1]


async def test_a_call_that_runs_keeps_the_clock_going_and_an_error_alone_starts_it(kept, monkeypatch):
    clock, timers = Clock(monkeypatch), Timers(monkeypatch)
    kept.servers["a"].counters.sent()
    timers.fire(clock)
    timers.fire(clock)
    assert timers.set
    kept.servers["a"].counters.in_flight -= 1
    timers.fire(clock)
    assert not timers.set
    kept.servers["a"].counters.failed("overloaded")
    assert len(timers.set) == 1


async def test_an_hour_is_kept_and_no_more(kept, monkeypatch):
    clock, timers = Clock(monkeypatch), Timers(monkeypatch)
    for _ in range(2 * STEPS):
        kept.servers["a"].call(0.010)
        timers.fire(clock)
    assert [point.calls for point in kept.points()] == [1] * STEPS
    assert len(kept._points) == STEPS
    clock.now += STEPS * STEP_S
    timers.fire(clock)
    assert kept.points() == [NOTHING] * STEPS


async def test_a_clock_that_is_set_back_or_far_ahead_leaves_it_in_order(kept, monkeypatch):
    clock, timers = Clock(monkeypatch), Timers(monkeypatch)
    for jump in (-5000, 100_000, -3):
        kept.servers["a"].call(0.010)
        clock.now += jump
        timers.fire(clock)
        assert len(kept.points()) == STEPS
        assert len(kept._points) <= STEPS


async def test_a_server_that_is_replaced_or_removed_makes_nothing_negative(kept, monkeypatch):
    clock, timers = Clock(monkeypatch), Timers(monkeypatch)
    kept.servers["a"].call(0.010, 5)
    timers.fire(clock)
    kept.servers["a"] = Server(kept.meter)
    del kept.servers["b"]
    kept.servers["a"].call(0.010, 2)
    timers.fire(clock)
    assert kept.points()[-1].calls == 2


async def test_percentiles_weigh_a_server_by_its_calls_not_by_what_is_remembered_of_them(kept, monkeypatch):
    clock, timers = Clock(monkeypatch), Timers(monkeypatch)
    kept.servers["a"].call(0.001, 9000)  # of which 512 are remembered
    kept.servers["b"].call(1.000, 500)
    timers.fire(clock)
    assert (kept.points()[-1].p50_ms, kept.points()[-1].p95_ms) == (1.0, 1000.0)


async def test_a_hub_keeps_it_of_real_calls(monkeypatch):
    monkeypatch.setattr(module, "STEP_S", 0.05)
    async with one_server() as watch:
        kept = watch.hub.history
        assert watch.hub.fleet.activity.quiet
        await watch.text("echo", {"text": "x"})
        await watch.failure("fail", {"text": "x"})
        await soon(lambda: sum(point.calls for point in kept.points()) == 2)
        await soon(lambda: watch.hub.fleet.activity.quiet)
        points = kept.points()
        assert sum(point.failed for point in points) == 1
        assert any(point.p50_ms for point in points)  # a call may be answered in the step after its own

"""Work that many wait for: done once, to its end, whoever leaves."""

from __future__ import annotations

import math

import anyio
import pytest

from mcpx.oauth import renewal
from mcpx.oauth.renewal import Background, Flight, Pause, good_until, pause_after, renewal_at
from tests.mcpx.oauth.records import tokens_of

pytestmark = pytest.mark.anyio


class Work:
    def __init__(self):
        self.begun, self.done, self.gate = 0, 0, anyio.Event()

    async def __call__(self):
        self.begun += 1
        await self.gate.wait()
        self.done += 1


async def test_all_wait_for_one_flight_and_the_next_is_another():
    work, flight = Work(), Flight(Background())
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(flight.join, work)
        await anyio.wait_all_tasks_blocked()
        work.gate.set()
    assert (work.begun, work.done) == (1, 1)
    await flight.join(work)
    assert work.done == 2


async def test_one_that_nobody_waits_for_any_more_goes_on_in_the_background():
    work, background = Work(), Background()
    flight = Flight(background)
    async with anyio.create_task_group() as background.tasks:
        with anyio.move_on_after(0):
            await flight.join(work)
        await anyio.wait_all_tasks_blocked()
        assert (work.begun, work.done) == (1, 0)
        work.gate.set()
        await flight.join(work)
    assert (work.begun, work.done) == (1, 1)


async def test_a_background_that_is_cancelled_waits_for_the_end():
    work, background = Work(), Background()
    async with anyio.create_task_group() as tasks:
        background.tasks = tasks
        with anyio.move_on_after(0):
            await Flight(background).join(work)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        work.gate.set()
    assert work.done == 1


# --- when tokens are renewed, and the pauses after failures


@pytest.mark.parametrize(
    ("lifetime_s", "at"),
    [
        (3600, 3300),
        (86400, 86100),
        (600, 480),
        (10, 8),
        (2, 1.6),
        (1, math.inf),
        (0, math.inf),
        (None, math.inf),
    ],
)
def test_a_token_is_renewed_ahead_of_its_expiry(lifetime_s, at):
    tokens = tokens_of(now=0, lifetime_s=lifetime_s)
    assert renewal_at(tokens, 0) == pytest.approx(at)
    if at < math.inf:
        assert 0 < renewal_at(tokens, 1) < at < good_until(tokens) < lifetime_s


def test_a_token_that_had_expired_before_it_came_is_never_good():
    assert good_until(tokens_of(now=0, lifetime_s=-5)) <= 0


def test_pauses_grow_to_five_minutes_and_a_call_waits_for_five_seconds_at_most():
    pause, now, lengths = Pause(), 100.0, []
    for _ in range(12):
        pause = pause_after(pause, now, 1.0, None)
        lengths.append(pause.until - now)
        assert pause.demand_from - now <= 5
    assert lengths[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert lengths[9:] == [300, 300, 300]
    assert pause_after(Pause(10**6), now, 0.5, None).until - now == 150


@pytest.mark.parametrize(("asked_s", "length_s"), [(30.0, 30), (0.0, 1), (-5.0, 1), (1e12, 3600)])
def test_the_pause_that_an_issuer_asks_for_is_kept_by_calls_too(asked_s, length_s):
    pause = pause_after(Pause(), 0.0, 1.0, asked_s)
    assert pause.until == pause.demand_from == length_s


def test_a_leeway_is_small():
    assert good_until(tokens_of(now=0, lifetime_s=3600)) == 3598
    assert good_until(tokens_of(now=0, lifetime_s=4)) == pytest.approx(3.8)
    assert renewal.lifetime_s(tokens_of(now=0, lifetime_s=-3)) == 0

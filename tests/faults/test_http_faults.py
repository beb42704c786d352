"""What no single row shows of a wicked HTTP server: memory, connections, and outcomes in a storm."""

from __future__ import annotations

import random
import re
import time
from itertools import count
from pathlib import Path

import anyio
import pytest

from mcpx.core.servers.transport import http_posts
from mcpx.errors import CallError, Code, Outcome
from tests.faults.rows_http_answers import bomb, flood, flood_of_one_event
from tests.faults.stage import Seen
from tests.faults.stage_http import LIMIT, PAGE, http_stage

pytestmark = pytest.mark.anyio


async def watch_connections(on, *, at_most):
    """Wait until the server has so few connections."""
    with anyio.fail_after(5):
        while (await on.server.order())["connections"] > at_most:
            pass


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_answer_that_nobody_waits_for_is_hung_up_on(era, monkeypatch):
    monkeypatch.setattr(http_posts, "ABANDONED_TIMEOUT_S", 0.2)
    seen = Seen("abandoned")
    async with http_stage(seen, era=era, call_timeout=1.0) as on:
        await on.listening()
        await on.wicked("endless")
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(on.caught, Code.TIMEOUT, Outcome.UNKNOWN)
        await watch_connections(on, at_most=4)  # those that are kept to be used again, and the listening one
        await on.untouched()
    assert not seen.problems


TURNED_AWAY = [
    ("legacy", 404, "wait"),
    ("legacy", 404, "hang"),
    ("legacy", 401, "wait"),
    ("modern", 403, "wait"),
]


@pytest.mark.parametrize(("era", "status", "other"), TURNED_AWAY)
async def test_a_call_that_is_turned_away_costs_no_other_its_answer(era, status, other):
    """A forgotten session ends once the others are answered, or those that wait cannot wait any longer."""
    seen = Seen("turned away")
    async with http_stage(seen, era=era, queue_timeout=20 if other == "wait" else 1, call_timeout=20) as on:
        await on.wicked(other)
        async with anyio.create_task_group() as tasks:
            died = Code.SERVER_DIED, Outcome.UNKNOWN, f"HTTP {status}"
            tasks.start_soon(on.answered) if other == "wait" else tasks.start_soon(on.caught, *died)
            while not (await on.server.order())["seen"].get("tools/call"):  # the server has the call
                pass
            await on.wicked("status", tool="echo", times=1, status=status)
            if status == 404:
                tasks.start_soon(on.answered, "echo")
                await on.waiting(1)
            else:
                says = f"HTTP {status}", "was not run"
                await on.caught(Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT, *says, tool="echo")
            await on.server.order(release=True)
        assert on.incarnation() == (2 if status == 404 else 1)
        assert await on.counted("echo") == (1 if status == 404 else 0)
    assert not seen.problems


def peak_memory(*, reset=False):
    """The most memory this process has had since the last reset, in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024


async def test_memory_stays_bounded_whatever_comes():
    await flood(Seen("first"))  # what is loaded once
    before = peak_memory(reset=True)
    for play in (flood, flood_of_one_event, bomb):
        await play(Seen("memory"))
    assert peak_memory() - before < 10 * LIMIT


STORM_S = (1.0, 20.0)  # at least, and until every outcome was seen: at most
STORM = [
    {"do": "drop"},
    {"do": "drop", "counted": 1},
    {"do": "drop_body", "counted": 1},
    {"do": "drop_stream", "counted": 1},
    {"do": "status", "status": 503},
    {"do": "status", "status": 429},
    {"do": "status", "status": 404},
    {"do": "status", **PAGE},
    {"do": "other_id", "counted": 1},
    None,
]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_outcomes_are_honest_in_a_storm_of_faults(era):
    """Answered means once, `not_sent` never, `unknown` once at most; nothing runs twice that may not."""
    seen = Seen("storm")
    fates = {}
    numbers = count()
    began = None

    def storms():
        took = time.monotonic() - began
        every = {*fates.values()} == {None, *Outcome}
        return took < STORM_S[0 if every else 1]

    async def call(on):
        while storms():
            key = str(next(numbers))
            try:
                await on.watch.hub.calls.exec("w", "act", {"key": key})
                fates[key] = None
            except CallError as error:
                fates[key] = error.outcome

    async with http_stage(seen, era=era, queue_timeout=5) as on:
        chance = random.Random()
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(call, on)
            while storms():
                worst = chance.choice(STORM)
                await on.server.order(rule=worst and {"at": "tools/call", **worst})
                await anyio.sleep(0.02)
                if chance.random() < 0.1:
                    await on.server.order(**{chance.choice(["forget", "hang_up"]): True})
            await on.wicked(None)
        await on.answered("echo")
        counted = (await on.server.order())["counted"]
    assert not seen.problems
    assert len(counted) == len(set(counted)), "a call ran twice"
    times = {None: {1}, Outcome.NOT_SENT: {0}, Outcome.FAILED: {0}, Outcome.UNKNOWN: {0, 1}}
    wrong = {key: fate for key, fate in fates.items() if counted.count(key) not in times[fate]}
    assert not wrong

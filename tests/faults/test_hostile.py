"""Every row of the hostile table holds. The promised times are judged by `scripts/faults`, not here."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.faults.hostile import HostileFaults, perform_hostile, show_hostile
from tests.faults.hostile_mcpx import House
from tests.faults.rows_hostile import HOSTILE_ROWS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(120),  # a row, and what is judged after it
    pytest.mark.skipif(sys.platform != "linux", reason="memory and what is left over are read from /proc"),
]
CALLS = 3  # of the neighbour after each row
PACE_S = 0.1  # often enough for a stall of two seconds


@pytest.fixture(scope="module")
def house():
    kept = House(pace_s=PACE_S)
    yield kept
    kept.close()


@pytest.mark.parametrize("fault", [fault for fault, row in HOSTILE_ROWS.items() if row.in_suite])
async def test_it_hurts_nobody_else(fault, house):
    seen = await perform_hostile(fault, HOSTILE_ROWS[fault], house, calls=CALLS, brief=True)
    assert not seen.problems, show_hostile(seen)
    assert seen.caller_saw


async def test_a_row_that_ends_mcpx_or_stops_it_is_seen(house):
    faults = HostileFaults()

    @faults.row("it is killed")
    async def killed(on):
        os.kill(on.mcpx.pid, signal.SIGKILL)

    @faults.row("it grows and logs", memory_mb=-1, log_lines=-1)
    async def grows(on):
        on.check(False, "the row itself")

    problems = (await perform_hostile("it is killed", faults["it is killed"], house)).problems
    assert "the neighbour's client lost its connection" in problems
    assert "MCPX has ended with exit code -9" in problems
    problems = (await perform_hostile("it grows", faults["it grows and logs"], house)).problems
    assert problems[0] == "the row itself"
    assert problems[1].startswith("memory rose by")
    assert "lines of log, more than -1" in problems[2]

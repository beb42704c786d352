"""Every row of the table of faults holds. How long it took is judged by `scripts/faults`, not here."""

from __future__ import annotations

import sys

import pytest

from tests.faults.rows import ROWS
from tests.faults.stage import Seen, show
from tests.faults.table import perform

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="what is left over is read from /proc"),
]


@pytest.mark.parametrize("fault", ROWS)
async def test_it_is_survived(fault):
    seen = await perform(fault, ROWS[fault], brief=True)
    assert not seen.problems, show(seen)
    assert seen.caller_saw
    assert seen.ended


def test_a_row_that_took_too_long_says_so():
    seen = Seen("a fault", error_s=0.2, recovery_s=0.3, error_within_s=0.1, recovery_within_s=0.5)
    assert seen.late() == ["the error took longer than 100 ms"]


async def test_a_row_that_fails_is_a_problem_and_ends_nothing_else():
    async def fails(seen):
        seen.check(False, "it does not hold")
        raise TimeoutError("too slow")

    assert (await perform("it fails", fails)).problems == ["it does not hold", "TimeoutError: too slow"]

"""Under load and repeated deaths: nothing twice, nothing left, nothing that grows."""

from __future__ import annotations

import sys
from collections import Counter

import msgspec
import pytest

from tests.faults.kills import kill_again_and_again
from tests.faults.load import Growth, Tally, judge
from tests.faults.served import Answer
from tests.faults.soak import soak

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="what is left over is read from /proc"),
]
FLAT = Growth(memory_mb=(70.0, 71.0), memory_slope_kb=0.0, descriptors=(20, 20))


async def test_a_short_soak_with_many_kills():
    load = await soak(4.0, every=0.25)
    assert load.problems == [], msgspec.json.encode(load)
    assert load.kills >= 8
    assert load.answered > 20 * load.kills


async def test_deaths_again_and_again():
    kills = await kill_again_and_again(30)
    assert kills.load.problems == [], msgspec.json.encode(kills)
    assert kills.load.failed["server_died, unknown"] >= 30


@pytest.mark.parametrize(
    ("told", "effects", "left", "growth", "problem"),
    [
        ([], {"a": 2}, (0, 0), FLAT, "1 effects are there twice"),
        ([("a", Answer("done"))], {}, (0, 0), FLAT, "1 answered calls were never done"),
        (
            [("a", Answer("no", "server_died", "not_sent"))],
            {"a": 1},
            (0, 0),
            FLAT,
            "1 calls were done that were said not to be sent",
        ),
        ([], {}, (2, 0), FLAT, "2 processes are left"),
        ([], {}, (0, 1), FLAT, "1 zombies were left"),
        ([], {}, (0, 0), msgspec.structs.replace(FLAT, descriptors=(20, 21)), "descriptors grew"),
        ([], {}, (0, 0), msgspec.structs.replace(FLAT, memory_mb=(70.0, 90.0)), "memory grew"),
        (
            [(None, Answer("late", "timeout", "unknown"))],
            {},
            (0, 0),
            FLAT,
            "failed in another way than by the death",
        ),
    ],
)
def test_what_falls_short_is_seen(told, effects, left, growth, problem):
    tally = Tally()
    for key, answer in told:
        tally.note(key, answer)
    assert any(problem in found for found in judge(tally, Counter(effects), left, growth))

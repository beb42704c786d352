"""Short forms of what a server meets in a long life (`scripts/faults --leaks`, `--expiries`)."""

from __future__ import annotations

import sys

import msgspec
import pytest

from tests.faults.long_lives import LongLife, expiries, leaks

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="memory and what is left over are read from /proc"),
]


async def test_a_server_that_leaks_is_restarted_between_calls_and_no_call_fails():
    life = await leaks(150, factor=5.0, limit=200_000_000)
    assert life.problems == [], msgspec.json.encode(life)
    assert (life.calls, life.starts > 2) == (150, True)


async def test_a_token_that_expires_fails_no_call_and_is_fetched_once_each_time():
    life = await expiries(4.0, life_s=1.0)
    assert life.problems == [], msgspec.json.encode(life)
    assert (life.calls, life.expected >= 3) == (80, True)


def test_what_falls_short_is_seen():
    good = LongLife(
        seconds=1, calls=2, answered=2, failed={}, starts=1, expected=0, duplicated=0, lost=0, denied=0,
        slowest_s=0, peak_mb=0, left=0,
    )  # fmt: skip
    assert good.problems == []
    for change, said in (
        ({"calls": 3}, "1 calls without an outcome"),
        ({"failed": {"timeout, unknown": 1}, "calls": 3}, "1 calls failed"),
        ({"duplicated": 1}, "1 effects are there twice"),
        ({"starts": 3, "expected": 2}, "1 values were fetched beyond one for each expiry"),
    ):
        assert msgspec.structs.replace(good, **change).problems == [said]

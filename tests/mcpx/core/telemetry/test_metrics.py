"""The counters of one server, and nearest-rank percentiles over its recent calls."""

from __future__ import annotations

import pytest

from mcpx.core.telemetry.metrics import BOUNDS_S, RECENT_CALLS, Counters
from tests.mcpx.scripted import one_server


def test_without_calls_there_is_no_latency():
    assert Counters().percentiles(0.5)[0] is None


def test_percentiles_are_of_real_durations():
    counters = Counters()
    for milliseconds in range(1, 101):
        counters.answered(milliseconds / 1000)
    assert 0.05 <= (counters.percentiles(0.5)[0] or 0) <= 0.051
    assert 0.099 <= (counters.percentiles(0.99)[0] or 0) <= 0.1
    assert counters.percentiles(1.0)[0] == 0.1


def test_only_recent_calls_count():
    counters = Counters()
    counters.answered(1000)
    for _ in range(RECENT_CALLS):
        counters.answered(0.001)
    assert counters.percentiles(1.0)[0] == 0.001


def test_a_histogram_counts_a_duration_up_to_the_bound_that_it_does_not_exceed():
    counters = Counters()
    for seconds in (0.0, 0.001, 0.0011, 0.3, 60.0, 61.0, 1e9):
        counters.answered(seconds)
    durations = counters.durations
    counted = dict(zip((*durations.bounds, None), durations.counts, strict=True))
    assert {bound: count for bound, count in counted.items() if count} == {
        0.001: 2, 0.002: 1, 0.5: 1, 60.0: 1, None: 2
    }  # fmt: skip
    assert durations.sum == pytest.approx(1e9 + 121.3021)


def test_the_bounds_of_a_histogram_go_up_from_a_millisecond_to_a_minute():
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))
    assert (BOUNDS_S[0], BOUNDS_S[-1]) == (0.001, 60.0)


def test_a_histogram_keeps_what_the_percentiles_forget():
    counters = Counters()
    for _ in range(RECENT_CALLS + 5):
        counters.answered(0.03)
    assert sum(counters.durations.counts) == RECENT_CALLS + 5


@pytest.mark.anyio
async def test_a_server_counts_its_calls_and_its_errors_by_code():
    async with one_server(settings={"call_timeout": 0.2}) as watch:
        await watch.text("echo", {"text": "x"})
        await watch.failure("fail", {"text": "x"})
        await watch.failure("hang")
        counters = watch.hub.upstreams["s"].counters
        assert (counters.calls, counters.in_flight) == (3, 0)
        assert counters.errors == {"upstream_error": 1, "timeout": 1}
        assert (counters.percentiles(0.5)[0] or 0) > 0
        assert sum(counters.durations.counts) == 1  # a failure has no duration

"""The counters of one server, and nearest-rank percentiles over its recent calls."""

from __future__ import annotations

import pytest

from mcpx.observe.metrics import RECENT_CALLS, Counters
from tests.mcpx.scripted import one_server


def test_without_calls_there_is_no_latency():
    assert Counters().percentile(0.5) is None


def test_percentiles_are_of_real_durations():
    counters = Counters()
    for milliseconds in range(1, 101):
        counters.answered(milliseconds / 1000)
    assert 0.05 <= (counters.percentile(0.5) or 0) <= 0.051
    assert 0.099 <= (counters.percentile(0.99) or 0) <= 0.1
    assert counters.percentile(1.0) == 0.1


def test_only_recent_calls_count():
    counters = Counters()
    counters.answered(1000)
    for _ in range(RECENT_CALLS):
        counters.answered(0.001)
    assert counters.percentile(1.0) == 0.001


@pytest.mark.anyio
async def test_a_server_counts_its_calls_and_its_errors_by_code():
    async with one_server(settings={"call_timeout": 0.2}) as watch:
        await watch.text("echo", {"text": "x"})
        await watch.failure("fail", {"text": "x"})
        await watch.failure("hang")
        counters = watch.hub.upstreams["s"].counters
        assert (counters.calls, counters.in_flight) == (3, 0)
        assert counters.errors == {"upstream_error": 1, "timeout": 1}
        assert (counters.percentile(0.5) or 0) > 0

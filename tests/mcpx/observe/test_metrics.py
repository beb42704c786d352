"""The counters: nearest-rank percentiles over recent calls, and plain JSON."""

from __future__ import annotations

import json

import pytest

from mcpx.observe.metrics import RECENT, Counters
from tests.mcpx.scripted import one_server


def test_without_calls_there_is_no_latency():
    told = Counters().to_dict()
    assert told["latency_ms"] == {"p50": None, "p99": None}
    assert (told["calls"], told["errors"], told["errors_by_code"]) == (0, 0, {})


def test_percentiles_are_of_real_durations_in_milliseconds():
    counters = Counters()
    for milliseconds in range(1, 101):
        counters.answered(milliseconds / 1000)
    latency = counters.to_dict()["latency_ms"]
    assert 50 <= latency["p50"] <= 51
    assert 99 <= latency["p99"] <= 100
    assert counters.percentile(1.0) == 0.1


def test_only_recent_calls_count():
    counters = Counters()
    counters.answered(1000)
    for _ in range(RECENT):
        counters.answered(0.001)
    assert counters.percentile(1.0) == 0.001


@pytest.mark.anyio
async def test_a_server_counts_its_calls_and_its_errors_by_code():
    async with one_server(settings={"call_timeout": 0.2}) as watch:
        await watch.text("echo", {"text": "x"})
        await watch.failure("fail", {"text": "x"})
        await watch.failure("hang")
        told = watch.hub.upstreams["s"].counters.to_dict()
        assert (told["calls"], told["in_flight"], told["errors"]) == (3, 0, 2)
        assert told["errors_by_code"] == {"upstream_error": 1, "timeout": 1}
        assert told["latency_ms"]["p50"] > 0
        assert json.loads(json.dumps(told)) == told

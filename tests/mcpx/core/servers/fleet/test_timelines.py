"""What a server's timeline says of real deaths, sleeps and reloads, and that it is bounded."""

from __future__ import annotations

import os
import signal

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.servers.fleet.timelines import MAX_CAUSE_CHARS, MAX_ENTRIES, Timeline
from supervisors import Cause, ChildFailed, ChildReady, ChildStarting
from tests.mcpx.scripted import config_of, entry, one_server, open_watched


def events(watch, name="s"):
    return [each.event for each in watch.hub.fleet.timelines[name].entries()]


@pytest.mark.anyio
async def test_a_death_is_told_with_its_cause_and_its_process_and_what_followed():
    async with one_server() as watch:
        timeline = watch.hub.fleet.timelines["s"]
        assert events(watch) == ["started", "ready"]
        pid = watch.hub.upstreams["s"].pid
        before = timeline.count
        os.kill(pid, signal.SIGKILL)
        await watch.leaves(State.READY)
        await watch.becomes(State.READY)
        died, waiting, started, ready = timeline.entries(before)
        assert (died.event, died.pid) == ("died", pid)
        assert "SIGKILL" in died.cause
        assert (waiting.event, started.event, ready.event) == ("waiting", "started", "ready")
        assert waiting.retry_in_s >= 0
        assert (ready.pid, ready.took_s > 0) == (watch.hub.upstreams["s"].pid, True)
        assert died.at <= waiting.at <= started.at <= ready.at


@pytest.mark.anyio
async def test_a_server_that_sleeps_or_is_given_up_says_so():
    parks = {"restart": {"initial": 0.01, "cap": 0.02, "park_after": 2}}
    servers = {
        "lazy": entry(settings={"start": "on_demand"}),
        "bad": {"command": "/does/not/exist", **parks},
        "off": {**entry(), "disabled": True},
    }
    async with open_watched(config_of(servers)) as watch:
        await watch.becomes(State.ASLEEP, "lazy")
        await watch.becomes(State.PARKED, "bad")
        assert events(watch, "lazy")[-1] == "asleep"
        died, parked = watch.hub.fleet.timelines["bad"].entries()[-2:]
        assert (died.event, parked.event) == ("died", "parked")
        assert "/does/not/exist" in died.cause
        assert events(watch, "off") == ["disabled"]


@pytest.mark.anyio
async def test_a_timeline_stays_with_a_server_that_changes_and_goes_with_one_that_is_removed():
    base = entry()
    async with open_watched(config_of({"s": base, "gone": base})) as watch:
        news = watch.hub.fleet.timelines["s"].count
        await watch.hub.reload(config_of({"s": {**base, "env": {"VARIANT": "other"}}}))
        await watch.becomes(State.READY)
        after = [each.event for each in watch.hub.fleet.timelines["s"].entries(news)]
        assert after == ["stopped", "started", "ready"]
        assert "gone" not in watch.hub.fleet.timelines


def test_it_is_bounded_and_says_what_is_new():
    timeline = Timeline()
    for number in range(MAX_ENTRIES):
        timeline.note(ChildStarting("s", number), None)
        timeline.note(ChildReady("s", number, 0.01), 7)
    timeline.note(ChildFailed("s", 1, Cause("x" * 10 * MAX_CAUSE_CHARS), 1, 0.5), None)
    assert timeline.count == 2 * MAX_ENTRIES + 2
    assert len(timeline.entries()) == MAX_ENTRIES
    died, waiting = timeline.entries(after=timeline.count - 2)
    assert (died.event, died.pid, waiting.event) == ("died", 7, "waiting")
    assert len(died.cause) < MAX_CAUSE_CHARS + 10
    assert timeline.entries(after=timeline.count) == []
    assert len(timeline.entries(after=0)) == MAX_ENTRIES

"""Servers that leave when their first message is not `initialize`: every one built with rmcp so far."""

from __future__ import annotations

import json
import os
import signal

import pytest

from mcpx.catalog.model import State
from tests.mcpx.upstream.raw import heard, raw_server, refusal

pytestmark = pytest.mark.anyio

OLDER = ["started", "initialize", "tools/list"]
ONE_TRY = {"restart": {"park_after": 1, "park_probe": 60}}


async def kill(watch) -> None:
    os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
    await watch.leaves(State.READY)
    await watch.becomes(State.READY)


async def test_a_server_that_takes_nothing_before_initialize_is_started_again_at_once(tmp_path):
    async with raw_server(tmp_path, first="initialize") as watch:
        assert watch.state() is State.READY
        assert watch.hub.upstreams["s"].queue.lifecycle().failures == 0
        assert heard(tmp_path) == ["started", *OLDER]
        await kill(watch)
        assert heard(tmp_path) == ["started", *OLDER, *OLDER]  # it is remembered


async def test_a_server_that_takes_the_older_greeting_no_more_is_asked_again(tmp_path):
    async with raw_server(tmp_path, first="initialize") as watch:
        await watch.hub.restart("s")
        assert heard(tmp_path)[4:] == OLDER  # not asked as long as the older greeting will do
        script = json.loads((tmp_path / "s.json").read_text())
        del script["first"]
        script["answers"] = {"initialize": refusal(-32022, "too old")}
        (tmp_path / "s.json").write_text(json.dumps(script))
        await watch.hub.restart("s")
        await watch.until(lambda: "server/discover" in heard(tmp_path)[7:])


async def test_a_server_that_dies_both_ways_is_told_by_its_death(tmp_path):
    answers = {"server/discover": "exit", "initialize": "exit"}
    async with raw_server(tmp_path, answers=answers, settings=ONE_TRY) as watch:
        assert watch.state() is State.PARKED
        info = watch.hub.upstreams["s"].info()
        assert info.cause == "the server process exited with code 1 during the handshake"
        assert watch.hub.upstreams["s"].queue.lifecycle().failures == 1
        assert heard(tmp_path) == ["started", "server/discover", "started", "initialize"]


async def test_a_server_that_refuses_the_question_and_then_leaves_is_greeted_the_older_way(tmp_path):
    async with raw_server(tmp_path, spoilt_by="server/discover", settings=ONE_TRY) as watch:
        assert watch.state() is State.READY
        assert heard(tmp_path) == ["started", "server/discover", "initialize", *OLDER]


async def test_a_server_that_falls_silent_at_the_question_is_not_asked_again(tmp_path):
    settings = {"connect_timeout": 0.5}
    async with raw_server(tmp_path, silenced_by="server/discover", settings=settings) as watch:
        await watch.becomes(State.READY)
        assert heard(tmp_path) == ["started", "server/discover", *OLDER]

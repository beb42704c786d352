"""A restart of one server on request."""

from __future__ import annotations

import time

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.errors import CallError, Code
from supervisors import Phase
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, one_server, open_watched, soon

pytestmark = pytest.mark.anyio


async def test_a_restart_lets_the_calls_that_run_finish_and_those_that_come_wait(ears):
    base = entry(ears)
    config = config_of({"s": base, "t": base}, shutdown_grace=PATIENCE_S)
    async with open_watched(config) as watch:
        pid = watch.hub.upstreams["s"].pid
        answers, ready = [], []

        async def crowd():
            answers.append(await watch.text("crowd", {"size": 1}))

        async def restart():
            ready.append(await watch.hub.restart("s"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crowd)  # answered after a moment
            await ears.hear("call", tool="crowd")
            tasks.start_soon(restart)
            await soon(lambda: watch.hub.supervisor.state("s").phase is Phase.STOPPING)
            assert watch.state() is State.STARTING
            assert await watch.text("echo", {"text": "waited"}) == "waited"
        assert answers == ["at most 1"]
        assert ready[0].state is State.READY
        assert watch.hub.upstreams["s"].pid != pid
        assert watch.hub.upstreams["s"].queue.lifecycle().failures == 0
        assert len(ears.of("started")) == 3


async def test_a_restart_wakes_a_parked_server(tmp_path):
    wanted = tmp_path / "wanted"
    settings = {"restart": {"initial": 0.01, "park_after": 1, "park_probe": 300}}
    async with one_server(settings=settings, wants=str(wanted)) as watch:
        assert watch.state() is State.PARKED
        info = await watch.hub.restart("s")
        assert info.state is State.PARKED  # it was tried, and failed again
        wanted.touch()
        began = time.monotonic()
        assert (await watch.hub.restart("s")).state is State.READY
        assert time.monotonic() - began < 10


async def test_what_cannot_be_restarted_says_why():
    async with open_watched(config_of({"files": entry(), "off": {**entry(), "disabled": True}})) as watch:
        with pytest.raises(CallError, match="files") as unknown:
            await watch.hub.restart("fils")
        assert unknown.value.code is Code.UNKNOWN_SERVER
        with pytest.raises(CallError, match="disabled") as disabled:
            await watch.hub.restart("off")
        assert disabled.value.code is Code.SERVER_UNAVAILABLE

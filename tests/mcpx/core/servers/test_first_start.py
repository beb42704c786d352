"""A first start may take minutes, as long as the server's process works; one that hangs ends as ever."""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.system.processes import WorkWatch
from mcpx.errors import CallError, Code
from tests.mcpx.scripted import QUICK, SERVER, config_of, open_watched

SERVES = f"os.execv(sys.executable, [sys.executable, '-S', '-E', {str(SERVER)!r}, '{{}}'])"
SAYS = "print('Downloading', number, file=sys.stderr, flush=True); time.sleep(0.1)"
BURNS = "end = time.process_time() + 0.03\nwhile time.process_time() < end: pass\ntime.sleep(0.05)"
CHILD = "subprocess.run([sys.executable, '-S', '-E', '-c', 'import time\\n' + {burns!r}])"
GROWS = "kept.append(b'x' * (3 << 20)); time.sleep(0.1)"
LIMITS = {"connect_timeout": 1.0, "restart": QUICK, "remembered_for": 0.001}


def slow(work: str, *, times: int = 20, **settings):
    """The entry of a server that does this so often before it serves."""
    body = "\n".join(f"    {line}" for line in work.splitlines())
    code = f"import os, subprocess, sys, time\nkept = []\nfor number in range({times}):\n{body}\n{SERVES}"
    return {"command": sys.executable, "args": ["-S", "-E", "-c", code], **LIMITS, **settings}


@asynccontextmanager
async def opened(entry):
    async with open_watched(config_of({"s": entry}), settled=False) as watch:
        yield watch.hub


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.anyio
@pytest.mark.parametrize(
    "work", [SAYS, BURNS, GROWS, CHILD.format(burns=BURNS)], ids=["says", "burns", "grows", "child"]
)
async def test_one_that_works_is_waited_for_and_started_once(work):
    async with opened(slow(work)) as hub:
        assert await hub.settled(30.0)
        info = hub.upstreams["s"].info()
        assert (info.state, info.cause) == (State.READY, None)
        assert hub.upstreams["s"].main.last_error is None


@pytest.mark.anyio
async def test_one_that_hangs_ends_as_ever_and_says_why():
    entry = slow("time.sleep(60)", times=1, restart=QUICK | {"park_after": 1})
    async with opened(entry) as hub:
        assert await hub.settled(30.0)
        info = hub.upstreams["s"].info()
        assert info.state is State.PARKED
        assert info.cause == "no answer to the handshake within 1 s"


@pytest.mark.anyio
async def test_there_is_an_end_to_it_and_a_server_that_was_ready_has_the_usual_time():
    entry = slow(SAYS, times=600, first_start_timeout=2.0, restart=QUICK | {"park_after": 1})
    async with opened(entry) as hub:
        assert await hub.settled(30.0)
        cause = hub.upstreams["s"].info().cause
        assert cause.startswith("no answer to the handshake within 2 s, in which it worked at first")
        assert "Downloading" in cause


@pytest.mark.anyio
async def test_calls_that_wait_say_what_it_does_and_inspect_shows_it():
    entry = slow(SAYS, times=50, queue_timeout=3.5)
    async with opened(entry) as hub:
        with pytest.raises(CallError) as caught:
            await hub.calls.exec("s", "echo", {"text": "x"})
        assert caught.value.code is Code.SERVER_UNAVAILABLE
        assert "(starting: it has been starting for " in str(caught.value)
        assert "; its last line: Downloading " in str(caught.value)
        shown = hub.upstreams["s"].info().describe_state()
        assert "its last line: Downloading" in shown
        assert await hub.settled(30.0)
        assert hub.upstreams["s"].info().ready


@pytest.mark.anyio
async def test_a_sleeping_one_lets_calls_wait_no_longer_than_another_once_it_takes_long():
    entry = slow(SAYS, times=600, queue_timeout=0.5, start="on_demand")
    async with opened(entry) as hub:
        with pytest.raises(CallError, match="starting"):
            await hub.calls.exec("s", "echo", {"text": "x"})
        assert not hub.upstreams["s"].info().ready


def test_a_process_that_waits_does_not_work_and_one_that_ended_neither():
    with subprocess.Popen(["sleep", "60"]) as waits:
        try:
            watch = WorkWatch(waits.pid)
            while watch.look():  # it may still be loading what it is linked with
                pass
        finally:
            waits.kill()
    assert not watch.look()

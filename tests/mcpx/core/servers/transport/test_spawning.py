"""Processes that are started before the SDK is there: handed over, and never left behind."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from mcpx.core.config import Stdio
from mcpx.core.servers.transport.process import running
from mcpx.core.servers.transport.spawning import EARLY, spawn
from mcpx.core.system.environment import CHILD_MARK, UNASKED
from tests.mcpx.serving import is_alive

CAT = Stdio(command="cat")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    yield tmp_path / "state"
    EARLY.end()


def waiting():
    return [child.popen.pid for _, child in EARLY._waiting]


@pytest.mark.anyio
async def test_a_server_takes_the_process_that_was_started_for_its_command():
    EARLY.start([CAT, CAT], at_once=2)
    early = waiting()
    async with running(CAT, lambda _data: None) as first, running(CAT, lambda _data: None) as second:
        assert [first.pid, second.pid] == early
        async with running(CAT, lambda _data: None) as third:
            assert third.pid not in early
    assert not any(map(is_alive, early))


@pytest.mark.linux("whether a process is busy is read from /proc")
def test_a_busy_process_holds_the_next_back_and_one_that_waits_does_not():
    busy = Stdio(command=sys.executable, args=["-S", "-E", "-c", "while True: pass"])
    EARLY.start([busy, CAT, CAT, busy, CAT], at_once=2)
    deadline = time.monotonic() + 20
    while len(waiting()) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    EARLY._stop_starting()
    assert len(waiting()) == 4  # two are busy now


def test_those_that_nobody_takes_are_ended_and_stand_in_the_ledger_until_then(state):
    EARLY.start([CAT, Stdio(command="/no/such/command")], at_once=2)
    (pid,) = waiting()
    (ledger,) = (state / "children").iterdir()
    assert f'"pid":{pid}'.encode() in ledger.read_bytes()
    EARLY.end()
    assert not is_alive(pid)
    assert not list((state / "children").iterdir())


def test_a_child_is_given_the_stated_variables_and_its_mark_and_no_others(monkeypatch):
    monkeypatch.setenv("SHELL", "() { :; }")  # as bash exported functions
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    monkeypatch.setenv("MY_HOST", "h")
    child = spawn(Stdio(command="env", env={"A": "b"}, inherit=("MY_*",)))
    lines = child.popen.communicate(timeout=50)[0].decode().splitlines()
    given = {line.partition("=")[0] for line in lines}
    assert given <= {*UNASKED, "A", "MY_HOST", CHILD_MARK} - {"SHELL"}
    assert {"A=b", f"{CHILD_MARK}={child.mark}", "HTTPS_PROXY=http://proxy", "MY_HOST=h"} <= set(lines)


def test_nothing_of_the_sdk_is_imported_for_it():
    program = "import sys, mcpx.core.servers.early_start, mcpx.core.store.listening; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"mcp", "mcp_types", "pydantic", "anyio"} & set(done.stdout.split())

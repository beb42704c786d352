"""Every fault of a stdio server, with real processes: what the caller saw, who noticed, what was left.

Each fault runs beside a healthy neighbour that must answer meanwhile and keep its incarnation; after it the
wicked server must be back, or never have been away; and at the end nothing of any process group is left and
no file descriptor more is open than before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest

from mcpx.catalog.model import State
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.scripted import QUICK, config_of, entry, open_watched

WICKED = Path(__file__).with_name("wicked_server.py")
LIMIT = 2_000_000  # bytes of a message: far less than the long line, so that memory stays bounded
SMALL = {
    "restart": QUICK,
    "connect_timeout": 2,
    "call_timeout": 1,
    "health_check_interval": 0.3,
    "health_check_timeout": 0.3,
}


@pytest.fixture
def anyio_backend():
    return "asyncio"


pytestmark = pytest.mark.anyio


def wicked(mode, folder, times=1, **settings):
    """The config entry of a wicked server."""
    args = ["-S", "-E", str(WICKED), mode, str(folder), str(times)]
    return {"command": sys.executable, "args": args, **SMALL, **settings}


def open_descriptors():
    """How many file descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def group_lives(pid):
    """Whether a process of the group runs; zombies do not count, for not every system reaps orphans."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True)
    rows = (row.split() for row in listed.stdout.splitlines())
    return any(int(group) == pid and not state.startswith("Z") for group, state in rows)


@asynccontextmanager
async def beside_a_neighbour(mode, folder, times=1, **settings):
    """A hub with a wicked server `w` and a healthy one; checks the neighbour and what is left."""
    fds = open_descriptors()
    config = config_of(
        {"w": wicked(mode, folder, times, **settings), "good": entry()}, max_message_bytes=LIMIT
    )
    groups = set()
    async with open_watched(config) as watch:
        upstream, neighbour = watch.hub.upstreams["w"], watch.hub.upstreams["good"]
        note, neighbours_pid = upstream._ledger.add, neighbour.pid

        def noting(name, pid):
            groups.add(pid)
            note(name, pid)

        upstream._ledger.add = noting
        groups |= {pid for pid in (upstream.pid, neighbour.pid) if pid is not None}
        yield watch
        assert await watch.text("echo", {"text": "still here"}, server="good") == "still here"
        assert neighbour.pid == neighbours_pid
        assert neighbour.queue.lifecycle().generation == 1
    assert groups
    assert [pid for pid in groups if group_lives(pid)] == []
    assert open_descriptors() <= fds


class Expected(msgspec.Struct, frozen=True):
    """What a call of `act` meets with, and which incarnation answers after it."""

    code: Code | None
    says: str
    then: int
    times: int = 1


FAULTS = {
    "exit_at_start": Expected(None, "act by incarnation 3", 3, times=2),
    "exit_in_handshake": Expected(None, "act by incarnation 2", 2),
    "silent_handshake": Expected(None, "act by incarnation 2", 2),
    "forks_at_once": Expected(None, "act by incarnation 2", 2),
    "exit_mid_call": Expected(Code.SERVER_DIED, "exited with code 7", 2),
    "half_line": Expected(Code.TIMEOUT, "did not answer within 1 s", 2),
    "long_line": Expected(Code.RESPONSE_TOO_LARGE, f"over {LIMIT} bytes", 1),
    "invalid_utf8": Expected(Code.PROTOCOL_ERROR, "not UTF-8", 1),
    "deep_json": Expected(Code.PROTOCOL_ERROR, "nested too deeply", 1),
    "broken_json": Expected(Code.PROTOCOL_ERROR, "not JSON", 1),
    "rubbish": Expected(None, "act by incarnation 1", 1),
    "unknown_id": Expected(None, "after answers that nobody asked for", 1),
    "answers_twice": Expected(None, "for the first time", 1),
    "floods_stderr": Expected(None, "after a flood", 1),
    "stubborn": Expected(None, "act by incarnation 1", 1),
    "grandchild": Expected(None, "act by incarnation 1", 1),
}


@pytest.mark.parametrize("mode", FAULTS)
async def test_a_fault_costs_its_call_at_most(mode, tmp_path):
    expected = FAULTS[mode]
    patient = {"call_timeout": 30} if mode in {"long_line", "floods_stderr"} else {}
    async with beside_a_neighbour(mode, tmp_path, expected.times, **patient) as watch:
        if expected.code is None:
            assert expected.says in await watch.text("act", server="w")
        else:
            error = await watch.failure("act", server="w")
            assert error.code is expected.code
            assert error.outcome is Outcome.UNKNOWN
            assert expected.says in str(error)
            if expected.code is Code.SERVER_DIED:
                assert "my last words" in str(error)
        if expected.then > 1:
            await watch.until(lambda: watch.hub.upstreams["w"].queue.lifecycle().generation >= expected.then)
        await watch.becomes(State.READY, "w")
        assert await watch.text("echo", {}, server="w") == f"echo by incarnation {expected.then}"


async def test_a_storm_of_changes_is_a_handful_of_listings(tmp_path):
    async with beside_a_neighbour("storm", tmp_path, call_timeout=30) as watch:
        counters = watch.hub.upstreams["w"].counters
        before = counters.listings
        assert await watch.text("act", server="w") == "act, after a storm"
        await watch.until(lambda: watch.hub.registry.get_tool("w", "came_with_the_storm") is not None)
        assert counters.listings - before <= 15


async def test_a_listing_that_fails_during_the_session_costs_nothing_else(tmp_path):
    async with beside_a_neighbour("bad_relisting", tmp_path, call_timeout=30) as watch:
        tools = watch.hub.upstreams["w"].catalogue.tools
        listings = watch.hub.upstreams["w"].counters.listings
        assert await watch.text("act", server="w") == "act, after the listing was refused"
        assert await watch.text("echo", {}, server="w") == "echo by incarnation 1"
        assert watch.hub.upstreams["w"].catalogue.tools == tools
        assert watch.hub.upstreams["w"].counters.listings == listings


async def test_a_frozen_server_is_noticed_killed_and_started_again(tmp_path):
    async with beside_a_neighbour("good", tmp_path) as watch:
        upstream = watch.hub.upstreams["w"]
        frozen = upstream.pid
        os.kill(frozen, signal.SIGSTOP)
        await watch.leaves(State.READY, "w", within=10)
        await watch.becomes(State.READY, "w")
        assert upstream.pid != frozen
        assert await watch.text("echo", {}, server="w") == "echo by incarnation 2"


async def test_a_call_to_a_frozen_server_is_told_and_the_server_replaced(tmp_path):
    async with beside_a_neighbour("good", tmp_path) as watch:
        os.kill(watch.hub.upstreams["w"].pid, signal.SIGSTOP)
        error = await watch.failure("count", {"key": "k"}, server="w")
        assert (error.code, error.outcome) == (Code.TIMEOUT, Outcome.UNKNOWN)
        await watch.until(lambda: watch.hub.upstreams["w"].queue.lifecycle().generation == 2)


async def test_a_server_that_is_busy_inside_its_deadline_is_left_alone(tmp_path):
    async with beside_a_neighbour("good", tmp_path, call_timeout=30) as watch:
        pid = watch.hub.upstreams["w"].pid
        assert await watch.text("busy", {"seconds": 1.5}, server="w") == "busy by incarnation 1"
        assert watch.hub.upstreams["w"].pid == pid


async def test_a_crash_loop_is_parked_with_its_cause_and_a_mended_server_works(tmp_path):
    restart = QUICK | {"park_after": 3, "park_probe": 0.2}
    async with beside_a_neighbour("exit_at_start", tmp_path, 1000, restart=restart) as watch:
        await watch.becomes(State.PARKED, "w")
        assert "exited with code 3" in watch.hub.upstreams["w"].info().describe_state()
        error = await watch.failure("act", server="w")
        assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
        assert "exited with code 3" in str(error)
        (tmp_path / "cured").touch()
        await watch.becomes(State.READY, "w")
        assert (await watch.text("act", server="w")).startswith("act by incarnation")


async def test_the_tools_of_a_new_incarnation_replace_the_old_ones(tmp_path):
    async with beside_a_neighbour("new_tools", tmp_path) as watch:
        assert watch.hub.registry.get_tool("w", "tool_1") is not None
        os.kill(watch.hub.upstreams["w"].pid, signal.SIGKILL)
        await watch.until(lambda: watch.hub.registry.get_tool("w", "tool_2") is not None)
        assert watch.hub.registry.get_tool("w", "tool_1") is None


async def test_many_kills_leave_nothing_and_run_no_call_twice(tmp_path):
    rounds = 60
    async with beside_a_neighbour("good", tmp_path) as watch:
        upstream = watch.hub.upstreams["w"]
        fds = 0
        for number in range(rounds):
            await watch.becomes(State.READY, "w")
            if number == 10:
                fds = open_descriptors()
            pid = upstream.pid
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch.hub.router.exec, "w", "hang_read_only")
                tasks.start_soon(swallow, watch, number)
                os.kill(pid, signal.SIGKILL)
                await watch.until(lambda pid=pid: upstream.pid not in {pid, None})
                tasks.cancel_scope.cancel()
        await watch.becomes(State.READY, "w")
        assert open_descriptors() <= fds
        counted = (tmp_path / "counted").read_text().split() if (tmp_path / "counted").exists() else []
        assert len(counted) == len(set(counted))


async def fate(watch, number):
    """The code that a counted call ends with, or None."""
    try:
        await watch.text("count", {"key": str(number)}, server="w")
    except CallError as error:
        return error.code
    return None


async def swallow(watch, number):
    """A call whose fate does not matter, only that it is not run twice."""
    with anyio.move_on_after(5):
        assert await fate(watch, number) in {None, Code.SERVER_DIED}


async def test_what_a_killed_mcpx_leaves_behind_the_next_one_ends(tmp_path):
    state = tmp_path / "state"
    modes = ["good", "good", "good", "stubborn", "stubborn"]
    servers = {}
    for number, mode in enumerate(modes):
        folder = tmp_path / f"server{number}"
        folder.mkdir()
        servers[f"s{number}"] = wicked(mode, folder)
    config = tmp_path / "mcpx.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    environment = os.environ | {"MCPX_STATE_DIR": str(state)}
    command = [sys.executable, "-m", "mcpx", "serve", str(config)]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    asked = b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    def start():
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write(asked)
        process.stdin.flush()
        while json.loads(process.stdout.readline()).get("id") != 2:  # answered when all are ready
            pass
        children = json.loads(next((state / "children").glob(f"{process.pid}-*.json")).read_text())[
            "children"
        ]
        return process, [child["pid"] for child in children.values()]

    def both():
        first, old = start()
        first.kill()
        first.wait(10)
        stubborn = [pid for pid in old if group_lives(pid)]
        second, new = start()
        left = [pid for pid in old if group_lives(pid)]
        second.stdin.close()
        second.wait(20)
        for process in (first, second):
            process.stdout.close()
        first.stdin.close()
        return old, stubborn, left, [pid for pid in new if group_lives(pid)]

    old, stubborn, left, after = await anyio.to_thread.run_sync(both)
    assert len(old) == 5
    assert len(stubborn) >= 2  # or this test shows nothing
    assert left == []
    assert after == []

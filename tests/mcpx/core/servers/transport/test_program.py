"""A server over HTTP that MCPX starts: an entry with a command and a URL, with a real program behind it."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.protocol.context import ClientId
from mcpx.core.servers import upkeep
from mcpx.core.system.linux import LINUX
from mcpx.errors import Code, Outcome
from tests.mcpx.scripted import PATIENCE_S, QUICK, config_of, open_watched, soon
from tests.mcpx.serving import alive_in_group

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parents[1] / "program_server.py"
MIB = 1 << 20


def entry(port="${port}", *, path="/mcp", settings=None, **options):
    args = ["-S", "-E", str(SERVER), port, json.dumps(options)]
    url = f"http://127.0.0.1:{port}{path}"
    env = {"PORT": port}
    return {
        "command": sys.executable,
        "args": args,
        "env": env,
        "url": url,
        "restart": QUICK,
        **(settings or {}),
    }


@asynccontextmanager
async def running(*given, settled=True, **options):
    async with open_watched(config_of({"s": entry(*given, **options)}), settled=settled) as watch:
        yield watch


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return str(bound.getsockname()[1])


def starts(file):
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_it_is_started_waited_for_and_ended(path, tmp_path):
    async with running(path=path, wait_s=0.3, settings={"cwd": str(tmp_path)}) as watch:
        server = watch.hub.upstreams["s"]
        pid = int(await watch.text("pid"))
        assert (server.pid, await watch.text("where")) == (pid, str(tmp_path))
        status = snapshot(watch.hub, clients=0, started=0).servers[0]
        port = await watch.text("env")
        assert (status.pid, status.listens_at) == (pid, f"http://127.0.0.1:{port}{path}")
        assert status.transport == ("sse" if path == "/sse" else "http")
        said = server.server_log.path.read_text()
        assert "on standard output" in said and "still downloading" in said
        assert [child.pid for child in watch.hub.fleet.ledger._file.children.values()] == [pid]
    assert not alive_in_group(pid)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_its_death_ends_the_session_with_exit_code_and_last_words(path):
    async with running(path=path) as watch:
        first = await watch.text("pid")
        error = await watch.failure("die", {"code": 7})
        assert (error.code, error.outcome) == (Code.SERVER_DIED, Outcome.UNKNOWN)
        assert error.details["cause"] == "the server process exited with code 7"
        assert error.details["stderr"].endswith("dying on request")
        second = await watch.text("pid")  # waits for the next one
        os.kill(int(second), signal.SIGKILL)  # while nothing runs
        await watch.until(lambda: watch.hub.upstreams["s"].queue.lifecycle().generation == 3)
        assert watch.hub.upstreams["s"].main.last_error.startswith("the server process was killed by SIGKILL")
        assert len({first, second, await watch.text("pid")}) == 3


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_connection_that_is_lost_is_made_again_to_the_same_program(path):
    async with running(path=path) as watch:
        server, pid = watch.hub.upstreams["s"], await watch.text("pid")
        sessions = [await watch.text("session")]
        for trouble in ({"tool": "forget"}, {"tool": "deaf", "arguments": {"seconds": 0.5}}):
            await watch.outcome(**trouble)  # over SSE, the answer goes with the stream
            sessions.append(await watch.text("session"))
        assert len(set(sessions)) == 3
        assert (await watch.text("pid"), server.pid) == (pid, int(pid))
        assert (server.queue.lifecycle().generation, server.queue.lifecycle().failures) == (1, 0)
        events = [each.event for each in watch.hub.fleet.timelines["s"].entries()]
        assert events == ["started", "ready", *["interrupted", "ready"] * 2]


async def test_one_that_stays_unreachable_is_started_anew(tmp_path):
    ears = tmp_path / "ears"
    async with running(ears=str(ears), settings={"connect_timeout": 1}) as watch:
        await watch.text("deaf", {"seconds": 600})
        assert await watch.text("pid") == starts(ears)[1]
        assert not alive_in_group(int(starts(ears)[0]))


@pytest.mark.linux("that a process is stopped")
async def test_one_that_hangs_is_killed_and_one_that_is_not_ready_yet_is_waited_for():
    health = {"health_check_interval": 0.2, "health_check_timeout": 0.2}
    async with running(settings=health, refuse=3) as watch:
        assert watch.hub.upstreams["s"].queue.lifecycle().generation == 1
        first = await watch.text("pid")
        with anyio.move_on_after(0.1):  # it may answer before it hangs
            await watch.text("hang")
        error = await watch.failure("pid")
        assert (error.code, error.outcome) == (Code.SERVER_DIED, Outcome.UNKNOWN)
        assert "the server hangs" in error.details["cause"]
        assert await watch.text("pid") != first
        assert not alive_in_group(int(first))


async def test_a_first_start_may_take_long_and_one_that_fails_says_why():
    patience = 0.6 if LINUX else 3.0  # `ps` takes a part of that
    servers = {
        "slow": entry(wait_s=2.5 * patience, settings={"connect_timeout": patience}),
        "broken": entry(exit=9),
        "unknown": {**entry(), "command": "no-such-command"},
    }
    async with open_watched(config_of(servers)) as watch:
        await watch.becomes(State.PARKED, "broken")
        why = watch.hub.upstreams["broken"].info().cause
        assert "exited with code 9" in why and why.endswith("cannot start")
        assert watch.state("unknown") is State.PARKED
        assert "command not found: no-such-command" in watch.hub.upstreams["unknown"].info().cause
        await watch.becomes(State.READY, "slow")
        assert watch.hub.upstreams["slow"].queue.lifecycle().generation == 1


async def test_whoever_listens_at_its_port_is_not_taken_for_it(tmp_path):
    ears = tmp_path / "ears"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        async with running(port, ears=str(ears)) as watch:
            assert f"another one listens at port {port} of 127.0.0.1" in watch.hub.upstreams["s"].info().cause
            assert starts(ears) == []
            other.settimeout(0)
            other.close()
            assert await watch.text("pid") == starts(ears)[0]


async def test_sessions_share_a_fixed_port_and_have_programs_of_their_own_where_mcpx_chooses_it():
    settings = {"sessions": "per_client"}
    servers = {
        "fixed": entry(free_port(), settings=settings | {"idle_stop": 0.3}),
        "chosen": entry(settings=settings),
    }
    async with open_watched(config_of(servers)) as watch:
        one, two = ClientId(), ClientId()

        async def of(client, server, tool):
            done = await watch.hub.calls.exec(server, tool, {}, client=client)
            return done.shaped.content[0]["text"]

        pids = [await of(client, server, "pid") for server in servers for client in (one, two)]
        assert (pids[0] == pids[1], pids[2] == pids[3]) == (True, False)
        assert await of(one, "fixed", "session") != await of(two, "fixed", "session")
        assert len({*pids, str(watch.hub.upstreams["chosen"].pid)}) == 4
        with pytest.raises(Exception, match="exited with code 3"):
            await of(one, "fixed", "die")
        assert await of(one, "fixed", "pid") == await of(two, "fixed", "pid") != pids[0]
        watch.hub.client_left(one)
        watch.hub.client_left(two)
        await soon(lambda: not alive_in_group(int(pids[2])) and not alive_in_group(int(pids[3])))
        await watch.becomes(State.ASLEEP, "fixed")  # now that nobody needs its program
        assert await of(ClientId(), "fixed", "pid")


async def test_restarts_that_are_planned_are_those_of_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "LOOK_S", 0.02)
    monkeypatch.setattr(upkeep, "QUIET_S", 0.05)
    ears = tmp_path / "ears"
    settings = {"limits": {"memory": 120 * MIB}, "watch": ["*.txt"], "cwd": str(tmp_path)}
    async with running(ears=str(ears), settings=settings) as watch:
        await watch.text("hoard", {"mib": 70})
        await watch.text("forget")  # a connection more does not make it a new process
        await watch.text("hoard", {"mib": 70})
        await soon(lambda: len(starts(ears)) == 2)
        await watch.text("pid")
        with anyio.fail_after(PATIENCE_S):
            while len(starts(ears)) == 2:
                (tmp_path / "a.txt").write_text("x")
                await anyio.sleep(0.5)  # its folder is watched soon, not at once
        await watch.text("pid")
        before = len(starts(ears))
        await watch.hub.fleet.restart(watch.hub.upstreams["s"])
        assert await watch.text("pid") == starts(ears)[before]
        assert watch.hub.upstreams["s"].queue.lifecycle().failures == 0

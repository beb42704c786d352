"""What a server has started ends with it, in whatever session it is, and nothing of anybody else's does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mcpx.core.system.marked import look
from tests.faults.runaways import Plan, marks_of, pid_of, run_away
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import QUICK, entry
from tests.mcpx.serving import run_cli

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
    pytest.mark.anyio,
]


async def test_nothing_is_left_of_servers_or_a_daemon_that_are_killed(monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", "")
    found = await run_away(Plan(servers=2, kills=3, restarts=1, daemons=1))
    assert (found.left, found.doubles_ended) == (0, 0)
    assert (len(found.servers), len(found.restarts), len(found.daemons)) == (3, 1, 1)


@pytest.mark.linux(
    "with Linux's forms hidden from its daemon alone, what sweeps takes its file for that of another boot"
)
async def test_nothing_is_left_of_a_daemon_that_is_killed_where_no_client_starts_the_next(house, ears):
    house.write({"browser": entry(grandchild="session", ears=str(ears.path))})
    done = run_cli(house.folder, "daemon", "start", "--config", house.config, real=True)  # its sweep as well
    assert done.returncode == 0
    assert house.run("exec", "browser", "echo", "text=x").returncode == 0
    [started] = ears.of("grandchild")
    os.kill(house.status()["daemon"]["pid"], signal.SIGKILL)
    await until(lambda: not is_running(started["pid"]), within=20.0)


async def test_nothing_is_left_after_a_stop_also_of_what_has_thrown_its_mark_away(house, ears):
    house.write(
        {
            "browser": entry(grandchild="session", ears=str(ears.path)),
            "hidden": entry(grandchild="hidden", ears=str(ears.path)),
        }
    )
    async with house.attached() as client:
        await client.initialize()
        for name in ("browser", "hidden"):
            await client.call("exec", server_name=name, tool_name="echo", arguments={"text": "x"})
        pids = [each["pid"] for each in ears.of("grandchild")]
        marks = set(marks_of(house).values())
        assert (len(pids), len(marks)) == (2, 2)
        assert house.run("daemon", "stop").returncode == 0
        assert not marks & set(look().values())
        await until(lambda: not any(map(is_running, pids)), within=20.0)


async def test_one_without_its_mark_is_found_by_descent_where_its_server_is_killed_later(house, ears):
    server = entry(grandchild="hidden", ears=str(ears.path))
    house.write({"s": {**server, "restart": QUICK}})
    async with house.attached() as client:
        await client.initialize()
        await client.call("exec", server_name="s", tool_name="echo", arguments={"text": "x"})
        [started] = ears.of("grandchild")
        os.kill(pid_of(house, "s"), signal.SIGKILL)
        await until(lambda: not is_running(started["pid"]), within=20.0)


def is_running(pid: int) -> bool:
    """Return True for a process that lives: one that nobody has collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

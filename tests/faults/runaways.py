"""Servers that are killed while each has a child in a session of its own, as a browser is; and the daemon.

Every server leaves a stubborn child behind, which carries its mark and ignores SIGTERM. `run_away` kills
servers, has them restarted, and kills the daemon, while processes of nobody's with a similar environment look
on. Started by `scripts/runaways`; a short form is in `tests/mcpx/core/daemon/test_runaways.py`.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec

from mcpx.core.system.environment import CHILD_MARK
from mcpx.core.system.marked import look
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.scripted import QUICK, entry
from tests.mcpx.serving import Served

GONE_WITHIN_S: Final = 2.0
LOOK_S: Final = 0.01


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Number of servers, and how often one is killed or restarted, and the daemon killed."""

    servers: int
    kills: int
    restarts: int
    daemons: int


class Runaways(msgspec.Struct, frozen=True, kw_only=True):
    """What a run showed: seconds from each kill until nothing of the server was left, by who was killed."""

    servers: list[float]
    restarts: list[float]
    daemons: list[float]
    left: int
    """Children that lived two seconds after it."""
    doubles_ended: int
    """Processes of nobody's that were ended."""

    def rows(self) -> list[str]:
        """Return the table of the script."""
        said = []
        for what, times in (
            ("a server was killed", self.servers),
            ("a server was restarted", self.restarts),
            ("the daemon was killed", self.daemons),
        ):
            if times:
                spread = f"{statistics.median(times) * 1e3:,.0f} ms | {max(times) * 1e3:,.0f} ms"
                said.append(f"| {what} | {len(times)} | {spread} |")
        return said


@contextmanager
def doubles(mark: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run processes of nobody's whose environment is similar to that of a server with this mark."""
    similar = [
        {CHILD_MARK: mark[:-1]},
        {CHILD_MARK: mark + "0"},
        {"NOTE": f"{CHILD_MARK}={mark}"},
        {f"X{CHILD_MARK}": mark},
        {f"{CHILD_MARK}_": mark, CHILD_MARK: ""},
    ]
    command = [sys.executable, "-S", "-E", "-c", "input()"]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | each, start_new_session=True)
        for each in similar
    ]
    try:
        yield running
    finally:
        for each in running:
            each.kill()
            each.communicate()


def marks_of(house: House) -> dict[str, str]:
    """The mark of each server that runs now, by its name."""
    marks = look()
    return {each["name"]: marks[each["pid"]] for each in house.status()["servers"] if each["pid"] in marks}


async def gone(marks: set[str], since: float) -> float | None:
    """Wait until no process carries one of these marks: seconds since then, None if one lives too long."""
    while marks & set(look().values()):
        if time.monotonic() > since + GONE_WITHIN_S:
            return None
        await anyio.sleep(LOOK_S)
    return time.monotonic() - since


@asynccontextmanager
async def attached(house: House, names: list[str]) -> AsyncIterator[Served]:
    async with house.attached() as client:
        await client.initialize()
        await use(client, names)
        yield client


async def use(client: Served, names: list[str]) -> None:
    """Have each server answer a call: it runs, and so does its child."""
    for name in names:
        found = await client.call("exec", server_name=name, tool_name="echo", arguments={"text": "x"})
        assert found["content"][0]["text"] == "x", found


async def run_away(plan: Plan) -> Runaways:
    """Kill servers, restart them, and kill the daemon; each time with a child that would stay."""
    with tempfile.TemporaryDirectory(prefix="mcpx-") as folder:
        os.environ["MCPX_STATE_DIR"] = f"{folder}/state"
        house = House(Path(folder))
        try:
            return await _run_away(house, plan)
        finally:
            house.close()


async def _run_away(house: House, plan: Plan) -> Runaways:
    names = [f"s{number}" for number in range(plan.servers)]
    house.write({name: {**entry(grandchild="session"), "restart": QUICK} for name in names})
    times: dict[str, list[float | None]] = {"servers": [], "restarts": [], "daemons": []}
    async with attached(house, names) as client:
        with doubles(marks_of(house)["s0"]) as lookers_on:
            for number in range(plan.kills):
                name = names[number % plan.servers]
                mark, pid = marks_of(house)[name], pid_of(house, name)
                os.kill(pid, signal.SIGKILL)
                times["servers"].append(await gone({mark}, time.monotonic()))
                await use(client, [name])
            for number in range(plan.restarts):
                name = names[number % plan.servers]
                mark, since = marks_of(house)[name], time.monotonic()
                done = await anyio.to_thread.run_sync(house.run, "restart", name)
                assert done.returncode == 0, done.stderr
                times["restarts"].append(await gone({mark}, since))
            for _ in range(plan.daemons):
                await use(client, names)
                marks, pid = set(marks_of(house).values()), house.pid
                assert pid is not None
                assert len(marks) == plan.servers
                os.kill(pid, signal.SIGKILL)
                times["daemons"].append(await gone(marks, time.monotonic()))
            ended = [each for each in lookers_on if each.poll() is not None]
    found = [each for kind in times.values() for each in kind]
    passed = {kind: [each for each in its if each is not None] for kind, its in times.items()}
    return Runaways(**passed, left=found.count(None), doubles_ended=len(ended))


def pid_of(house: House, name: str) -> int:
    """The process of a server."""
    return int(next(each["pid"] for each in house.status()["servers"] if each["name"] == name))


def main() -> None:
    """Run it as often as the issue asks, and print the table; exit code 1 if anything was left."""
    kills, restarts, daemons = (int(each) for each in sys.argv[1:4] or (140, 30, 30))
    plan = Plan(servers=5, kills=kills, restarts=restarts, daemons=daemons)
    found = anyio.run(run_away, plan)
    rows = ["| what happened | times | nothing left after, median | at most |", "|---|---:|---:|---:|"]
    sys.stdout.write("\n".join([*rows, *found.rows()]) + "\n")
    sys.stdout.write(
        f"left after two seconds: {found.left}; others' processes ended: {found.doubles_ended}\n"
    )
    sys.exit(1 if found.left or found.doubles_ended else 0)


if __name__ == "__main__":
    main()

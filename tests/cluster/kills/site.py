"""A gateway of a real Ray cluster, its servers and its clients, for what is played there.

`opened` starts all of it. The nodes are looked at as `mcpx cluster status` shows them, by the ids that Ray
gave them, because a machine that comes back is another node for Ray.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.cluster import machine
from tests.cluster.conftest import RayCluster
from tests.cluster.kills.load import Load
from tests.cluster.kills.tally import Loss, Tally
from tests.mcpx.cluster.replicas.site import TOKEN, counting
from tests.mcpx.core.daemon.daemons import House
from tests.ports import free_port

SHARED = ("a", "b", "c")
PRIVATE = "mine"
LOOK_S = 0.1
ADD_TRIES = 5
COMES_BACK_S = 90.0  # a node, on a machine with two cores that has much else to do


def entries(counted: Path) -> dict[str, Any]:
    """Three servers that all share, kept apart, and one of which each client has its own; all far."""
    server = counting(counted, line="@{given.id} @{pid}")
    apart = {"place": {"resources": {"far": 1}, "spread": True}}
    own = {"place": {"resources": {"far": 1}}, "sessions": "per_client"}
    restart = {"restart": {"initial": 0.1, "cap": 1.0}}
    return {**dict.fromkeys(SHARED, server | apart | restart), PRIVATE: server | own | restart}


class Site:
    """All that is there. `far` are the names of the nodes on which servers run."""

    def __init__(self, house: House, cluster: RayCluster, far: tuple[str, ...], url: str, seed: int) -> None:
        self.house = house
        self.cluster = cluster
        self.far = far
        self.tally = Tally(house.folder / "counted")
        self.load = Load(house, url, self.tally, shared=SHARED, private=PRIVATE, seed=seed)
        self.losses: list[Loss] = []

    def run(self, *command: str) -> str:
        """`mcpx COMMAND`, which must succeed."""
        done = self.house.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async def rows(self) -> dict[str, dict[str, Any]]:
        """The far nodes that live, by name, as the gateway has them."""
        done = await anyio.to_thread.run_sync(self.house.run, "cluster", "status", "--json")
        listed = json.loads(done.stdout)["nodes"] if done.stdout.startswith("{") else []
        names = {id_: name for name, id_ in self.cluster.ids.items() if name in self.cluster.raylets}
        return {names[row["id"]]: row for row in listed if names.get(row["id"]) in self.far}

    async def up(self) -> dict[str, dict[str, Any]]:
        """Those of them that answer and are not drained."""
        rows = await self.rows()
        return {name: row for name, row in rows.items() if row["state"] == "up" and not row["draining"]}

    async def until_up(self, *names: str) -> float:
        """Wait for these nodes; how long that took."""
        began = time.monotonic()
        with anyio.fail_after(COMES_BACK_S):
            while not set(names) <= (await self.up()).keys():  # noqa: ASYNC110 - as below
                await anyio.sleep(LOOK_S)
        return time.monotonic() - began

    async def until_all_answer(self, since: float, *, within: float = 30.0) -> None:
        """Wait until every session has answered after that time."""
        sessions = {*SHARED, *(f"{PRIVATE} of {client}" for client in self.load.shims)}
        await self.until(lambda: sessions <= _answered(self.tally, since), within=within)

    async def until(self, holds: Callable[[], bool], *, within: float) -> None:
        """Look again and again."""
        with anyio.fail_after(within):
            while not holds():  # noqa: ASYNC110 - other processes tell nothing
                await anyio.sleep(LOOK_S / 4)

    def lose(self, name: str, how: str) -> Loss:
        """Kill or freeze a node."""
        raylet = self.cluster.raylets[name]
        if how == "killed":
            at, pids = machine.kill(raylet)
        else:
            at, pids = time.time(), machine.freeze(raylet)
        loss = Loss(node=name, id=self.cluster.ids[name], how=how, at=at, pids=frozenset(pids))
        self.losses.append(loss)
        return loss

    def come_back(self, name: str) -> None:
        """Start a node again that was killed. Ray gives up by itself where the machine is too busy."""
        for left in reversed(range(ADD_TRIES)):
            try:
                self.cluster.gone(name)
                self.cluster.add(name)
                break
            except RuntimeError as error:
                say(f"{name} does not come back: {error}")
                if not left:
                    raise

    def node_of_process(self, pid: int) -> str | None:
        """The node under whose raylet a process runs."""
        trees = {name: machine.processes_under(raylet) for name, raylet in self.cluster.raylets.items()}
        return next((name for name, pids in trees.items() if pid in pids), None)


@asynccontextmanager
async def opened(
    cluster: RayCluster, far: tuple[str, ...], *, attached: int, over_http: int, seed: int = 1
) -> AsyncIterator[Site]:
    """A gateway with so many clients of either kind, all of which have been answered by every server."""
    with (
        pytest.MonkeyPatch.context() as patched,
        tempfile.TemporaryDirectory(prefix="mcpx-", ignore_cleanup_errors=True) as name,
    ):
        folder = Path(name)
        (folder / "state").mkdir(mode=0o700)
        (folder / "state" / "token").touch(mode=0o600)
        (folder / "state" / "token").write_text(TOKEN)
        (folder / "counted").touch()
        patched.setenv("MCPX_STATE_DIR", str(folder / "state"))  # by which the house finds its daemon
        house, port = House(folder), free_port()
        house.write(entries(folder / "counted"), http={"port": port}, startup_wait=30, shutdown_grace=1)
        site = Site(house, cluster, far, f"http://127.0.0.1:{port}/mcp", seed)
        try:
            await anyio.to_thread.run_sync(site.run, "cluster", "start", "--address", cluster.address)
            await site.until_up(*far)
            say("the gateway has joined")
            async with anyio.create_task_group() as clients:
                for number in range(attached):
                    clients.start_soon(site.load.attached, f"attached{number}")
                for number in range(over_http):
                    clients.start_soon(site.load.over_http, f"http{number}")
                wanted = len(SHARED) + attached
                await site.until(lambda: len(_answered(site.tally, 0.0)) == wanted, within=60.0)
                say("all servers have answered all clients")
                yield site
                site.load.over.set()
            await anyio.to_thread.run_sync(site.run, "cluster", "stop")
        finally:
            house.close()


def say(text: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _answered(tally: Tally, since: float) -> set[str]:
    return {call.session for call in tally.calls if call.told == "done" and call.sent > since}

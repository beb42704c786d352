"""A gateway of a real cluster, from the command line: servers on nodes, and what clients see when things die."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.cluster.conftest import RayCluster
from tests.mcpx.daemon.daemons import House, until
from tests.mcpx.scripted import Ears, entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
FAR = {"place": {"resources": {"far": 1}}}


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="mcpx-") as folder:
        monkeypatch.setenv("MCPX_STATE_DIR", f"{folder}/state")
        made = House(Path(folder))
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def ears(house: House) -> Iterator[Ears]:
    with Ears(house.folder / "ears") as made:
        yield made


def nodes(house: House) -> dict[str, dict]:
    done = house.run("cluster", "status", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["nodes"]}


def started(house: House, cluster: RayCluster) -> None:
    done = house.run("cluster", "start", "--address", cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name for name in ("one", "two", "three") if f"\n{name} " in done.stdout} == {
        "one",
        "two",
        "three",
    }


async def test_servers_run_where_they_are_placed_and_clients_outlive_nodes_and_gateways(
    house: House, ears: Ears, ray_cluster: RayCluster
) -> None:
    house.write(
        {
            "gpu": entry(settings={"place": {"resources": {"gpu": 1}}}),
            "far": entry(ears, settings=FAR),
            "mine": entry(settings={"place": {"node": "two"}, "sessions": "per_client"}),
            "here": entry(settings={"place": False}),
        },
        startup_wait=30,
    )
    await anyio.to_thread.run_sync(started, house, ray_cluster)
    async with house.attached() as client:
        await client.initialize()

        async def run(server: str, tool: str = "echo", **arguments: str) -> dict:
            return await client.call("exec", server_name=server, tool_name=tool, arguments=arguments)

        for server in ("gpu", "far", "mine", "here"):
            answer = await run(server, text=server)
            assert not answer.get("isError"), answer
        assert _where(house, "gpu") == "three"
        assert _where(house, "here") is None
        lost = _where(house, "far")
        assert lost in {"two", "three"}

        # the gateway dies: its clients stay, its servers go on
        pid = house.pid
        assert pid is not None
        process = (await ears.hear("started"))["pid"]
        os.kill(pid, signal.SIGKILL)
        await until(lambda: house.pid not in {None, pid})
        assert not (await run("far", text="again")).get("isError")
        assert house.run("cluster", "status").returncode == 0
        assert len(ears.of("started")) == 1, "the server was started again"
        os.kill(process, 0)

        # a node dies in the middle of a call
        call = await client.ask(
            "tools/call",
            {"name": "exec", "arguments": {"server_name": "far", "tool_name": "hang", "arguments": {}}},
        )
        await ears.hear("call", tool="hang")
        at = await anyio.to_thread.run_sync(ray_cluster.kill, lost)
        try:
            answer = (await client.answer(call))["result"]
            took = time.time() - at
            assert answer["isError"]
            assert answer["structuredContent"]["outcome"] == "unknown", answer
            again = await run("far", text="elsewhere")
            assert not again.get("isError"), again
            assert time.time() - at < 15
            print(f"known after {took:.2f} s, elsewhere after {time.time() - at:.2f} s")
            assert len(ears.of("call", tool="hang")) == 1, "it was run twice"
        finally:
            await anyio.to_thread.run_sync(ray_cluster.add, lost)
        await until(lambda: nodes(house).get(lost, {}).get("state") == "up", within=60)

        # the other is drained: it is moved while it is idle
        other = ({"two", "three"} - {lost}).pop()
        done = house.run("cluster", "drain", other)
        assert done.returncode == 0, done.stderr
        await until(lambda: _where(house, "far") == lost)
        assert not (await run("far", text="moved")).get("isError")
        assert house.run("cluster", "undrain", other).returncode == 0
        assert house.run("cluster", "drain", "nine").returncode == 1

    done = house.run("cluster", "stop")
    assert done.returncode == 0, done.stderr
    assert house.pid is None
    assert house.run("exec", "here", "echo", "text=x").returncode == 0
    assert house.run("cluster", "status").returncode == 1


def _where(house: House, server: str) -> str | None:
    return next((name for name, row in nodes(house).items() if server in row["placed"]), None)

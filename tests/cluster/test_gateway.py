"""A gateway of a real cluster, on the command line: joined, servers placed by what they ask for, and left."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anyio
import pytest

from tests.cluster.conftest import RayCluster
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.scripted import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


@pytest.fixture
def house() -> Iterator[House]:
    with House.opened() as made:
        yield made


def nodes(house: House) -> dict[str, dict]:
    done = house.run("cluster", "status", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["nodes"]}


def started(house: House, cluster: RayCluster) -> None:
    done = house.run("cluster", "start", "--address", cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"\n{name} " in done.stdout for name in ("one", "two", "three"))


async def test_servers_run_where_they_are_placed_until_the_cluster_is_left(
    house: House, ray_cluster: RayCluster
) -> None:
    house.write(
        {
            "gpu": entry(settings={"place": {"resources": {"gpu": 1}}}),
            "named": entry(settings={"place": {"node": "two"}, "sessions": "per_client"}),
            "labelled": entry(settings={"place": {"node": "mcpx.node=one"}}),
            "nowhere": entry(settings={"place": {"resources": {"tpu": 1}}}),
            "here": entry(settings={"place": False}),
        },
        startup_wait=30,
    )
    await anyio.to_thread.run_sync(started, house, ray_cluster)
    async with house.attached() as client:
        await client.initialize()

        async def run(server: str) -> dict:
            arguments = {"text": server}
            return await client.call("exec", server_name=server, tool_name="echo", arguments=arguments)

        for server in ("gpu", "named", "labelled", "here"):
            answer = await run(server)
            assert not answer.get("isError"), answer
        refused = (await run("nowhere"))["structuredContent"]
        assert refused["outcome"] == "not_sent"
        assert "no node has tpu: 1" in json.dumps(refused)
        rows = nodes(house)
        assert {name: row["placed"] for name, row in rows.items() if "gpu" in row["placed"]}.keys() == {
            "three"
        }
        assert "labelled" in rows["one"]["placed"]
        assert any(each.startswith("named") for each in rows["two"]["placed"]), rows["two"]
        assert not any("here" in row["placed"] for row in rows.values())
    assert "there is no node nine" in house.run("cluster", "drain", "nine").stderr
    done = house.run("cluster", "stop")
    assert done.returncode == 0, done.stderr
    assert house.pid is None
    assert house.run("exec", "here", "echo", "text=x").returncode == 0
    assert house.run("cluster", "status").returncode == 1

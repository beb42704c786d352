"""The Ray process on a real cluster: nodes, reservations, the shared store, and what dies and comes back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from mcpx.cluster.ray_client import RayError, RayProcess
from supervisors import Supervisor
from tests.cluster.conftest import Joined, RayCluster, joined

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def link(ray_cluster: RayCluster) -> AsyncIterator[Joined]:
    async with joined(ray_cluster.address) as made:
        yield made


@pytest.fixture(scope="module")
async def second(ray_cluster: RayCluster) -> AsyncIterator[Joined]:
    """That of another gateway."""
    async with joined(ray_cluster.address) as made:
        yield made


async def test_each_machine_has_a_node_that_listens_and_its_resources_are_known(link: Joined) -> None:
    by_name = {node.name: node for node in link.ray.nodes.values()}
    assert by_name.keys() == {"one", "two", "three"}
    assert by_name["three"].resources["gpu"] == 1
    assert "gpu" not in by_name["one"].resources
    ports = {node.endpoint.port for node in by_name.values() if node.endpoint}
    assert len(ports) == 3
    assert all(node.actor == "running" for node in by_name.values())
    assert link.ray.joined is not None
    assert "BEGIN CERTIFICATE" in link.ray.joined.certificate
    assert link.ray.joined.token not in repr(link.ray.joined)


async def test_ray_chooses_by_resource_by_name_and_apart_and_keeps_to_it(link: Joined) -> None:
    ray = link.ray
    try:
        assert link.name_of(await ray.reserve("gpu", resources={"GPU": 1})) == "three"
        assert link.name_of(await ray.reserve("gpu", resources={"GPU": 1})) == "three"
        assert link.name_of(await ray.reserve("two", resources={}, node="two")) == "two"
        apart = {await ray.reserve(f"apart{number}", resources={}, spread=True) for number in range(3)}
        assert apart == set(ray.nodes)
        where = await ray.reserve("moves", resources={})
        elsewhere = await ray.reserve("moves", resources={}, exclude=(where,))
        assert elsewhere != where
        assert (await ray.reservations())["moves"] == elsewhere
        for demand, reason in (
            ({"resources": {"tpu": 1}}, "no node has tpu: 1"),
            ({"resources": {}, "node": "nine"}, "no node is called nine"),
        ):
            began = time.monotonic()
            with pytest.raises(RayError, match=reason) as refused:
                await ray.reserve("never", **demand)
            assert refused.value.code == "no_node"
            assert time.monotonic() - began < 1
        with pytest.raises(RayError, match="gpu: 1 is in use"):
            await ray.reserve("second gpu", resources={"gpu": 1})
        await ray.release("gpu")
        assert link.name_of(await ray.reserve("second gpu", resources={"gpu": 1})) == "three"
        assert "gpu" not in await ray.reservations()
    finally:
        for key in await ray.reservations():
            await ray.release(key)


async def test_two_gateways_share_the_store_the_reservations_and_what_is_drained(
    link: Joined, second: Joined
) -> None:
    assert link.ray.joined == second.ray.joined
    assert link.ray.nodes.keys() == second.ray.nodes.keys()
    assert await link.ray.put("pins/a", "1") == "1"
    assert await second.ray.put("pins/a", "2", overwrite=False) == "1"
    assert await second.ray.keys("pins/") == ("pins/a",)
    await second.ray.delete("pins/a")
    assert await link.ray.get("pins/a") is None
    node = await link.ray.reserve("shared", resources={})
    assert await second.ray.reserve("shared", resources={}) == node
    await second.ray.release("shared")
    two = link.id_of("two")
    await second.ray.drain(two, draining=True)
    await link.until(lambda: link.ray.nodes[two].draining)
    with pytest.raises(RayError, match="two is being drained"):
        await link.ray.reserve("there", resources={}, node="two")
    await second.ray.drain(two, draining=False)
    await link.until(lambda: not link.ray.nodes[two].draining)


async def test_a_process_that_dies_is_started_again_and_so_is_a_node(link: Joined) -> None:
    before = dict(link.ray.nodes)
    process = link.ray._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await link.until(lambda: link.ray.problem is not None)
    with pytest.raises(RayError) as refused:
        await link.ray.get("anything")
    assert refused.value.code == "unavailable"
    assert link.ray.nodes == before  # what is known stays
    await link.until(lambda: link.ray.is_joined and link.are_up())
    one = link.id_of("one")
    assert link.ray.nodes[one].endpoint == before[one].endpoint  # the node was not touched
    endpoint = before[one].endpoint
    assert endpoint is not None
    os.kill(endpoint.pid, signal.SIGKILL)
    await link.until(lambda: link.ray.nodes[one].endpoint != endpoint)
    await link.until(link.are_up)
    assert link.ray.nodes[one].endpoint != endpoint


async def test_a_machine_that_dies_is_gone_and_one_that_comes_gets_a_node(
    link: Joined, ray_cluster: RayCluster
) -> None:
    two = link.id_of("two")
    endpoint = link.ray.nodes[two].endpoint
    assert endpoint is not None
    await link.ray.reserve("moves", resources={}, node="two")
    at = await anyio.to_thread.run_sync(ray_cluster.kill, "two")
    try:
        elsewhere = await link.ray.reserve("moves", resources={}, exclude=(two,))
        assert elsewhere != two
        await link.until(lambda: two not in link.ray.nodes)
        print(f"Ray has noticed after {time.time() - at:.1f} s")
        with anyio.fail_after(15):
            while _lives(endpoint.pid):  # noqa: ASYNC110 - no event tells that it has ended with its actor
                await anyio.sleep(0.05)
    finally:
        await link.ray.release("moves")
        await anyio.to_thread.run_sync(ray_cluster.add, "two")
    await link.until(link.are_up)
    assert link.id_of("two") != two


async def test_nodes_end_for_all_gateways_and_are_started_by_one(link: Joined, second: Joined) -> None:
    pids = [node.endpoint.pid for node in link.ray.nodes.values() if node.endpoint]
    await link.ray.stop_nodes()
    assert not any(_lives(pid) for pid in pids)
    await second.until(lambda: all(node.endpoint is None for node in second.ray.nodes.values()))
    await second.ray.start_nodes()
    await link.until(link.are_up)
    await second.until(second.are_up)


async def test_a_cluster_that_is_not_there_is_said_to_be_and_tried_again() -> None:
    ray = RayProcess("127.0.0.1:9")
    supervisor = Supervisor()
    supervisor.add(ray.child())
    tried = anyio.Event()
    ray.observe(tried.set)
    async with anyio.create_task_group() as tasks:
        await tasks.start(supervisor.run)
        with anyio.fail_after(20):
            await tried.wait()
        assert "nothing listens at 127.0.0.1:9" in str(ray.problem)
        supervisor.stop()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b"Z" not in Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2][:3]

"""Gateways over real nodes: a hub and its cluster, with a stand-in for Ray that the test feeds.

The nodes are real processes behind TLS (`nodes.py`). Only what Ray would say and decide comes from the test,
so that no Ray has to be started to see what a gateway does with it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from mcpx.cluster.cluster import Cluster
from mcpx.cluster.node.spec import cluster_config
from mcpx.cluster.node.starting import NodeAddress
from mcpx.cluster.node_table import statuses
from mcpx.cluster.ray_client import RayError
from mcpx.cluster.ray_process.protocol import Joined, NodeRecord
from mcpx.core.config import Config
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.status import ClusterStatus
from mcpx.parts import open_hub
from supervisors import ChildSpec, Supervisor
from tests.mcpx.cluster.nodes import CREDENTIALS, Node, running_node
from tests.mcpx.scripted import PATIENCE_S, Watch


class StandInRay:
    """What Ray says to all gateways of a test, and what it has reserved."""

    def __init__(self) -> None:
        credentials = CREDENTIALS()
        self.joined: Joined | None = Joined(
            "test", "cluster", "0", credentials.token, credentials.certificate
        )
        self.problem: str | None = None
        self.nodes: Mapping[str, NodeRecord] = {}
        self.reserved: dict[str, str] = {}
        self.asked = 0
        self._observers: list[Callable[[], None]] = []

    def observe(self, observer: Callable[[], None]) -> Callable[[], None]:
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def say(self, **nodes: NodeRecord | None) -> None:
        """Tell the gateways of a node, or with None that it is gone."""
        found = {**self.nodes, **nodes}
        self.nodes = {name: node for name, node in found.items() if node is not None}
        for observer in list(self._observers):
            observer()

    def add(self, name: str, node: Node, **more: Any) -> None:
        """Tell of a node that runs."""
        address = NodeAddress("127.0.0.1", node.port, node.process.pid, "0")
        self.say(
            **{
                name: NodeRecord(
                    id=name, name=name, host="127.0.0.1", endpoint=address, actor="running", **more
                )
            }
        )

    async def reserve(self, key: str, *, exclude: tuple[str, ...] = (), **wanted: Any) -> str:
        self.asked += 1
        if self.problem is not None:
            raise RayError(f"Ray cannot be asked: {self.problem}", "unavailable")
        kept = self.reserved.get(key)
        if kept in self.nodes and kept not in exclude:
            return kept
        for name, node in self.nodes.items():
            has = {key.lower(): amount for key, amount in node.resources.items()}
            if name not in exclude and all(
                has.get(key, 0) >= each for key, each in wanted["resources"].items()
            ):
                self.reserved[key] = name
                return name
        raise RayError("no node has that", "no_node")

    async def release(self, key: str) -> None:
        self.reserved.pop(key, None)

    async def drain(self, node: str, *, draining: bool) -> None:
        self.say(**{node: replace(self.nodes[node], draining=draining)})


class Gateway(Watch):
    """A running hub in a cluster."""

    def __init__(self, hub: Hub, cluster: Cluster) -> None:
        super().__init__(hub)
        self.cluster = cluster

    def node(self, server: str = "s") -> str | None:
        """The node that the server's own session is on."""
        return self.cluster.node_of(self.hub.upstreams[server].main.child)

    async def answers(self, *names: str) -> None:
        """Wait until these nodes answer."""
        nodes = self.cluster.nodes
        with anyio.fail_after(PATIENCE_S):
            while not all((node := nodes.get(name)) is not None and node.answers for name in names):
                await nodes.news.wait()

    async def loses(self, name: str) -> None:
        """Wait until that node does not answer any more."""
        nodes = self.cluster.nodes
        with anyio.fail_after(PATIENCE_S):
            while (node := nodes.get(name)) is not None and node.answers:
                await nodes.news.wait()


class Member:
    """A gateway's part in a cluster, without Ray."""

    def __init__(self, cluster: Cluster) -> None:
        self.placement = cluster
        self.expand = cluster_config
        self.nodes = partial(statuses, cluster.nodes)

    def join(self, hub: Hub) -> None:
        self.placement.serve(hub.fleet)

    def status(self) -> ClusterStatus:
        return ClusterStatus(address="nowhere", joined=True, open=False, gateways=[])


@asynccontextmanager
async def open_gateway(
    config: Config, ray: StandInRay, folder: Path, *, name: str = "gateway"
) -> AsyncIterator[Gateway]:
    """A gateway with a state folder of its own."""
    cluster = Cluster(ray, folder=folder / name, gateway=name)
    member = Member(cluster)
    supervisor = Supervisor()
    supervisor.add(ChildSpec(name="cluster", run=cluster.run))
    async with anyio.create_task_group() as tasks:
        await tasks.start(supervisor.run)
        async with open_hub(config, state=folder / name, cluster=member) as hub:
            yield Gateway(hub, cluster)
        supervisor.stop()


@asynccontextmanager
async def running_nodes(
    folder: Path, *names: str, ray: StandInRay, **settings: Any
) -> AsyncIterator[list[Node]]:
    """Nodes of which Ray has told."""
    async with AsyncExitStack() as stack:
        found = []
        for name in names:
            (folder / name).mkdir()
            node = await stack.enter_async_context(running_node(folder / name, **settings))
            ray.add(name, node)
            found.append(node)
        try:
            yield found
        finally:
            for node in found:
                send(node, signal.SIGCONT)


def send(node: Node, number: signal.Signals) -> None:
    """Send a node a signal, if it has not ended."""
    if node.process.poll() is None:
        os.kill(node.process.pid, number)

"""A gateway in a cluster: the port `Cluster`, for the composition root.

Imported only where the configuration, or `mcpx cluster start`, says that there is a cluster. The Ray process
is under a supervisor of its own that never gives up, so that no trouble with Ray ends the gateway.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from msgspec import UNSET

from mcpx.cluster.cluster import Cluster
from mcpx.cluster.gateways.sharing import Sharing
from mcpx.cluster.node.spec import cluster_config
from mcpx.cluster.node_table import statuses
from mcpx.cluster.ray_client import RayProcess
from mcpx.cluster.ray_process.protocol import NodeRecord
from mcpx.core.catalog.model import JSON
from mcpx.core.config import Config
from mcpx.core.config.model import ClusterLink
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.status import ClusterStatus, GatewayStatus, NodeStatus
from mcpx.core.text import one_line
from mcpx.errors import MCPXError
from supervisors import ChildSpec, Shutdown, Supervisor

MAX_PLACED: Final = 100  # names of sessions in a row
STOP_S: Final = 5.0  # for the Ray process to end: it does at once


class Membership:
    """The cluster of that link, for a gateway whose configuration keeps its files in `folder`."""

    def __init__(self, link: ClusterLink, *, folder: Path, gateway: str) -> None:
        self._ray = RayProcess(link.address, allow_open=link.allow_open)
        self._gateway = gateway
        self.placement = Cluster(self._ray, folder=folder, gateway=gateway)
        """The node for each server."""
        self._sharing: Sharing | None = None

    def expand(self, config: Config) -> Config:
        """Return the configuration with all commands on nodes that may be there."""
        return cluster_config(config)

    def join(self, hub: Hub) -> None:
        """Add the cluster to a hub that does not run yet, before its frontends."""
        self.placement.serve(hub.fleet)
        sharing = self._sharing = Sharing(hub, self._ray, gateway=self._gateway)
        ray = Supervisor()
        ray.add(self._ray.child())
        shutdown = Shutdown(grace=STOP_S)
        hub.root.add(ChildSpec(name="ray", run=ray.run_as_child, shutdown=shutdown))
        hub.root.add(ChildSpec(name="cluster", run=self.placement.run, shutdown=shutdown))
        hub.root.add(sharing.child())

    # --- how it is, and what a person may do

    async def answer(self, do: str, node: str | None, wait_s: float | None) -> JSON:
        """Do what is asked, if anything, and say how the cluster is.

        `drain` waits for at most `wait_s` seconds until nothing of this gateway is there; what is, is `left`.

        Raises:
            MCPXError: It cannot be done.
        """
        left: list[str] = []
        match do:
            case "":
                pass
            case "start_nodes":
                await self._ray.start_nodes()
            case "stop_nodes":
                await self._ray.stop_nodes()
            case "leave":
                await self.placement.assignments.release_all()
            case "reload":
                return self._describe() | {"gateways": await self._shared().reload_all()}
            case "drain":
                left = await self.placement.draining.drain(node or "", wait_s or 0)
            case "undrain":
                await self.placement.draining.undrain(node or "")
            case _:
                raise MCPXError(f"a cluster cannot {do}")
        answer = self._describe()
        if do in {"drain", "undrain"}:
            answer |= {"node": self.placement.nodes.named(node or "").name, "left": left}
        return answer

    def status(self) -> ClusterStatus:
        """Return the link to Ray and the gateways, as `mcpx status` has them."""
        shared = self._shared().status()
        return ClusterStatus(
            address=self._ray.address,
            joined=self._ray.is_joined,
            open=self._ray.joined is not None and self._ray.joined.is_open,
            problem=self._ray.problem or UNSET,
            not_shared=shared.get("not_shared", UNSET),
            gateways=[
                GatewayStatus(
                    host=one_line(each["host"]),
                    pid=each["pid"],
                    version=one_line(each["version"]),
                    is_self=each["self"],
                    same_config=each["same_config"],
                    problem=one_line(each["problem"]) if each.get("problem") else UNSET,
                )
                for each in shared["gateways"]
            ],
        )

    def nodes(self) -> list[NodeStatus]:
        """Return the nodes, as `mcpx status` shows them."""
        return statuses(self.placement.nodes)

    def _shared(self) -> Sharing:
        assert self._sharing is not None  # the hub that asks has it join first
        return self._sharing

    def _describe(self) -> JSON:
        ray, joined = self._ray, self._ray.joined
        about: dict[str, Any] = {"address": ray.address, "joined": ray.is_joined}
        about["allow_open"] = ray.allow_open
        if ray.problem is not None:
            about["problem"] = ray.problem
            about["refused"] = ray.was_tried
        if joined is not None:
            about |= {"gcs": joined.address, "ray": joined.ray_version, "open": joined.is_open}
        nodes = [self._row(node) for node in sorted(ray.nodes.values(), key=lambda node: node.name)]
        return {"cluster": about, "nodes": nodes} | self._shared().status()

    def _row(self, record: NodeRecord) -> dict[str, Any]:
        node = self.placement.nodes.get(record.id)
        row: dict[str, Any] = {
            "id": record.id,
            "name": record.name,
            "host": record.host,
            "state": _state(record, answers=node is not None and node.answers),
            "draining": (record if node is None else node.record).draining,
            "sessions": 0 if node is None else len(node.sessions),
            "placed": [] if node is None else sorted(node.sessions)[:MAX_PLACED],
            "resources": record.resources,
            "free": record.free,
            "labels": record.labels,
        }
        problem = record.problem or (node.problem if node is not None else None)
        if problem is not None and row["state"] != "up":
            row["problem"] = problem
        if record.endpoint is not None:
            row |= {"port": record.endpoint.port, "pid": record.endpoint.pid}
            row["version"] = record.endpoint.version
        report = None if node is None else node.report
        if report is not None:
            row |= {
                "memory_bytes": report.memory_bytes,
                "memory_free_bytes": report.memory_free_bytes,
                "load": report.load,
                "servers": len(report.servers),
            }
        return row


def _state(record: NodeRecord, *, answers: bool) -> str:
    """`up`, `starting`, `not answering`, `failing` or `stopped`."""
    if answers:
        return "up"
    if record.actor == "running":
        return "not answering"
    if record.actor == "none":
        return "stopped"
    return record.actor

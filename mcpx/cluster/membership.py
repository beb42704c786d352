"""A gateway in a cluster: what the composition root adds to a hub, and takes away again.

Imported only where the configuration, or `mcpx cluster start`, says that there is a cluster. The Ray process
is under a supervisor of its own that never gives up, so that no trouble with Ray ends the gateway.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from mcpx.cluster.cluster import Cluster
from mcpx.cluster.control import ClusterControl
from mcpx.cluster.gateways.sharing import Sharing
from mcpx.cluster.ray_client import RayProcess
from mcpx.cluster.specs import cluster_config
from mcpx.core.config import Config
from mcpx.core.config.model import ClusterLink
from mcpx.core.daemon.hub import Hub
from supervisors import ChildSpec, Shutdown, Supervisor

STOP_S: Final = 5.0  # for the Ray process to end: it does at once


class Membership:
    """The cluster of that link, for a gateway whose configuration keeps its files in `folder`."""

    def __init__(self, link: ClusterLink, *, folder: Path, gateway: str) -> None:
        self._ray = RayProcess(link.address, allow_open=link.allow_open)
        self._gateway = gateway
        self.cluster = Cluster(self._ray, folder=folder, gateway=gateway)
        """Where servers run: the hub's `Placement`."""

    def prepared(self, prepare: Callable[[Config], Config]) -> Callable[[Config], Config]:
        """`prepare`, and then all commands on nodes that may be there."""
        return lambda config: cluster_config(prepare(config))

    def join(self, hub: Hub) -> None:
        """Add the cluster to a hub that does not run yet, before its frontends."""
        self.cluster.serve(hub)
        sharing = Sharing(hub, self._ray, gateway=self._gateway)
        control = ClusterControl(self._ray, self.cluster, sharing)
        hub.cluster, hub.cluster_status = control.answer, control.status
        ray = Supervisor()
        ray.add(self._ray.child())
        shutdown = Shutdown(grace=STOP_S)
        hub.root.add(ChildSpec(name="ray", run=ray.run_as_child, shutdown=shutdown))
        hub.root.add(ChildSpec(name="cluster", run=self.cluster.run, shutdown=shutdown))
        hub.root.add(sharing.child())

"""Reservations at Ray: which node it chooses among those that this gateway knows to be there.

Owned by the assignments. Ray counts resources for all gateways; whether a node answers, is drained or is
short of memory the gateway knows better, and says so. Without Ray, a server that asks for nothing that is
counted is placed all the same.
"""

from __future__ import annotations

import asyncio

import structlog
from msgspec.structs import replace

from mcpx.cluster.node_table import Node, NodeTable
from mcpx.cluster.placement import Demand, candidates, spread
from mcpx.cluster.ray import Ray
from mcpx.cluster.ray_client import RayError
from mcpx.core.servers.transport.loss import ConnectionLost

log = structlog.get_logger()


class Reservations:
    """Makes and gives up those of one gateway."""

    def __init__(self, ray: Ray, nodes: NodeTable) -> None:
        self._ray = ray
        self._nodes = nodes
        self._releasing: set[asyncio.Future[None]] = set()

    async def node_for(self, key: str, demand: Demand, digest: str) -> Node | None:
        """The node that Ray chooses for the server of that digest; None if it does not answer just now.

        Raises:
            ConnectionLost: Ray has none.
        """
        roomy = {view.id for view in candidates(self._nodes.views(), without_resources(demand))}
        nodes = [node for node in self._nodes if node.record.id in roomy or node.runs(digest)]
        able = {node.record.id for node in nodes if node.view().takes_new}
        exclude = tuple(node.record.id for node in self._nodes if node.record.id not in able)
        try:
            chosen = await self._ray.reserve(
                key,
                resources=demand.resources,
                memory_bytes=demand.memory,
                node=demand.node,
                spread=demand.spread,
                exclude=exclude,
            )
        except RayError as error:
            if error.code == "unavailable" and not demand.resources:
                log.warning("cluster.placed_without_ray", key=key, cause=str(error))
                return self.spread(demand)  # one that runs is better than one that is placed best
            raise ConnectionLost(str(error), retryable=error.code != "invalid") from None
        node = self._nodes.get(chosen)
        return node if node is not None and node.answers else None

    def spread(self, demand: Demand) -> Node | None:
        """The node for one more session among many, which Ray does not count."""
        chosen = spread(self._nodes.views(), demand)
        return None if chosen is None else self._nodes.get(chosen.id)

    def release(self, key: str) -> None:
        """Give up a reservation, without waiting."""
        task = asyncio.ensure_future(self._try_to_release(key))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _try_to_release(self, key: str) -> None:
        try:
            await self._ray.release(key)
        except RayError as error:
            log.info("cluster.not_released", key=key, cause=str(error))


def without_resources(demand: Demand) -> Demand:
    """What is asked for but for what Ray counts: it alone knows what of it the session has reserved."""
    return replace(demand, resources={})

"""How the cluster is shown: its nodes, and of a server on one what that node says of it.

Pure reading of what the cluster knows, for `mcpx status`, the page and the metrics.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from mcpx.cluster.node.protocol import ServerReport
from mcpx.cluster.node_table import Node, NodeTable
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.daemon.status import NodeStatus
from mcpx.core.servers.server_info import said_elsewhere
from mcpx.core.servers.transport.placement import PlacedUse
from mcpx.core.text import one_line

MAX_NODES: Final = 1000  # shown; a status must end
SERVED: Final = frozenset({"ready", "asleep", "starting", "stopped"})
"""States at the node in which there is nothing to add to those of the session here."""


def statuses(table: NodeTable) -> list[NodeStatus]:
    """The nodes, in the order of their names."""
    nodes = sorted(table, key=lambda node: node.name)
    return [_status(node) for node in nodes[:MAX_NODES]]


def _status(node: Node) -> NodeStatus:
    report, record = node.report if node.answers else None, node.record
    taken = [each.memory_bytes for each in report.servers if each.memory_bytes] if report else []
    return NodeStatus(
        name=one_line(node.name),
        host=one_line(record.host),
        state=_state(node),
        problem=msgspec.UNSET if node.answers or not node.problem else one_line(node.problem),
        pid=report.pid if report else None,
        version=report.version if report else None,
        uptime_s=report.uptime_s if report else None,
        sessions=len(node.sessions),
        connections=report.connections if report else 0,
        servers=len(report.servers) if report else 0,
        servers_memory_bytes=sum(taken),
        memory_bytes=report.memory_bytes if report else None,
        memory_free_bytes=report.memory_free_bytes if report else None,
        cpus=report.cpus if report else None,
        load=report.load if report else None,
        resources=record.resources,
        free=record.free,
    )


def _state(node: Node) -> str:
    """`ready`, `draining`, `starting`, or `lost`."""
    if node.answers:
        return "draining" if node.view().is_draining else "ready"
    return "starting" if node.is_awaited or not node.was_tried else "lost"


def as_node_says(node: Node | None, digest: str | None, info: ServerInfo) -> ServerInfo:
    """How a server is: as its session here has it, and where that is well, as its node does.

    `node` is the one that the session is on, `digest` what it knows the server by.
    """
    if node is None or not info.ready or not node.answers or node.report is None:
        return info
    said = _said(node, digest)
    if said is None or said.state in SERVED or said.state not in set(State):
        return info
    due = said.next_attempt_in_s
    if due is not None:
        due -= time.monotonic() - node.heard_at
    return said_elsewhere(info, node.name, said.state, said.last_error or said.state, due)


def use_of(table: NodeTable, digest: str | None) -> PlacedUse | None:
    """What the server of that digest uses, by the last reports of the nodes that answer."""
    said = [] if digest is None else [_said(node, digest) for node in table if node.answers]
    found = [each for each in said if each is not None and each.memory_bytes is not None]
    shares = [each.cpu for each in found if each.cpu is not None]
    if not found:
        return None
    return PlacedUse(sum(each.memory_bytes or 0 for each in found), round(sum(shares), 4) if shares else None)


def _said(node: Node, digest: str | None) -> ServerReport | None:
    if node.report is None or digest is None:
        return None
    return next((each for each in node.report.servers if each.digest == digest), None)

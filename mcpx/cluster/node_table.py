"""The nodes as the gateway knows them: what Ray says of each, what it says itself, and what is placed there.

Owned by the cluster, whose parts write it from one event loop; nothing here waits. A *node* is known by Ray's
id. It answers while a watch hears it (`mcpx.cluster.node_watch`); when it does not any more, everything that
was connected to it is told in the same turn. `statuses`, `as_node_says` and `use_of` read the table for
`mcpx status`, the page and the metrics.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from mcpx.cluster.node.protocol import NodeReport, ServerReport
from mcpx.cluster.node.starting import NodeAddress
from mcpx.cluster.placement import Demand, NodeView
from mcpx.cluster.ray_process.protocol import NodeRecord
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.daemon.status import NodeStatus
from mcpx.core.servers.server_info import said_elsewhere
from mcpx.core.servers.transport.placement import PlacedUse
from mcpx.core.telemetry.contained import containing
from mcpx.core.text import one_line
from mcpx.errors import MCPXError
from supervisors import Signal

log = structlog.get_logger()
STARTING: Final = "it is starting"
FULL_S: Final = 2.0  # for which nothing is placed on a node that has refused a session; it reports twice
FIRST_WAIT_S: Final = 10.0  # for the nodes that Ray names first: until what is on them is known
MAX_NAMED: Final = 20  # nodes, in an error
PROMISE_S: Final = 5.0  # after which a session that was placed is in the node's own figures
MAX_NODES: Final = 1000  # shown; a status must end
SERVED: Final = frozenset({"ready", "asleep", "starting", "stopped"})
"""States at the node in which there is nothing to add to those of the session here."""
_MEMORY: Final = ("memory_bytes", "memory_free_bytes")
_REPORTED: Final = ("pid", "version", "uptime_s", "connections", "cpus", "load", *_MEMORY)
"""Figures of a status that are those of the node's own report."""


class Node:
    """One node. `sessions` are those of this gateway that are placed there, with what they ask for."""

    def __init__(self, record: NodeRecord, *, awaited_until: float = 0.0) -> None:
        self.record = record
        self._awaited_until = awaited_until
        self.report: NodeReport | None = None
        self.heard_at = 0.0
        """When that came, by `time.monotonic()`."""
        self.answers = False
        self.was_tried = False
        """Whether it has answered, or failed to: until then nobody knows whether it is there."""
        self.problem: str | None = STARTING
        """Why it takes nothing; None while it answers."""
        self.sessions: dict[str, Demand] = {}
        self.left_behind: set[tuple[str, str]] = set()
        """Shared servers (name, digest) that were placed elsewhere while it did not answer."""
        self._promised: deque[tuple[float, int]] = deque()  # until when, bytes
        self._full_until = 0.0
        self._others = 0  # sessions of other gateways
        self._view: NodeView | None = None
        self._viewed: tuple[object, ...] = ()  # what the view was made of, beside the promises
        self._listeners: dict[int, Callable[[str], None]] = {}
        self._listened = 0

    @property
    def name(self) -> str:
        """Its name, for people."""
        return self.record.name

    @property
    def is_awaited(self) -> bool:
        """True until it is known if it answers: it listens, or was there first and may soon."""
        if self.was_tried:
            return False
        is_starting = self.record.problem is None and time.monotonic() < self._awaited_until
        return self.record.endpoint is not None or is_starting

    @property
    def address(self) -> NodeAddress | None:
        """The address of its listener; None while it does not run."""
        return self.record.endpoint

    def view(self) -> NodeView:
        """The node for a decision. It is made anew only after a change: there may be a thousand nodes."""
        now = time.monotonic()
        while self._promised and self._promised[0][0] <= now:
            self._promised.popleft()
            self._view = None
        known = self.record, self.report, self.answers, len(self.sessions), self._others, self.is_full
        if self._view is None or self._viewed != known:
            self._view, self._viewed = self._make_view(), known
        return self._view

    def _make_view(self) -> NodeView:
        record, report = self.record, self.report
        free = (report and report.memory_free_bytes) or 0
        return record.view(
            memory_total=(report and report.memory_bytes) or 0,
            memory_free=max(0, free - sum(memory for _, memory in self._promised)),
            sessions=len(self.sessions) + self._others,
            starting=len(self._promised),
            cpus=report.cpus if report else 0,
            is_draining=record.draining or (report is not None and report.stopping),
            is_suspect=not self.answers,
            is_full=self.is_full,
        )

    def take(self, session: str, demand: Demand) -> None:
        """Note that a session is placed here."""
        self.sessions[session] = demand
        self._promised.append((time.monotonic() + PROMISE_S, demand.memory))
        self._view = None

    @property
    def is_full(self) -> bool:
        """True if it has refused a session a moment ago, because it had no room."""
        return time.monotonic() < self._full_until

    def refused(self, session: str) -> None:
        """It has no room for a session."""
        self._full_until = time.monotonic() + FULL_S
        log.info("cluster.node_full", node=self.name, session=session)

    def heard(self, report: NodeReport) -> None:
        """Take in what it says of itself."""
        self.report, self.heard_at = report, time.monotonic()
        self._others = max(0, report.connections - len(self.sessions))

    def runs(self, digest: str) -> bool:
        """Return True if the server runs here: the memory that it takes is taken already."""
        return self.report is not None and any(each.digest == digest for each in self.report.servers)

    def listen(self, on_lost: Callable[[str], None]) -> Callable[[], None]:
        """Have `on_lost` called, once, when it is given up. Call the result to end that."""
        self._listened += 1
        number = self._listened
        self._listeners[number] = on_lost
        return lambda: self._listeners.pop(number, None) and None

    def give_up(self, reason: str) -> None:
        """It does not answer: tell all that are connected to it, and place nothing there."""
        was_there, self.answers, self.problem = self.answers, False, reason
        self.was_tried = True
        listeners, self._listeners = list(self._listeners.values()), {}
        if was_there:
            log.warning("cluster.node_lost", node=self.name, cause=reason, sessions=len(listeners))
        for on_lost in listeners:
            with containing("node lost", node=self.name):  # one session must not keep the others from knowing
                on_lost(f"the node {self.name} was lost: {reason}")


class NodeTable:
    """All nodes, by Ray's id. `news` is pulsed when what can be placed where may have changed."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self.news = Signal()

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, node_id: str) -> Node | None:
        """The node with that id, if there is one."""
        return self._nodes.get(node_id)

    def named(self, name: str) -> Node:
        """The node that a person means: by its name or id, or by a host or the beginning of an id.

        Of several the one that answers is meant: one that has come back is there twice, until Ray misses the
        first.

        Raises:
            MCPXError: There is none, or more than one.
        """
        found = [node for node in self if name in {node.name, node.record.id}]
        if not found and name:
            meant = ((node, node.record) for node in self)
            found = [
                node
                for node, record in meant
                if name in {record.host, record.given_name} or record.id.startswith(name)
            ]
        if len(found) > 1:
            found = [node for node in found if node.answers] or found
        if len(found) == 1:
            return found[0]
        names = one_line(", ".join(sorted(node.name for node in found or self)[:MAX_NAMED])) or "none"
        if found:
            raise MCPXError(f"{name} is more than one node: {names}")
        raise MCPXError(f"there is no node {name}; there are: {names}")

    def views(self) -> list[NodeView]:
        """Return the nodes for a decision."""
        return [node.view() for node in self]

    def update(self, records: Mapping[str, NodeRecord]) -> None:
        """Take in which nodes Ray says there are, by id. Those that are not among them are gone."""
        living = {node_id: record for node_id, record in records.items() if record.alive}
        is_first = not self._nodes
        for node_id in self._nodes.keys() - living.keys():
            self._nodes.pop(node_id).give_up("it has left the cluster")
        for record in living.values():
            self._take_in(record, is_first=is_first)
        self.news.pulse()

    def _take_in(self, record: NodeRecord, *, is_first: bool) -> None:
        node = self._nodes.get(record.id)
        if node is None:
            until = time.monotonic() + FIRST_WAIT_S if is_first else 0.0
            self._nodes[record.id] = Node(record, awaited_until=until)
            log.info("cluster.node_joined", node=record.name, host=record.host)
            return
        if record.endpoint is None and node.answers:
            # Ray does not know at the moment (its actor may be busy), and the watch knows that it is there
            record = replace(record, endpoint=node.record.endpoint)
        before, node.record = node.record, record
        if before.endpoint is not None and before.endpoint != record.endpoint:
            node.give_up(record.problem or "its process has ended")
            node.was_tried = False  # what listens there now is another
        elif record.problem and not node.answers:
            node.problem = record.problem


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
        sessions=len(node.sessions),
        servers=len(report.servers) if report else 0,
        servers_memory_bytes=sum(taken),
        resources=record.resources,
        free=record.free,
        **({name: getattr(report, name) for name in _REPORTED} if report else {}),
    )


def _state(node: Node) -> str:
    """`ready`, `draining`, `starting`, or `lost`."""
    if node.answers:
        return "draining" if node.view().is_draining else "ready"
    return "starting" if node.is_awaited or not node.was_tried else "lost"


def as_node_says(node: Node | None, digest: str | None, info: ServerInfo) -> ServerInfo:
    """Return the server as its session here has it and, where that is well, as its node does.

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
    """Sum what the server of that digest uses, by the last reports of the nodes that answer."""
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

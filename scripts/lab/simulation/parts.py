"""What a simulation moves: nodes as they are, sessions, and a gateway's view of the nodes.

A gateway knows what the nodes reported last and what it has placed since, and nothing more: it does not see
what another gateway has placed within the second.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from mcpx.cluster.placement import Demand, NodeView


@dataclass(eq=False, slots=True)
class Session:
    """A person's session with one server. `node` is where it is now, `run` counts its placings."""

    name: str
    gateway: Gateway
    demand: Demand
    memory: int
    """What it really takes; `demand` has what such servers have been seen to take."""
    node: Node | None = None
    run: int = 0
    needed_at: float = 0.0
    refusals: int = 0
    is_up: bool = False
    holds_start: bool = False
    """It counts for its gateway's `max_starting`."""
    is_over: bool = False


@dataclass(eq=False, slots=True)
class Node:
    """A node as it is. `used` is the memory in use; `busy_until` is when its last start ends."""

    id: str
    total: int
    used: int = 0
    sessions: dict[str, Session] = field(default_factory=dict)
    is_alive: bool = True
    is_draining: bool = False
    busy_until: float = 0.0
    report_due: bool = False
    life: int = 0
    """How often it has joined."""


class Known(msgspec.Struct):
    """What a gateway knows of one node: its last report, and what it has placed there itself since.

    `promised` is the memory of sessions that it has placed there lately, `starting` their number.
    """

    sessions: int = 0
    free: int = 0
    placed: int = 0
    promised: int = 0
    starting: int = 0
    is_suspect: bool = False
    full_until: float = 0.0
    """It has refused a session: nothing is placed there until then."""


@dataclass(eq=False, slots=True)
class Gateway:
    """One gateway: its table of nodes, and the sessions that wait for a place among those it starts."""

    number: int
    views: dict[str, NodeView] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    waiting: deque[Session] = field(default_factory=deque)
    starting: int = 0
    at_once: int = 0
    counted_until: float = 0.0
    """How many sessions it may have start, and until when that holds."""

    def learn(self, node: Node, now: float) -> None:
        """Take a report of a node."""
        known = self.known.setdefault(node.id, Known())
        known.sessions, known.free = len(node.sessions), node.total - node.used
        known.placed = 0
        self.show(node, now)

    def show(self, node: Node, now: float) -> None:
        """Make the view of a node anew from what is known of it."""
        known = self.known[node.id]
        self.views[node.id] = NodeView(
            id=node.id,
            name=node.id,
            memory_total=node.total,
            memory_free=max(0, known.free - known.promised),
            sessions=known.sessions + known.placed,
            starting=known.starting,
            is_draining=node.is_draining,
            is_suspect=known.is_suspect,
            is_full=now < known.full_until,
        )

    def forget(self, node: Node) -> None:
        """Give a node up."""
        self.views.pop(node.id, None)
        self.known.pop(node.id, None)

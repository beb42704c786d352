"""Placement decisions, as pure functions of what is known of the nodes.

`mcpx.cluster` calls them with the table of its nodes, and `scripts/simulate` with nodes that it makes up. A
server that all clients share is placed by Ray (`Demand` says what it asks for, `candidates` which nodes may
be asked); the sessions of single clients are many and short, and are placed here by `spread`. Nothing here
waits, knows Ray, or remembers anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

MEMORY_RESERVE: Final = 0.05
"""The share of a node's memory that stays free: a machine without any is lost with all it runs."""
MAX_STARTING: Final = 8
STARTING_PER_CPU: Final = 4
"""Sessions that start on a node at a time while other nodes can take more (the larger of both): one that has
just joined is the emptiest, and would get every session until it has as many as the rest, faster than it can
start them."""
LEAST_AT_ONCE: Final = 32
MOST_AT_ONCE: Final = 1024
"""Starts on other machines that a gateway has under way at a time: its event loop is to serve calls, too."""
_MORE: Final = 1e-9  # amounts of a resource are floats, and sums of them are not exact


class Demand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server's demand on the node that it runs on.

    `resources` are amounts of what Ray counts (`gpu`, `cpu`, names of one's own), `memory` is in bytes, 0
    where it is not known. `node` is a node's name, id, host or label (`key=value`). `spread`: the servers
    that ask for it are kept on as many nodes as there are.
    """

    resources: dict[str, float] = {}
    memory: int = 0
    node: str | None = None
    spread: bool = False


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it is known at the moment of a decision. Memory is in bytes, 0 in all where it is not known.

    `free` and `memory_free` are without what was promised to servers that are still starting there, and
    `starting` is their number, which counts in `sessions`, too. `cpus` is 0 where it is not known.
    `given_name` is what it was called before another had the same name: a machine that is started again is
    there twice until Ray misses the first. `is_suspect`: it has not been heard of for a moment, or nothing
    listens there yet. `is_full`: it has just refused a session for want of room.
    """

    id: str
    name: str
    host: str = ""
    labels: Mapping[str, str] = {}
    total: Mapping[str, float] = {}
    free: Mapping[str, float] = {}
    memory_total: int = 0
    memory_free: int = 0
    sessions: int = 0
    starting: int = 0
    cpus: int = 0
    is_draining: bool = False
    is_suspect: bool = False
    is_full: bool = False
    given_name: str = ""

    @property
    def takes_new(self) -> bool:
        """True if it takes anything new at the moment."""
        return not (self.is_draining or self.is_suspect)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session with a server that is placed. `name` is that of the session, `node` the id of its node.

    `is_busy`: it has calls in flight or waiting, or keeps something that a client relies on.
    """

    name: str
    node: str
    is_busy: bool = False


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A session that must leave its node: with what it has in flight (`dead`), or idle (`draining`)."""

    session: str
    node: str
    cause: Literal["dead", "draining"]


def candidates(nodes: Iterable[NodeView], demand: Demand) -> list[NodeView]:
    """The nodes that can take a server with that demand now."""
    return [node for node in nodes if _fits(node, demand)]


def spread(nodes: Iterable[NodeView], demand: Demand) -> NodeView | None:
    """The node for one more session among many; None if none can take it.

    It is the one with the fewest sessions for the memory that it has free, among those that do not start as
    many as they can; where all do, the one that starts the fewest for its processors. So equal nodes get
    equal numbers, and larger ones more in proportion, whatever else runs on them. Figures that are a second
    old hardly change the order, because each session that is placed does.
    """
    chosen: NodeView | None = None
    least = (math.inf, math.inf, "")
    for node in nodes:
        crowding = _crowding(node)
        if crowding < least and _fits(node, demand):  # the dear question last: there may be a thousand nodes
            chosen, least = node, crowding
    return chosen


def starts_at_once(nodes: Iterable[NodeView]) -> int:
    """Bound the sessions that a gateway may have start at a time: as many as the nodes can.

    More would wait at the nodes, where the time counts for their connecting.
    """
    able = sum(_at_once(node) for node in nodes if node.takes_new)
    return min(max(LEAST_AT_ONCE, able), MOST_AT_ONCE)


def moves(sessions: Iterable[Session], nodes: Mapping[str, NodeView]) -> list[Move]:
    """The sessions that must leave their nodes now. `nodes` are those that live, by id.

    A node that is not among them is dead, and all its sessions go. Those on a node that is drained go when
    they are idle.
    """
    found: list[Move] = []
    for session in sessions:
        node = nodes.get(session.node)
        if node is None:
            found.append(Move(session=session.name, node=session.node, cause="dead"))
        elif node.is_draining and not session.is_busy:
            found.append(Move(session=session.name, node=session.node, cause="draining"))
    return found


def misfit(nodes: Iterable[NodeView], demand: Demand) -> str:
    """Explain why there is no node for that demand: what each lacks, for a person to read."""
    known = list(nodes)
    if not known:
        return "the cluster has no node"
    named = [node for node in known if is_named(node, demand.node)]
    if not named:
        return f"no node is called {demand.node}"
    able = [node for node in named if _lacks(node.total, demand) is None]
    if not able:
        lacking = next(lack for node in named if (lack := _lacks(node.total, demand)))
        return f"no node has {lacking}"
    empty = (has_memory(node.memory_total, node.memory_total, demand.memory) for node in able)
    if demand.memory and not any(empty):
        return f"no node has {demand.memory >> 20} MB of memory"
    there = [node for node in able if not node.is_suspect]
    if not there:
        return f"{_those(able)} not answering"
    taking = [node for node in there if not node.is_draining]
    if not taking:
        return f"{_those(there)} being drained"
    free = [node for node in taking if _lacks(node.free, demand) is None]
    if not free:
        lacking = next(lack for node in taking if (lack := _lacks(node.free, demand)))
        return f"{lacking} is in use on {', '.join(sorted(node.name for node in taking)[:8])}"
    return f"{_those(free)} out of memory"


def has_memory(total: int, free: int, wanted: int) -> bool:
    """Return True if a machine with so many bytes free has room for something; it has if `total` is 0."""
    return not total or free - wanted >= total * MEMORY_RESERVE


def is_named(node: NodeView, wanted: str | None) -> bool:
    """Return True if `wanted` is the node's name, id, host, or a label of it; any is meant by None."""
    if wanted is None or wanted in (node.name, node.id, node.host, node.given_name or node.name):
        return True
    key, equals, value = wanted.partition("=")
    return bool(equals) and node.labels.get(key) == value


def _fits(node: NodeView, demand: Demand) -> bool:
    return (
        node.takes_new
        and not node.is_full
        and has_memory(node.memory_total, node.memory_free, demand.memory)
        and (not demand.resources or _lacks(node.free, demand) is None)
        and (demand.node is None or is_named(node, demand.node))
    )


def _lacks(amounts: Mapping[str, float], demand: Demand) -> str | None:
    """The first resource of which there is too little, with the amount that is asked for."""
    has = {key.lower(): amount for key, amount in amounts.items()}  # Ray writes GPU, people gpu
    for key, wanted in demand.resources.items():
        if has.get(key.lower(), 0.0) + _MORE < wanted:
            return f"{key}: {wanted:g}"
    return None


def _at_once(node: NodeView) -> int:
    return max(MAX_STARTING, STARTING_PER_CPU * node.cpus)


def _crowding(node: NodeView) -> tuple[float, float, str]:
    sessions, starting = node.sessions + 1, 0.0
    if node.starting >= MAX_STARTING:
        load = node.starting / _at_once(node)
        starting = load if load >= 1 else 0.0
    return starting, sessions / max(node.memory_free, 1) if node.memory_total else sessions, node.id


def _those(nodes: list[NodeView]) -> str:
    names = ", ".join(sorted(node.name for node in nodes)[:8])
    return f"{names} {'is' if len(nodes) == 1 else 'are'}"

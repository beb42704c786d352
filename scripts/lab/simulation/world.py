"""What is assumed of a simulated cluster: its nodes, its people, their servers, and what fails when.

Every number is a setting, so that a reader can put in their own. The figures of starting and of memory have
the order of what scripts/measure-node measures; the rest is assumed.
"""

from __future__ import annotations

import msgspec

MB = 1 << 20
GB = 1 << 30
HOUR = 3600.0
MINUTE = 60.0


class World(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated cluster. Times are in seconds, of a day that begins at midnight."""

    seed: int = 1
    nodes: int = 1000
    rack: int = 40
    """Nodes that have one power supply."""
    node_gb: float = 32
    large_every: int = 4
    """Each so many-th node has twice the memory."""
    gateways: int = 8
    """Each has its share of the people, its own view of the nodes, and decides by itself."""

    people: int = 100_000
    servers: int = 20
    per_client: float = 0.2
    """The share of the servers that have sessions for each person; the others are not simulated."""
    used: float = 0.6
    """The share of their per_client servers that a person uses in a day."""
    sizes_mb: tuple[float, ...] = (15, 40, 80, 300)
    """What a session takes, for the per_client servers in turn."""
    scatter: float = 0.3
    """How far single sessions are above or below that."""
    seen: float = 1.15
    """What a gateway asks for, over the average: the most that it has seen counts."""
    arrival: tuple[float, float] = (9 * HOUR, 45 * MINUTE)
    """When people come: mean and standard deviation. None comes before the day begins."""
    stay: tuple[float, float] = (8 * HOUR, 1 * HOUR)
    busy: float = 0.05
    """The share of the time in which a session has a call in flight."""

    start_s: float = 0.4
    """From placing to the first answer, on a node that starts nothing else."""
    starts_per_s: float = 5.0
    """That one node can do."""
    max_starting: int = 0
    """Sessions that a gateway starts at the same time, 0 as many as the real one does
    (`mcpx.cluster.placement.starts_at_once`); one that takes long is not counted (slow_start)."""
    slow_start: float = 20.0
    queue_timeout: float = 15.0
    """Seconds that a call waits for its session; those that would wait longer are counted."""
    report_s: float = 1.0
    """Seconds between two reports of a node."""
    suspect_s: float = 0.7
    given_up_s: float = 1.5
    """Seconds of silence after which nothing is placed on a node, and after which it counts as dead."""

    deaths: int = 30
    """Nodes that die by themselves over the day."""
    rack_deaths: tuple[float, ...] = (9.2 * HOUR, 14 * HOUR)
    """When a whole rack dies."""
    back_s: float = 15 * MINUTE
    """After so long a node that died joins again, empty."""
    joins: tuple[float, ...] = (11 * HOUR,)
    """When a rack of new nodes joins."""
    drains: int = 20
    """Nodes that are drained over the day, one after the other, and come back."""
    end: float = 24 * HOUR

    @property
    def private_servers(self) -> int:
        """How many servers have a session for each person."""
        return round(self.servers * self.per_client)


def small(**changes: object) -> World:
    """A cluster of twenty nodes that is simulated within a second."""
    settings: dict[str, object] = {
        "nodes": 20,
        "rack": 4,
        "node_gb": 16,
        "gateways": 2,
        "people": 700,
        "arrival": (9 * HOUR, 10 * MINUTE),
        "stay": (1 * HOUR, 10 * MINUTE),
        "deaths": 4,
        "rack_deaths": (9.1 * HOUR,),
        "back_s": 5 * MINUTE,
        "joins": (9.2 * HOUR,),
        "drains": 3,
        "end": 14 * HOUR,
    }
    return msgspec.convert(settings | changes, World)

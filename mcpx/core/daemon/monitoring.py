"""The metrics of a running MCPX, as `/metrics` serves them.

A scrape has two halves: `read` looks at the hub on its event loop, quickly and without waiting; `exposition`
makes samples of that and encodes them, in another thread, where it looks at the servers' processes as well.
Nothing is done where nobody scrapes.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, get_args

import anyio
from msgspec.structs import replace

from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.daemon import metric_families as families
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.metric_families import Family, Samples, encode
from mcpx.core.daemon.status import NodeStatus, PeerStatus
from mcpx.core.daemon.status_snapshot import restarts
from mcpx.core.events.records import End
from mcpx.core.events.stats import Count
from mcpx.core.servers.server import Server
from mcpx.core.system.processes import ProcessFigures
from mcpx.core.telemetry.contained import contained
from mcpx.core.text import cut, visible
from mcpx.errors import Code
from mcpx.version import __version__

MAX_SERVERS: Final = 1000  # with samples of their own, as `mcpx.core.events.stats` keeps their costs
MAX_LABEL_CHARS: Final = 200

Values = Mapping[Family, float | None]
"""Of families whose only label is the server; None where there is no value."""


class Durations(NamedTuple):
    """A histogram at the moment of a scrape, in seconds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class ServerReading(NamedTuple):
    """One server at the moment of a scrape."""

    name: str
    transport: str
    protocol_version: str
    state: State
    values: Values
    errors: Mapping[str, int]
    durations: Durations
    offers: Mapping[str, int]
    groups: tuple[int, ...] | None
    """Its process groups; None for one that is reached by a URL."""


class Reading(NamedTuple):
    """MCPX at the moment of a scrape."""

    values: Values
    states: Mapping[State, int]
    clients: tuple[tuple[str, Count], ...]
    counts: Mapping[str, Count]
    """Of each server, and of the names that stand for none (`mcpx.core.events.stats`), by labels."""
    servers: tuple[ServerReading, ...]
    placed: tuple[tuple[str, int], ...] = ()
    """Servers with processes on nodes, and their memory there."""
    faults: tuple[tuple[str, int], ...] = ()
    """Faults of MCPX itself, by the boundary where they ended."""
    peers: tuple[PeerStatus, ...] = ()
    nodes: tuple[NodeStatus, ...] = ()


# --- on the event loop


def read(hub: Hub, *, clients: int) -> Reading:
    """The figures now. `clients` counts those that are attached."""
    totals, log = hub.meter.since_start(), hub.audit
    cluster = None if hub.cluster is None else hub.cluster.status()
    infos = [(upstream, upstream.info()) for upstream in hub.upstreams.values()]
    return Reading(
        values={
            families.UPTIME: None if hub.started is None else anyio.current_time() - hub.started,
            families.CONFIG_USABLE: hub.file.problem is None,
            families.CLIENTS: clients,
            families.DROPPED: hub.clients.dropped,
            families.AUDIT_WRITABLE: log.problem is None if log.is_written else None,
            families.AUDIT_WAITING: len(log.backlog),
            families.AUDIT_LOST: log.backlog.lost,
            families.CLUSTER_JOINED: None if cluster is None else cluster.joined,
            families.CLUSTER_GATEWAYS: None if cluster is None else len(cluster.gateways),
        },
        states=Counter(info.state for _, info in infos),
        clients=tuple((name, replace(count)) for name, count in totals.clients.items()),
        counts={_label(name): Count() for name in itertools.islice(hub.upstreams, MAX_SERVERS)}
        | {server: totals.of_server(server) for server in totals.tools},
        servers=tuple(_server(upstream, info) for upstream, info in infos[:MAX_SERVERS]),
        placed=tuple(
            (name, use.memory)
            for name, upstream in itertools.islice(hub.upstreams.items(), MAX_SERVERS)
            if (use := upstream.placed_use) is not None
        ),
        faults=tuple(contained().items()),
        peers=tuple(hub.peers.status()),
        nodes=() if hub.cluster is None else tuple(hub.cluster.nodes()[:MAX_SERVERS]),
    )


def _server(upstream: Server, info: ServerInfo) -> ServerReading:
    life, counters, known = upstream.queue.lifecycle_or_none(), upstream.counters, info.catalogue
    up_since, silent_since = None if life is None else life.up_since, counters.silent_since
    values: Values = {
        families.UP: None if info.state is State.DISABLED else info.available,
        families.SERVER_UPTIME: None if up_since is None else max(0.0, anyio.current_time() - up_since),
        families.RESTARTS: restarts(upstream.main),
        families.FAILURES: 0 if life is None else life.failures,
        families.IN_FLIGHT: counters.in_flight,
        families.QUEUED: upstream.queued,
        families.SILENT: 0.0 if silent_since is None else max(0.0, time.monotonic() - silent_since),
        families.SERVER_SESSIONS: None if (own := upstream.own_sessions) is None else len(own),
        families.CHANGES: len(upstream.policy.changes()),
        families.LISTINGS: counters.listings,
        families.MALFORMED: counters.malformed,
    }
    histogram = counters.durations
    return ServerReading(
        name=info.name,
        transport=info.transport,
        protocol_version=(known and known.protocol_version) or "",
        state=info.state,
        values=values,
        errors=dict(counters.errors),
        durations=Durations(histogram.bounds, tuple(histogram.counts), histogram.sum),
        offers=info.counts() | {"skills": len(known.skills) if known else 0},
        groups=_groups(upstream),
    )


def _groups(upstream: Server) -> tuple[int, ...] | None:
    if upstream.config.transport.program is None:
        return None
    return tuple(session.pid for session in upstream.sessions() if session.pid is not None)


# --- in another thread


class Scrapes:
    """The memory of one scrape for the next. They come one after the other."""

    def __init__(self) -> None:
        self._figures = ProcessFigures()
        self._used_s: dict[str, float] = {}
        self._highest: dict[tuple[str, ...], int] = {}

    def risen(self, value: int, *of: str) -> int:
        """A sum that may step back, as a counter may not: it stands still until the sum has caught up.

        A menu may be replaced by a smaller one, and a call that has ended may go on.
        """
        highest = self._highest[of] = max(value, self._highest.get(of, 0))
        return highest

    def look(self, servers: Iterable[ServerReading]) -> Iterator[tuple[str, float | None, float]]:
        """The name of each server that may have processes, their memory, and the time that they have used."""
        groups_of = {each.name: each.groups for each in servers if each.groups is not None}
        uses = self._figures.look([group for groups in groups_of.values() for group in groups])
        before, self._used_s = self._used_s, {}
        for name, groups in groups_of.items():
            found = [uses[group] for group in groups if group in uses]
            self._used_s[name] = before.get(name, 0.0) + sum(use.used_s for use in found)
            yield name, sum(use.memory for use in found) or None, self._used_s[name]


def exposition(reading: Reading, scrapes: Scrapes, accept: str) -> tuple[bytes, str]:
    """Return the answer to a scraper with that Accept header, and its content type."""
    samples = Samples(families.FAMILIES)
    samples.add(families.BUILD, 1, __version__)
    _add_values(samples, reading.values)
    for state in State:
        samples.add(families.SERVERS, reading.states.get(state, 0), state)
    _add_counts(samples, reading, scrapes)
    labels = _labels(reading.servers)
    for server in reading.servers:
        _add_server(samples, labels[server.name], server)
    peers = _labels(reading.peers)
    for peer in reading.peers:
        samples.add(families.PEER_UP, peer.state == "ready", peers[peer.name])
        samples.add(families.PEER_SERVERS, peer.servers, peers[peer.name])
    _add_nodes(samples, reading.nodes)
    for place, count in reading.faults:
        samples.add(families.FAULTS, count, place)
    for name, held in reading.placed:
        samples.add(families.MEMORY, held, labels[name])
    for name, memory, used_s in scrapes.look(reading.servers):
        _add_values(samples, {families.MEMORY: memory, families.CPU: used_s}, labels[name])
    return encode(samples, accept)


def _add_nodes(samples: Samples, nodes: tuple[NodeStatus, ...]) -> None:
    labels = _labels(nodes)
    for node in nodes:
        up = node.state in {"ready", "draining"}
        values: Values = {
            families.NODE_UP: up,
            families.NODE_DRAINING: node.state == "draining",
            families.NODE_SESSIONS: node.sessions,
            families.NODE_CONNECTIONS: node.connections if up else None,
            families.NODE_MEMORY: node.servers_memory_bytes if up else None,
            families.NODE_FREE: node.memory_free_bytes,
        }
        _add_values(samples, values, labels[node.name])


def _add_values(samples: Samples, values: Values, *labels: str) -> None:
    for family, value in values.items():
        if value is not None:
            samples.add(family, value, *labels)


def _add_counts(samples: Samples, reading: Reading, scrapes: Scrapes) -> None:
    def add(family: Family, value: int, *labels: str) -> None:
        samples.add(family, scrapes.risen(value, family.name, *labels), *labels)

    clients: dict[str, Count] = {}
    for name, count in reading.clients:
        clients.setdefault(_label(name), Count()).add(count)
    for client, count in clients.items():
        add(families.CLIENT_CALLS, count.calls, client)
        add(families.CLIENT_DIRECT, count.direct, client)
        add(families.CLIENT_SPENT, count.spent, client)
    for server, count in reading.counts.items():
        add(families.SERVER_DIRECT, count.direct, server)
        add(families.SERVER_SPENT, count.spent, server)
        add(families.CALLS, count.calls, server)
        add(families.CACHED, count.cached, server)
        for end in get_args(End):
            add(families.ENDED, getattr(count, end), server, end)


def _add_server(samples: Samples, label: str, server: ServerReading) -> None:
    samples.add(families.SERVER, 1, label, server.transport, _label(server.protocol_version))
    for state in State:
        samples.add(families.STATE, state is server.state, label, state)
    _add_values(samples, server.values, label)
    for code in Code:
        samples.add(families.ERRORS, server.errors.get(code, 0), label, code)
    samples.add_histogram(families.DURATION, *server.durations, label)
    for kind, number in server.offers.items():
        samples.add(families.OFFERS, number, label, kind)


def _labels(servers: Iterable[ServerReading | PeerStatus | NodeStatus]) -> dict[str, str]:
    """The servers' labels by their names: one scrape with two of the same would be refused whole."""
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for server in servers:
        cut_name = label = _label(server.name)
        number = 1
        while label in taken:
            number += 1
            label = f"{cut_name} ({number})"
        taken.add(label)
        labels[server.name] = label
    return labels


def _label(name: str) -> str:
    r"""A name as the value of a label: cut, and what cannot be seen or encoded as `\u200b`."""
    return cut(visible(name), MAX_LABEL_CHARS)

"""The metrics of MCPX, by the conventions of Prometheus, and the two text forms that monitoring reads.

`mcpx.core.daemon.monitoring` has the values, and docs/monitoring.md a table made of `FAMILIES`. Names and
labels are a promise to dashboards and alerts: add to them, do not rename. A label has a bounded set of
values: the servers of the configuration, what clients call themselves (as the meter bounds it), and words of
MCPX's own. Tools are no label, because a server may offer thousands and change them at will. Values of labels
may be anything that UTF-8 can encode: what needs it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

TEXT: Final = "text/plain"
OPENMETRICS: Final = "application/openmetrics-text"
CONTENT_TYPES: Final = {
    TEXT: f"{TEXT}; version=0.0.4; charset=utf-8",
    OPENMETRICS: f"{OPENMETRICS}; version=1.0.0; charset=utf-8",
}
_VERSIONS: Final = {TEXT: ("0.0.4",), OPENMETRICS: ("1.0.0", "0.0.1")}
_MAX_RANGES: Final = 32  # of an Accept header that are looked at
_OF_PROCESS: Final = ProcessCollector(registry=None)

Kind = Literal["counter", "gauge", "histogram", "info"]


class Family(NamedTuple):
    """One metric: its name as it is scraped, what it means, and the names of its labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


# --- the metrics


def _family(kind: Kind, name: str, meaning: str, *labels: str) -> Family:
    return Family(f"mcpx_{name}", kind, meaning, labels)


def _of_server(kind: Kind, name: str, meaning: str, *labels: str) -> Family:
    return _family(kind, f"server_{name}", meaning, "server", *labels)


BUILD: Final = _family("info", "build_info", "The version of MCPX.", "version")
UPTIME: Final = _family("gauge", "uptime_seconds", "Time since MCPX started.")
CONFIG_USABLE: Final = _family(
    "gauge", "config_usable", "1 while the current configuration file can be used, else 0."
)
SERVERS: Final = _family("gauge", "servers", "Servers of the configuration in each state.", "state")
CLIENTS: Final = _family(
    "gauge", "clients", "Attached clients. A client over HTTP without a session does not count."
)
DROPPED: Final = _family(
    "counter",
    "client_messages_dropped_total",
    "Log and progress messages that were dropped because their client did not read.",
)
FAULTS: Final = _family(
    "counter",
    "faults_contained_total",
    "Faults of MCPX itself that affected one message or one step, by the boundary where they ended.",
    "place",
)
AUDIT_WRITABLE: Final = _family(
    "gauge", "audit_writable", "1 while the audit log can be written, else 0; absent where it is off."
)
AUDIT_WAITING: Final = _family(
    "gauge", "audit_lines_waiting", "Lines of the audit log that have not been written to disk yet."
)
AUDIT_LOST: Final = _family(
    "counter", "audit_lines_lost_total", "Lines of the audit log that are lost for good."
)
CLIENT_CALLS: Final = _family(
    "counter", "client_calls_total", "Calls, by the name that a client gives itself.", "client"
)
CLIENT_DIRECT: Final = _family(
    "counter",
    "client_direct_tokens_total",
    "Estimated tokens that results and lists of tools would have cost a client without MCPX.",
    "client",
)
CLIENT_SPENT: Final = _family(
    "counter",
    "client_spent_tokens_total",
    "Estimated tokens that results and lists of tools have cost a client.",
    "client",
)
SERVER_DIRECT: Final = _of_server(
    "counter",
    "direct_tokens_total",
    "Estimated tokens that results and the list of tools of a server would have cost without MCPX.",
)
SERVER_SPENT: Final = _of_server(
    "counter",
    "spent_tokens_total",
    "Estimated tokens that results and the list of tools of a server have cost.",
)
SERVER: Final = _of_server(
    "info",
    "info",
    "What a server is: its transport, and the revision of the protocol that it speaks, once that is known.",
    "transport",
    "protocol_version",
)
UP: Final = _of_server(
    "gauge",
    "up",
    "1 while calls to a server are served (it is ready, or asleep and started by a call), else 0;"
    " absent for one that is disabled.",
)
STATE: Final = _of_server("gauge", "state", "1 for the state of a server, else 0.", "state")
SERVER_UPTIME: Final = _of_server(
    "gauge", "uptime_seconds", "Time since a server became ready; absent while it is not."
)
RESTARTS: Final = _of_server("counter", "restarts_total", "Restarts of a server, except starts that woke it.")
FAILURES: Final = _of_server("gauge", "consecutive_failures", "Failures of a server in a row.")
CALLS: Final = _of_server(
    "counter", "calls_total", "Calls to a server: running calls, and all that have ended in any way."
)
ENDED: Final = _of_server(
    "counter",
    "calls_ended_total",
    "Calls to a server that have ended, by their end: ok, failed, refused or cancelled.",
    "end",
)
CACHED: Final = _of_server(
    "counter",
    "calls_cached_total",
    "Calls answered with the kept result of an earlier call; they also count as ok.",
)
ERRORS: Final = _of_server(
    "counter",
    "errors_total",
    "Requests to a server, sent or not, that ended with an error of MCPX or of the protocol, by its"
    " code. Errors that a tool reports itself and requests that never reached the queue do not count.",
    "code",
)
DURATION: Final = _of_server(
    "histogram", "call_duration_seconds", "Time from sending a request to a server until its answer."
)
IN_FLIGHT: Final = _of_server("gauge", "calls_in_flight", "Requests that a server is working on.")
QUEUED: Final = _of_server("gauge", "calls_queued", "Requests that wait for a server.")
SILENT: Final = _of_server(
    "gauge",
    "silent_seconds",
    "Time for which a server with requests in flight has sent neither an answer nor progress.",
)
SERVER_SESSIONS: Final = _of_server(
    "gauge",
    "sessions",
    "Sessions with a server that belong to one client or project; absent for a server that all clients"
    " share.",
)
MEMORY: Final = _of_server(
    "gauge",
    "memory_bytes",
    "Memory of the processes of a server and of all that they have started, shared pages in proportion;"
    " absent while there are none.",
)
CPU: Final = _of_server(
    "counter",
    "cpu_seconds_total",
    "Processor time that the processes of a server and all that they have started have used, as far as"
    " scrapes have seen it; absent for a server without processes.",
)
OFFERS: Final = _of_server("gauge", "offers", "What a server offers, as MCPX shows it, by kind.", "kind")
CHANGES: Final = _of_server(
    "gauge", "changes_pending", "Changes of a server's offers that wait for approval."
)
LISTINGS: Final = _of_server(
    "counter", "listings_total", "Listings of a server's tools, resources and prompts."
)
MALFORMED: Final = _of_server(
    "counter", "malformed_messages_total", "Messages and lines of a server that were not MCP."
)

PEER_UP: Final = _family(
    "gauge",
    "peer_up",
    "1 while another MCPX that is a peer reports its servers, else 0; by its entry.",
    "peer",
)
CLUSTER_JOINED: Final = _family(
    "gauge", "cluster_joined", "1 while this MCPX has joined its Ray cluster, else 0; absent without one."
)
CLUSTER_GATEWAYS: Final = _family(
    "gauge", "cluster_gateways", "Gateways of the cluster that are known to run, including this one."
)
NODE_UP: Final = _family("gauge", "node_up", "1 while a node of the cluster answers, else 0.", "node")
NODE_DRAINING: Final = _family(
    "gauge", "node_draining", "1 while a node of the cluster accepts nothing new, else 0.", "node"
)
NODE_SESSIONS: Final = _family(
    "gauge", "node_sessions", "Sessions of this MCPX that are on a node of the cluster.", "node"
)
NODE_CONNECTIONS: Final = _family(
    "gauge", "node_connections", "Sessions of all gateways that are on a node.", "node"
)
NODE_MEMORY: Final = _family(
    "gauge", "node_servers_memory_bytes", "Memory of the servers on a node, together.", "node"
)
NODE_FREE: Final = _family(
    "gauge", "node_memory_free_bytes", "Memory that is free on the machine of a node.", "node"
)
PEER_SERVERS: Final = _family(
    "gauge", "peer_servers", "Servers that another MCPX provides; by its entry.", "peer"
)

FAMILIES: Final = tuple(each for each in list(globals().values()) if isinstance(each, Family))


# --- their text


class Samples(Collector):
    """The values of one scrape. Each combination of a family and values of its labels is added once."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._metrics = {each.name: _metric(each) for each in families}

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add a value of a counter, a gauge or an info."""
        self._metrics[family.name].add_sample(
            family.name, dict(zip(family.labels, labels, strict=True)), value
        )

    def add_histogram(
        self, family: Family, bounds: Sequence[float], counts: Sequence[int], total: float, *labels: str
    ) -> None:
        """Add a histogram: how many values fell between the bounds and over the last, and the values' sum."""
        metric, of = self._metrics[family.name], dict(zip(family.labels, labels, strict=True))
        so_far = list(accumulate(counts))
        for bound, count in zip((*bounds, float("inf")), so_far, strict=True):
            le = floatToGoString(bound)  # type: ignore[no-untyped-call]
            metric.add_sample(f"{family.name}_bucket", {**of, "le": le}, count)
        metric.add_sample(f"{family.name}_count", of, so_far[-1])
        metric.add_sample(f"{family.name}_sum", of, total)

    def collect(self) -> Iterator[Metric]:
        """The metrics that have a value, and those of this process that every exporter gives."""
        yield from (metric for metric in self._metrics.values() if metric.samples)
        yield from _OF_PROCESS.collect()


def _metric(family: Family) -> Metric:
    suffix = {"counter": "_total", "info": "_info"}.get(family.kind, "")
    return Metric(family.name.removesuffix(suffix), family.help, family.kind)


def encode(samples: Samples, accept: str) -> tuple[bytes, str]:
    """The samples in the form that an Accept header prefers, and the content type of that."""
    chosen = preferred(accept)
    if chosen == OPENMETRICS:
        body: bytes = generate_openmetrics(samples)  # type: ignore[no-untyped-call]
    else:
        body = generate_latest(samples)
    return body, CONTENT_TYPES[chosen]


def preferred(accept: str) -> str:
    """Which of the two forms an Accept header prefers (RFC 9110, 12.5.1); the text where it names neither."""
    qualities = {TEXT: 0.0, OPENMETRICS: 0.0}
    for part in accept.split(",")[:_MAX_RANGES]:
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        given = dict(each.partition("=")[::2] for each in parameters)
        if name in qualities and given.get("version", _VERSIONS[name][0]) in _VERSIONS[name]:
            qualities[name] = max(qualities[name], _quality(given.get("q", "1")))
    return max(qualities, key=qualities.__getitem__)  # the first of equals, which is the text


def _quality(given: str) -> float:
    try:
        return min(float(given), 1.0)
    except ValueError:
        return 0.0

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

BUILD: Final = Family("mcpx_build_info", "info", "The version of MCPX.", ("version",))
UPTIME: Final = Family("mcpx_uptime_seconds", "gauge", "Time since MCPX started.")
CONFIG_USABLE: Final = Family(
    "mcpx_config_usable", "gauge", "1 while the current configuration file can be used, else 0."
)
SERVERS: Final = Family("mcpx_servers", "gauge", "Servers of the configuration in each state.", ("state",))
CLIENTS: Final = Family(
    "mcpx_clients", "gauge", "Attached clients. A client over HTTP without a session does not count."
)
DROPPED: Final = Family(
    "mcpx_client_messages_dropped_total",
    "counter",
    "Log and progress messages that were dropped because their client did not read.",
)
FAULTS: Final = Family(
    "mcpx_faults_contained_total",
    "counter",
    "Faults of MCPX itself that affected one message or one step, by the boundary where they ended.",
    ("place",),
)
AUDIT_WRITABLE: Final = Family(
    "mcpx_audit_writable", "gauge", "1 while the audit log can be written, else 0; absent where it is off."
)
AUDIT_WAITING: Final = Family(
    "mcpx_audit_lines_waiting", "gauge", "Lines of the audit log that have not been written to disk yet."
)
AUDIT_LOST: Final = Family(
    "mcpx_audit_lines_lost_total", "counter", "Lines of the audit log that are lost for good."
)
CLIENT_CALLS: Final = Family(
    "mcpx_client_calls_total", "counter", "Calls, by the name that a client gives itself.", ("client",)
)
CLIENT_DIRECT: Final = Family(
    "mcpx_client_direct_tokens_total",
    "counter",
    "Estimated tokens that results and lists of tools would have cost a client without MCPX.",
    ("client",),
)
CLIENT_SPENT: Final = Family(
    "mcpx_client_spent_tokens_total",
    "counter",
    "Estimated tokens that results and lists of tools have cost a client.",
    ("client",),
)
SERVER_DIRECT: Final = Family(
    "mcpx_server_direct_tokens_total",
    "counter",
    "Estimated tokens that results and the list of tools of a server would have cost without MCPX.",
    ("server",),
)
SERVER_SPENT: Final = Family(
    "mcpx_server_spent_tokens_total",
    "counter",
    "Estimated tokens that results and the list of tools of a server have cost.",
    ("server",),
)
SERVER: Final = Family(
    "mcpx_server_info",
    "info",
    "What a server is: its transport, and the revision of the protocol that it speaks, once that is known.",
    ("server", "transport", "protocol_version"),
)
UP: Final = Family(
    "mcpx_server_up",
    "gauge",
    "1 while calls to a server are served (it is ready, or asleep and started by a call), else 0;"
    " absent for one that is disabled.",
    ("server",),
)
STATE: Final = Family(
    "mcpx_server_state", "gauge", "1 for the state of a server, else 0.", ("server", "state")
)
SERVER_UPTIME: Final = Family(
    "mcpx_server_uptime_seconds",
    "gauge",
    "Time since a server became ready; absent while it is not.",
    ("server",),
)
RESTARTS: Final = Family(
    "mcpx_server_restarts_total", "counter", "Restarts of a server, except starts that woke it.", ("server",)
)
FAILURES: Final = Family(
    "mcpx_server_consecutive_failures", "gauge", "Failures of a server in a row.", ("server",)
)
CALLS: Final = Family(
    "mcpx_server_calls_total",
    "counter",
    "Calls to a server: running calls, and all that have ended in any way.",
    ("server",),
)
ENDED: Final = Family(
    "mcpx_server_calls_ended_total",
    "counter",
    "Calls to a server that have ended, by their end: ok, failed, refused or cancelled.",
    ("server", "end"),
)
CACHED: Final = Family(
    "mcpx_server_calls_cached_total",
    "counter",
    "Calls answered with the kept result of an earlier call; they also count as ok.",
    ("server",),
)
ERRORS: Final = Family(
    "mcpx_server_errors_total",
    "counter",
    "Requests to a server, sent or not, that ended with an error of MCPX or of the protocol, by its code."
    " Errors that a tool reports itself and requests that never reached the queue do not count.",
    ("server", "code"),
)
DURATION: Final = Family(
    "mcpx_server_call_duration_seconds",
    "histogram",
    "Time from sending a request to a server until its answer.",
    ("server",),
)
IN_FLIGHT: Final = Family(
    "mcpx_server_calls_in_flight", "gauge", "Requests that a server is working on.", ("server",)
)
QUEUED: Final = Family("mcpx_server_calls_queued", "gauge", "Requests that wait for a server.", ("server",))
SILENT: Final = Family(
    "mcpx_server_silent_seconds",
    "gauge",
    "Time for which a server with requests in flight has sent neither an answer nor progress.",
    ("server",),
)
SERVER_SESSIONS: Final = Family(
    "mcpx_server_sessions",
    "gauge",
    "Sessions with a server that belong to one client or project; absent for a server that all clients"
    " share.",
    ("server",),
)
MEMORY: Final = Family(
    "mcpx_server_memory_bytes",
    "gauge",
    "Memory of the processes of a server and of all that they have started, shared pages in proportion;"
    " absent while there are none.",
    ("server",),
)
CPU: Final = Family(
    "mcpx_server_cpu_seconds_total",
    "counter",
    "Processor time that the processes of a server and all that they have started have used, as far as"
    " scrapes have seen it; absent for a server without processes.",
    ("server",),
)
OFFERS: Final = Family(
    "mcpx_server_offers", "gauge", "What a server offers, as MCPX shows it, by kind.", ("server", "kind")
)
CHANGES: Final = Family(
    "mcpx_server_changes_pending",
    "gauge",
    "Changes of a server's offers that wait for approval.",
    ("server",),
)
LISTINGS: Final = Family(
    "mcpx_server_listings_total",
    "counter",
    "Listings of a server's tools, resources and prompts.",
    ("server",),
)
MALFORMED: Final = Family(
    "mcpx_server_malformed_messages_total",
    "counter",
    "Messages and lines of a server that were not MCP.",
    ("server",),
)

PEER_UP: Final = Family(
    "mcpx_peer_up",
    "gauge",
    "1 while another MCPX that is a peer reports its servers, else 0; by its entry.",
    ("peer",),
)
CLUSTER_JOINED: Final = Family(
    "mcpx_cluster_joined",
    "gauge",
    "1 while this MCPX has joined its Ray cluster, else 0; absent without one.",
)
CLUSTER_GATEWAYS: Final = Family(
    "mcpx_cluster_gateways", "gauge", "Gateways of the cluster that are known to run, including this one."
)
NODE_UP: Final = Family("mcpx_node_up", "gauge", "1 while a node of the cluster answers, else 0.", ("node",))
NODE_DRAINING: Final = Family(
    "mcpx_node_draining", "gauge", "1 while a node of the cluster accepts nothing new, else 0.", ("node",)
)
NODE_SESSIONS: Final = Family(
    "mcpx_node_sessions", "gauge", "Sessions of this MCPX that are on a node of the cluster.", ("node",)
)
NODE_CONNECTIONS: Final = Family(
    "mcpx_node_connections", "gauge", "Sessions of all gateways that are on a node.", ("node",)
)
NODE_MEMORY: Final = Family(
    "mcpx_node_servers_memory_bytes", "gauge", "Memory of the servers on a node, together.", ("node",)
)
NODE_FREE: Final = Family(
    "mcpx_node_memory_free_bytes", "gauge", "Memory that is free on the machine of a node.", ("node",)
)
PEER_SERVERS: Final = Family(
    "mcpx_peer_servers", "gauge", "Servers that another MCPX provides; by its entry.", ("peer",)
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

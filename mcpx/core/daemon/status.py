"""The structs that `mcpx status` shows: the state of MCPX and its servers at one moment, and its stable JSON.

They encode with msgspec to exactly the documented JSON, and decode from it, so that a program that only shows
a status needs no hub and no SDK. Durations are in seconds, latencies in milliseconds, rounded.
`mcpx.core.daemon.status_snapshot` makes them.
"""

from __future__ import annotations

import msgspec


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated tokens: `direct` without MCPX, `spent` with it; of all clients, of one server's tools."""

    direct: int
    spent: int
    clients: dict[str, Cost] | msgspec.UnsetType = msgspec.UNSET
    tools: dict[str, Cost] | msgspec.UnsetType = msgspec.UNSET


class CallCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The calls since the start: those that run, and each of the others with its end.

    docs/monitoring.md says what a call is, and what `failed` and `refused` mean. Those that were `cached` are
    among the `ok`.
    """

    calls: int = 0
    running: int = 0
    ok: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0
    cached: int = 0


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that results and listings of tools have cost the clients, in this process and for good."""

    since_start: Cost
    all_time: Cost


class HttpStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP side of a daemon: where clients connect, or why they cannot, and when that is tried again.

    `named_tokens` counts the tokens with names that let in (`mcpx token`); it is absent if there are none.
    """

    url: str | None = None
    named_tokens: int | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None
    next_attempt_in_s: float | None = None


class AuditStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An audit log that cannot be written: why, how many lines wait, and how many are lost.

    `required` says that calls are refused until it can be.
    """

    problem: str
    waiting: int
    lost: int
    required: bool


class PartStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A part of MCPX that is parked, since it keeps failing: for how long, and what is `missing` now."""

    name: str
    missing: str
    cause: str
    failing_s: float
    next_attempt_in_s: float

    @property
    def text(self) -> str:
        """All of it, for a person."""
        return (
            f"the part {self.name} of MCPX is parked, because it has kept failing for {self.failing_s:.0f} s"
            f" ({self.cause}), so that {self.missing}; it is tried again in {self.next_attempt_in_s:.0f} s,"
            " and at once by mcpx reload (mcpx daemon logs says more)"
        )


class EnvironmentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of PATH and the variables of the servers: `shell` is the login shell that was asked.

    `problem` says why it gave nothing; then they are those of the program that started MCPX.
    """

    source: str
    path: str
    shell: str | None = None
    problem: str | msgspec.UnsetType = msgspec.UNSET


class UpgradeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Another version that is installed, and the command after which it is the daemon's."""

    installed: str
    command: str


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The MCPX process. `clients` counts the connected ones.

    `config_error` says why the configuration file as it is cannot be used, if it cannot: then what was read
    before is in force. `dropped` counts the log and progress messages that were dropped because clients did
    not read; it is absent if there were none, and so is `faults`: those of MCPX itself that cost one message
    or one step, by the boundary where they ended. `http` is present where the configuration has HTTP served.
    `environment` is absent where a program has made the configuration. `tokens` is the sum over all servers
    and what MCPX answered by itself, `calls` the calls to all servers, and to names that no server has.
    `folder` is where it keeps what is for its configuration alone, with its servers' logs; `log` is the file
    of its own, absent where that goes elsewhere. A daemon of an older version says nothing of these five.
    `pins_error` says why what servers offer cannot be pinned, if so; `audit` is present while the audit log
    cannot be written. `parked` are the parts of MCPX that keep failing.
    """

    pid: int
    version: str
    uptime_s: float
    clients: int
    config_error: str | msgspec.UnsetType = msgspec.UNSET
    dropped: int | msgspec.UnsetType = msgspec.UNSET
    faults: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    http: HttpStatus | msgspec.UnsetType = msgspec.UNSET
    environment: EnvironmentStatus | msgspec.UnsetType = msgspec.UNSET
    tokens: Tokens | msgspec.UnsetType = msgspec.UNSET
    calls: CallCounts | msgspec.UnsetType = msgspec.UNSET
    folder: str | msgspec.UnsetType = msgspec.UNSET
    log: str | msgspec.UnsetType = msgspec.UNSET
    pins_error: str | msgspec.UnsetType = msgspec.UNSET
    audit: AuditStatus | msgspec.UnsetType = msgspec.UNSET
    parked: list[PartStatus] | msgspec.UnsetType = msgspec.UNSET
    upgrade: UpgradeStatus | msgspec.UnsetType = msgspec.UNSET
    """Added by the command that asks: the daemon knows its own version alone."""


class ChangeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a server that waits for approval; as `mcpx.core.policy.pin_changes.Change`."""

    kind: str
    tool: str | msgspec.UnsetType = msgspec.UNSET
    summary: str
    difference: list[str]
    blocked: bool


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles over the last calls that were answered; None before the first.

    A daemon of an older version says nothing of `p95`.
    """

    p50: float | None
    p95: float | None = None
    p99: float | None


class SignInStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The account at a server that MCPX signs in to: `command` is how a person does, where one can.

    `expires_at` is when the access token does (ISO 8601), `scopes` are those that were granted, as far as
    that is known. `wanted_scopes` are asked for and not granted. `problem` says why there is no token, or why
    it could not be refreshed. `account` is whom it is signed in as, where the authorization server tells it.
    """

    account: str | msgspec.UnsetType = msgspec.UNSET
    command: str | msgspec.UnsetType = msgspec.UNSET
    expires_at: str | msgspec.UnsetType = msgspec.UNSET
    scopes: list[str] | msgspec.UnsetType = msgspec.UNSET
    wanted_scopes: list[str] | msgspec.UnsetType = msgspec.UNSET
    problem: str | msgspec.UnsetType = msgspec.UNSET


class InstanceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The session of a server in one project, a folder ("": for clients that are in none).

    The other members are as in `ServerStatus`.
    """

    project: str
    state: str
    pid: int | None = None
    uptime_s: float | None = None
    restarts: int = 0
    queued: int = 0
    last_error: str | None = None


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream server.

    `state` is stopped, starting, ready, asleep (started when it is needed), waiting, parked, needs sign-in (a
    person has to: `sign_in` says how), needs setup (`missing` names what is not there), invalid (its entry
    holds a mistake), or disabled (a person has switched it off). `remedy` is what a person does about the
    last three; `last_error` says why. `next_attempt_in_s` is until it is tried by itself, `restarts` counts
    its incarnations after the first, but for those that began because it was needed again, `failures` those
    that failed in a row. `last_error` is the cause of the last failure, even if the server has recovered.
    `calls`, `running` and the ends to `cached` are as in `CallCounts`, of this server;
    `errors` is the sum of `failed` and `refused`, for programs that know no others. `in_flight` and `queued`
    count what it works on and what waits for it, requests of MCPX itself among them. `silent_s` is present
    while there are any in flight: for how long there was neither an answer nor progress. `sessions` is
    present for a server with a session for each client or project, and counts those that are open; state and
    pid are then those of the shared session, or of the project that was used last, and the other numbers are
    totals. `instances` are those of the projects, in the order of their opening. `left_out` counts what the
    server offers and MCPX leaves out or cuts, if there is any; `inspect` names it. `tokens` is as in
    `DaemonStatus`. Where `from_last_time` is present, the counts are of what the server offered an earlier
    MCPX, last at `listed_at` (ISO 8601).
    `changes` are those since it was approved, at most 100; absent without any. `sign_in` is absent for a
    server that has never wanted one. `peer` is the other MCPX that a server is one of; absent for others. Its
    state is then that of its session here, and where that is well, the one that the peer says. `node` is the
    node of the cluster that its shared session is on; absent for one that is on none. `memory_bytes` and
    `cpu_share` (of one core) are what it uses on all nodes, for all gateways; absent where no node says so.
    `listens_at` is the URL of a program that MCPX has started and connects to; absent for any other.
    """

    name: str
    state: str
    pid: int | None
    transport: str
    protocol_version: str | None
    uptime_s: float | None
    restarts: int
    failures: int
    next_attempt_in_s: float | None
    last_error: str | None
    tools: int
    resources: int
    templates: int
    prompts: int
    in_flight: int
    queued: int
    calls: int
    errors: int
    running: int = 0
    ok: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0
    cached: int = 0
    latency_ms: Latency
    silent_s: float | msgspec.UnsetType = msgspec.UNSET
    tokens: Tokens | msgspec.UnsetType = msgspec.UNSET
    sessions: int | msgspec.UnsetType = msgspec.UNSET
    instances: list[InstanceStatus] | msgspec.UnsetType = msgspec.UNSET
    left_out: int | msgspec.UnsetType = msgspec.UNSET
    from_last_time: bool | msgspec.UnsetType = msgspec.UNSET
    listed_at: str | msgspec.UnsetType = msgspec.UNSET
    changes: list[ChangeStatus] | msgspec.UnsetType = msgspec.UNSET
    sign_in: SignInStatus | msgspec.UnsetType = msgspec.UNSET
    missing: list[str] | msgspec.UnsetType = msgspec.UNSET
    remedy: str | msgspec.UnsetType = msgspec.UNSET
    peer: str | msgspec.UnsetType = msgspec.UNSET
    node: str | msgspec.UnsetType = msgspec.UNSET
    memory_bytes: int | msgspec.UnsetType = msgspec.UNSET
    cpu_share: float | msgspec.UnsetType = msgspec.UNSET
    listens_at: str | msgspec.UnsetType = msgspec.UNSET


class GatewayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway of the cluster. `is_self`: this one. `problem` is why it has not carried out a reload."""

    host: str
    pid: int
    version: str
    is_self: bool
    same_config: bool
    problem: str | msgspec.UnsetType = msgspec.UNSET


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The Ray cluster that this MCPX is a gateway of, and all its gateways, this one first.

    `problem` is why Ray is not joined, `not_shared` why nothing is shared with the others; absent if all is
    well. `open` says that Ray answers without a token, so that whoever reaches it owns the cluster.
    """

    address: str
    joined: bool
    open: bool = False
    problem: str | msgspec.UnsetType = msgspec.UNSET
    not_shared: str | msgspec.UnsetType = msgspec.UNSET
    gateways: list[GatewayStatus] = []


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster.

    `state` is ready, draining (it takes nothing new), starting, or lost (it does not answer: `problem` says
    why). `sessions` are those of this MCPX that are on it, `connections` those of all gateways; `servers` are
    the ones that it runs, and `servers_memory_bytes` what they take together. `memory_bytes` and
    `memory_free_bytes` are those of its machine, `load` is that of the last minute. `resources` are what Ray
    counts there, `free` what of it nobody has reserved. What is not known at the moment is null.
    """

    name: str
    host: str
    state: str
    problem: str | msgspec.UnsetType = msgspec.UNSET
    pid: int | None = None
    version: str | None = None
    uptime_s: float | None = None
    sessions: int = 0
    connections: int = 0
    servers: int = 0
    servers_memory_bytes: int = 0
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    cpus: int | None = None
    load: float | None = None
    resources: dict[str, float] = {}
    free: dict[str, float] = {}


class PeerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Another MCPX whose servers are servers here.

    `state` is as a server's: that of the session in which it names its servers. `id` is what tells it from
    all others; absent until it has said so. `servers` counts those that it gives. `left_out` says what it
    has and is no server here, and why; absent if there is nothing.
    """

    name: str
    state: str
    transport: str
    id: str | msgspec.UnsetType = msgspec.UNSET
    servers: int
    last_error: str | None = None
    next_attempt_in_s: float | None = None
    left_out: list[str] | msgspec.UnsetType = msgspec.UNSET


class VariableStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that a server's process was given: its value as it may be shown, and where it came from."""

    name: str
    value: str
    source: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Everything. The servers are in the order of the configuration.

    `peers` is absent without any, `nodes` and `cluster` without a cluster. `variables` are there where one
    server was asked for, and are its own.
    """

    daemon: DaemonStatus
    servers: list[ServerStatus]
    peers: list[PeerStatus] | msgspec.UnsetType = msgspec.UNSET
    nodes: list[NodeStatus] | msgspec.UnsetType = msgspec.UNSET
    cluster: ClusterStatus | msgspec.UnsetType = msgspec.UNSET
    variables: list[VariableStatus] | msgspec.UnsetType = msgspec.UNSET

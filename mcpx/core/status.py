"""The state of MCPX and its servers at one moment: what `mcpx status` shows, and its stable JSON.

`snapshot` reads the hub on its event loop, without waiting. The structs encode with msgspec to exactly the
documented JSON, and decode from it, so that a program that only shows a status needs no hub and no SDK.
Durations are in seconds, latencies in milliseconds, rounded.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from mcpx.version import __version__

if TYPE_CHECKING:
    from mcpx.catalog.snapshot import ServerInfo
    from mcpx.core.hub import Hub
    from mcpx.core.stats import Count, Totals
    from mcpx.environment import Environment
    from mcpx.upstream.actor import Upstream
    from mcpx.upstream.direct.session import DirectSession
    from supervisors import ChildState


MAX_CHANGES: Final = 100  # of one server


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated tokens: `direct` without MCPX, `spent` with it; of all clients, of one server's tools."""

    direct: int
    spent: int
    clients: dict[str, Cost] | msgspec.UnsetType = msgspec.UNSET
    tools: dict[str, Cost] | msgspec.UnsetType = msgspec.UNSET


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What results and listings of tools have cost the clients, in this process and for good."""

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


class EnvironmentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where PATH and the variables of the servers came from: `shell` is the login shell that was asked.

    `problem` says why it gave nothing; then they are those of the program that started MCPX.
    """

    source: str
    path: str
    shell: str | None = None
    problem: str | msgspec.UnsetType = msgspec.UNSET


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The MCPX process. `clients` counts the connected ones.

    `config_error` says why the configuration file as it is cannot be used, if it cannot: then what was read
    before is in force. `dropped` counts the log and progress messages that were dropped because clients did
    not read; it is absent if there were none. `http` is present where the configuration has HTTP served.
    `environment` is absent where a program has made the configuration. `tokens` is the sum over all servers
    and what MCPX answered by itself. `folder` is where it keeps what is for its configuration alone, with its
    servers' logs; `log` is the file of its own, absent where that goes elsewhere. A daemon of an older
    version says nothing of these four. `pins_error` says why what servers offer cannot be pinned, if so;
    `audit` is present while the audit log cannot be written.
    """

    pid: int
    version: str
    uptime_s: float
    clients: int
    config_error: str | msgspec.UnsetType = msgspec.UNSET
    dropped: int | msgspec.UnsetType = msgspec.UNSET
    http: HttpStatus | msgspec.UnsetType = msgspec.UNSET
    environment: EnvironmentStatus | msgspec.UnsetType = msgspec.UNSET
    tokens: Tokens | msgspec.UnsetType = msgspec.UNSET
    folder: str | msgspec.UnsetType = msgspec.UNSET
    log: str | msgspec.UnsetType = msgspec.UNSET
    pins_error: str | msgspec.UnsetType = msgspec.UNSET
    audit: AuditStatus | msgspec.UnsetType = msgspec.UNSET


class ChangeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a server that waits for approval; as `mcpx.trust.pin_changes.Change`."""

    kind: str
    tool: str | msgspec.UnsetType = msgspec.UNSET
    summary: str
    difference: list[str]
    blocked: bool


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles over the last calls that were answered; None before the first."""

    p50: float | None
    p99: float | None


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream server.

    `state` is stopped, starting, ready, asleep (started when it is needed), waiting, parked, or disabled
    (`last_error` then says why). `restarts` counts its incarnations after the first, but for those that began
    because it was needed again, `failures` those that failed in a row. `last_error` is the cause
    of the last failure, even if the server has recovered. `calls` counts what was sent to it; `errors` counts
    requests that ended without a response or with a protocol error, sent or not. `silent_s` is present while
    calls are in flight: for how long there was neither an answer nor progress. `sessions` is present for a
    server with a session for each client, and counts those that are open; state and pid are then those of the
    shared session, and the other numbers are totals. `left_out` counts what the server offers and MCPX leaves
    out or cuts, if there is any; `inspect` names it. `tokens` is as in `DaemonStatus`. Where `from_last_time`
    is present, the counts are of what the server offered an earlier MCPX, last at `listed_at` (ISO 8601).
    `changes` are those since it was approved, at most 100; absent without any.
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
    latency_ms: Latency
    silent_s: float | msgspec.UnsetType = msgspec.UNSET
    tokens: Tokens | msgspec.UnsetType = msgspec.UNSET
    sessions: int | msgspec.UnsetType = msgspec.UNSET
    left_out: int | msgspec.UnsetType = msgspec.UNSET
    from_last_time: bool | msgspec.UnsetType = msgspec.UNSET
    listed_at: str | msgspec.UnsetType = msgspec.UNSET
    changes: list[ChangeStatus] | msgspec.UnsetType = msgspec.UNSET


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Everything. The servers are in the order of the configuration."""

    daemon: DaemonStatus
    servers: list[ServerStatus]


def snapshot(hub: Hub, *, clients: int, started: float | None = None) -> Status:
    """The status now. `started` is when MCPX started, by `anyio.current_time()`, if not with the hub."""
    since = hub.started if started is None else started
    since_start, all_time = hub.meter.since_start(), hub.meter.all_time()
    daemon = DaemonStatus(
        pid=os.getpid(),
        version=__version__,
        uptime_s=0.0 if since is None else _rounded(anyio.current_time() - since),
        clients=clients,
        config_error=hub.file.problem or msgspec.UNSET,
        dropped=hub.clients.dropped or msgspec.UNSET,
        http=msgspec.UNSET if hub.http is None else hub.http(),
        environment=environment_status(hub.config.environment),
        tokens=Tokens(since_start=_of_clients(since_start), all_time=_of_clients(all_time)),
        pins_error=hub.fleet.pins.problem or msgspec.UNSET,
        audit=_audit(hub),
    )
    servers = [
        _server(
            upstream, Tokens(since_start=_of_tools(since_start, name), all_time=_of_tools(all_time, name))
        )
        for name, upstream in hub.upstreams.items()
    ]
    return Status(daemon=daemon, servers=servers)


def _audit(hub: Hub) -> AuditStatus | msgspec.UnsetType:
    log = hub.audit
    if log.problem is None or not log.enabled:
        return msgspec.UNSET
    required = hub.config.audit_required
    return AuditStatus(problem=log.problem, waiting=log.waiting, lost=log.lost, required=required)


def environment_status(environment: Environment | None) -> EnvironmentStatus | msgspec.UnsetType:
    """What is said of the environment of a configuration."""
    if environment is None or not environment.is_of_person:
        return msgspec.UNSET
    return EnvironmentStatus(
        source=environment.source,
        path=environment.path,
        shell=environment.shell,
        problem=environment.problem or msgspec.UNSET,
    )


def _of_clients(totals: Totals) -> Cost:
    count = totals.total
    return Cost(direct=count.direct, spent=count.spent, clients=_costs(totals.clients))


def _of_tools(totals: Totals, server: str) -> Cost:
    count = totals.of_server(server)
    return Cost(direct=count.direct, spent=count.spent, tools=_costs(totals.tools.get(server, {})))


def _costs(counts: dict[str, Count]) -> dict[str, Cost]:
    return {name: Cost(direct=count.direct, spent=count.spent) for name, count in counts.items()}


def _server(upstream: Upstream, tokens: Tokens) -> ServerStatus:
    info = upstream.info()
    life = upstream.queue.lifecycle_or_none()
    known, counters = info.catalogue, upstream.counters
    return ServerStatus(
        name=info.name,
        state=str(info.state),
        pid=upstream.pid,
        transport=info.transport,
        protocol_version=known.protocol_version if known else None,
        uptime_s=_uptime(life),
        restarts=sum(map(_restarts, upstream.sessions())),
        failures=life.failures if life else 0,
        next_attempt_in_s=None if info.retry_in_s is None else _rounded(info.retry_in_s),
        last_error=_last_error(upstream, info),
        tools=len(info.tools),
        resources=len(info.resources),
        templates=len(known.templates) if known else 0,
        prompts=len(known.prompts) if known else 0,
        in_flight=counters.in_flight,
        queued=sum(session.queue.waiting for session in upstream.sessions()),
        calls=counters.calls,
        errors=sum(counters.errors.values()),
        latency_ms=Latency(
            p50=_milliseconds(counters.percentile(0.5)), p99=_milliseconds(counters.percentile(0.99))
        ),
        silent_s=_silent(counters.silent_since),
        tokens=tokens,
        left_out=sum(each.count for each in info.left_out) or msgspec.UNSET,
        changes=_changes(upstream) or msgspec.UNSET,
        sessions=msgspec.UNSET if upstream.private is None else len(upstream.private),
        **info.from_last_time(),
    )


def _changes(upstream: Upstream) -> list[ChangeStatus]:
    return [
        ChangeStatus(
            kind=each.kind,
            tool=each.tool or msgspec.UNSET,
            summary=each.summary(),
            difference=list(each.difference),
            blocked=each.blocked,
        )
        for each in upstream.policy.changes()[:MAX_CHANGES]
    ]


def _restarts(session: Upstream | DirectSession) -> int:
    life = session.queue.lifecycle_or_none()
    woken = getattr(session, "rests", 0)
    return max(0, life.generation - 1 - woken) if life else 0


def _uptime(life: ChildState | None) -> float | None:
    if life is None or life.up_since is None:
        return None
    return _rounded(anyio.current_time() - life.up_since)


def _last_error(upstream: Upstream, info: ServerInfo) -> str | None:
    # in a direct session a client's own probe may fail
    own = [each for each in upstream.sessions() if each not in upstream.direct.values()]
    errors = (session.last_error for session in own if session.last_error)
    return upstream.config.disabled or next(errors, info.cause)


def _silent(since: float | None) -> float | msgspec.UnsetType:
    return msgspec.UNSET if since is None else _rounded(time.monotonic() - since)


def _rounded(seconds: float) -> float:
    return round(max(0.0, seconds), 3)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)

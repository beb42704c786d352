"""The status of a running MCPX: reads the hub on its event loop, without waiting."""

from __future__ import annotations

import os
import time
from typing import Final

import anyio
import msgspec
from msgspec.structs import asdict

from mcpx.core.catalog.snapshot import ServerInfo, State, iso_seconds
from mcpx.core.config import redactor_of
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.status import (
    AuditStatus,
    CallCounts,
    ChangeStatus,
    Cost,
    DaemonStatus,
    EnvironmentStatus,
    InstanceStatus,
    Latency,
    ServerStatus,
    SignInStatus,
    Status,
    Tokens,
)
from mcpx.core.events.history import milliseconds
from mcpx.core.events.stats import Count, Totals
from mcpx.core.running import Environment
from mcpx.core.servers.accounts import Account
from mcpx.core.servers.actor import Session
from mcpx.core.servers.ports import Supervised
from mcpx.core.servers.server import Server
from mcpx.core.telemetry.contained import contained
from mcpx.core.telemetry.metrics import Counters
from mcpx.version import __version__
from supervisors import ChildState, Phase

MAX_CHANGES: Final = 100  # of one server


def snapshot(hub: Hub, *, clients: int, started: float | None = None) -> Status:
    """The status now. `started` is when MCPX started, by `anyio.current_time()`, if not with the hub."""
    since_start, all_time = hub.meter.since_start(), hub.meter.all_time()
    tokens = Tokens(since_start=_of_clients(since_start), all_time=_of_clients(all_time))
    daemon = daemon_status(hub, tokens, clients=clients, started=started)
    servers = [
        server_status(
            upstream,
            since_start.of_server(name),
            Tokens(since_start=_of_tools(since_start, name), all_time=_of_tools(all_time, name)),
        )
        for name, upstream in hub.upstreams.items()
    ]
    return Status(
        daemon=daemon,
        servers=servers,
        peers=hub.peers.status() or msgspec.UNSET,
        nodes=msgspec.UNSET if hub.cluster is None else hub.cluster.nodes(),
        cluster=msgspec.UNSET if hub.cluster is None else hub.cluster.status(),
    )


def daemon_status(
    hub: Hub, tokens: Tokens | msgspec.UnsetType, *, clients: int, started: float | None = None
) -> DaemonStatus:
    """Return the status of the process, with these sums of tokens."""
    since = hub.started if started is None else started
    return DaemonStatus(
        pid=os.getpid(),
        version=__version__,
        uptime_s=0.0 if since is None else _rounded(anyio.current_time() - since),
        clients=clients,
        config_error=hub.file.problem or msgspec.UNSET,
        dropped=hub.clients.dropped or msgspec.UNSET,
        faults=contained() or msgspec.UNSET,
        http=msgspec.UNSET if hub.http is None else hub.http(),
        environment=_environment(hub.config.environment),
        tokens=tokens,
        calls=call_counts(hub.meter.since_start().total),
        pins_error=hub.fleet.pins.problem or msgspec.UNSET,
        audit=_audit(hub),
        parked=hub.parked() or msgspec.UNSET,
    )


def _audit(hub: Hub) -> AuditStatus | msgspec.UnsetType:
    log = hub.audit
    if log.problem is None or not log.is_written:
        return msgspec.UNSET
    required = hub.config.audit_required
    return AuditStatus(
        problem=log.problem, waiting=len(log.backlog), lost=log.backlog.lost, required=required
    )


def _environment(environment: Environment | None) -> EnvironmentStatus | msgspec.UnsetType:
    """Return the status of the environment of a configuration."""
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
    return {
        name: Cost(direct=count.direct, spent=count.spent)
        for name, count in counts.items()
        if count.direct or count.spent
    }


def call_counts(count: Count) -> CallCounts:
    """The calls of a sum."""
    return CallCounts(**{name: getattr(count, name) for name in CallCounts.__struct_fields__})


def server_status(
    upstream: Server, count: Count, tokens: Tokens | msgspec.UnsetType = msgspec.UNSET
) -> ServerStatus:
    """Return the status of one server, with its calls since the start, and these sums of tokens."""
    info = upstream.info()
    life = upstream.queue.lifecycle_or_none()
    known, counters = info.catalogue, upstream.counters
    use = upstream.placed_use
    return ServerStatus(
        name=info.name,
        state=str(info.state),
        pid=upstream.pid,
        transport=info.transport,
        protocol_version=known.protocol_version if known else None,
        uptime_s=_uptime(life),
        restarts=sum(map(restarts, upstream.sessions())),
        failures=life.failures if life else 0,
        next_attempt_in_s=None if info.retry_in_s is None else _rounded(info.retry_in_s),
        last_error=_last_error(upstream, info),
        **info.counts(),
        in_flight=counters.in_flight,
        queued=upstream.queued,
        **asdict(call_counts(count)),
        errors=count.failed + count.refused,
        latency_ms=_latency(counters),
        silent_s=_silent(counters.silent_since),
        tokens=tokens,
        left_out=sum(each.count for each in info.left_out) or msgspec.UNSET,
        changes=_changes(upstream) or msgspec.UNSET,
        sign_in=_sign_in(upstream.account, info),
        missing=list(info.missing) or msgspec.UNSET,
        remedy=info.remedy or msgspec.UNSET,
        peer=upstream.config.peer or msgspec.UNSET,
        node=upstream.node or msgspec.UNSET,
        memory_bytes=msgspec.UNSET if use is None else use.memory,
        cpu_share=msgspec.UNSET if use is None or use.cpu is None else use.cpu,
        listens_at=_listens_at(upstream),
        sessions=msgspec.UNSET if (own := upstream.own_sessions) is None else len(own),
        instances=[_instance(each) for each in own] if own and upstream.per_project else msgspec.UNSET,
        **info.from_last_time(),
    )


def _listens_at(upstream: Server) -> str | msgspec.UnsetType:
    program = upstream.main.program
    return msgspec.UNSET if program is None else redactor_of(upstream.config)(program.transport.url)


def _instance(session: Session) -> InstanceStatus:
    info = session.info()
    return InstanceStatus(
        project=session.project or "",
        state=str(info.state),
        pid=session.pid,
        uptime_s=_uptime(session.queue.lifecycle_or_none()),
        restarts=restarts(session),
        queued=session.queue.waiting,
        last_error=info.cause or session.last_error,
    )


def _changes(upstream: Server) -> list[ChangeStatus]:
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


def _sign_in(account: Account | None, info: ServerInfo) -> SignInStatus | msgspec.UnsetType:
    """Return the sign-in of a server; nothing where it has none and never wanted one."""
    if account is None or (not account.is_known):
        return msgspec.UNSET
    expires_at, scopes = (account.expires_at, account.scopes) if account.is_usable else (None, ())
    is_too_little = info.state is State.NEEDS_SIGN_IN and account.is_usable
    return SignInStatus(
        account=(account.is_usable and account.account_name) or msgspec.UNSET,
        command=account.login_command if account.is_of_person else msgspec.UNSET,
        expires_at=msgspec.UNSET if expires_at is None else iso_seconds(expires_at),
        scopes=list(scopes) or msgspec.UNSET,
        wanted_scopes=[each for each in account.asked_scopes if each not in scopes] or msgspec.UNSET,
        problem=account.problem or (is_too_little and info.cause) or msgspec.UNSET,
    )


def restarts(session: Supervised) -> int:
    """Count how often a session was ready again after it had been, but for those times that woke it."""
    life = session.queue.lifecycle_or_none()
    if life is None:
        return 0
    woken = session.rests
    if woken and life.phase is Phase.IDLE:
        woken -= 1  # it rests at the moment
    return max(0, life.readied - 1 - woken)


def _uptime(life: ChildState | None) -> float | None:
    if life is None or life.up_since is None:
        return None
    return _rounded(anyio.current_time() - life.up_since)


def _last_error(upstream: Server, info: ServerInfo) -> str | None:
    if info.cause is not None:
        return info.cause  # why it does not serve now
    # in a direct session a client's own probe may fail
    own = [each for each in upstream.sessions() if each not in upstream.direct.values()]
    errors = (session.last_error for session in own if session.last_error)
    return next(errors, None)


def _latency(counters: Counters) -> Latency:
    p50, p95, p99 = map(milliseconds, counters.percentiles(0.5, 0.95, 0.99))
    return Latency(p50=p50, p95=p95, p99=p99)


def _silent(since: float | None) -> float | msgspec.UnsetType:
    return msgspec.UNSET if since is None else _rounded(time.monotonic() - since)


def _rounded(seconds: float) -> float:
    return round(max(0.0, seconds), 3)

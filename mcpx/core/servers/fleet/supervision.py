"""How an upstream server is supervised: its child spec, and its lifecycle in the log."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import structlog

from mcpx.core.config import ServerConfig
from mcpx.core.config.per_server import PerServer
from mcpx.core.running import InForce
from mcpx.core.servers.actor import Upstream
from mcpx.core.servers.causes import cause_of
from mcpx.core.telemetry.contained import contain
from supervisors import (
    Backoff,
    Cause,
    ChildFailed,
    ChildHeld,
    ChildParked,
    ChildReady,
    ChildRested,
    ChildSpec,
    ChildStarting,
    ChildStopped,
    ChildStuck,
    Event,
    Incarnation,
    Parking,
    Policy,
    Shutdown,
    delay,
)

if TYPE_CHECKING:
    from mcpx.core.servers.passthrough.session import DirectSession

log = structlog.get_logger()
MAX_PAUSES: Final = 64  # that are summed up one by one
SLOW_START_S: Final = 20.0  # one that takes longer, as for a download, does not keep others from starting
TEARDOWN_S: Final = 8.0  # an SDK session and its process take up to 6.5 s to leave; then it is stuck


class StartPriority(IntEnum):
    """Whose start goes first where starts are limited: the lower ones."""

    CALLER = 0
    """Somebody waits for the server."""
    LISTING = 1
    """What the server offers is not known."""
    WARM_UP = 2
    """Somebody will call the server."""
    REST = 3


def _demanded(config: ServerConfig) -> int:
    """How many attempts a waiting call may demand that are not to park its server: one a second, at most.

    Another MCPX or a node is tried by a connection, which costs nothing, and may be away for a restart: calls
    wait for it as long as they may. A command that fails as often is not worth starting again.
    """
    return math.ceil(config.call_limits.queue_timeout) if config.is_remote_mcpx else 0


def restart_policy(config: PerServer, *, more_attempts: int = 0) -> Policy:
    """When it is tried again after a failure, by the settings of its entry; parked so many attempts later."""
    restart = config.restart
    backoff = Backoff(initial=restart.initial, cap=restart.cap, healthy_after=restart.healthy_after)
    counted = min(restart.park_after, MAX_PAUSES)  # the others are as long as pauses may be
    patience = sum(delay(number, 1.0, backoff) for number in range(1, counted))
    patience += (restart.park_after - counted) * restart.cap
    parking = Parking(after=restart.park_after + more_attempts, probe=restart.park_probe, patience=patience)
    return Policy(backoff=backoff, parking=parking)


def child_spec(
    upstream: Upstream | DirectSession,
    environment: InForce,
    *,
    grace_s: float,
    on_demand: bool = False,
) -> ChildSpec:
    """Say how the supervisor runs this server, in that environment; `grace_s` is for open calls."""

    async def run(incarnation: Incarnation) -> None:
        with environment.entered():
            await upstream.run(incarnation)

    def classify(error: Exception) -> Cause:
        with environment.entered():
            return cause_of(error, upstream.config)

    return ChildSpec(
        name=upstream.child,
        run=run,
        policy=restart_policy(upstream.config, more_attempts=_demanded(upstream.config)),
        shutdown=Shutdown(grace=grace_s, limit=TEARDOWN_S),
        classify=classify,
        on_demand=on_demand,
        priority=lambda: start_priority(upstream),
        starts_elsewhere=upstream.config.starts_elsewhere,
    )


def start_priority(upstream: Upstream | DirectSession) -> StartPriority:
    """What a server's start is for, as it is now."""
    if upstream.queue.has_callers:
        return StartPriority.CALLER
    is_unknown = isinstance(upstream, Upstream) and upstream.main is None and upstream.catalogue is None
    if is_unknown:
        return StartPriority.LISTING
    return StartPriority.WARM_UP if upstream.queue.is_waking else StartPriority.REST


def log_event(event: Event, upstream: Upstream | DirectSession) -> None:
    """Log an event of this server: a dotted name, and the fields that explain it. Never raises."""
    try:
        _log(event, upstream)
    except Exception as error:  # noqa: BLE001 - this runs in the supervisor of all servers
        contain(error, "log", server=upstream.name)


def _session_name(upstream: Upstream | DirectSession) -> str:
    if not isinstance(upstream, Upstream):
        return f"{upstream.name} (transparent)"
    if upstream.main is None:
        return upstream.name
    return f"{upstream.name} {'(of one client)' if upstream.client is not None else '(in its other era)'}"


def _log(event: Event, upstream: Upstream | DirectSession) -> None:
    server = _session_name(upstream)
    match event:
        case ChildStarting(_, generation):
            log.debug("upstream.starting", server=server, incarnation=generation)
        case ChildReady(_, generation, took):
            known = upstream.catalogue
            log.info(
                "upstream.ready",
                server=server,
                took_s=round(took, 3),
                incarnation=generation,
                tools=len(known.tools) if known else 0,
                resources=len(known.resources) if known else 0,
                protocol=known.protocol_version if known else None,
                pid=upstream.pid,
            )
        case ChildFailed(_, _, cause, failures, retry_in):
            fields = {"cause": cause.text, "failures": failures, "retry_in_s": round(retry_in, 2)}
            log.warning("upstream.failed", server=server, **fields)
        case ChildParked(_, _, cause, failures, probe_in):
            fields = {"cause": cause.text, "failures": failures, "probe_in_s": round(probe_in, 2)}
            log.warning("upstream.parked", server=server, **fields)
        case ChildHeld(_, _, cause):
            log.warning("upstream.held", server=server, cause=cause.text)
        case ChildRested():
            log.info("upstream.asleep", server=server)
        case ChildStopped():
            log.debug("upstream.stopped", server=server)
        case ChildStuck(_, _, waited):
            log.error("upstream.stuck", server=server, waited_s=waited)

"""Supervision of a session with a server: its child spec, its lifecycle in the log, and starts on request.

The same for sessions of every mode.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Final

import anyio
import structlog

from mcpx.core.config import ServerConfig
from mcpx.core.config.per_server import PerServer
from mcpx.core.running import InForce
from mcpx.core.servers.causes import cause_of
from mcpx.core.servers.ports import Mode, Supervised
from mcpx.core.servers.server import Server
from mcpx.core.telemetry.contained import containing
from supervisors import (
    Backoff,
    Cause,
    ChildFailed,
    ChildHeld,
    ChildInterrupted,
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
    Phase,
    Policy,
    Shutdown,
    Signal,
    Supervisor,
    delay,
)

log = structlog.get_logger()
MAX_PAUSES: Final = 64  # that are summed up one by one
RESTART_TIMEOUT_S: Final = 30.0  # for the new session; a slower server is still starting then
SLOW_START_S: Final = 20.0  # one that takes longer, as for a download, does not keep others from starting
TEARDOWN_S: Final = 8.0  # an SDK session and its process take up to 6.5 s to leave; then it is stuck
_MODES: Final = {
    Mode.SHARED: "",
    Mode.OTHER_ERA: " (in its other era)",
    Mode.PER_CLIENT: " (of one client)",
    Mode.PER_PROJECT: " (of one project)",
    Mode.PASSTHROUGH: " (transparent)",
}


class StartPriority(IntEnum):
    """The order of starts where they are limited: lower ones go first."""

    CALLER = 0
    """Somebody waits for the server."""
    LISTING = 1
    """The offers of the server are not known."""
    WARM_UP = 2
    """Somebody will call the server."""
    REST = 3


def _demanded(config: ServerConfig) -> int:
    """Number of attempts that a waiting call may demand without parking its server: one a second, at most.

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
    session: Supervised, environment: InForce, *, grace_s: float, on_demand: bool = False
) -> ChildSpec:
    """Say how the supervisor runs this server, in that environment; `grace_s` is for open calls."""

    async def run(incarnation: Incarnation) -> None:
        with environment.entered(session.environment):
            session.check_project()
            await session.run(incarnation)

    def classify(error: Exception) -> Cause:
        with environment.entered(session.environment):
            return cause_of(error, session.config)

    return ChildSpec(
        name=session.child,
        run=run,
        policy=restart_policy(session.config, more_attempts=_demanded(session.config)),
        shutdown=Shutdown(grace=grace_s, limit=TEARDOWN_S),
        classify=classify,
        on_demand=on_demand,
        priority=lambda: start_priority(session),
        starts_elsewhere=session.config.starts_elsewhere,
    )


def start_priority(session: Supervised) -> StartPriority:
    """Find what a session's start is for, as it is now."""
    if session.queue.has_callers:
        return StartPriority.CALLER
    if session.mode is Mode.SHARED and session.catalogue is None:
        return StartPriority.LISTING
    return StartPriority.WARM_UP if session.queue.is_waking else StartPriority.REST


def log_event(event: Event, session: Supervised) -> None:
    """Log an event of a session: a dotted name, and the fields that explain it. Never raises."""
    with containing("log", server=session.name):  # this runs in the supervisor of all servers
        _log(event, session)


def _log(event: Event, session: Supervised) -> None:
    server = f"{session.name}{_MODES[session.mode]}"
    match event:
        case ChildStarting(_, generation):
            log.debug("upstream.starting", server=server, incarnation=generation)
        case ChildReady(_, generation, took):
            known = session.catalogue
            log.info(
                "upstream.ready",
                server=server,
                took_s=round(took, 3),
                incarnation=generation,
                tools=len(known.tools) if known else 0,
                resources=len(known.resources) if known else 0,
                protocol=known.protocol_version if known else None,
                pid=session.pid,
            )
        case ChildInterrupted(_, _, cause):
            log.warning("upstream.interrupted", server=server, cause=cause.text, pid=session.pid)
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


# --- starts on request


async def restart(server: Server, supervisor: Supervisor, news: Signal, *, stop_timeout_s: float) -> None:
    """End a server's sessions in order and start them again, with the sign-in that is stored now.

    One that waits or is parked is tried now, one that is asleep is started; clients' own sessions that are
    asleep stay so. Returns when the server is ready again or has failed, or after `RESTART_TIMEOUT_S` beyond
    the time to stop. `news` is pulsed at each event of the supervisor.
    """
    if server.account is not None:
        await server.account.reload()
    if server.queue.pending_reason:
        return
    life = server.queue.lifecycle()
    for each in server.sessions():
        if not each.queue.pending_reason:
            _restart_one(each, supervisor)
    with anyio.move_on_after(stop_timeout_s + RESTART_TIMEOUT_S):
        while not _has_retried(server, life.generation):
            await news.wait()


async def await_start(server: Server, news: Signal) -> None:
    """Start a server that may be asleep; wait until it is ready or has failed, for `RESTART_TIMEOUT_S`."""
    if server.queue.pending_reason and server.per_project:
        return
    if server.queue.is_asleep:
        server.queue.wake()
    with anyio.move_on_after(RESTART_TIMEOUT_S):
        while not _has_retried(server, 0):
            await news.wait()


def _restart_one(session: Supervised, supervisor: Supervisor) -> None:
    if try_again(session, supervisor):
        return
    if not session.queue.is_asleep:
        supervisor.recycle(session.child)
    elif session.mode is Mode.SHARED:
        session.queue.wake()


def renew(session: Supervised, supervisor: Supervisor) -> None:
    """End a session in order and start it again, or try it now; one that is idle or over stays so."""
    life = session.queue.lifecycle_or_none()
    if life is None or life.phase in {Phase.IDLE, Phase.DONE}:
        return
    if not try_again(session, supervisor):
        supervisor.recycle(session.child)


def try_again(session: Supervised, supervisor: Supervisor) -> bool:
    """Start a session now that waits for that, is parked, or was held; return False for any other."""
    life = session.queue.lifecycle_or_none()
    if life is None or not (life.held or life.phase in {Phase.WAITING, Phase.PARKED}):
        return False
    supervisor.resume(session.child)
    return True


def _has_retried(server: Server, since: int) -> bool:
    """True if an incarnation after number `since` has been ready or has failed, or there will be none."""
    if server.queue.closed:
        return True
    now = server.queue.lifecycle()
    return now.generation > since and now.phase not in {Phase.STARTING, Phase.STOPPING}

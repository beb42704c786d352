"""Starting a server again because somebody says so, whatever its state. Part of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from mcpx.core.servers.actor import Upstream
from supervisors import Phase, Signal, Supervisor

if TYPE_CHECKING:
    from mcpx.core.servers.passthrough.session import DirectSession

RESTART_TIMEOUT_S: Final = 30.0  # for the new session; a slower server is still starting then


async def restart(upstream: Upstream, supervisor: Supervisor, news: Signal, *, stop_timeout_s: float) -> None:
    """End a server's sessions in order and start them again, with the sign-in that is stored now.

    One that waits or is parked is tried now, one that is asleep is started; clients' own sessions that are
    asleep stay so. Returns when the server is ready again or has failed, or after `RESTART_TIMEOUT_S` beyond
    the time to stop. `news` is pulsed at each event of the supervisor.
    """
    if upstream.account is not None:
        await upstream.account.reload()
    life = upstream.queue.lifecycle()
    for each in upstream.sessions():
        _restart_one(each, supervisor)
    with anyio.move_on_after(stop_timeout_s + RESTART_TIMEOUT_S):
        while not _has_retried(upstream, life.generation):
            await news.wait()


async def await_start(upstream: Upstream, news: Signal) -> None:
    """Start a server that may be asleep; wait until it is ready or has failed, for `RESTART_TIMEOUT_S`."""
    if upstream.queue.is_asleep:
        upstream.queue.wake()
    with anyio.move_on_after(RESTART_TIMEOUT_S):
        while not _has_retried(upstream, 0):
            await news.wait()


def _restart_one(session: Upstream | DirectSession, supervisor: Supervisor) -> None:
    if try_again(session, supervisor):
        return
    if not session.queue.is_asleep:
        supervisor.recycle(session.child)
    elif isinstance(session, Upstream) and session.main is None:
        session.queue.wake()


def renew(session: Upstream | DirectSession, supervisor: Supervisor) -> None:
    """End a session in order and start it again, or try it now; one that is idle or over stays so."""
    life = session.queue.lifecycle_or_none()
    if life is None or life.phase in {Phase.IDLE, Phase.DONE}:
        return
    if not try_again(session, supervisor):
        supervisor.recycle(session.child)


def try_again(session: Upstream | DirectSession, supervisor: Supervisor) -> bool:
    """Start a session now that waits for that, is parked, or was held; whether it was one of these."""
    life = session.queue.lifecycle_or_none()
    if life is None or not (life.held or life.phase in {Phase.WAITING, Phase.PARKED}):
        return False
    supervisor.resume(session.child)
    return True


def _has_retried(upstream: Upstream, since: int) -> bool:
    """Whether an incarnation after number `since` has been ready or has failed, or there will be none."""
    if upstream.queue.closed:
        return True
    now = upstream.queue.lifecycle()
    return now.generation > since and now.phase not in {Phase.STARTING, Phase.STOPPING}

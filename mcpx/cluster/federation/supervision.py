"""How the session with a peer is supervised: its child spec, and its lifecycle in the log.

As `mcpx.core.servers.fleet.supervision` is for servers; used by the federation.
"""

from __future__ import annotations

import structlog

from mcpx.cluster.federation.peer import Peer
from mcpx.core.servers.causes import cause_of
from mcpx.core.servers.fleet.supervision import TEARDOWN_S, restart_policy
from supervisors import (
    ChildFailed,
    ChildHeld,
    ChildParked,
    ChildReady,
    ChildSpec,
    Event,
    Shutdown,
)

log = structlog.get_logger()


def child_spec(peer: Peer) -> ChildSpec:
    """What the supervisor runs for this peer, and how it restarts it."""
    return ChildSpec(
        name=peer.child,
        run=peer.run,
        policy=restart_policy(peer.config),
        shutdown=Shutdown(grace=1.0, limit=TEARDOWN_S),
        classify=lambda error: cause_of(error, peer.config),
    )


def log_event(event: Event, peer: str) -> None:
    """Log an event of the peer of that name."""
    match event:
        case ChildReady(_, generation, took):
            log.info("peer.ready", peer=peer, took_s=round(took, 3), incarnation=generation)
        case ChildFailed(_, _, cause, failures, retry_in):
            fields = {"cause": cause.text, "failures": failures, "retry_in_s": round(retry_in, 2)}
            log.warning("peer.failed", peer=peer, **fields)
        case ChildParked(_, _, cause, failures, probe_in):
            fields = {"cause": cause.text, "failures": failures, "probe_in_s": round(probe_in, 2)}
            log.warning("peer.parked", peer=peer, **fields)
        case ChildHeld(_, _, cause):
            log.warning("peer.held", peer=peer, cause=cause.text)
        case _:
            pass

"""How peers and their servers are shown: what the session here knows, and what the peer says. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import anyio
import msgspec
from msgspec.structs import replace

from mcpx.cluster.federation.expansion import LeftOut
from mcpx.cluster.federation.peer import Peer
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.daemon.status import PeerStatus
from mcpx.core.servers.server_info import STATES, said_elsewhere
from supervisors import ChildState

SERVED: Final = frozenset({"ready", "asleep"})
"""The states, as a peer says them, in which calls are served."""
MAX_LEFT_OUT: Final = 50  # servers of a peer that are named in its status
_JUDGED: Final = frozenset({State.READY, State.ASLEEP, State.WAITING, State.PARKED})
"""The states of a session here behind which the reason may be there."""
_STATES: Final = frozenset(State) - {State.DISABLED, State.STOPPED}


def as_peer_says(peer: Peer, life: ChildState, name_there: str, info: ServerInfo) -> ServerInfo:
    """How a server is: as its own session has it, and where that is well or waits, as its peer does."""
    if info.state not in _JUDGED:
        return info
    if not peer.is_up:
        return _without(peer, life, info) if info.ready else info
    said = peer.said.get(name_there)
    if said is None or said.state in SERVED or said.state not in _STATES:
        return info
    due = None if said.next_attempt_in_s is None else said.next_attempt_in_s - peer.age_s()
    return said_elsewhere(info, peer.config.name, said.state, said.last_error or said.described, due)


def _without(peer: Peer, life: ChildState, info: ServerInfo) -> ServerInfo:
    """How a server is while its peer does not answer."""
    if peer.last_error is None:
        return info  # it has not been tried yet
    cause = f"{peer.config.name} does not answer: {peer.last_error}"
    return replace(info, state=State.WAITING, cause=cause, retry_in_s=_due_in_s(life), call_in_s=None)


def peer_status(peer: Peer, life: ChildState, servers: int, left_out: Iterable[LeftOut]) -> PeerStatus:
    """A peer as `mcpx status` shows it; `servers` counts those that it gives."""
    name, due = peer.config.name, _due_in_s(life)
    why = [
        each.why if each.server is None else f"{each.server}: {each.why}"
        for each in left_out
        if each.peer == name
    ]
    return PeerStatus(
        name=name,
        state=str(State.READY if peer.is_up else State.NEEDS_SIGN_IN if life.held else STATES[life.phase]),
        transport=peer.config.transport.kind,
        id=msgspec.UNSET if peer.known is None else peer.known.id,
        servers=servers,
        last_error=peer.last_error,
        next_attempt_in_s=None if due is None else round(due, 3),
        left_out=why[:MAX_LEFT_OUT] or msgspec.UNSET,
    )


def _due_in_s(life: ChildState) -> float | None:
    at = life.next_attempt_at
    return None if at is None else max(0.0, at - anyio.current_time())

"""The frozen view of a server that others read: its state as it is shown, why, and what it offers."""

from __future__ import annotations

from typing import Final, Protocol

import anyio
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config import ServerConfig
from mcpx.core.config.diagnosis import diagnose
from mcpx.core.servers.accounts import Account
from mcpx.core.servers.call_queue import CallQueue
from mcpx.core.text import cut, paragraphs
from supervisors import ChildState, Parking, Phase, refused_for

MAX_CAUSE_CHARS: Final = 1400  # of what is said elsewhere
STATES: Final = {
    Phase.IDLE: State.ASLEEP,
    Phase.STARTING: State.STARTING,
    Phase.UP: State.READY,
    Phase.WAITING: State.WAITING,
    Phase.PARKED: State.PARKED,
    Phase.STOPPING: State.STOPPED,
    Phase.DONE: State.STOPPED,
}


class Elsewhere(Protocol):
    """The port to other MCPX, as far as it is asked of one server."""

    def as_peer_says(self, server: ServerConfig, info: ServerInfo, /) -> ServerInfo:
        """Return how a server of a peer is, as far as the peer knows better."""
        return info

    def account_changed(self, name: str, /) -> None:
        """Take in that the account of an entry was signed in or out."""
        return


def said_elsewhere(info: ServerInfo, by: str, state: str, why: str, due_in_s: float | None) -> ServerInfo:
    """The view of a server of which another MCPX or a node says that it does not serve, and `why`.

    `due_in_s` may be over.
    """
    cause = f"{by}: {paragraphs(cut(why, MAX_CAUSE_CHARS))}"
    due = None if due_in_s is None else max(0.0, due_in_s)
    return replace(info, state=State(state), cause=cause, retry_in_s=due, call_in_s=None)


def server_info(
    config: ServerConfig,
    queue: CallQueue,
    catalogue: Catalogue | None,
    leaving: str | None,
    account: Account | None,
    *,
    doing: str | None = None,
) -> ServerInfo:
    """The view now. `leaving` is why the server takes no more requests, if it was told to leave.

    `account` is the one that MCPX has at the server, `doing` what its process does that is being started.
    """
    info = ServerInfo(name=config.name, state=State.DISABLED, transport=config.transport.kind)
    if config.disabled is not None:
        is_needed = config.obstacles or config.is_switched_off
        stopped = replace(info, state=State.STOPPED, cause=config.disabled)
        return _diagnosed(info, config) if is_needed else stopped
    if queue.closed or queue.pending_reason:
        state = State.STOPPED if queue.closed else State.STARTING
        return replace(info, state=state, cause=leaving or queue.pending_reason, catalogue=catalogue)
    life = queue.lifecycle()
    at = life.next_attempt_at
    # all sessions share the account: one that nobody has used since is of no more use than one that is held
    signed_out = life.held or (account is not None and not account.is_usable)
    now = 0.0 if at is None else anyio.current_time()
    info = replace(
        info,
        state=State.NEEDS_SIGN_IN if signed_out else STATES[queue.lifecycle_phase()],
        sign_in=account.login_command if signed_out and account is not None else None,
        cause=(doing if life.phase is Phase.STARTING else None) or _cause(life),
        retry_in_s=None if at is None else max(0.0, at - now),
        call_in_s=None if at is None else max(0.0, min(at - now, refused_for(life, now))),
        catalogue=catalogue,
    )
    lacks_folder = life.phase is Phase.PARKED and life.cause and isinstance(life.cause.error, OSError)
    return _diagnosed(info, config) if lacks_folder else info


def _cause(life: ChildState) -> str | None:
    """Say why it is not up; of one that says the same at each start, that it will not come up by itself."""
    if life.cause is None or life.phase is Phase.UP:
        return None
    if life.phase is not Phase.PARKED or life.alike < (life.policy.parking or Parking()).alike:
        return life.cause.text
    return f"it ends in the same way at each start, so something in its setup is wrong: {life.cause.text}"


def _diagnosed(info: ServerInfo, config: ServerConfig) -> ServerInfo:
    """The view with what the server's entry says, if that keeps it from being started."""
    found = diagnose(config)
    if found is None:
        return info
    return replace(
        info, state=State(found.state), cause=found.cause, remedy=found.remedy, missing=found.missing
    )

"""The peers of a hub: keeps a session with each, and has the hub take in the servers that they name.

The port `Peers`, for the composition root. The supervisor keeps the peers; when one names other servers than
before, the configuration is expanded anew and reloaded, which starts and ends servers and touches no other.
Such reloads keep a distance, which grows while they follow each other. How a server is, as its peer says, is
read where it is shown, and reloads nothing. Until a configuration names a peer, nothing of this runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from mcpx.cluster.federation.expansion import Known, LeftOut, PeerMemory, expand
from mcpx.cluster.federation.own_directory import OwnDirectory, answer, own_id
from mcpx.cluster.federation.peer import (
    SERVED,
    Peer,
    PeerError,
    as_call_error,
    as_peer_says,
    child_spec,
    due_in_s,
    log_event,
)
from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config import Config, PeerConfig, ServerConfig, redactor_of
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.ports import Peers, Shown
from mcpx.core.daemon.status import PeerStatus
from mcpx.core.servers.fleet.supervision import TEARDOWN_S
from mcpx.core.servers.server_info import STATES
from mcpx.core.telemetry.contained import containing
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.paths import configuration_folder
from supervisors import (
    ChildFailed,
    ChildHeld,
    ChildParked,
    ChildSpec,
    ChildState,
    Event,
    Incarnation,
    Phase,
    Shutdown,
    Signal,
    Supervisor,
)

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

log = structlog.get_logger()
STARTED_S: Final = 30.0  # that is waited for a peer that was signed in to
PAUSE_S: Final = 0.2  # before and between two reloads for news of peers
MAX_PAUSE_S: Final = 30.0  # which is reached by a peer whose servers come and go all the time
CALM_S: Final = 10.0  # without news, after which the pause is short again
MAX_SAID: Final = 50  # of what was left out, in the log
MAX_LEFT_OUT: Final = 50  # servers of a peer that are named in its status


class Federation(Peers[Hub]):
    """The peers of the configuration from `source`. `state` is the state folder, if not the usual one."""

    def __init__(self, source: str, state: Path | None) -> None:
        self._folder = configuration_folder(source, state)
        self._memory = PeerMemory(self._folder)
        self._made = 0
        self._hub: Hub | None = None
        self._has_begun = False  # some configuration had a peer
        self._news = Signal()  # other servers
        self._pending: set[str] = set()  # peers that have not been heard of since the start
        self._answered = Signal()
        self._known: dict[str, Known] = {}
        self.peers: dict[str, Peer] = {}
        self.left_out: tuple[LeftOut, ...] = ()
        """What is left out of the configuration in force."""
        self.supervisor = Supervisor(observe=self._on_event, stop_together=True)

    @cached_property
    def own_id(self) -> str:
        """The id of this MCPX; made at first use."""
        return own_id(self._folder)

    @cached_property
    def directory(self) -> OwnDirectory:
        """The directory of this MCPX, for others."""
        return OwnDirectory(self._of_hub(), self.own_id, self.via)

    # --- the configuration

    def expand(self, config: Config) -> Config:
        """Return the configuration with the servers of its peers, as far as they are known."""
        if not (config.peers or self._has_begun):
            return config
        for peer in config.peers.values():
            old = self.peers.get(peer.name)
            if old is None or _reached(old.config) != _reached(peer):
                remembered = self._memory.read(peer)
                self._known.pop(peer.name, None)
                if remembered is not None:
                    self._known[peer.name] = remembered
        found = expand(config, self._known, self.own_id)
        news = [each for each in found.left_out if each not in self.left_out]
        self.left_out = found.left_out
        for each in news[:MAX_SAID]:
            log.warning("peer.server_left_out", peer=each.peer, server=each.server, reason=each.why)
        return found.config

    def configure(self, config: Config, hub: Hub) -> None:
        """Keep the peers of this configuration of that hub, which is in force, and no others."""
        self._hub = hub
        if not (config.peers or self._has_begun):
            return
        if not self._has_begun:
            self._has_begun = True
            hub.root.add(ChildSpec(name="peers", run=self.run, shutdown=Shutdown(limit=2 * TEARDOWN_S)))
        wanted = {name: peer for name, peer in config.peers.items() if peer.disabled is None}
        gone = [peer for name, peer in self.peers.items() if not _same(peer.config, wanted.get(name))]
        for peer in gone:
            del self.peers[peer.config.name]
            self.supervisor.dismiss(peer.child)
        for name, entry in wanted.items():
            if name in self.peers:
                self.peers[name].config = entry
                continue
            self._made += 1
            peer = self.peers[name] = Peer(
                entry,
                known=self._known.get(name),
                limit=config.max_message_bytes,
                account=hub.fleet.accounts.of(entry),
                ledger=hub.fleet.ledger,
                server_log=ServerLog(name, self._folder, redact=redactor_of(entry)),
                child=f"peer\x1f{name}\x1f{self._made}",
                on_news=self._on_news,
            )
            if name not in self._known:
                self._pending.add(name)
            self.supervisor.add(child_spec(peer))
        self._pending &= self.peers.keys()
        for name in self._known.keys() - self.peers.keys():
            del self._known[name]
        self._answered.pulse()

    def _of_hub(self) -> Hub:
        if self._hub is None:
            raise RuntimeError("the federation is not part of a hub")
        return self._hub

    # --- its life

    async def run(self, incarnation: Incarnation) -> None:
        """Keep the peers, and have what they name put in force: a child's `run`."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._apply_news)
            try:
                await self.supervisor.run_as_child(incarnation)
            finally:
                tasks.cancel_scope.cancel()

    async def _apply_news(self) -> None:
        pause = PAUSE_S
        last = anyio.current_time()
        while True:
            await self._news.wait()
            calm = anyio.current_time() - last > CALM_S
            pause = PAUSE_S if calm else min(2 * pause, MAX_PAUSE_S)
            await anyio.sleep(PAUSE_S if calm else pause)
            self._news.clear()
            with containing("peers"):  # the boundary: no word of a peer ends the federation
                await self._apply()
            last = anyio.current_time()

    async def _apply(self) -> None:
        heard = {name: peer for name, peer in self.peers.items() if peer.known is not None}
        changed = [peer for name, peer in heard.items() if self._known.get(name) != peer.known]
        self._known |= {name: peer.known for name, peer in heard.items() if peer.known is not None}
        await self._of_hub().readapt()
        self._pending -= {name for name, peer in heard.items() if peer.is_up}
        self._answered.pulse()
        for peer in changed:
            if peer.known is not None:
                await anyio.to_thread.run_sync(self._memory.write, peer.config, peer.known)

    async def listed(self) -> None:
        """Wait until each peer has said which servers it has, or is remembered, or has failed once."""
        while self._pending:
            await self._answered.wait()

    def _on_news(self, peer: Peer, differs: bool) -> None:  # noqa: FBT001
        fleet = self._of_hub().fleet
        served = {name for name, said in peer.said.items() if said.state in SERVED}
        for name in served - peer.served:  # ours need not wait for their next attempt
            fleet.try_again(peer.config.name_here(name))
        peer.served = served
        fleet.touch()
        if differs:
            self._news.set()

    def _on_event(self, event: Event) -> None:
        peer = next((each for each in self.peers.values() if each.child == event.child), None)
        if peer is None:
            return
        log_event(event, peer.config.name)
        if isinstance(event, ChildFailed | ChildParked | ChildHeld):
            peer.last_error = event.cause.text
            self._pending.discard(peer.config.name)
            self._answered.pulse()
        self._of_hub().fleet.touch()

    # --- questions to it

    async def answer(
        self, shown: Shown, ctx: ServerRequestContext[Any, Any], stamp: bytes | None
    ) -> JSON | None:
        """Answer what another MCPX asks, enclosed."""
        return await answer(self.directory, shown, ctx, stamp)

    def of(self, server: str) -> tuple[Peer, str] | None:
        """Find the peer that a server comes from, and its name there; None for one of our own."""
        config = self._of_hub().config.servers.get(server)
        peer = None if config is None or config.peer is None else self.peers.get(config.peer)
        return None if peer is None or config is None else (peer, config.name_there)

    def as_peer_says(self, server: ServerConfig, info: ServerInfo) -> ServerInfo:
        """Return a server as its own session has it and, where that is well, as its peer does."""
        peer = self.peers.get(server.peer or "")
        return info if peer is None else as_peer_says(peer, self.state(peer), server.name_there, info)

    def status(self) -> list[PeerStatus]:
        """Return the peers, as `mcpx status` shows them."""
        if not self.peers:
            return []
        given = Counter(each.peer for each in self._of_hub().config.servers.values())
        return [
            _peer_status(peer, self.state(peer), given[name], self.left_out)
            for name, peer in self.peers.items()
        ]

    def via(self, server: str) -> tuple[str, ...]:
        """Return the ids of the MCPX that a server comes through, the next one first."""
        config = self._of_hub().config.servers.get(server)
        known = None if config is None or config.peer is None else self._known.get(config.peer)
        if known is None or config is None:
            return ()
        found = next((each for each in known.servers if each.name == config.name_there), None)
        return (known.id,) if found is None else found.via or (known.id,)

    async def restart(self, server: str) -> None:
        """Have the peer of a server start it again; what it refuses is logged."""
        if (found := self.of(server)) is not None:
            try:
                await found[0].restart(found[1])
            except PeerError as error:
                log.warning("peer.restart_refused", server=server, reason=str(error))

    async def log_tail(self, server: str, lines: int) -> list[str] | None:
        """Return the last lines of a server's log at its peer; None for one of our own.

        Raises:
            CallError: The peer does not tell.
        """
        found = self.of(server)
        if found is None:
            return None
        try:
            return await found[0].log_tail(found[1], lines)
        except PeerError as error:
            raise as_call_error(error, server) from None

    def state(self, peer: Peer) -> ChildState:
        """Return the supervisor's state of it."""
        return self.supervisor.state(peer.child)

    async def started(self, name: str) -> ServerInfo:
        """Return how a peer is, once it is there or has failed, or after `STARTED_S`."""
        peer = self.peers[name]
        before = self.state(peer).generation
        with anyio.move_on_after(STARTED_S):
            while not peer.is_up and (
                (life := self.state(peer)).generation == before or life.phase is Phase.STARTING
            ):
                await self._of_hub().fleet.news.wait()
        life = self.state(peer)
        state = State.NEEDS_SIGN_IN if life.held else STATES[life.phase]
        transport = peer.config.transport.kind
        return ServerInfo(
            name=name, state=state, transport=transport, cause=None if peer.is_up else peer.last_error
        )

    def account_changed(self, name: str) -> None:
        """Try a peer again whose account has tokens now."""
        peer = self.peers.get(name)
        if peer is not None:
            life = self.supervisor.state(peer.child)
            if life.held or life.phase in {Phase.WAITING, Phase.PARKED}:
                self.supervisor.resume(peer.child)


def _reached(peer: PeerConfig) -> tuple[object, ...]:
    return (peer.transport, peer.era)


def _same(old: PeerConfig, new: PeerConfig | None) -> bool:
    """Return True if the session with a peer can go on under the new entry."""
    if new is None:
        return False
    kept: Iterable[str] = ("transport", "era", "restart", "call_limits")
    return all(getattr(old, name) == getattr(new, name) for name in kept)


def _peer_status(peer: Peer, life: ChildState, servers: int, left_out: Iterable[LeftOut]) -> PeerStatus:
    """A peer as `mcpx status` shows it; `servers` counts those that it gives."""
    name, due = peer.config.name, due_in_s(life)
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

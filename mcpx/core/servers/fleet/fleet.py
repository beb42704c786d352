"""The fleet: all upstream servers under their supervisor, and how it changes while MCPX runs.

Owned by the hub. Owns which servers there are (`upstreams`, one dictionary that is changed in place, in one
turn of the event loop, so that every holder of it always sees a whole fleet), their supervisor and the
ledger. Passes each event of the supervisor on to the log and to the callers who wait for that server. A
reload is carried out by `change`, one at a time, and touches the servers that differ and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from mcpx.core.catalog.diff import EVERYTHING
from mcpx.core.config import Config, ServerConfig, starting_limit
from mcpx.core.policy.pin_store import PinStore
from mcpx.core.protocol.context import ClientId
from mcpx.core.running import InForce
from mcpx.core.servers.accounts import OpenAccounts
from mcpx.core.servers.actor import Upstream
from mcpx.core.servers.fleet.direct_sessions import DirectSessions
from mcpx.core.servers.fleet.fleet_changes import REMOVED, FleetChanges
from mcpx.core.servers.fleet.observers import Observers
from mcpx.core.servers.fleet.readiness import Readiness
from mcpx.core.servers.fleet.reload_plan import ReloadPlan
from mcpx.core.servers.fleet.restart import await_start, restart, try_again
from mcpx.core.servers.fleet.session_factory import SessionFactory
from mcpx.core.servers.fleet.side_sessions import SideSessions
from mcpx.core.servers.fleet.supervision import SLOW_START_S, child_spec, log_event
from mcpx.core.servers.fleet.timelines import Timelines
from mcpx.core.servers.offers.catalogue_store import CatalogueStore
from mcpx.core.servers.offers.remembered import may_sleep
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.server_info import Elsewhere
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.servers.transport.placement import Placement
from mcpx.core.telemetry.metrics import Activity
from mcpx.paths import configuration_folder
from supervisors import (
    ChildFailed,
    ChildHeld,
    ChildParked,
    ChildReady,
    ChildRested,
    ChildStopped,
    Event,
    Signal,
    Supervisor,
)

if TYPE_CHECKING:
    from mcpx.core.servers.passthrough.session import DirectSession

log = structlog.get_logger()
NOT_STARTED: Final = "it is started for clients of its transparent endpoint only"
PEERS_AT_ONCE: Final = 32  # starts at other MCPX, which limit their own


class Fleet:
    """The servers of a configuration. `state` is the folder for what is kept in files, if not the usual,
    `tokens` the one for the tokens of sign-ins, if not that.

    `open_accounts` and `elsewhere` are the ports to sign-ins and to other MCPX; `has_open_tasks` says if a
    server works on a task, and is not to be stopped.

    Without `starts` no server has a session of its own, only those of the clients of its transparent
    endpoint.
    """

    def __init__(
        self,
        config: Config,
        *,
        state: Path | None = None,
        tokens: Path | None = None,
        clients: ConnectedClients | None = None,
        starts: bool = True,
        placement: Placement | None = None,
        open_accounts: OpenAccounts,
        elsewhere: Elsewhere,
        has_open_tasks: Callable[[str], bool],
    ) -> None:
        self.environment = InForce(config.environment)
        """The environment that the servers are started in."""
        self.config = config
        """The one in force."""
        self.placement = placement
        """Says where servers run that are placed on nodes; None without a cluster."""
        self.ledger = Ledger(state)
        self.catalogues = CatalogueStore(state)
        """What servers offered last; run by the hub, beyond the end of the servers."""
        self.pins = PinStore(state, on_change=self.pins_changed)
        """What servers offered when that was approved; run by the hub likewise."""
        self.accounts = open_accounts(
            tokens or state, kind=config.token_store, on_change=self._account_changed
        )
        """The accounts at servers that MCPX signs in to; run by the hub likewise."""
        self.supervisor = Supervisor(
            max_starting=starting_limit(config),
            max_starting_elsewhere=placement.starts_at_once if placement else PEERS_AT_ONCE,
            slow_start=SLOW_START_S,
            stop_together=True,
            observe=self._on_event,
        )
        self.activity = Activity()
        """Of all servers together."""
        self._children: dict[str, Upstream | DirectSession] = {}  # by the supervisor's name for them
        self._sessions = SessionFactory(
            config,
            self.supervisor,
            self.ledger,
            folder=configuration_folder(config.source, state),
            clients=clients or ConnectedClients(),
            placement=placement,
        )
        self.observers = Observers()
        self.news = Signal()
        """Pulsed when the state of a server has changed, or which servers there are."""
        self.version = 0
        """How often that was."""
        self.timelines = Timelines()
        """What has become of each server."""
        self.stopping = False
        """Whether no more calls are taken."""
        self._elsewhere = elsewhere
        self._has_open_tasks = has_open_tasks
        self._changes = FleetChanges(self, self._children)
        self._side_sessions = SideSessions(self._sessions.beside, self.start, self._dismiss)
        with self.environment.entered():
            self.upstreams = {name: self.make(server) for name, server in config.servers.items()}
        self.timelines.keep(self.upstreams.values())
        self.direct = DirectSessions(self.upstreams, self._sessions.direct, self.start, self._dismiss)
        self.observers.add(self.direct.announce_rules)
        enabled = [each for each in self.upstreams.values() if starts and each.config.disabled is None]
        starting = {each.name for each in enabled if not self.may_sleep(each)}
        self.readiness = Readiness(starting)
        for name, upstream in self.upstreams.items():
            if starts:
                self.start(upstream, asleep=name not in starting)
            else:
                upstream.queue.pending_reason = NOT_STARTED

    # --- one server

    def make(self, server: ServerConfig) -> Upstream:
        """An upstream that is not supervised yet."""
        upstream = self._sessions.main(
            server,
            on_catalogue=self.observers.notify,
            catalogues=self.catalogues,
            account=self.accounts.of(self.config.peers.get(server.peer or "", server)),
            has_open_tasks=partial(self._has_open_tasks, server.name),
        )
        upstream.counters.activity = self.activity
        if server.peer is not None:
            upstream.as_peer_says = partial(self._elsewhere.as_peer_says, server)
        elif self.placement is not None and server.is_remote_mcpx:
            upstream.as_peer_says = partial(self.placement.as_node_says, server, upstream.child)
        if server.disabled is None:
            upstream.policy.pin(self.pins.of(server))
        self._side_sessions.allow(upstream)
        return upstream

    def _dismiss(self, session: Upstream | DirectSession, why: str) -> None:
        """End a session beside a main one, without waiting for it."""
        session.retire(why)
        if session.child in self._children:
            self.supervisor.dismiss(session.child)

    def leave(self, client: ClientId) -> None:
        """End the sessions of a client that has left, without waiting for them."""
        client.connected = False
        for upstream in self.upstreams.values():
            if upstream.private is not None and (own := upstream.private.remove(client)) is not None:
                self._dismiss(own, "its client has left")

    def children(self) -> list[Upstream | DirectSession]:
        """Every session that may have a process: those of the servers, and clients' own."""
        return list(self._children.values())

    def start(self, upstream: Upstream | DirectSession, *, asleep: bool = False) -> None:
        """Have it supervised; if it is `asleep`, it is started when somebody needs it."""
        if self.stopping:
            upstream.queue.close()
        elif upstream.config.disabled is None:
            self._children[upstream.child] = upstream
            upstream.queue.pending_reason = None
            on_demand = asleep and not upstream.queue.has_callers
            grace_s = self.config.shutdown_grace
            self.supervisor.add(child_spec(upstream, self.environment, grace_s=grace_s, on_demand=on_demand))

    def may_sleep(self, upstream: Upstream) -> bool:
        """Whether a server need not run, because what it offers is known well enough."""
        known = upstream.catalogue
        return may_sleep(upstream.config, None if known is None else known.listed_at)

    # --- its changes

    def configure(self, config: Config) -> None:
        """Make servers and sessions by another configuration from now on."""
        self.config = config
        self._sessions.configure(config)
        self.accounts.configure(config)

    def prepare(self, plan: ReloadPlan) -> dict[str, Upstream]:
        """Make the servers that a plan adds or replaces, for `change`; nothing is started or shown yet."""
        made: dict[str, Upstream] = {}
        try:
            for name in (*plan.changed, *plan.added):
                made[name] = self.make(self.config.servers[name])
        except Exception:
            for each in made.values():
                each.retire("it was not put in force")
            raise
        return made

    async def change(self, plan: ReloadPlan, made: Mapping[str, Upstream]) -> dict[str, Exception]:
        """Carry out a plan with the servers that were made for it; the faults by server, which cost no other.

        Returns when every server that had to leave has left, within the grace time; new ones may still be
        starting. Must not be cancelled, nor run twice at a time.
        """
        return await self._changes.carry_out(plan, made)

    def publish(self, upstreams: dict[str, Upstream]) -> None:
        """Show these servers and no others, from one turn of the event loop to the next."""
        self.upstreams.clear()
        self.upstreams.update(upstreams)
        self.timelines.keep(upstreams.values())
        self.touch()

    async def retire(self, name: str) -> None:
        """End a server that is about to be removed, so that the change itself does not wait for it."""
        if name in self.upstreams:
            await self._changes.retire(self.upstreams[name], REMOVED)

    async def restart(self, upstream: Upstream) -> None:
        """End a server in order and start it again; see `restart`."""
        await restart(upstream, self.supervisor, self.news, stop_timeout_s=self._changes.stop_timeout_s)

    async def await_start(self, upstream: Upstream) -> None:
        """Wait for a server that has replaced another; see `await_start`."""
        await await_start(upstream, self.news)

    def stop(self) -> None:
        """Take no more calls and start nothing; the supervisor is stopped by its parent."""
        self.stopping = True
        for upstream in self.upstreams.values():
            for each in upstream.sessions():
                each.queue.close()
        self.touch()

    # --- events

    def touch(self) -> None:
        """Have those look again who wait for news of the servers."""
        self.version += 1
        self.news.pulse()

    def _on_event(self, event: Event) -> None:
        """Take an event of the supervisor; one of a session that has been removed meanwhile is dropped."""
        if (upstream := self._children.get(event.child)) is not None:
            self._note(event, upstream)

    def _note(self, event: Event, upstream: Upstream | DirectSession) -> None:
        """Log an upstream's lifecycle, and inform the callers who wait for it."""
        if isinstance(upstream, Upstream) and self._side_sessions.take(event, upstream):
            return
        log_event(event, upstream)
        main = upstream if isinstance(upstream, Upstream) and upstream.main is None else None
        if main is not None:
            self.timelines.note(event, main)
        if isinstance(event, ChildReady | ChildFailed | ChildParked | ChildHeld | ChildStopped):
            upstream.queue.start_ended()
            self.readiness.report(event.child)
        if isinstance(event, ChildFailed | ChildParked):
            upstream.last_error = event.cause.text
        if isinstance(event, ChildRested | ChildHeld) and isinstance(upstream, Upstream):
            upstream.rests += 1  # it begins again because it is needed
        if isinstance(event, ChildFailed) and upstream.queue.has_callers:
            self.supervisor.demand(event.child)
        elif isinstance(event, ChildHeld) and upstream.account and not upstream.account.needs_person:
            self.supervisor.demand(event.child)  # somebody has signed in while it was ending
        elif isinstance(event, ChildParked | ChildHeld):
            upstream.queue.refuse_waiting()
        elif isinstance(event, ChildStopped) and main is None:
            self._children.pop(event.child, None)
        self.touch()

    def try_again(self, name: str) -> None:
        """Start a server now that waits for that: there is reason to believe that it can be reached."""
        if name in self.upstreams:
            for each in self.upstreams[name].sessions():
                try_again(each, self.supervisor)

    def pins_changed(self, name: str) -> None:
        """Put in force what is pinned of a server now, and have it announced."""
        if name in self.upstreams:
            self.upstreams[name].policy_changed()
            self.observers.notify(name, EVERYTHING)
            self.touch()

    def _account_changed(self, name: str) -> None:
        """Try a server again whose account has tokens now."""
        for upstream in self.upstreams.values():
            account = upstream.account if name in {upstream.name, upstream.config.peer} else None
            if account is not None and account.is_usable:
                self.try_again(upstream.name)
        self._elsewhere.account_changed(name)
        self.touch()

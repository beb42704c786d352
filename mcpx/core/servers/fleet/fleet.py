"""The fleet: all upstream servers under their supervisor.

Owned by the hub. Owns which servers there are (`upstreams`, one dictionary that is changed in place, in one
turn of the event loop, so that every holder of it always sees a whole fleet), their supervisor and the
ledger. Passes each event of the supervisor on to the log and to the callers who wait for that server. How a
reload changes the fleet is said in `mcpx.core.servers.fleet.reload`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

import anyio
import structlog

from mcpx.core.catalog.model import EVERYTHING
from mcpx.core.config import Config, ServerConfig, redactor_of, starting_limit
from mcpx.core.policy.pin_store import PinStore
from mcpx.core.protocol.context import ClientId
from mcpx.core.running import InForce
from mcpx.core.servers.accounts import OpenAccounts
from mcpx.core.servers.credentials import Renew
from mcpx.core.servers.fleet.direct_sessions import DirectSessions
from mcpx.core.servers.fleet.observers import Observers, Readiness
from mcpx.core.servers.fleet.supervision import (
    SLOW_START_S,
    TEARDOWN_S,
    await_start,
    child_spec,
    log_event,
    renew,
    restart,
    try_again,
)
from mcpx.core.servers.fleet.timelines import Timelines
from mcpx.core.servers.offers.catalogue_store import CatalogueStore
from mcpx.core.servers.offers.remembered import may_sleep
from mcpx.core.servers.ports import Host, Mode, Supervised
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.server import Server
from mcpx.core.servers.server_info import Elsewhere
from mcpx.core.servers.side_sessions import NOT_FOR_ALL
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.servers.transport.placement import Placement
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.core.telemetry.metrics import Activity
from mcpx.errors import CallError
from mcpx.paths import configuration_folder
from supervisors import (
    ChildFailed,
    ChildHeld,
    ChildInterrupted,
    ChildParked,
    ChildReady,
    ChildRested,
    ChildStopped,
    Event,
    Signal,
    Supervisor,
)

log = structlog.get_logger()
NOT_STARTED: Final = "it is started for clients of its transparent endpoint only"
START_FAILED: Final = "it could not be started; mcpx restart tries again"
REMOVED: Final = "it was removed from the configuration"
READ_CACHE: Final = "mcpx.core.servers.fleet.read_cache"  # loaded by the first server that has `cache`
PEERS_AT_ONCE: Final = 32  # starts at other MCPX, which limit their own


class Fleet:
    """The servers of a configuration. `state` is the folder for what is kept in files, if not the usual,
    `tokens` the one for the tokens of sign-ins, if not that.

    `open_accounts` and `elsewhere` are the ports to sign-ins and to other MCPX; `has_open_tasks` says if a
    server works on a task, and is not to be stopped; `renew` reads an entry again, with the values of now;
    `refusal_of` says why a server of a project must not run.

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
        renew: Renew,
        refusal_of: Callable[[ServerConfig], CallError | None] = lambda _server: None,
    ) -> None:
        self.environment = InForce(config.environment)
        """The environment that the servers are started in."""
        self.config = config
        """The one in force."""
        self.placement = placement
        """Says where servers run that are placed on nodes; None without a cluster."""
        self.ledger = Ledger(state)
        self.catalogues = CatalogueStore(state)
        """Offers of the servers, as they were last; run by the hub, beyond the end of the servers."""
        self.pins = PinStore(state, on_change=self.pins_changed)
        """Offers of the servers, as they were approved; run by the hub likewise."""
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
        self._cache: Any = None  # of results; its module is loaded for the first server that wants it
        self.activity = Activity()
        """Of all servers together."""
        self._children: dict[str, Supervised] = {}  # by the supervisor's name for them
        self._logs = configuration_folder(config.source, state)
        self._host = Host(
            supervisor=self.supervisor,
            ledger=self.ledger,
            clients=clients or ConnectedClients(),
            start=self.start,
            dismiss=self._dismiss,
            max_message_bytes=config.max_message_bytes,
            catalogues=self.catalogues,
            activity=self.activity,
            elsewhere=elsewhere,
            placement=placement,
            renew=renew,
            refusal_of=refusal_of,
        )
        self.observers = Observers()
        self.news = Signal()
        """Pulsed when the state of a server has changed, or which servers there are."""
        self.version = 0
        """Number of pulses so far."""
        self.timelines = Timelines()
        """Events of each server."""
        self.stopping = False
        """True if no more calls are taken."""
        self._elsewhere = elsewhere
        self._has_open_tasks = has_open_tasks
        with self.environment.entered():
            self.upstreams = {name: self.make(server) for name, server in config.servers.items()}
        self.common = _common(self.upstreams)
        """Those that all clients may see: without those of single projects. Changed in place as well."""
        self.timelines.keep(self.upstreams.values())
        self.direct = DirectSessions(self.upstreams, self._host)
        self.observers.add(self.direct.announce_rules)
        enabled = [each for each in self.upstreams.values() if starts and each.config.disabled is None]
        starting = {each.name for each in enabled if not self.may_sleep(each)}
        self.readiness = Readiness(starting)
        for name, upstream in self.upstreams.items():
            if starts:
                self.start(upstream.main, asleep=name not in starting)
            else:
                upstream.queue.pending_reason = NOT_STARTED

    # --- one server

    def make(self, config: ServerConfig) -> Server:
        """Make a server whose main session is not supervised yet."""
        server = Server(
            config,
            self._host,
            server_log=ServerLog(config.name, self._logs, redact=redactor_of(config)),
            account=self.accounts.of(self.config.peers.get(config.peer or "", config)),
            on_catalogue=self.observers.notify,
            has_open_tasks=partial(self._has_open_tasks, config.name),
        )
        if config.disabled is None:
            server.policy.pin(self.pins.of(config))
        self._keep_reads(server, config)
        return server

    def _keep_reads(self, server: Server, config: ServerConfig) -> None:
        """Have results of a server kept, or none; what is kept of it is forgotten."""
        if not config.cache:
            if server.reads is not None:
                server.keep_reads(None)
            return
        if self._cache is None:
            self._cache = import_module(READ_CACHE).ReadCache()
            self._cache.limit = self.config.cache_bytes
        server.keep_reads(self._cache.of(server, config.cache))

    def _dismiss(self, session: Supervised, why: str) -> None:
        """End a session beside a main one, without waiting for it."""
        session.retire(why)
        if session.child in self._children:
            self.supervisor.dismiss(session.child)

    def enter(self, client: ClientId) -> None:
        """Take in which project a client is in, as far as is known now."""
        if client.project:
            for upstream in self.upstreams.values():
                upstream.enter(client)

    def leave(self, client: ClientId) -> None:
        """End the sessions of a client that has left, without waiting for them."""
        client.connected = False
        for upstream in self.upstreams.values():
            upstream.leave(client)

    def children(self) -> list[Supervised]:
        """Every session that may have a process: those of the servers, and clients' own."""
        return list(self._children.values())

    def start(self, session: Supervised, *, asleep: bool = False) -> None:
        """Have it supervised; if it is `asleep`, it is started when somebody needs it."""
        if self.stopping:
            session.queue.close()
        elif session.mode is Mode.SHARED and session.server.per_project:
            session.queue.pending_reason = NOT_FOR_ALL
        elif session.config.disabled is None:
            self._children[session.child] = session
            session.queue.pending_reason = None
            on_demand = asleep and not session.queue.has_callers
            grace_s = self.config.shutdown_grace
            self.supervisor.add(child_spec(session, self.environment, grace_s=grace_s, on_demand=on_demand))

    def may_sleep(self, upstream: Server) -> bool:
        """True if a server need not run, because what it offers is known well enough."""
        known = upstream.catalogue
        return may_sleep(upstream.config, None if known is None else known.listed_at)

    @contextmanager
    def attached(self, variables: Mapping[str, str]) -> Iterator[None]:
        """Count the variables of a client's environment for what is started while it is attached."""
        clients = self.environment.clients
        number = clients.attach(variables)
        try:
            self._renew_by_environment()
            yield
        finally:
            clients.leave(number)

    def _renew_by_environment(self) -> None:
        """Start servers again that were given other variables than now, where nobody would lose anything.

        One that has been used goes on with what it has, unless the login that it was started in is gone.
        """
        environment, clients = self.environment.value(), self.environment.clients
        for upstream in self.upstreams.values():
            session, program = upstream.main, upstream.config.transport.program
            if program is None or (given := session.inherited) is None:
                continue
            if environment.inherited(program.inherit, program.env).variables == given.variables:
                continue
            if session.loses_nothing(if_used=clients.are_gone(given.variables)):
                log.info("upstream.environment_changed", server=upstream.name)
                renew(session, self.supervisor)

    # --- its changes

    def configure(self, config: Config) -> None:
        """Make servers and sessions by another configuration from now on."""
        self.config = config
        self._host.max_message_bytes = config.max_message_bytes
        self.accounts.configure(config)
        if self._cache is not None:
            self._cache.limit = config.cache_bytes
        for name, server in config.servers.items():
            if name in self.upstreams:
                self._keep_reads(self.upstreams[name], server)

    def publish(self, upstreams: dict[str, Server]) -> None:
        """Show these servers and no others, from one turn of the event loop to the next."""
        self.upstreams.clear()
        self.upstreams.update(upstreams)
        self.common.clear()
        self.common.update(_common(upstreams))
        self.timelines.keep(upstreams.values())
        self.pins.keep_only(each.config for each in upstreams.values())
        self.touch()

    async def retire(self, server: Server, why: str = REMOVED) -> None:
        """End a server: refuse new calls, let the running ones finish within the grace time."""
        server.keep_reads(None)
        async with anyio.create_task_group() as tasks:
            for each in server.sessions():
                tasks.start_soon(self._retire_one, each, why)

    async def _retire_one(self, session: Supervised, why: str) -> None:
        session.retire(why)
        self.touch()
        if session.child not in self._children:
            return
        with anyio.move_on_after(self._stop_timeout_s) as scope:
            await self.supervisor.remove(session.child)
            self._children.pop(session.child, None)
        if scope.cancelled_caught:
            log.error("upstream.stuck", server=session.name, waited_s=self._stop_timeout_s)

    @property
    def _stop_timeout_s(self) -> float:
        """For one session to end, calls that run included."""
        return self.config.shutdown_grace + 2 * TEARDOWN_S

    async def restart(self, server: Server) -> None:
        """End a server in order and start it again; see `supervision.restart`."""
        if server.queue.pending_reason is START_FAILED:
            self.start(server.main)
        await restart(server, self.supervisor, self.news, stop_timeout_s=self._stop_timeout_s)

    async def await_start(self, server: Server) -> None:
        """Wait for a server that has replaced another; see `supervision.await_start`."""
        await await_start(server, self.news)

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
        session = self._children.get(event.child)
        if session is None or session.server.takes(event, session):
            return
        log_event(event, session)
        if session.mode in {Mode.SHARED, Mode.PER_PROJECT}:
            self.timelines.note(event, session)
        for effect in self._EFFECTS.get(type(event), ()):
            effect(self, event, session)
        self.touch()

    # --- effects of events

    def _forget_reads(self, _event: Event, session: Supervised) -> None:
        if session.server.reads is not None:
            session.server.reads.forget(session.child)

    def _start_ended(self, event: Event, session: Supervised) -> None:
        session.queue.start_ended()
        self.readiness.report(event.child)

    def _note_cause(self, event: ChildInterrupted | ChildFailed | ChildParked, session: Supervised) -> None:
        session.last_error = event.cause.text

    def _count_rest(self, _event: Event, session: Supervised) -> None:
        session.rests += 1  # it begins again because it is needed

    def _retry_for_callers(self, event: ChildFailed, session: Supervised) -> None:
        if session.queue.has_callers:
            self.supervisor.demand(event.child)

    def _refuse_waiting(self, _event: Event, session: Supervised) -> None:
        session.queue.refuse_waiting()

    def _retry_if_signed_in(self, event: ChildHeld, session: Supervised) -> None:
        if session.account and not session.account.needs_person:
            self.supervisor.demand(event.child)  # somebody has signed in while it was ending
        else:
            session.queue.refuse_waiting()

    def _forget(self, event: ChildStopped, session: Supervised) -> None:
        if session.mode is not Mode.SHARED:
            self._children.pop(event.child, None)

    _EFFECTS: ClassVar[dict[type, tuple[Callable[[Fleet, Any, Supervised], None], ...]]] = {
        ChildReady: (_forget_reads, _start_ended),
        ChildInterrupted: (_forget_reads, _note_cause),
        ChildFailed: (_forget_reads, _start_ended, _note_cause, _retry_for_callers),
        ChildParked: (_forget_reads, _start_ended, _note_cause, _refuse_waiting),
        ChildHeld: (_forget_reads, _start_ended, _count_rest, _retry_if_signed_in),
        ChildRested: (_count_rest,),
        ChildStopped: (_forget_reads, _start_ended, _forget),
    }
    """Effects of an event beside its line in the log, in this order; any other has none."""

    # --- accounts and pins

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
            if account is not None and upstream.reads is not None:
                upstream.reads.forget()
            if account is not None and account.is_usable:
                self.try_again(upstream.name)
        self._elsewhere.account_changed(name)
        self.touch()


def _common(upstreams: dict[str, Server]) -> dict[str, Server]:
    return {name: each for name, each in upstreams.items() if each.config.project is None}

"""One session with an upstream server: the actor with its queue, its calls in flight and its health.

Each is a child of the fleet's supervisor, in a task of its own. What is true of the server, however many
sessions it has, stands in its `Server` (`mcpx.core.servers.server`); a session knows of it what the port
`Owner` names.

For whom a session is says its `mode`, a value; there are no other kinds of sessions.

* SHARED: the one that all clients share. It gives the catalogue that they see, in whatever era the server
  prefers, and lasts as long as the server is configured.
* OTHER_ERA: a server that speaks both eras gives each client what a client of that era gets from it directly,
  so over HTTP it has one more session, in the era that the shared one is not in. Opened when a client first
  needs it; its catalogue is not shown. Over stdio, and where the entry says the era, there is none.
* PER_CLIENT: one client's own (`sessions: per_client`), opened at its first call, in its era if the server
  speaks it. Ends when the client leaves; that of clients that do not say so (2026-07-28 over HTTP, known by
  token and name), when it rests, as nobody has used it. Its catalogue is not shown.
* PER_PROJECT: that of one project (`sessions: per_project`), shared by all clients in it, and opened at the
  first use there. Its transport has the project filled in. What it lists becomes the catalogue of the server,
  whose SHARED session is never started: it only keeps that. Ends when it rests, as nobody has used it.
* PASSTHROUGH: a client's that speaks to the server directly (`mcpx.core.servers.passthrough`, which has an
  actor of its own for them, with the same queue, calls and health).

A session whose server runs on a node, or behind another MCPX, differs from these in its transport only.

The session outlives its incarnations: each connects, shakes hands, lists and says that it is ready; then it
serves the queue, follows list changes, and ends the moment the connection does. Callers wait through a
restart in the queue, and the last catalogue stays. Nothing here decides about restarts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, Diff
from mcpx.core.config import Era, ServerConfig
from mcpx.core.config.projects import in_project, stand_in
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.requests import Request, tool_of
from mcpx.core.servers.admission import refusal_of
from mcpx.core.servers.call_errors import without_link
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.calls import Calls
from mcpx.core.servers.health import Idleness, open_health
from mcpx.core.servers.offers.catalogue_cache import CatalogueCache
from mcpx.core.servers.offers.subscriptions import Subscriptions
from mcpx.core.servers.ports import VANISHED_IDLE_STOP_S, Host, Mode, Owner, Supervised
from mcpx.core.servers.relay.session_relay import SessionRelay
from mcpx.core.servers.relay.suspended import SuspendedCalls
from mcpx.core.servers.session.handshake import Attempts, Handshake
from mcpx.core.servers.session.upstream_session import UpstreamSession, open_session
from mcpx.core.servers.silence import Manners, open_silence
from mcpx.core.servers.transport.link import Hooks
from mcpx.core.servers.upkeep import Upkeep
from mcpx.errors import CallError
from supervisors import Incarnation, Phase, Signal

if TYPE_CHECKING:
    from mcpx.core.servers.transport.program import Program


class Session(Supervised):
    """One session with `server`, for as long as its configuration is in force.

    `era` is the one in which the server is asked: first, and in the mode OTHER_ERA alone. `client` is the one
    whose own it is in the mode PER_CLIENT, and the first one of its project in the mode PER_PROJECT.
    """

    def __init__(
        self,
        server: Owner,
        host: Host,
        mode: Mode = Mode.SHARED,
        *,
        era: Era | None = None,
        client: ClientId | None = None,
    ) -> None:
        self.project = stand_in(server.config) if client is None else client.project or ""
        """The folder for which it is, "" for none; None for one that is not for any in particular."""
        self._variables = {} if client is None else client.variables
        self._vanishes = client is not None and client.vanishes
        super().__init__(server, host, mode)
        self.client = client if mode is Mode.PER_CLIENT else None
        self.environment = None if self.client is None else self.client.environment
        self.asked_era = era
        self.idleness: Idleness | None = None
        """Knows if it is in use, while it serves."""
        self.cache = CatalogueCache(
            self.config,
            server.counters,
            max_message_bytes=self._limit,
            on_change=self._on_change,
            on_listing=partial(server.note_listing, self),
            admits=lambda uri: server.policy.admits_resource(uri, listed=True),
            store=host.catalogues if mode is Mode.SHARED else None,
        )
        self.subscriptions = Subscriptions(self)
        self._manners = Manners()
        self._is_listed = False  # in this run of MCPX
        self._has_been_ready = False  # likewise
        self._suspended = SuspendedCalls(self.name, self.config.call_limits.call_timeout)
        host.clients.add_left_callback(self._suspended.cancel_for)
        self._attempts = Attempts(self.name, self._eras)
        self._changes = Signal()  # set while the server is to be listed again; one for each incarnation

    def _as_opened(self, entry: ServerConfig) -> ServerConfig:
        config = _config_for(self.mode, entry)
        if self._vanishes and not config.idle_stop:
            config = replace(config, idle_stop=VANISHED_IDLE_STOP_S)
        if self.project is None:
            return config
        runs_there = self.mode is Mode.PER_PROJECT
        transport = in_project(config.transport, self.project, self._variables, runs_there=runs_there)
        return replace(config, transport=transport)

    def settle_with(self, client: ClientId) -> None:
        """List in the project of a client from the next start on."""
        self.project, self._variables = client.project, client.variables
        self.config = self._as_opened(self.server.config)

    # --- for the server, and the fleet

    @property
    def catalogue(self) -> Catalogue | None:
        """The last listing, as clients are shown it; perhaps by an earlier MCPX. None before there is one."""
        return self.server.policy.shown(self.cache.current)

    @property
    def era(self) -> Era | None:
        """The era of the session, as last agreed; None before the first listing."""
        if (known := self.cache.current) is None:
            return None
        return "modern" if known.protocol_version in MODERN_PROTOCOL_VERSIONS else "handshake"

    @property
    def node(self) -> str | None:
        """The node of the cluster that it is on; None for one that is on none."""
        placement = self._host.placement
        return None if placement is None else placement.node_of(self.child)

    @property
    def is_busy(self) -> bool:
        """True if a call runs or waits, or is to be gone on with; or the session is not open."""
        return self.idleness is None or self.idleness.is_busy()

    def loses_nothing(self, *, if_used: bool) -> bool:
        """True if nobody would miss anything after a restart; `if_used`: nor if it has had calls before."""
        idleness = self.idleness
        return idleness is None or not (idleness.is_in_use() if if_used else idleness.is_or_was_in_use())

    def submit(self, request: Request, reply: RawReply) -> None:
        """Send or queue a request, or resume the suspended call that it names.

        Raises:
            CallError: `not_sent`, where none of that is possible; or the suspended call is over.
        """
        context = request.context
        if context.answers is not None:
            if self._suspended.resume(request, reply):
                return
            if not self._asks_likewise:  # else the link may be one of its own
                context = replace(context, answers=without_link(context.answers))
                request = replace(request, context=context)
        rate = self.server.rate
        if rate.per_minute is not None and not request.context.own:
            rate.admit(tool_of(request))
        self.queue.submit(request, reply)

    def refusal_of(self, request: Request) -> CallError | None:
        """Say why a request may not be sent, or not any more; None where it may be."""
        if request.context.own:
            return None
        info = self.server.info() if self.mode is Mode.SHARED else self.info()
        return refusal_of(request, self.server.policy, info)

    @property
    def _asks_likewise(self) -> bool:
        """True if it is at another MCPX, which asks in results, as this one does."""
        return self.config.is_remote_mcpx and self.era == "modern"

    def admits_resource(self, uri: str) -> bool:
        """True if there is a resource with that URI for clients, if the server has it."""
        known = self.catalogue
        return self.server.policy.admits_resource(uri, listed=known is not None and uri in known.resources)

    def relist(self) -> None:
        """List again what the server offers: it told another session that it has changed."""
        self._changes.set()
        if self.queue.is_asleep:
            self.queue.wake(for_use=False)

    def policy_changed(self) -> None:
        super().policy_changed()
        self.subscriptions.policy_changed()

    def retire(self, why: str) -> None:
        super().retire(why)
        self._host.clients.remove_left_callback(self._suspended.cancel_for)

    def take_over(self, old: Session) -> None:
        """Take the place of a session with the same server, whose configuration has changed.

        The subscriptions go on. Its catalogue is shown until this one has listed for itself, unless this one
        is disabled.
        """
        self.subscriptions = old.subscriptions
        self.subscriptions.move_to(self)
        if self.config.disabled is None:
            self.cache.inherit_from(old.cache)

    @property
    def fails(self) -> bool:
        """True if it has failed at its first attempt, or twice in a row."""
        life = self.queue.lifecycle()
        return life.failures > (0 if self.catalogue is None else 1) and life.phase is not Phase.UP

    async def await_descriptions(self) -> None:
        """Wait while descriptions are made for the resources of the first listing."""
        if self.info().ready:
            await self.cache.described.wait()

    # --- called back

    def _eras(self) -> tuple[Era, ...]:
        if self.mode is Mode.OTHER_ERA and self.asked_era is not None:
            return (self.asked_era,)
        return self.server.known_eras.in_order(self.asked_era)

    def _on_change(self, changed: Diff) -> None:
        is_first, self._is_listed = not self._is_listed, True
        self.queue.wake_waiters()
        self.queue.recheck()
        if changed or self.mode is Mode.PER_PROJECT:
            self.server.changed(self, changed, is_first=is_first)

    def _on_updated(self, uri: str) -> None:
        self.subscriptions.handle_update(uri)
        if self.mode is Mode.OTHER_ERA:  # what it hears concerns all
            self.server.resource_updated(uri)

    def _on_question(self) -> None:
        if self.server.reads is not None:
            self.server.reads.note_question()

    # --- one incarnation

    async def run(self, incarnation: Incarnation) -> None:
        """Connect and serve, until the connection ends or the supervisor asks to leave."""
        self.cache.begin()
        await self._attempts.run(incarnation, partial(self._live, incarnation))

    async def _live(self, incarnation: Incarnation, handshake: Handshake) -> None:
        try:
            await self.serve(incarnation, partial(self._connect, incarnation, handshake))
        finally:
            self.server.server_log.close()

    async def _connect(
        self, incarnation: Incarnation, handshake: Handshake, config: ServerConfig, program: Program | None
    ) -> None:
        """Open one connection, and serve until it is lost or the supervisor asks to leave."""
        server, is_shared = self.server, self.mode is Mode.SHARED
        if is_shared:
            server.known_eras.forget()  # whatever fails now, the next attempt asks in the usual order
        if handshake.agreed is not None:  # on an earlier connection to the same program
            handshake = Handshake(self._eras())
        changes = self._changes = Signal()
        calls = Calls(config, server.counters, self.queue, incarnation.proven)
        relay = SessionRelay(
            self.name,
            calls,
            self._host.clients,
            self._suspended,
            server.server_log,
            client=self.client,
            from_mcpx=self.config.is_remote_mcpx,
            on_question=self._on_question,
            entry=lambda: server.credentials.entry,
        )
        async with open_session(
            config,
            handshake=handshake,
            limit=self._limit,
            hooks=Hooks(self._opened, self._malformed.record, server.server_log.write, changes.set),
            changes=changes,
            on_updated=self._on_updated,
            relay=relay,
            account=self._authorizer,
            placing=self._placing,
            program=program,
            on_long_start=None if self._has_been_ready else self.queue.start_takes_long,
        ) as session:
            await self.cache.list_all(session.client, incarnation.generation)
            session.established()
            server.known_eras.learn(handshake, of_main=is_shared)
            incarnation.ready()
            self._starting, self._has_been_ready = None, True
            await self._serve(session, incarnation, calls, changes)

    async def _serve(
        self, session: UpstreamSession, incarnation: Incarnation, calls: Calls, changes: Signal
    ) -> None:
        """Serve the queue; when asked to leave, finish what is running."""
        health = open_health(self.config.health, calls, session.probe, session.link)
        silence = open_silence(self.config, calls, session.probe, session.link, self._manners)
        async with anyio.create_task_group() as tasks:
            try:
                calls.open(session.link, session.sender())
                self.health = health
                tasks.start_soon(calls.drain_until_closed)
                tasks.start_soon(session.listen)
                tasks.start_soon(session.log_level.follow)
                tasks.start_soon(session.probe_when_suspicious)
                tasks.start_soon(self.cache.follow, session.client, incarnation.generation, changes)
                tasks.start_soon(self.cache.describe, session.client)
                tasks.start_soon(self.subscriptions.serve, session)
                tasks.start_soon(health.watch)
                if silence is not None:
                    tasks.start_soon(silence.watch)
                self.idleness = Idleness(self, calls, self._suspended, changes)
                tasks.start_soon(self.idleness.watch)
                tasks.start_soon(Upkeep(self, calls, self.has_open_tasks).watch)
                await incarnation.stopping.wait()
                self.cache.confirm()
                await calls.drain()
            finally:
                self.health = self.idleness = None
                calls.close()
            tasks.cancel_scope.cancel()

    # --- for its idleness

    @property
    def only_lists(self) -> bool:
        """True if it is started on demand, and at first only to list what the server offers."""
        return self.config.start == "on_demand" and self.mode is Mode.SHARED

    def keeps_something(self) -> bool:
        """True if a client relies on something that would end with the session."""
        return bool(self.subscriptions.uris) or self.server.is_kept_awake_by(self)

    def has_open_tasks(self) -> bool:
        """True if the server works on a task."""
        return self.server.has_open_tasks()


def _config_for(mode: Mode, config: ServerConfig) -> ServerConfig:
    """The entry as a session of that mode has it: only the shared one describes resources.

    One in the other era must be open before the calls that wait for it give up.
    """
    if mode is Mode.SHARED:
        return config
    limits = config.call_limits
    if mode is Mode.OTHER_ERA:
        limits = replace(limits, connect_timeout=min(limits.connect_timeout, limits.queue_timeout / 2))
    return replace(config, auto_describe=False, call_limits=limits)

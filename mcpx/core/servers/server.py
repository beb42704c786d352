"""One upstream server: what is true of it however many sessions it has, and which of them serves a request.

`Server` is what the rest of MCPX holds, for as long as a configuration is in force. It owns the policy, the
account, the counters, the rate and what is known of eras, which all sessions share. Its `main` session is
shared by all clients; the sessions beside that are opened here when they are needed, and are supervised like
any other (`mcpx.core.servers.actor` says which there are). Nothing here waits for a session to be open: one
that is being opened queues what it is to serve.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mcpx.core.catalog.model import Catalogue, Diff
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Era, ServerConfig
from mcpx.core.config.projects import names_project, stand_in
from mcpx.core.policy.policy import NarrowedPolicy, ServerPolicy
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.requests import Request, RequestContext
from mcpx.core.servers.actor import Session
from mcpx.core.servers.call_queue import CallQueue, RawReply
from mcpx.core.servers.call_rate import CallRate
from mcpx.core.servers.credentials import Credentials
from mcpx.core.servers.offers.resource_updates import Listener
from mcpx.core.servers.offers.subscriptions import Subscriptions
from mcpx.core.servers.ports import Host, Mode, Reads, Supervised
from mcpx.core.servers.session.handshake import KnownEras
from mcpx.core.servers.side_sessions import ClientSessions, OtherEra, ProjectSessions
from mcpx.core.servers.transport.placement import PlacedUse
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.core.telemetry.metrics import Counters
from mcpx.errors import CallError
from supervisors import ChildRested, Event, Phase

if TYPE_CHECKING:
    from mcpx.core.servers.accounts import Account
    from mcpx.core.servers.passthrough.client import DirectClient
    from mcpx.core.servers.passthrough.session import DirectSession
    from mcpx.core.servers.transport.program import Program

_WARMED: Final = frozenset({Phase.IDLE, Phase.STARTING, Phase.UP})
OnCatalogue = Callable[[str, Diff], None]
"""Called with the server's name and what changed, after the catalogue was replaced. Must not raise."""


class Server:
    """One upstream server. `account` is the one that MCPX has at it, where it signs in."""

    def __init__(
        self,
        config: ServerConfig,
        host: Host,
        *,
        server_log: ServerLog,
        account: Account | None,
        on_catalogue: OnCatalogue,
        has_open_tasks: Callable[[], bool],
    ) -> None:
        self.config = config
        self.name = config.name
        self.policy = ServerPolicy(config)
        self.narrowing: NarrowedPolicy | None = None
        """The policy of a profile's clients, where they see the server through one."""
        self.account = account
        self.credentials = Credentials(config, host.renew, account, self.policy.renew)
        self.counters = Counters(host.activity)
        self.rate = CallRate(config, self.counters)
        self.known_eras = KnownEras(config)
        self.server_log = server_log
        self.has_open_tasks = has_open_tasks
        self.has_listed = False
        """True if the catalogue is from this run of MCPX; else there is none, or it is from last time."""
        self._on_catalogue = on_catalogue
        self._host = host
        self.main = Session(self, host)
        """The session that all clients share."""
        self._own_queue = self.main.queue
        self.per_client = config.disabled is None and config.sessions == "per_client"
        """True if each client has a session of its own."""
        self.per_project = config.disabled is None and config.sessions == "per_project"
        """True if each project has a session of its own."""
        self.projects = ProjectSessions(self.main, partial(self._open, Mode.PER_PROJECT, None), host.dismiss)
        """Those of projects."""
        check_project = self.projects.check if names_project(config.transport) else None
        open_own = partial(self._open, Mode.PER_CLIENT)
        self.clients = ClientSessions(config.name, open_own, host.dismiss, check_project)
        """Those of clients."""
        self.wants_project = self.per_project or (self.per_client and check_project is not None)
        """True if it matters in which project a client is."""
        self.direct: dict[DirectClient, DirectSession] = {}
        """The sessions of clients of its passthrough endpoint."""
        self.other_era = OtherEra(self.main, partial(self._open, Mode.OTHER_ERA), host.dismiss)
        self._per_era = config.disabled is None and config.era == "auto" and config.transport.kind == "http"
        self._per_era &= not self.per_project
        self.submit: Callable[[Request, RawReply], None] = self.main.submit
        """Sends or queues a request, on the session that serves its client, which may be opened for it.

        Raises:
            CallError: `not_sent`, where that is not possible; or the suspended call that it names is over.
        """
        if self.per_client or self.per_project or self._per_era:
            self.submit = lambda request, reply: self.session_for(request.context).submit(request, reply)
        if config.project is not None:
            self.submit = self._submit_checked
        self._submit = self.submit
        self.reads: Reads | None = None
        """Keeps results of it, where the configuration says so."""

    def keep_reads(self, reads: Reads | None) -> None:
        """Have requests submitted through what keeps results, or no more; what is kept is forgotten."""
        if self.reads is not None:
            self.reads.forget()
        self.reads = reads
        self.submit = self._submit if reads is None else reads.submit

    # --- what it is

    @property
    def catalogue(self) -> Catalogue | None:
        """The last listing, as clients are shown it; perhaps by an earlier MCPX. None before there is one."""
        known = self.main.cache.current
        return self.policy.shown(self.projects.catalogue() if self.projects.differ else known)

    @property
    def is_alike(self) -> bool:
        """True if it offers the same in all projects."""
        return not self.projects.differ

    @property
    def listed(self) -> Catalogue | None:
        """The last listing, whatever the policy says: not for clients."""
        return self.main.cache.current

    @property
    def queue(self) -> CallQueue:
        """The requests that wait at the main session, or in the project that was used last."""
        return self.projects.lead.queue if self.per_project else self._own_queue

    @property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions to resources; in the project of the client that asks."""
        return self._asked.subscriptions

    @property
    def _asked(self) -> Session:
        """The session that serves what is asked between calls."""
        return (self.projects.asked() or self.main) if self.per_project else self.main

    @property
    def era(self) -> Era | None:
        """The era of the main session, as last agreed; None before the first listing."""
        return self.main.era

    @property
    def pid(self) -> int | None:
        """The process of the main session, where it is one of this machine."""
        return self.projects.lead.pid

    @property
    def node(self) -> str | None:
        """The node of the cluster that the main session is on; None for one that is on none."""
        return self.main.node

    @property
    def placed_use(self) -> PlacedUse | None:
        """Its use of the nodes of the cluster; None for one that is on none."""
        placement = self._host.placement
        return None if placement is None else placement.use_of(self.config)

    @property
    def needs_sign_in(self) -> bool:
        """True if a person has to sign in before a call can run, whatever the state of the main session."""
        return self.queue.is_held or (self.account is not None and not self.account.is_usable)

    @property
    def queued(self) -> int:
        """The requests that wait, at all sessions with the server."""
        return sum(session.queue.waiting for session in self.sessions())

    def info(self) -> ServerInfo:
        """A frozen view of the server as it is now; as its peer or node says, where it has one."""
        if self.per_project:
            return self.projects.info(self.catalogue)
        info, config = self.main.info(), self.config
        if config.peer is not None:
            return self._host.elsewhere.as_peer_says(config, info)
        if self._host.placement is not None and config.is_remote_mcpx:
            return self._host.placement.as_node_says(config, self.main.child, info)
        return info

    def refusal_of(self, request: Request) -> CallError | None:
        """Say why a request may not be sent, or not any more; None where it may be."""
        return self.main.refusal_of(request)

    def sessions(self) -> list[Supervised]:
        """All sessions, the main one first."""
        other = () if self.other_era.session is None else (self.other_era.session,)
        return [self.main, *(self.own_sessions or ()), *other, *self.direct.values()]

    @property
    def own_sessions(self) -> list[Session] | None:
        """The open sessions that belong to one client or project each; None for a server that is shared."""
        if self.per_project:
            return list(self.projects.by_project.values())
        return list(self.clients.by_client.values()) if self.per_client else None

    def policy_changed(self) -> None:
        """Hold what waits, and what is subscribed to, against the policy in force."""
        for each in self.sessions():
            each.policy_changed()

    def warm(self) -> None:
        """Start the server if it is asleep and all clients share it: a call is likely to follow."""
        session = self.projects.asked() if self.per_project else self.main
        if not self.per_client and session is not None and session.queue.lifecycle_phase() in _WARMED:
            session.queue.wake()

    def enter(self, client: ClientId) -> None:
        """Take in which project a client is in."""
        if self.per_project:
            self.projects.enter(client)
        elif stand_in(self.config) and self.queue.lifecycle_phase() in {Phase.IDLE, Phase.PARKED}:
            self.main.settle_with(client)
            if self.listed is None:
                self.queue.wake(for_use=False)

    def take_over(self, old: Server) -> None:
        """Take the place of the server of the same name, whose configuration has changed.

        What it offered is shown until this one has listed for itself; subscriptions go on, those that were
        made in the other era too.
        """
        self.main.take_over(old.main)
        self.has_listed = (known := self.listed) is not None and known.generation > 0
        if self._per_era:
            self.other_era.take_over(old.other_era)

    # --- waiting for it

    async def await_descriptions(self) -> None:
        """Wait while descriptions are made for the resources of the first listing."""
        if self.info().ready:
            await self.main.cache.described.wait()

    async def await_catalogue(self, suffices: Callable[[Catalogue], bool] = lambda _known: True) -> None:
        """Wait for the first listing, if it is on its way; unless what is known from last time `suffices`."""
        if self.per_project and self.projects.asked() is None:
            return
        await self._asked.queue.wait_for(
            lambda: self.has_listed or (self.catalogue is not None and suffices(self.catalogue))
        )

    async def await_first_attempt(self) -> None:
        """Wait until it has listed or failed for the first time, if it has not yet."""

        def attempted() -> bool:
            failed = not self.queue.pending_reason and self.info().cause is not None
            return failed or self.catalogue is not None

        if not self.per_project:
            await self.queue.wait_for(attempted, for_use=False)

    # --- the session that serves a client

    def session_for(self, context: RequestContext) -> Session:
        """The session for a request: its client's own, or the one in its client's era.

        A program that uses MCPX as a library is no client, and takes the main session.

        Raises:
            CallError: `server_unavailable`: the client can have no session of its own.
        """
        caller = context.caller
        if self.main.queue.closed:
            return self.main
        if self.per_project:
            return self.projects.of(context.client)
        if self.per_client and context.client is not None:
            name = (context.origin and context.origin.name) or ""
            era = None if caller is None else _era(modern=caller.modern)
            return self.clients.of(context.client, name, era)
        if caller is None:
            return self.main
        # input that was asked for in a result goes back to the session that has asked so: a modern one
        return self.in_era(caller.modern or context.answers is not None)

    def _submit_checked(self, request: Request, reply: RawReply) -> None:
        """Send or queue a request, unless the file that names the server says something else by now."""
        self.main.check_project()
        self.session_for(request.context).submit(request, reply)

    def in_era(self, modern: bool) -> Session:  # noqa: FBT001 - as a client's handle has it
        """The session for a client of that era.

        Over stdio, where the configuration says the era, and where the server does not speak this one, all
        clients share the main session.
        """
        if not self._per_era or self.queue.closed or not self.has_listed:
            return self.main
        return self.other_era.session_for(_era(modern=modern))

    def _open(self, mode: Mode, era: Era | None, client: ClientId | None = None) -> Session:
        session = Session(self, self._host, mode, era=era, client=client)
        self._host.start(session)
        return session

    async def subscribe(
        self, uri: str, listener: Listener, meta: bytes, *, modern: bool
    ) -> Callable[[], None]:
        """Have `listener` called with changes of `uri`, until the result is called.

        A server may refuse on its main session what it grants on one of the client's own era.

        Raises:
            CallError: As `Subscriptions.subscribe`, and `CallRate.admit`.
        """
        self.rate.admit()  # the server may not be asked: others are subscribed
        session = self._asked
        try:
            await session.subscriptions.subscribe(uri, listener, meta)
        except CallError:
            session = session if self.per_project else self.in_era(modern)
            if session in (self.main, self._asked):
                raise
            await session.subscriptions.subscribe(uri, listener, meta)
        return lambda: session.subscriptions.unsubscribe(uri, listener)

    def leave(self, client: ClientId) -> None:
        """End the session of a client that has left, without waiting for it."""
        self.clients.leave(client)

    # --- for the sessions (`Owner`)

    def takes(self, event: Event, session: Supervised) -> bool:
        """Take in an event of one of the sessions; True if it only says that the server speaks one era."""
        if session.mode is Mode.PER_PROJECT and isinstance(session, Session):
            self.projects.takes(event, session)
            return False
        if isinstance(event, ChildRested) and isinstance(session, Session) and session.client is not None:
            self.clients.rested(session)
            return False
        return self.other_era.takes(event, session)

    def is_kept_awake_by(self, session: Supervised) -> bool:
        """True if the main session must not rest: another one with the server needs it."""
        if session is not self.main:
            return False
        others = (each for each in self.sessions() if each.is_guest or each is self.other_era.session)
        return any(each.queue.lifecycle_phase() in {Phase.STARTING, Phase.UP} for each in others)

    async def await_program(self) -> Program | None:
        """Wait for the program that the main session runs, and has it start if need be; None if in vain."""
        main = self.main
        await main.queue.wait_for(lambda: main.queue.lifecycle_phase() is Phase.UP)
        return main.program

    def note_listing(self, session: Supervised, listed: Catalogue) -> None:
        """Hold what a session has listed against what is pinned, before it is known."""
        is_whole = session.mode in {Mode.SHARED, Mode.PER_PROJECT}
        if self.policy.pins is not None:
            self.policy.pins.note(listed, whole=is_whole and not self.projects.differ)
        self.has_listed |= is_whole

    def changed(self, session: Supervised, changed: Diff, *, is_first: bool) -> None:
        """Announce that the shared catalogue was replaced; list again where another session differs now."""
        match session.mode:
            case Mode.SHARED:
                self._on_catalogue(self.name, changed)
            case Mode.OTHER_ERA:
                self.main.relist()
            case Mode.PER_PROJECT if isinstance(session, Session):
                self.projects.listed(session)
            case Mode.PER_CLIENT if not is_first and self.queue.is_asleep:  # else it is told itself
                self.main.relist()

    def resource_updated(self, uri: str) -> None:
        """Notify the listeners of a resource that has changed by what another session has heard."""
        self.main.subscriptions.updated(uri)


def _era(*, modern: bool) -> Era:
    return "modern" if modern else "handshake"

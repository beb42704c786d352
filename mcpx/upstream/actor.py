"""The upstream actor: one task that owns one server's session, queue and caches.

`Upstream` is what the rest of MCPX holds: the queue and the last known catalogue outlive the incarnations,
so callers wait through a restart and descriptions stay. `run` is one incarnation, a child of the
`upstreams` supervisor: connect, shake hands, list, say ready; then serve the queue, follow list changes,
and end the moment the connection does. Nothing here decides about restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import structlog

from mcpx.catalog.diff import Diff
from mcpx.catalog.model import JSON, Catalogue, ServerInfo, State
from mcpx.config import ServerConfig, redactor_of
from mcpx.observe.metrics import Counters
from mcpx.observe.server_log import ServerLog
from mcpx.upstream.call_queue import CallQueue, RawReply
from mcpx.upstream.calls import Calls
from mcpx.upstream.context import ClientId
from mcpx.upstream.direct.client import DirectClient
from mcpx.upstream.direct.session import DirectSession
from mcpx.upstream.errors import NoAnswer
from mcpx.upstream.health import Health
from mcpx.upstream.offers.catalogue_cache import CatalogueCache
from mcpx.upstream.offers.subscriptions import Subscriptions
from mcpx.upstream.per_client import PerClientSessions
from mcpx.upstream.relay.clients import ConnectedClients
from mcpx.upstream.relay.session_relay import SessionRelay
from mcpx.upstream.relay.suspended import SuspendedCalls
from mcpx.upstream.requests import Request
from mcpx.upstream.session.upstream_session import Greeting, UpstreamSession, open_session
from mcpx.upstream.transport.ledger import Ledger
from mcpx.upstream.transport.link import Hooks, Link
from mcpx.upstream.transport.loss import ConnectionLost
from supervisors import Incarnation, Phase, Signal, Supervisor

log = structlog.get_logger()

MAX_MALFORMED_LOGGED: Final = 3  # lines; a server that prints what is no message prints a lot of it
STATES: Final = {
    Phase.IDLE: State.STOPPED,
    Phase.STARTING: State.STARTING,
    Phase.UP: State.READY,
    Phase.WAITING: State.WAITING,
    Phase.PARKED: State.PARKED,
    Phase.STOPPING: State.STOPPED,
    Phase.DONE: State.STOPPED,
}

OnCatalogue = Callable[[str, Diff], None]
"""Called with the server's name and what changed, after the catalogue was replaced. Must not raise."""


class Upstream:
    """One upstream server, for as long as its configuration is in force.

    `child` is its name at the supervisor and in the ledger, where that is not the server's. `client` is the
    client that the session belongs to, where each has its own; then `counters` are those of the server.
    """

    def __init__(
        self,
        config: ServerConfig,
        supervisor: Supervisor,
        *,
        ledger: Ledger,
        server_log: ServerLog,
        max_message_bytes: int,
        child: str | None = None,
        counters: Counters | None = None,
        client: ClientId | None = None,
        on_catalogue: OnCatalogue = lambda _name, _diff: None,
        clients: ConnectedClients | None = None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.child = child or config.name
        self.client = client
        self.private: PerClientSessions[Upstream] | None = None
        """The sessions that belong to one client each, where the server gives them."""
        self.direct: dict[DirectClient, DirectSession] = {}
        """The sessions of clients of its transparent door."""
        self.counters = counters or Counters()
        self.queue = CallQueue(config, supervisor, self.counters, self.info, child=self.child)
        self._cache = CatalogueCache(
            config, self.counters, max_message_bytes=max_message_bytes, on_change=self._on_change
        )
        self.subscriptions = Subscriptions(
            config.name, self.submit, lambda: self.catalogue, patience=config.limits.queue_timeout
        )
        self.pid: int | None = None
        self.last_error: str | None = None
        """Why it last failed, also after it has recovered; set by the fleet, which sees the failures."""
        self._leaving: str | None = None
        self._ledger = ledger
        self._limit = max_message_bytes
        self._on_catalogue = on_catalogue
        self._probe = True  # not for a server that was found to be of the handshake era
        self.server_log = server_log
        self._redact = redactor_of(config)
        self._log = log.bind(server=config.name)
        self._clients = clients or ConnectedClients()
        self._suspended = SuspendedCalls(config.name, config.limits.call_timeout)
        self._clients.add_left_callback(self._suspended.cancel_for)

    # --- for the rest of MCPX

    @property
    def catalogue(self) -> Catalogue | None:
        """What the server offers, as last listed; None before the first listing."""
        return self._cache.current

    def info(self) -> ServerInfo:
        """A frozen view of the server as it is now."""
        kind = self.config.transport.kind
        if self.config.disabled is not None:
            return ServerInfo(
                name=self.name, state=State.DISABLED, transport=kind, cause=self.config.disabled
            )
        if self.queue.closed or self.queue.pending_reason:
            return ServerInfo(
                name=self.name,
                state=State.STOPPED if self.queue.closed else State.STARTING,
                transport=kind,
                cause=self._leaving or self.queue.pending_reason,
                catalogue=self.catalogue,
            )
        life = self.queue.lifecycle()
        at = life.next_attempt_at
        return ServerInfo(
            name=self.name,
            state=STATES[self.queue.lifecycle_phase()],
            transport=kind,
            cause=life.cause.text if life.cause and life.phase is not Phase.UP else None,
            retry_in_s=None if at is None else max(0.0, at - anyio.current_time()),
            catalogue=self.catalogue,
        )

    def sessions(self) -> list[Upstream | DirectSession]:
        """This one, and those with the same server that belong to one client each."""
        return [self, *(self.private or ()), *self.direct.values()]

    def input_schema(self, tool: str) -> JSON | None:
        """The schema of a tool's arguments, if the tool has been listed."""
        found = self.catalogue.tools.get(tool) if self.catalogue else None
        return None if found is None else found.input_schema

    def retire(self, why: str) -> None:
        """Refuse new requests and fail the waiting ones, because of `why`; the running ones may finish."""
        self._leaving = why
        self._clients.remove_left_callback(self._suspended.cancel_for)
        self.queue.close()

    def submit(self, request: Request, reply: RawReply) -> None:
        """Send or queue a request, or resume the suspended call that it names.

        Raises:
            CallError: `not_sent`, where none of that is possible; or the suspended call is over.
        """
        if request.context.answers is None or not self._suspended.resume(request, reply):
            self.queue.submit(request, reply)

    def inherit_from(self, old: Upstream) -> None:
        """Take the place of another upstream of the same name, with its subscriptions.

        Its catalogue is shown until this one has listed for itself, unless this one is disabled.
        """
        self.subscriptions = old.subscriptions
        self.subscriptions.move_to(self.submit, lambda: self.catalogue)
        if self.config.disabled is None:
            self._cache.inherit_from(old._cache)

    def greet_like(self, other: Upstream) -> None:
        """Begin the handshake in the way that worked for another session with the same server."""
        self._probe = other._probe

    async def await_descriptions(self) -> None:
        """Wait while descriptions are made for the resources of the first listing."""
        if self.info().ready:
            await self._cache.described.wait()

    async def await_catalogue(self) -> None:
        """Wait for the first listing, if it is on its way."""
        await self.queue.wait_for(lambda: self.catalogue is not None)

    # --- one incarnation

    async def run(self, incarnation: Incarnation) -> None:
        """Connect and serve, until the connection ends or the supervisor asks to leave."""
        greeting = Greeting(self._probe)
        try:
            await self._live(incarnation, greeting)
        except NoAnswer:
            self._probe = not greeting.upset  # if it was the question that silenced it, the next is not asked
            raise
        except ConnectionLost as error:
            if not greeting.upset or incarnation.stopping.is_set():
                raise
            # `initialize` must be the first that such a server hears: starting it again is no failure
            self._log.info("upstream.greeted_again", reason=str(error))
            await self._live(incarnation, Greeting(probe=False))

    async def _live(self, incarnation: Incarnation, greeting: Greeting) -> None:
        self._probe = True  # whatever fails now, the next attempt asks again
        changes = Signal()
        calls = Calls(self.config, self.counters, self.queue, incarnation.proven)
        try:
            async with open_session(
                self.config,
                greeting=greeting,
                limit=self._limit,
                hooks=Hooks(self._on_open, self._on_malformed, self.server_log.write, changes.set),
                changes=changes,
                on_updated=self.subscriptions.handle_update,
                relay=self._relay(calls),
            ) as session:
                await self._cache.list_all(session.client, incarnation.generation)
                session.established()
                self._probe = session.modern
                incarnation.ready()
                await self._serve(session, incarnation, calls, changes)
        finally:  # only now: the process has been terminated
            self.pid = None
            self._ledger.remove(self.child)
            self.server_log.close()

    def _relay(self, calls: Calls) -> SessionRelay:
        """What takes the server's requests and log messages during one incarnation."""
        return SessionRelay(
            self.name, calls, self._clients, self._suspended, self.server_log, client=self.client
        )

    async def _serve(
        self, session: UpstreamSession, incarnation: Incarnation, calls: Calls, changes: Signal
    ) -> None:
        """Serve the queue; when asked to leave, finish what is running."""
        generation = incarnation.generation
        async with anyio.create_task_group() as tasks:
            try:
                calls.open(session.link, session.sender(tasks))
                tasks.start_soon(calls.drain_until_closed)
                tasks.start_soon(session.listen)
                tasks.start_soon(session.log_level.follow)
                tasks.start_soon(session.probe_when_suspicious)
                tasks.start_soon(self._cache.follow, session.client, generation, changes)
                tasks.start_soon(self._cache.describe, session.client)
                tasks.start_soon(self.subscriptions.serve, session)
                tasks.start_soon(Health(self.config.health, calls, session.probe, session.link.give_up).watch)
                await incarnation.stopping.wait()
                await calls.drain()
            finally:
                calls.close()
            tasks.cancel_scope.cancel()

    # --- called back

    def _on_open(self, link: Link) -> None:
        self.pid = link.pid
        if link.pid is not None:
            self._ledger.add(self.child, link.pid, link.mark)

    def _on_change(self, changed: Diff) -> None:
        self.queue.wake_waiters()
        if changed:
            self._on_catalogue(self.name, changed)

    def _on_malformed(self, line: bytes, problem: str) -> None:
        self.counters.malformed += 1
        if self.counters.malformed <= MAX_MALFORMED_LOGGED:
            self._log.warning(
                "upstream.rubbish", problem=problem, line=self._redact(line.decode(errors="replace"))
            )

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
import anyio.abc
import structlog
from mcp import MCPError

from mcpx.catalog.diff import Diff, diff
from mcpx.catalog.model import Catalogue, ServerInfo, State
from mcpx.config import ServerConfig, redactor_of
from mcpx.observe.metrics import Counters
from mcpx.observe.server_log import ServerLog
from mcpx.upstream.calls import Calls
from mcpx.upstream.context import Client
from mcpx.upstream.errors import BadListing, ConnectionLost, NoAnswer
from mcpx.upstream.health import Health
from mcpx.upstream.offers.auto_describe import Describer
from mcpx.upstream.offers.left_out import OmissionLog
from mcpx.upstream.offers.listing import Lister
from mcpx.upstream.offers.subscriptions import Subscriptions
from mcpx.upstream.per_client import PrivateSessions
from mcpx.upstream.queue import CallQueue, RawReply
from mcpx.upstream.relay.clients import Audience
from mcpx.upstream.relay.logs import LogRelay
from mcpx.upstream.relay.server_requests import Asking
from mcpx.upstream.relay.suspended import Holds
from mcpx.upstream.requests import Request
from mcpx.upstream.session.upstream_session import Greeting, Passing, UpstreamSession, open_session
from mcpx.upstream.signal import Flag
from mcpx.upstream.transport.ledger import Ledger
from mcpx.upstream.transport.link import Hooks, Link
from mcpx.wire.outgoing import ResponseTooLarge, Unreadable
from supervisors import Incarnation, Phase, Supervisor

log = structlog.get_logger()

RELIST_DEBOUNCE_S: Final = 0.2  # list_changed within this time is one listing
RELIST_PAUSE_MOST_S: Final = 10.0  # between the listings of a server that never stops changing
NAMED_MOST: Final = (
    100  # things left out of the lists that the log names, while the configuration is in force
)
RUBBISH_SHOWN: Final = 3  # lines; a server that prints rubbish prints a lot of it
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
"""Told the server's name and what changed, after the catalogue was replaced."""


class Upstream:
    """One upstream server, for as long as its configuration is in force.

    `child` is what the supervisor and the ledger know it by, where that is not its name. `client` is whose
    session it is, where it is a client's own; then its `counters` are those of the server.
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
        client: Client | None = None,
        on_catalogue: OnCatalogue = lambda _name, _diff: None,
        audience: Audience | None = None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.child = child or config.name
        self.catalogue: Catalogue | None = None
        self.client = client
        self.private: PrivateSessions[Upstream] | None = None
        """The sessions that belong to one client each, where the server gives them."""
        self.counters = counters or Counters()
        self.queue = CallQueue(config, supervisor, self.counters, self.info, child=self.child)
        self.subscriptions = Subscriptions(
            config.name, self.submit, lambda: self.catalogue, patience=config.limits.queue_timeout
        )
        self.pid: int | None = None
        self.last_error: str | None = None
        """Why it failed last, whether it is well again or not; kept by whoever hears of it."""
        self._leaving: str | None = None
        self._ledger = ledger
        self._limit = max_message_bytes
        self._on_catalogue = on_catalogue
        self._probe = True  # not for a server that was found to be of the handshake era
        self._omission_log = OmissionLog(config.name)
        self._describer = Describer(config.name)
        self.server_log = server_log
        self._redact = redactor_of(config)
        self._log = log.bind(server=config.name)
        self._audience = audience or Audience()
        self._holds = Holds(config.name, config.limits.call_timeout)
        self._audience.on_left(self._holds.drop)

    # --- for everybody

    def info(self) -> ServerInfo:
        """A frozen view of the server as it is now."""
        kind = self.config.transport.kind
        if self.config.disabled is not None:
            return ServerInfo(
                name=self.name, state=State.DISABLED, transport=kind, cause=self.config.disabled
            )
        if self.queue.closed or self.queue.held:
            return ServerInfo(
                name=self.name,
                state=State.STOPPED if self.queue.closed else State.STARTING,
                transport=kind,
                cause=self._leaving or self.queue.held,
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

    def sessions(self) -> list[Upstream]:
        """This one, and those with the same server that belong to one client each."""
        return [self, *(self.private or ())]

    def retire(self, why: str) -> None:
        """Take no more requests, and fail those that wait, because of `why`; the running ones may finish."""
        self._leaving = why
        self._audience.forget(self._holds.drop)
        self.queue.close()

    def submit(self, request: Request, reply: RawReply) -> None:
        """Send or queue a request, or go on with the held call that it names.

        Raises:
            CallError: `not_sent`, where none of that is possible; or the held call is over.
        """
        if request.origin.answers is None or not self._holds.go_on(request, reply):
            self.queue.submit(request, reply)

    def succeed(self, old: Upstream) -> None:
        """Take the place of another upstream of the same name, with the subscriptions of its clients."""
        self.subscriptions = old.subscriptions
        self.subscriptions.belong_to(self.submit, lambda: self.catalogue)

    def greet_like(self, other: Upstream) -> None:
        """Greet the server as another session with it does."""
        self._probe = other._probe

    async def await_catalogue(self) -> None:
        """Wait for the first listing, if it is on its way."""
        await self.queue.wait_for(lambda: self.catalogue is not None)

    # --- one incarnation

    async def run(self, incarnation: Incarnation) -> None:
        """Be connected and serve, until the connection ends or the supervisor asks to leave."""
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
        """Connect and serve, until the connection ends or the supervisor asks to leave."""
        self._probe = True  # whatever fails now, the next attempt asks again
        changes, passing = Flag(), self._passing()
        try:
            async with open_session(
                self.config,
                greeting=greeting,
                limit=self._limit,
                hooks=Hooks(self._note_child, self._note_rubbish, self.server_log.write),
                changes=changes,
                on_updated=self.subscriptions.notified,
                passing=passing,
            ) as session:
                await self._list(session, incarnation.generation)
                session.established()
                self._probe = session.modern
                incarnation.ready()
                await self._serve(session, incarnation, changes, passing)
        finally:  # only now: the process has been seen off
            self.pid = None
            self._ledger.remove(self.child)
            self.server_log.close()

    def _note_child(self, link: Link) -> None:
        self.pid = link.pid
        if link.pid is not None:
            self._ledger.add(self.child, link.pid, link.mark)

    def _passing(self) -> Passing:
        """What takes the server's questions and log messages during one incarnation."""
        asking = Asking(self.name, self._audience, self._holds, client=self.client)
        logs = LogRelay(self.name, asking, self._audience, self.server_log, client=self.client)
        return Passing(asking, logs, self._audience)

    async def _serve(
        self, session: UpstreamSession, incarnation: Incarnation, changes: Flag, passing: Passing
    ) -> None:
        """Serve the queue; when asked to leave, finish what is running."""
        async with anyio.create_task_group() as tasks:
            calls = passing.asking.work = self._calls(session, tasks, incarnation)
            try:
                tasks.start_soon(self._watch, session)
                tasks.start_soon(calls.see_out)
                calls.open()
                tasks.start_soon(session.listen)
                tasks.start_soon(session.telling.follow)
                tasks.start_soon(session.look_when_suspicious)
                tasks.start_soon(self._follow, session, incarnation.generation, changes)
                tasks.start_soon(self._describe, session)
                tasks.start_soon(self.subscriptions.serve, session)
                health = Health(self.config.health, calls, session.probe, session.link.give_up)
                tasks.start_soon(health.watch)
                await incarnation.stopping.wait()
                await calls.drain()
            finally:
                calls.close()
            tasks.cancel_scope.cancel()

    def _calls(self, session: UpstreamSession, tasks: anyio.abc.TaskGroup, incarnation: Incarnation) -> Calls:
        return Calls(
            session,
            session.sender(tasks),
            ref=self.queue.ref,
            config=self.config,
            counters=self.counters,
            put_back=self.queue.put_back,
            on_proof=incarnation.proven,
        )

    async def _watch(self, session: UpstreamSession) -> None:
        await session.link.lost.wait()
        raise session.lost()

    # --- the caches

    async def _list(self, session: UpstreamSession, generation: int) -> None:
        lister = Lister(
            session.client,
            self.name,
            limit=self._limit,
            patience=self.config.limits.connect_timeout,
            last=self.catalogue,
        )
        catalogue = await lister.list_all(generation)
        self.counters.listings += 1
        self._omission_log.name(catalogue.left_out)
        self._replace(self._describer.apply(catalogue))

    def _replace(self, catalogue: Catalogue) -> None:
        """Put a new catalogue in the old one's place, whole, and tell if it differs."""
        changed = diff(self.catalogue, catalogue)
        self.catalogue = catalogue
        self.queue.tell_waiters()
        if changed:
            self._on_catalogue(self.name, changed)

    async def _follow(self, session: UpstreamSession, generation: int, changes: Flag) -> None:
        """List again after the server said that a list changed; a storm of changes is a few listings.

        Each listing that more changes follow at once doubles the pause before the next.
        """
        pause = RELIST_DEBOUNCE_S
        while True:
            await changes.wait()
            await anyio.sleep(pause)
            changes.clear()
            if await self._list_again(session, generation):
                info = self.info()
                self._log.info("upstream.listed", tools=len(info.tools), resources=len(info.resources))
                await self._describe(session)
            with anyio.move_on_after(pause):
                await changes.wait()
            pause = min(2 * pause, RELIST_PAUSE_MOST_S) if changes.is_set() else RELIST_DEBOUNCE_S

    async def _list_again(self, session: UpstreamSession, generation: int) -> bool:
        """List during the session; a listing that fails or never ends costs neither it nor its calls."""
        reason = f"no answer within {self.config.limits.connect_timeout:g} s"
        with anyio.move_on_after(self.config.limits.connect_timeout):
            try:
                await self._list(session, generation)
            except (MCPError, BadListing, Unreadable, ResponseTooLarge) as error:
                reason = str(error).partition("\n")[0]
            else:
                return True
        self._log.warning("upstream.unlisted", reason=self._redact(reason), kept="the last known lists")
        return False

    async def _describe(self, session: UpstreamSession) -> None:
        if self.config.auto_describe and self.catalogue is not None:
            await self._describer.read_missing(self.catalogue, session.client)
            self._replace(self._describer.apply(self.catalogue))

    def _note_rubbish(self, line: bytes, problem: str) -> None:
        self.counters.malformed += 1
        if self.counters.malformed <= RUBBISH_SHOWN:
            self._log.warning(
                "upstream.rubbish", problem=problem, line=self._redact(line.decode(errors="replace"))
            )

"""The upstream actor: one task that owns one server's session, queue and caches.

`Upstream` is what the rest of MCPX holds: the queue and the last known catalogue outlive the incarnations,
so callers wait through a restart and descriptions stay. `run` is one incarnation, a child of the
`upstreams` supervisor: connect, shake hands, list, say ready; then serve the queue, follow list changes,
and end the moment the connection does. Nothing here decides about restarts.

What it promises its callers is the outcome contract: a request still in the queue was not sent; one that
was dispatched is never sent again; whoever goes away has the call cancelled upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio
import anyio.abc
import structlog

from mcpx.catalog.diff import Diff, diff
from mcpx.catalog.model import JSON, Catalogue, ServerInfo, State
from mcpx.config import ServerConfig
from mcpx.errors import CallError, Code
from mcpx.observe.metrics import Counters
from mcpx.upstream.calls import Calls
from mcpx.upstream.describing import Describer
from mcpx.upstream.listing import list_catalogue
from mcpx.upstream.requests import Request, tool_of
from mcpx.upstream.session import Changes, UpstreamSession, open_session
from supervisors import ActorRef, Envelope, Incarnation, MailboxClosed, MailboxFull, Phase, Reply, Supervisor
from supervisors import State as Lifecycle

log = structlog.get_logger()

RELIST_DEBOUNCE_S: Final = 0.2  # a storm of list_changed becomes one listing in this time
STATES: Final = {
    Phase.IDLE: State.STOPPED,
    Phase.STARTING: State.STARTING,
    Phase.UP: State.READY,
    Phase.WAITING: State.WAITING,
    Phase.PARKED: State.PARKED,
    Phase.STOPPING: State.STOPPED,
    Phase.DONE: State.STOPPED,
}

_OVER: Final = frozenset({Phase.STOPPING, Phase.DONE})
_GIVEN_UP: Final = _OVER | {Phase.PARKED}

OnCatalogue = Callable[[str, Diff], None]
"""Told the server's name and what changed, after the catalogue was replaced."""


class Upstream:
    """One upstream server, for as long as MCPX runs."""

    def __init__(
        self,
        config: ServerConfig,
        supervisor: Supervisor,
        *,
        max_message_bytes: int,
        on_catalogue: OnCatalogue = lambda _name, _diff: None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.ref: ActorRef[Request] = ActorRef(config.name, config.limits.queue_size)
        self.catalogue: Catalogue | None = None
        self.counters = Counters()
        self.pid: int | None = None
        self._closed = False
        self._awaiting = 0  # callers that wait for the first listing
        self._news = anyio.Event()
        self._supervisor = supervisor
        self._limit = max_message_bytes
        self._on_catalogue = on_catalogue
        self._mode = "auto"  # `legacy` once the server was found to be: its restarts need no probe
        self._describer = Describer(config.name)
        self._log = log.bind(server=config.name)

    # --- for everybody

    def lifecycle(self) -> Lifecycle:
        """The supervisor's view: phase, failures, times. Raises NoSuchChild for a disabled server."""
        return self._supervisor.state(self.name)

    def info(self) -> ServerInfo:
        """A frozen view of the server as it is now."""
        kind = self.config.transport.kind
        if self.config.disabled is not None:
            return ServerInfo(
                name=self.name, state=State.DISABLED, transport=kind, cause=self.config.disabled
            )
        life = self.lifecycle()
        at = life.next_attempt_at
        return ServerInfo(
            name=self.name,
            state=State.STOPPED if self._closed else STATES[life.phase],
            transport=kind,
            cause=life.cause.text if life.cause and life.phase is not Phase.UP else None,
            retry_in_s=None if at is None else max(0.0, at - anyio.current_time()),
            catalogue=self.catalogue,
        )

    def submit(self, request: Request, reply: Reply[JSON]) -> None:
        """Queue a request. It waits for the server up to `queue_timeout`, which tries to connect at once.

        Raises:
            CallError: `server_unavailable` or `overloaded`; nothing was sent.
        """
        if self.config.disabled is not None or not self._wanted():
            raise self.unavailable(request)
        try:
            self.ref.request(request, reply)
        except MailboxFull:
            raise self._overloaded(request, f"{self.config.limits.queue_size} calls are waiting") from None
        except MailboxClosed:
            raise self.unavailable(request) from None
        reply.limit(self.config.limits.queue_timeout, lambda: self._expired(request))

    async def await_catalogue(self) -> None:
        """Wait for the first listing, if it is on its way: up to `queue_timeout`, as a call would."""
        if self.catalogue is not None or self.config.disabled is not None or not self._wanted():
            return
        self._awaiting += 1
        try:
            with anyio.move_on_after(self.config.limits.queue_timeout):
                while self.catalogue is None and self.lifecycle().phase not in _GIVEN_UP:
                    await self._news.wait()
        finally:
            self._awaiting -= 1

    @property
    def has_callers(self) -> bool:
        """Whether somebody waits for this server to be ready."""
        return bool(len(self.ref.mailbox) or self._awaiting)

    def _wanted(self) -> bool:
        """Whether a call may wait: the server is up, coming, or will be tried at once for its sake."""
        phase = self.lifecycle().phase
        if phase in _OVER:
            return False
        return phase not in {Phase.WAITING, Phase.PARKED} or self._supervisor.demand(self.name)

    def refuse_waiting(self) -> None:
        """Fail everything in the queue: the server is given up for now."""
        for envelope in self.ref.mailbox.drain():
            self._refuse(envelope)
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    def close(self) -> None:
        """Take no more requests; fail those in the queue."""
        self._closed = True
        for envelope in self.ref.mailbox.close():
            self._refuse(envelope)
        self._tell_waiters()

    def _refuse(self, envelope: Envelope[Request]) -> None:
        if envelope.reply is not None:
            envelope.reply.reject(self.unavailable(envelope.message))

    def unavailable(self, request: Request) -> CallError:
        """Why the server cannot take this request now, and when it will be tried again."""
        info = self.info()
        text = f"{self.name} is not available ({info.describe_state()}); nothing was sent"
        details: dict[str, Any] = {"state": str(info.state)}
        if info.cause:
            details["cause"] = info.cause
        if info.retry_in_s is not None:
            details["retry_in_s"] = round(info.retry_in_s, 1)
            text += f". Next attempt in {info.retry_in_s:.0f} s"
        return self._failed(CallError(Code.SERVER_UNAVAILABLE, text, **self._where(request), details=details))

    def _expired(self, request: Request) -> CallError:
        if self.lifecycle().phase is Phase.UP:
            return self._overloaded(request, f"{self.config.limits.max_concurrency} calls are running")
        return self.unavailable(request)

    def _overloaded(self, request: Request, why: str) -> CallError:
        text = f"{self.name} is overloaded ({why}); nothing was sent, try again later"
        return self._failed(CallError(Code.OVERLOADED, text, **self._where(request)))

    def _where(self, request: Request) -> dict[str, Any]:
        return {"server": self.name, "tool": tool_of(request)}

    def _failed(self, error: CallError) -> CallError:
        self.counters.errors[str(error.code)] += 1
        return error

    # --- one incarnation

    async def run(self, incarnation: Incarnation) -> None:
        """Be connected and serve, until the connection ends or the supervisor asks to leave."""
        changes = Changes()
        mode, self._mode = self._mode, "auto"  # whatever fails now, the next attempt asks again
        try:
            async with open_session(
                self.config, mode=mode, limit=self._limit, on_rubbish=self._rubbish, changes=changes
            ) as session:
                self.pid = session.link.pid
                await self._list(session, incarnation.generation)
                session.established()
                self._mode = "auto" if session.modern else "legacy"
                incarnation.ready()
                await self._serve_until_lost(session, incarnation, changes)
        finally:
            self.pid = None  # only now: the process has been seen off

    async def _serve_until_lost(
        self, session: UpstreamSession, incarnation: Incarnation, changes: Changes
    ) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, session)
            tasks.start_soon(session.listen)
            tasks.start_soon(self._follow, session, incarnation.generation, changes)
            tasks.start_soon(self._describe, session)
            await Calls(session, self.ref, self.config, self.counters).serve(incarnation)
            tasks.cancel_scope.cancel()

    async def _watch(self, session: UpstreamSession) -> None:
        await session.link.lost.wait()
        raise session.lost()

    async def _list(self, session: UpstreamSession, generation: int) -> None:
        catalogue = await list_catalogue(session.client.session, self.name, generation)
        self.counters.listings += 1
        self._replace(self._describer.apply(catalogue))

    def _replace(self, catalogue: Catalogue) -> None:
        """Put a new catalogue in the old one's place, whole, and tell if it differs."""
        changed = diff(self.catalogue, catalogue)
        self.catalogue = catalogue
        self._tell_waiters()
        if changed:
            self._on_catalogue(self.name, changed)

    async def _follow(self, session: UpstreamSession, generation: int, changes: Changes) -> None:
        """List again after the server said that a list changed; many changes at once are one listing."""
        while True:
            await changes.wait()
            await anyio.sleep(RELIST_DEBOUNCE_S)
            changes.clear()
            await self._list(session, generation)
            self._log.info(
                "upstream.listed", tools=len(self.info().tools), resources=len(self.info().resources)
            )
            await self._describe(session)

    async def _describe(self, session: UpstreamSession) -> None:
        if self.config.auto_describe and self.catalogue is not None:
            await self._describer.read_missing(self.catalogue, session.read_resource)
            self._replace(self._describer.apply(self.catalogue))

    def _rubbish(self, line: bytes, problem: str) -> None:
        self.counters.rubbish += 1
        if self.counters.rubbish <= 3:  # noqa: PLR2004 - a server that prints rubbish prints a lot of it
            self._log.warning("upstream.rubbish", problem=problem, line=line.decode(errors="replace"))

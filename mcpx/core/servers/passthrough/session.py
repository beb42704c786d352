"""A direct session: the actor that owns one client's connection to a server. See the package's docstring.

Supervised like the server's own session (`mcpx.core.servers.actor`), with a queue, deadlines and outcomes
like its: requests wait while the server starts, and what was in flight when it died fails with the outcome,
unless it is safe to send again. A request that stays open for good is sent again in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
import structlog
from mcp_types.version import LATEST_MODERN_VERSION
from msgspec.structs import replace

from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.config.projects import in_project
from mcpx.core.config.redaction import OwnMessages
from mcpx.core.protocol.requests import Passed, Request
from mcpx.core.servers.call_queue import CallQueue, RawReply
from mcpx.core.servers.calls import Calls
from mcpx.core.servers.causes import NoAnswer
from mcpx.core.servers.health import open_health
from mcpx.core.servers.passthrough.carriers import Carrier, Headers, ToolSchemas
from mcpx.core.servers.passthrough.client import STANDING, DirectClient, Standing
from mcpx.core.servers.passthrough.connection import DirectConnection
from mcpx.core.servers.ports import VANISHED_IDLE_STOP_S, Host, Mode, Owner, Supervised
from mcpx.core.servers.silence import Manners, open_silence
from mcpx.core.servers.transport.connecting import open_link
from mcpx.core.servers.transport.link import Hooks, Link
from mcpx.core.servers.upkeep import Upkeep
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcpx.errors import CallError
from supervisors import Incarnation, Phase

if TYPE_CHECKING:
    from mcpx.core.servers.transport.program import Program

log = structlog.get_logger()
IDLE_AFTER_S: Final = 60.0
AWAITS_TASK: Final = frozenset({"tasks/result"})
"""Methods that are answered when a task of the server is done, however long that takes."""
_DISCOVER: Final = envelope.encode(
    {"_meta": {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}}
)


class _Queue(CallQueue):
    """The queue, and beside it the requests that stay open for good."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]  # those of the queue
        self._standing: list[Standing] = []

    @property
    def standing(self) -> list[Standing]:
        """Requests that are neither answered nor cancelled."""
        self._standing = [each for each in self._standing if not each.over]
        return list(self._standing)

    def keep(self, standing: Standing) -> None:
        """Add a request.

        Raises:
            CallError: The server is not there, and will not be soon.
        """
        if self.lifecycle_phase() is not Phase.UP and not self.wake():
            raise self.unavailable(standing.request)
        if len(self.standing) >= self.ref.mailbox.size:
            raise self._overloaded(standing.request, f"{self.ref.mailbox.size} streams are open")
        self._standing.append(standing)

    @property
    def has_callers(self) -> bool:
        return super().has_callers or bool(self.standing)

    def refuse_waiting(self) -> None:
        super().refuse_waiting()
        self._refuse_standing()

    def close(self) -> None:
        super().close()
        self._refuse_standing()

    def _refuse_standing(self) -> None:
        for standing in self.standing:
            standing.refuse(self.unavailable(standing.request))


class DirectSession(Supervised):
    """One client's session with one server, for as long as both last."""

    queue: _Queue
    queue_kind = _Queue

    def __init__(
        self,
        client: DirectClient,
        server: Owner,
        host: Host,
        *,
        schemas: ToolSchemas,
        on_idle: Callable[[], None] | None = None,
    ) -> None:
        """`on_idle` is called when nothing was open for `IDLE_AFTER_S`, and nothing had a result."""
        self.client = client
        super().__init__(server, host, Mode.PASSTHROUGH)
        self.environment = client.identity.environment
        self._server_log = server.server_log
        self._counters = server.counters
        self._schemas = schemas
        self._on_idle = on_idle
        self.used_at = anyio.current_time()
        """When the client last asked for something, as far as is known."""
        self._connection: DirectConnection | None = None
        self._redact = redactor_of(self.config)
        self._manners = Manners()

    # --- for the gateway and the fleet

    @property
    def is_busy(self) -> bool:
        """True if anything of the client is open, or waits."""
        return self.queue.has_callers or (self._connection is not None and not self._connection.is_idle)

    @property
    def is_idle(self) -> bool:
        """True if nothing of the client is open, and nothing was for `IDLE_AFTER_S`."""
        if self.is_busy:
            self.used_at = anyio.current_time()
        return anyio.current_time() - self.used_at > IDLE_AFTER_S

    def submit(self, request: Passed, reply: RawReply) -> None:
        """Send or queue a request. The reply is its answer (`OnAnswer`).

        Raises:
            CallError: `not_sent`; neither is possible.
        """
        self.used_at = anyio.current_time()
        if self.server.reads is not None:
            self.server.reads.passes(request, reply)
        if request.method not in STANDING:
            self.queue.submit(request, reply)
            return
        standing = Standing(request, reply)
        self.queue.keep(standing)
        if self._connection is not None:
            self._connection.stand(standing)

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Pass a notification of the client on; dropped where the server is away."""
        if self._connection is not None:
            self._connection.carrier.notify(method, params)

    def announce_lists(self) -> None:
        """Tell the client, or all that share the session, that lists are shown differently."""
        self.client.announce_lists()
        for standing in self.queue.standing:
            standing.announce_lists()

    # --- one incarnation

    def _as_opened(self, entry: ServerConfig) -> ServerConfig:
        about = self.client.identity
        if not self.server.wants_project:
            return entry
        transport = in_project(
            entry.transport, about.project or "", about.variables, runs_there=self.server.per_project
        )
        return replace(entry, transport=transport)

    async def run(self, incarnation: Incarnation) -> None:
        """Connect and serve, until the connection ends or the supervisor asks to leave."""
        await self.serve(incarnation, partial(self._connect, incarnation))

    async def _connect(self, incarnation: Incarnation, config: ServerConfig, program: Program | None) -> None:
        """Open one connection, and serve until it is lost or the supervisor asks to leave."""
        calls = Calls(config, self._counters, self.queue, incarnation.proven)
        hooks = Hooks(self._opened, self._malformed.record, self._server_log.write, lambda: None)
        async with open_link(
            config.transport,
            limit=self._limit,
            hooks=hooks,
            redact=self._redact,
            authorizer=self._authorizer,
            placing=self._placing,
            program=program,
        ) as link:

            def agreed() -> None:
                link.wire.version = self.client.version
                link.establish()

            with anyio.move_on_after(config.call_limits.first_start_timeout) as scope:
                await link.await_listener()
            if scope.cancelled_caught:
                raise NoAnswer(link.stderr_tail())
            connection = DirectConnection(
                self.client,
                link,
                self.config,
                self._schemas,
                agreed,
                own_messages=OwnMessages(lambda: self.server.credentials.entry),
            )
            await self._serve(incarnation, calls, connection, link)

    async def _serve(
        self, incarnation: Incarnation, calls: Calls, connection: DirectConnection, link: Link
    ) -> None:
        async with anyio.create_task_group() as tasks:
            connection.carrier = Carrier(link.wire, connection, Headers(self._schemas))
            await tasks.start(connection.carrier.run)
            try:
                again = self.client.greeted
                await self._greet(connection, link)
                incarnation.ready()
                self._connection = connection
                for standing in self.queue.standing:
                    connection.stand(standing)
                ask = partial(self._ask_anything, connection)
                silence = open_silence(self.config, calls, ask, link, self._manners)
                calls.open(link, connection)
                tasks.start_soon(calls.drain_until_closed)
                tasks.start_soon(self._keep_calls_that_wait, calls, connection)
                self.health = open_health(self.config.health, calls, lambda: self._probe(connection), link)
                tasks.start_soon(self.health.watch)
                tasks.start_soon(Upkeep(self, calls).watch)
                if silence is not None:
                    tasks.start_soon(silence.watch)
                tasks.start_soon(self._watch_idleness, connection)
                if again:
                    tasks.start_soon(self.client.announce_changes, connection.ask)
                await incarnation.stopping.wait()
                await calls.drain()
            finally:
                self._connection = self.health = None
                for standing in self.queue.standing:
                    standing.lost()
                calls.close()
                connection.close()
            tasks.cancel_scope.cancel()

    async def _greet(self, connection: DirectConnection, link: Link) -> None:
        """Repeat the client's handshake, if there was one before.

        Raises:
            NoAnswer: It took too long.
            Exception: The server did not accept it any more; see `errors.cause_of`.
        """
        if not self.client.greeted:
            return
        with anyio.move_on_after(self.config.call_limits.connect_timeout) as scope:
            await self.client.replay(connection.ask, connection.carrier.notify)
        if scope.cancelled_caught:
            raise NoAnswer(link.stderr_tail())
        connection.agreed()

    async def _probe(self, connection: DirectConnection) -> None:
        """Ask for a sign of life, where the protocol has a request for that."""
        if self.client.greeted:
            await connection.ask("ping", b"")

    async def _ask_anything(self, connection: DirectConnection) -> None:
        """Ask for what every server answers: `ping`, or from 2026-07-28 on what it is."""
        if self.client.greeted:
            await connection.ask("ping", b"")
        else:
            await connection.ask("server/discover", _DISCOVER)

    async def _keep_calls_that_wait(self, calls: Calls, connection: DirectConnection) -> None:
        """Renew calls that wait for more than the server: a person may be asked, a task be under way."""
        while True:
            await anyio.sleep(self.config.call_limits.call_timeout / 2)
            for call in calls.running():
                if connection.is_asking or call.request.method in AWAITS_TASK:
                    calls.renew(call)

    async def _watch_idleness(self, connection: DirectConnection) -> None:
        """Report an unused session: probes that the server refused were all that it got.

        That of the clients of one name is reported as well when they have not used it for long.
        """
        limit = (self.config.idle_stop or VANISHED_IDLE_STOP_S) if self.client.may_vanish else math.inf
        while self._on_idle is not None:
            await anyio.sleep(min(IDLE_AFTER_S, limit) / 2)
            is_long = not self.is_busy and anyio.current_time() - self.used_at > limit
            if is_long or (self.is_idle and not connection.has_served):
                self._on_idle()
                return

    # --- called back

    def refusal_of(self, request: Request) -> CallError | None:
        """Say why a request may not be sent any more, by the rules that are in force now."""
        try:
            if isinstance(request, Passed):
                request.as_admitted()
        except CallError as refusal:
            return refusal
        return None

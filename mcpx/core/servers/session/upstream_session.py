"""One session with an upstream server: a client session (`PassingSession`) over a link.

`open_session` connects and shakes hands; it must be entered and left in one task. The session knows which
protocol era the server speaks and notices changed lists in either: by notifications before 2026-07-28, from
then on by a `subscriptions/listen` stream.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from mcpx.core.catalog.model import JSON
from mcpx.core.config import CallLimits, ServerConfig, redactor_of
from mcpx.core.servers.accounts import Authorizer
from mcpx.core.servers.call_errors import ends_session
from mcpx.core.servers.causes import EraRefused, NoAnswer, Unhealthy
from mcpx.core.servers.relay.session_relay import SessionRelay
from mcpx.core.servers.session.client_session import PassingSession, SubscriptionLost
from mcpx.core.servers.session.handshake import Handshake
from mcpx.core.servers.session.senders import LogLevelSync, Sender, WireSender
from mcpx.core.servers.transport.connecting import open_link
from mcpx.core.servers.transport.exchange import failure_of
from mcpx.core.servers.transport.link import Hooks, Link
from mcpx.core.servers.transport.placement import Placing
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import leaves
from mcpx.version import __version__
from supervisors import Signal

if TYPE_CHECKING:
    from mcpx.core.servers.transport.program import Program

log = structlog.get_logger()
CLIENT_INFO: Final[JSON] = {"name": "mcpx", "title": "MCPX", "version": __version__}
LISTS: Final = ("prompts", "resources", "tools")
LISTEN_RETRY_DELAY_S: Final = 1.0  # after a lost listen stream; lists are read again, so nothing is missed
LISTEN_STEADY_S: Final = 10.0  # a stream that is lost sooner doubles the delay
MAX_LISTEN_RETRY_DELAY_S: Final = 60.0
WORK_LOOK_S: Final = 1.0  # between two looks at a process that is being started
PROBE_TIMEOUT_S: Final = 5.0  # for a session in doubt
PROBE_PAUSE_S: Final = 1.0  # between two such probes, however many reasons there are


class UpstreamSession:
    """An open session."""

    def __init__(
        self,
        client: PassingSession,
        link: Link,
        changes: Signal,
        connecting: anyio.CancelScope,
        log_level: LogLevelSync,
    ) -> None:
        self.client = client
        self.link = link
        self.log_level = log_level
        self._changes = changes
        self._connecting = connecting

    def established(self) -> None:
        """Note that the handshake and the first listing are done, and switch the connect timeout off."""
        self._connecting.deadline = math.inf
        self.link.establish()
        self.link.note_descendants()

    @property
    def modern(self) -> bool:
        """True if the server speaks the 2026-07-28 revision."""
        return self.client.modern

    def sender(self) -> Sender:
        """The sender for calls."""
        return WireSender(self.link.wire, self.client, CLIENT_INFO, self.log_level)

    async def listen(self) -> None:
        """Watch for changed lists of a 2026-07-28 server, for as long as the session lives."""
        can = self.client.server_capabilities
        wanted = {f"{kind}ListChanged": True for kind in LISTS if can.get(kind, {}).get("listChanged")}
        pause = LISTEN_RETRY_DELAY_S
        while self.modern and wanted:
            began = anyio.current_time()
            with suppress(SubscriptionLost, MCPError):
                await self.client.listen(wanted, on_open=lambda _agreed: None)
            steady = anyio.current_time() - began >= LISTEN_STEADY_S
            pause = LISTEN_RETRY_DELAY_S if steady else min(2 * pause, MAX_LISTEN_RETRY_DELAY_S)
            await anyio.sleep(pause)
            self._changes.set()

    async def probe_when_suspicious(self) -> None:
        """Probe the session whenever an HTTP exchange gave reason to doubt it.

        Only what the answer says counts, not that it is missing: the server may be busy.
        """
        suspicion = self.link.suspicion
        while True:
            await suspicion.wait()
            suspicion.clear()
            with anyio.move_on_after(PROBE_TIMEOUT_S), suppress(MCPError, Unhealthy):
                await self.probe()
            await anyio.sleep(PROBE_PAUSE_S)

    async def probe(self) -> None:
        """Ask the server for a sign of life: `ping`, which the 2026-07-28 revision does not have.

        A server that refuses the session ends the connection.

        Raises:
            Unhealthy: It is there, but does not answer MCP.
            MCPError: It answers with an error, which is a sign of life too.
        """
        self.link.note_descendants()
        try:
            if self.modern:
                await self.client.discover()
            else:
                await self.client.ask_raw("ping", None)
        except MCPError as error:
            failure = failure_of(error)
            if failure is None:
                raise
            if not ends_session(failure):
                raise Unhealthy(str(failure)) from failure
            self.link.closing.set(str(failure))


@asynccontextmanager
async def open_session(
    config: ServerConfig,
    *,
    handshake: Handshake,
    limit: int,
    hooks: Hooks,
    changes: Signal,
    relay: SessionRelay,
    on_updated: Callable[[str], None] = lambda _uri: None,
    account: Authorizer | None = None,
    placing: Placing | None = None,
    program: Program | None = None,
    on_long_start: Callable[[], None] | None = None,
) -> AsyncIterator[UpstreamSession]:
    """Connect and shake hands. The connect timeout runs until `established` is called on the session.

    With `on_long_start` it is a first start, which has more time for as long as the server's process works:
    that is called once it has taken longer than the connect timeout.

    `changes` is set when a list has changed; `on_updated` is called with the URI of each resource that has,
    and must not raise. `account` is what lets requests in over HTTP, `placing` and `program` are as for
    `open_link`.

    Raises:
        EraRefused: The server does not agree to the only era that it is to be asked in.
        NoAnswer: Not established in time.
        ConnectionLost: The connection ended, or was refused, during the handshake.
        Exception: Whatever else the transport or the SDK raise; see `errors.cause_of`.
    """
    link: Link | None = None
    # one scope around everything: a timeout that ended before its task groups would break their nesting
    limits, began = config.call_limits, anyio.current_time()
    with anyio.CancelScope(deadline=began + limits.connect_timeout) as scope:
        try:
            async with open_link(
                config.transport,
                limit=limit,
                hooks=hooks,
                redact=redactor_of(config),
                authorizer=account,
                placing=placing,
                program=program,
            ) as link:
                client = PassingSession(
                    link.wire,
                    client_info=CLIENT_INFO,
                    relay=relay,
                    on_change=changes.set,
                    on_updated=on_updated,
                )
                async with client.running(), anyio.create_task_group() as tasks:
                    if on_long_start is not None and link.pid is not None:
                        tasks.start_soon(_be_patient, link, scope, limits, on_long_start)
                    await link.await_listener()
                    await handshake.shake(client, link)
                    log_level = LogLevelSync(config.name, client, link.wire, relay.clients)
                    yield UpstreamSession(client, link, changes, scope, log_level)
                    tasks.cancel_scope.cancel()
        except Exception as error:
            raise handshake.explain(_explained(error, link)) from error
    if scope.cancelled_caught:
        worked_s = scope.deadline - began if scope.deadline > began + limits.connect_timeout else None
        raise handshake.explain(NoAnswer(link.stderr_tail() if link else "", worked_s=worked_s))


async def _be_patient(
    link: Link, scope: anyio.CancelScope, limits: CallLimits, on_long_start: Callable[[], None]
) -> None:
    """Put the end of a start off while the server's process works: a connect timeout from each sign of that.

    What it does in the first half of the connect timeout is no sign: every server does something then.
    """
    began, is_long = anyio.current_time(), False
    await anyio.sleep(limits.connect_timeout / 2)
    await link.has_worked()
    while not link.established:
        await anyio.sleep(min(WORK_LOOK_S, limits.connect_timeout / 8))
        has_worked, now = await link.has_worked(), anyio.current_time()
        if has_worked and not link.established:
            until = min(began + limits.first_start_timeout, now + limits.connect_timeout)
            scope.deadline = max(scope.deadline, until)
        if not is_long and not link.established and now > began + limits.connect_timeout:
            is_long = True
            log.info(
                "upstream.first_start", pid=link.pid, took_s=round(now - began, 1), says=link.last_line()
            )
            on_long_start()


def _explained(error: Exception, link: Link | None) -> Exception:
    """The link often knows better than the SDK's exception why a handshake failed."""
    if link is None or link.established:
        return error
    refused = next((leaf for leaf in leaves(error) if isinstance(leaf, EraRefused)), None)
    if refused is None:
        return link.handshake_failure() or error
    refused.error = link.handshake_failure() or refused.error
    return refused

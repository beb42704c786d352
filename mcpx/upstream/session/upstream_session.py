"""One session with an upstream server: the SDK's client session over a link.

Must be entered and left in one task. Knows which era the server speaks and hears of changed lists in
either: as notifications before 2026-07-28, from then on a `subscriptions/listen` stream.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import anyio.abc
import mcp_types
import msgspec
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcpx.config import ServerConfig, redactor_of
from mcpx.upstream.errors import ConnectionLost, NoAnswer, Unwell, refused_probe
from mcpx.upstream.relay.session_relay import SessionRelay
from mcpx.upstream.session.log_level import Telling
from mcpx.upstream.session.sdk_session import PassingSession
from mcpx.upstream.session.senders import Sender, SessionSender, WireSender
from mcpx.upstream.transport.exchange import overheard
from mcpx.upstream.transport.link import Hooks, Link, open_link
from mcpx.version import __version__
from supervisors import Signal

CLIENT_INFO: Final = mcp_types.Implementation(name="mcpx", version=__version__, title="MCPX")
LISTEN_AGAIN_S: Final = 1.0  # after a lost listen stream; lists are read again, so nothing is missed
LISTEN_STEADY_S: Final = 10.0  # a stream that is lost sooner doubles the pause
LISTEN_AGAIN_MOST_S: Final = 60.0
LOOK_S: Final = 5.0  # for the answer to a look at a session that is in doubt
LOOK_PAUSE_S: Final = 1.0  # between two such looks, however many the reasons


class Greeting(msgspec.Struct):
    """How a server is greeted, and whether that was the wrong way."""

    probe: bool
    """Whether it is first asked which revisions it speaks; else it is taken to be of the handshake era."""
    upset: bool = False
    """Whether it left, or fell silent, after it had read the question: some servers take nothing before
    `initialize`."""


class UpstreamSession:
    """An open session."""

    def __init__(
        self,
        client: PassingSession,
        link: Link,
        changes: Signal,
        connecting: anyio.CancelScope,
        telling: Telling,
    ) -> None:
        self.client = client
        self.link = link
        self.telling = telling
        self._changes = changes
        self._connecting = connecting

    def established(self) -> None:
        """The handshake and whatever belongs to it are done: the connect timeout is off."""
        self._connecting.deadline = math.inf
        self.link.established = True
        self.link.missed = self._changes.set
        self.link.suspicion.clear()

    @property
    def modern(self) -> bool:
        """Whether the server speaks the 2026-07-28 revision."""
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    def sender(self, tasks: anyio.abc.TaskGroup) -> Sender:
        """What calls go out on: bytes where the link takes them."""
        if self.link.wire is not None:
            return WireSender(self.link.wire, self.client, CLIENT_INFO, self.telling)
        return SessionSender(self.client, tasks, self.telling)

    async def listen(self) -> None:
        """Hear of changed lists from a 2026-07-28 server, for as long as the session lives."""
        can = self.client.server_capabilities or mcp_types.ServerCapabilities()
        tools = bool(can.tools and can.tools.list_changed)
        resources = bool(can.resources and can.resources.list_changed)
        prompts = bool(can.prompts and can.prompts.list_changed)
        pause = LISTEN_AGAIN_S
        while self.modern and (tools or resources or prompts):
            began = anyio.current_time()
            try:
                async with listen(
                    self.client,
                    tools_list_changed=tools,
                    resources_list_changed=resources,
                    prompts_list_changed=prompts,
                ) as subscription:
                    async for _event in subscription:
                        self._changes.set()
            except (SubscriptionLost, MCPError, TimeoutError, ValidationError):
                pass
            steady = anyio.current_time() - began >= LISTEN_STEADY_S
            pause = LISTEN_AGAIN_S if steady else min(2 * pause, LISTEN_AGAIN_MOST_S)
            await anyio.sleep(pause)
            self._changes.set()

    async def look_when_suspicious(self) -> None:
        """See whether the session lives whenever an HTTP exchange gave reason to doubt it.

        Only what the answer says counts, not that it is missing: the server may be busy.

        Raises:
            ConnectionLost: The server refuses the session.
        """
        suspicion = self.link.suspicion
        while True:
            await suspicion.wait()
            suspicion.clear()
            with anyio.move_on_after(LOOK_S), suppress(MCPError, Unwell):
                await self.probe()
            await anyio.sleep(LOOK_PAUSE_S)

    async def probe(self) -> None:
        """Ask the server for a sign of life: `ping`, which the 2026-07-28 revision does not have.

        Raises:
            Unwell: It is there, but does not answer MCP.
            ConnectionLost: It refuses the session.
            MCPError: It answers with an error, which is a sign of life too.
        """
        with overheard() as failures:
            try:
                if self.modern:
                    await self.client.send_discover(LATEST_MODERN_VERSION)
                else:
                    await self.client.send_ping()
            except ValidationError:
                pass  # an odd answer is a sign of life
            except MCPError:
                if failures:
                    raise refused_probe(failures[0]) from None
                raise

    def lost(self) -> ConnectionLost:
        """The loss of the link, as an exception."""
        return ConnectionLost(self.link.reason, self.link.stderr_tail(), curable=self.link.curable)


@asynccontextmanager
async def open_session(
    config: ServerConfig,
    *,
    greeting: Greeting,
    limit: int,
    hooks: Hooks,
    changes: Signal,
    relay: SessionRelay,
    on_updated: Callable[[str], None] = lambda _uri: None,
) -> AsyncIterator[UpstreamSession]:
    """Connect and shake hands. The connect timeout runs until `established` is called on the session.

    `on_updated` is told the URI of each resource that the server says has changed.
    What comes of the greeting is noted in it, also where this raises.

    Raises:
        NoAnswer: Not established in time.
        ConnectionLost: The connection ended, or was refused, during the handshake.
        Exception: Whatever else the transport or the SDK raise; `faults.cause_of` knows.
    """
    link: Link | None = None
    # one scope around everything: a timeout that ended before its task groups would break their nesting
    with anyio.CancelScope(deadline=anyio.current_time() + config.limits.connect_timeout) as scope:
        try:
            async with open_link(
                config.transport, limit=limit, hooks=hooks, redact=redactor_of(config)
            ) as link:
                hooks.on_open(link)
                client = PassingSession(
                    link.dispatcher,
                    client_info=CLIENT_INFO,
                    relay=relay,
                    on_change=changes.set,
                    on_updated=on_updated,
                )
                async with client:
                    try:
                        await _shake_hands(client, probe=greeting.probe)
                    except BaseException:
                        # only a process can have ended over the question: a request over HTTP ends nothing
                        greeting.upset = greeting.probe and link.pid is not None and link.first_unread() != 0
                        raise
                    telling = Telling(client, link.wire, relay.clients)
                    yield UpstreamSession(client, link, changes, scope, telling)
        except Exception as error:
            raise _told_by_link(error, link) from error
    if scope.cancelled_caught:
        raise NoAnswer(link.stderr_tail() if link else "")


async def _shake_hands(session: ClientSession, *, probe: bool) -> None:
    """Ask which revisions the server speaks, and fall back to the handshake of the older ones.

    Only a server that names revisions of which we share none is refused; any other error to the probe is
    what a server says that does not know it.
    """
    if not probe:
        await session.initialize()
        return
    try:
        await session.discover()
    except MCPError as error:
        try:
            await session.initialize()
        except MCPError:
            if error.code == UNSUPPORTED_PROTOCOL_VERSION:
                raise error from None
            raise
    except (RuntimeError, ValidationError):  # it answers, but speaks only the older revisions
        await session.initialize()


def _told_by_link(error: Exception, link: Link | None) -> Exception:
    """The link often knows better than the SDK's exception why a handshake failed."""
    if link is None or link.established or isinstance(error, ConnectionLost):
        return error
    if link.lost.is_set():
        return ConnectionLost(f"{link.reason} during the handshake", link.stderr_tail())
    return error if link.trouble is None else ConnectionLost(link.trouble, curable=link.curable)

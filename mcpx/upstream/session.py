"""One session with an upstream server: the SDK's client over a link, and what MCPX asks of it.

Must be entered and left in one task. Knows which era the server speaks and hears of changed lists in
either: as notifications before 2026-07-28, from then on a `subscriptions/listen` stream. Requests go out as
the SDK makes them and come back as plain JSON, so that nothing an upstream says is lost on the way.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio
import mcp_types
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from mcpx.catalog.model import JSON
from mcpx.config import ServerConfig
from mcpx.upstream.faults import PERMISSION_STATUSES, ConnectionLost, NoAnswer
from mcpx.upstream.transport import Link, open_link
from mcpx.version import __version__
from mcpx.wire.messages import Rubbish

CLIENT_INFO: Final = mcp_types.Implementation(name="mcpx", version=__version__, title="MCPX")
LISTEN_AGAIN_S: Final = 1.0  # after a lost listen stream; lists are read again, so nothing is missed
_CHANGES: Final = (
    mcp_types.ToolListChangedNotification,
    mcp_types.ResourceListChangedNotification,
    mcp_types.PromptListChangedNotification,
)
_AS_IT_CAME: TypeAdapter[Any] = TypeAdapter(dict[str, Any])


class Changes:
    """A set-and-wait flag that is used again and again; SDK callbacks set it."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Something changed."""
        self._event.set()

    def clear(self) -> None:
        """What changed so far is being dealt with."""
        self._event = anyio.Event()

    async def wait(self) -> None:
        """Wait until something has changed since the last `clear`."""
        await self._event.wait()


class UpstreamSession:
    """An open session."""

    def __init__(self, client: Client, link: Link, changes: Changes, connecting: anyio.CancelScope) -> None:
        self.client = client
        self.link = link
        self._changes = changes
        self._connecting = connecting

    def established(self) -> None:
        """The handshake and whatever belongs to it are done: the connect timeout is off."""
        self._connecting.deadline = math.inf
        self.link.established = True
        self.link.http_status = None

    @property
    def modern(self) -> bool:
        """Whether the server speaks the 2026-07-28 revision."""
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def call_tool(self, name: str, arguments: JSON, on_progress: ProgressFnT | None = None) -> JSON:
        """The raw result of tools/call. Raises MCPError, pydantic.ValidationError."""
        params = mcp_types.CallToolRequestParams(name=name, arguments=arguments)
        return await self._request(mcp_types.CallToolRequest(params=params), on_progress)

    async def read_resource(self, uri: str) -> JSON:
        """The raw result of resources/read. Raises MCPError, pydantic.ValidationError."""
        params = mcp_types.ReadResourceRequestParams(uri=uri)
        return await self._request(mcp_types.ReadResourceRequest(params=params), None)

    async def _request(
        self,
        request: mcp_types.CallToolRequest | mcp_types.ReadResourceRequest,
        on_progress: ProgressFnT | None,
    ) -> JSON:
        result: JSON = await self.client.session.send_request(
            request, _AS_IT_CAME, progress_callback=on_progress
        )
        return result

    async def listen(self) -> None:
        """Hear of changed lists from a 2026-07-28 server, for as long as the session lives."""
        can = self.client.server_capabilities
        tools = bool(can.tools and can.tools.list_changed)
        resources = bool(can.resources and can.resources.list_changed)
        prompts = bool(can.prompts and can.prompts.list_changed)
        while self.modern and (tools or resources or prompts):
            try:
                async with self.client.listen(
                    tools_list_changed=tools, resources_list_changed=resources, prompts_list_changed=prompts
                ) as subscription:
                    async for _event in subscription:
                        self._changes.set()
            except (SubscriptionLost, MCPError, TimeoutError):
                pass
            await anyio.sleep(LISTEN_AGAIN_S)
            self._changes.set()

    def lost(self) -> ConnectionLost:
        """The loss of the link, as an exception."""
        curable = self.link.http_status not in PERMISSION_STATUSES
        return ConnectionLost(self.link.reason, self.link.stderr_tail(), curable=curable)


@asynccontextmanager
async def open_session(
    config: ServerConfig, *, mode: str, limit: int, on_rubbish: Rubbish, changes: Changes
) -> AsyncIterator[UpstreamSession]:
    """Connect and shake hands. The connect timeout runs until `established` is called on the session.

    `mode` is the SDK's: `auto`, or the era that is known already from an earlier incarnation.

    Raises:
        NoAnswer: Not established in time.
        ConnectionLost: The connection ended, or was refused, during the handshake.
        Exception: Whatever else the transport or the SDK raise; `faults.cause_of` knows.
    """

    async def on_message(message: mcp_types.ServerNotification | Exception) -> None:
        if isinstance(message, _CHANGES):
            changes.set()

    link: Link | None = None
    # one scope around everything: a timeout that ended before its task groups would break their nesting
    with anyio.CancelScope(deadline=anyio.current_time() + config.limits.connect_timeout) as scope:
        try:
            async with open_link(config.transport, limit=limit, on_rubbish=on_rubbish) as link:
                client = Client(
                    _Opened(link), mode=mode, cache=None, client_info=CLIENT_INFO, message_handler=on_message
                )
                async with client:
                    yield UpstreamSession(client, link, changes, scope)
        except Exception as error:
            raise _told_by_link(error, link) from error
    if scope.cancelled_caught:
        raise NoAnswer(link.stderr_tail() if link else "")


def _told_by_link(error: Exception, link: Link | None) -> Exception:
    """The link often knows better than the SDK's exception why a handshake failed."""
    if link is None or link.established or isinstance(error, ConnectionLost):
        return error
    if link.lost.is_set():
        return ConnectionLost(f"{link.reason} during the handshake", link.stderr_tail())
    if link.http_status is not None:
        refused = link.http_status in PERMISSION_STATUSES
        return ConnectionLost(f"the server answers HTTP {link.http_status}", curable=not refused)
    return error


class _Opened(AbstractAsyncContextManager[TransportStreams]):
    """A link that is open already, as a transport for the SDK's client."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def __aenter__(self) -> TransportStreams:
        return self._link.streams

    async def __aexit__(self, *_exc: object) -> None:
        return None

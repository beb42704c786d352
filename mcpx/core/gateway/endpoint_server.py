"""The base of all MCP servers but the transparent ones: the SDK's server over a view of the hub.

One instance serves every connection of an endpoint, in both protocol eras. `mcpx.core.gateway.server` is the
one that shows servers to clients, `mcpx.core.gateway.peer` the one that gives a server to another MCPX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.identity import client_of, connection_of
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.extensions import declared_extensions, serving_tasks
from mcpx.core.gateway.native.errors import as_protocol_error
from mcpx.core.gateway.sdk_path import is_modern, unsieved
from mcpx.core.protocol.context import ClientId
from mcpx.core.system.endpoint import Endpoint
from mcpx.errors import CallError

Context = ServerRequestContext[Any, Any]


class EndpointServer(Server[Any]):
    """Serves the clients of one endpoint over what it shows of a hub.

    `as_error` makes the error of a request about a task that failed; `parts` are those of the SDK's server.
    """

    def __init__(
        self,
        name: str,
        clients: ClientSessions,
        endpoint: Endpoint,
        *,
        as_error: Callable[[CallError], MCPError] = as_protocol_error,
        **parts: Any,
    ) -> None:
        super().__init__(name, **parts)
        # not by name: the SDK calls these parts of the protocol deprecated, and warns
        self.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, self._set_level)
        self.add_notification_handler(
            "notifications/roots/list_changed", mcp_types.NotificationParams, self._roots_changed
        )
        self.tool_list = clients.tool_list(endpoint)
        self.exposure = self.tool_list.exposure
        self.hub: HubView = self.tool_list.hub
        spans = []
        if self.hub.tracing.on:
            from mcpx.core.gateway.tracing import serving_spans  # noqa: PLC0415 - few trace

            spans.append(serving_spans(self.hub))
        self.middleware = [
            *spans,
            clients.tracking(self.tool_list),
            unsieved(self),
            serving_tasks(self.hub, self.stamp_for, as_error),
        ]

    @property
    def stamp(self) -> bytes:
        """The `_meta` of results for clients of 2026-07-28."""
        raise NotImplementedError

    def stamp_for(self, ctx: Context) -> bytes | None:
        """The `_meta` of results for a client of 2026-07-28, None for one of an older revision."""
        return self.stamp if is_modern(ctx) else None

    @property
    def announces_native(self) -> bool:
        """Whether changes of resources and prompts are announced."""
        return True

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the SDK's, but the lists are announced when they change, whatever the frontend."""
        native = self.announces_native
        options = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=native, prompts_changed=native
        )
        # the handshake has no extensions
        return super().create_initialization_options(options, experimental_capabilities, extensions or {})

    @property
    def extensions(self) -> dict[str, JSON]:
        """The extensions that are declared; asked for at each `server/discover`."""
        return declared_extensions(self.hub)

    @extensions.setter
    def extensions(self, value: dict[str, JSON]) -> None:
        """The SDK sets what it was given, which is nothing."""

    def client_left(self, client: ClientId) -> None:
        """End what belongs to one client alone: its connection has ended."""
        self.hub.client_left(client)

    async def _set_level(
        self, ctx: Context, params: mcp_types.SetLevelRequestParams
    ) -> mcp_types.EmptyResult:
        """Send the client log messages of all servers from this level on (before 2026-07-28)."""
        handle = self.hub.clients.handles.get(client_of(connection_of(ctx.session), self.hub))
        if handle is not None:
            handle.log_level = params.level
            self.hub.clients.changed()
        return mcp_types.EmptyResult()

    async def _roots_changed(self, _ctx: Context, _params: mcp_types.NotificationParams) -> None:
        self.hub.clients.roots_changed()

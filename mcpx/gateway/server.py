"""The MCP server that clients see: the SDK's server with the three tools of MCPX on it.

One instance serves every connection of a frontend, in both protocol eras. `initialize` is answered at once;
the first `tools/list` waits for the servers, up to `startup_wait` from the start of MCPX.
"""

from __future__ import annotations

from typing import Any, Final

import anyio
import mcp_types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp_types import INVALID_PARAMS

from mcpx.catalog.model import JSON
from mcpx.core.hub import Hub
from mcpx.core.messages import Exec, Read
from mcpx.core.result_address import read_address
from mcpx.core.result_selection import Selectable
from mcpx.daemon.protocol import SETTLED_KEY
from mcpx.door import Expose
from mcpx.errors import NAME_LEN, CallError
from mcpx.gateway import metering, sdk_path
from mcpx.gateway.clients.identity import client_of, connection_of, session_client
from mcpx.gateway.clients.known_clients import shows_structured_content, wants_structured_content
from mcpx.gateway.clients.sessions import ClientSessions, client_name
from mcpx.gateway.native.requests import ResourcesAndPrompts
from mcpx.gateway.tools import definitions as tools
from mcpx.gateway.tools import parameters
from mcpx.gateway.tools.parameters import ExecParameters, WrongParameter, collect_arguments
from mcpx.rendering.descriptions import instructions
from mcpx.rendering.results import ToolResult
from mcpx.text import cut, shown_name
from mcpx.text.nearest import nearest
from mcpx.upstream.context import ClientId
from mcpx.validation.arguments import encode_arguments
from mcpx.version import __version__

Context = ServerRequestContext[Any, Any]
SETTLED_TIMEOUT_S: Final = 60.0  # of a list that is to wait for all servers
DESCRIBED_TIMEOUT_S: Final = 3.0  # of the same list, for the descriptions of resources


class GatewayServer(Server[Any]):
    """Serves the three tools over a hub. `expose` is what its clients have chosen, None for as configured."""

    def __init__(self, hub: Hub, clients: ClientSessions, expose: Expose | None = None) -> None:
        super().__init__(
            "mcpx",
            version=__version__,
            title="MCPX",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,  # type: ignore[arg-type]  # plain JSON is a HandlerResult too
            # without it the SDK lists our tools, and waits as the list does, before a call over modern HTTP
            get_tool_input_schema=tools.SCHEMAS.get,
        )
        # not by name: the SDK calls these parts of the protocol deprecated, and warns
        self.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, self._set_level)
        self.add_notification_handler(
            "notifications/roots/list_changed", mcp_types.NotificationParams, self._roots_changed
        )
        self.middleware = [clients.track, metering.metered_requests(hub)]
        self._hub = hub
        self._expose = expose
        self._clients = clients
        self._wait_until = anyio.current_time() + hub.config.startup_wait
        self._native = ResourcesAndPrompts(hub, clients.subscribers, self._wait_for_servers)
        self._native.register(self)

    @property
    def instructions(self) -> str | None:
        """How to use the three tools, and the servers as they are now; asked for at each greeting."""
        return instructions(self._hub.registry.list_servers())

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        """The SDK sets what it was given, which is nothing."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the SDK's, but the lists are announced when they change, whatever the frontend."""
        native = self._native.enabled
        options = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=native, prompts_changed=native
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    def client_left(self, client: ClientId) -> None:
        """End what belongs to one client alone: its connection has ended."""
        self._hub.client_left(client)

    async def _wait_for_servers(self) -> None:
        """Wait until every server has listed or failed, but not beyond `startup_wait` after the start.

        Nor beyond it for the descriptions that MCPX makes of resources, without which the next list differs.
        """
        await self._hub.settled(self._wait_until - anyio.current_time())
        await self._hub.described(self._wait_until - anyio.current_time())

    async def _list_tools(
        self, ctx: Context, _params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        if ctx.meta and ctx.meta.get(SETTLED_KEY):
            await self._hub.settled(SETTLED_TIMEOUT_S)
            await self._hub.described(DESCRIBED_TIMEOUT_S)
        else:
            await self._wait_for_servers()
        return mcp_types.ListToolsResult(tools=tools.tools(self._clients.describe(client_name(ctx.session))))

    async def _call_tool(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> JSON:
        if params.name not in tools.NAMES:
            raise MCPError(INVALID_PARAMS, _unknown(params.name))
        wanted = wants_structured_content(
            self._hub.config.include_structured_content, client_name(ctx.session)
        )
        try:
            result = await self._run(ctx, params.name, params.arguments or {})
        except WrongParameter as wrong:
            return tools.wrong_parameters(params.name, str(wrong), structured=wanted)
        except CallError as error:
            return tools.failure(error, structured=wanted)
        return tools.result(result, structured=wanted) if isinstance(result, ToolResult) else result

    async def _run(self, ctx: Context, name: str, arguments: JSON) -> ToolResult | JSON:
        """The result; or input requests to the client, which are a result of their own kind."""
        text = parameters.text
        if name == tools.INSPECT:
            tool_names, query = parameters.tool_names(arguments), text(arguments, "query")
            return await self._hub.calls.inspect(text(arguments, "server_name"), tool_names, query=query)
        if name == tools.RESOURCES:
            return await self._resources(ctx, text(arguments, "server_name"), text(arguments, "uri"))
        return await self._exec(ctx, await self._exec_request(parameters.read_exec(arguments)))

    async def _resources(self, ctx: Context, server: str, uri: str) -> ToolResult | JSON:
        """The list of a server's resources, a resource, or a page of a kept result."""
        if not uri:
            return await self._hub.calls.list_resources(server)
        registry, views, client = self._hub.registry, self._hub.views, self._client(ctx)
        address = read_address(uri)
        if address is not None and (views.has(address, client) or not registry.may_read(server, uri)):
            return await views.read(address, client)
        server = server or registry.server_with(uri)
        if not server:
            raise WrongParameter("server_name is missing")
        request = Read(server, uri)
        shown = self._shows_structured(ctx)
        return await sdk_path.run(
            self._hub,
            ctx,
            request,
            lambda raw: views.resource(raw, request, client, structured_is_shown=shown),
        )

    async def _exec(self, ctx: Context, request: Exec) -> ToolResult | JSON:
        views, client = self._hub.views, self._client(ctx)
        shown = self._shows_structured(ctx)
        if request.select is None:
            return await sdk_path.run(
                self._hub,
                ctx,
                request,
                lambda raw: views.tool(raw, request, client, structured_is_shown=shown),
            )
        views.check(request)
        found = await sdk_path.run(
            self._hub, ctx, request, lambda raw: views.selectable(raw, request, client)
        )
        if not isinstance(found, Selectable):
            return found
        return await views.project(found, request, client, structured_is_shown=shown)

    def _shows_structured(self, ctx: Context) -> bool:
        """Whether `structuredContent` is sent, to a client that gives it to its model."""
        policy, name = self._hub.config.include_structured_content, client_name(ctx.session)
        return wants_structured_content(policy, name) and shows_structured_content(name)

    def _client(self, ctx: Context) -> ClientId:
        """The client that results are kept for."""
        return session_client(connection_of(ctx.session), self._hub)

    async def _exec_request(self, given: ExecParameters) -> Exec:
        """The request for `ToolCalls`, with the names and arguments that are meant."""
        server, tool_name = await self._hub.calls.resolve(given.server_name, given.tool_name)
        tool = self._hub.registry.get_tool(server, tool_name)
        arguments = given.arguments if tool is None else collect_arguments(given, tool)
        encoded = encode_arguments(arguments, server=server, tool=tool_name)
        return Exec(server, tool_name, encoded, select=given.select, max_tokens=given.max_tokens)

    # --- the clients

    async def _set_level(
        self, ctx: Context, params: mcp_types.SetLevelRequestParams
    ) -> mcp_types.EmptyResult:
        """Send the client log messages of all servers from this level on (before 2026-07-28)."""
        handle = self._hub.clients.handles.get(client_of(connection_of(ctx.session), self._hub))
        if handle is not None:
            handle.log_level = params.level
            self._hub.clients.changed()
        return mcp_types.EmptyResult()

    async def _roots_changed(self, _ctx: Context, _params: mcp_types.NotificationParams) -> None:
        self._hub.clients.roots_changed()


def _unknown(name: str) -> str:
    near = nearest(name, tools.NAMES)
    hint = f"; did you mean {near[0]}?" if near else ""
    return (
        f"Unknown tool: {shown_name(cut(name, NAME_LEN))}{hint} MCPX has inspect, exec and resources; "
        "a server's own tools are run with exec(server_name, tool_name, arguments)"
    )

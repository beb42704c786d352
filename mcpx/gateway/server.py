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

from mcpx.catalog.model import JSON, ToolInfo
from mcpx.core.hub import Hub
from mcpx.core.messages import Exec, Read
from mcpx.core.result_address import read_address
from mcpx.core.result_selection import Selectable
from mcpx.core.tool_names import not_listed
from mcpx.daemon.protocol import SETTLED_KEY
from mcpx.door import Expose
from mcpx.errors import NAME_LEN, CallError
from mcpx.gateway import metering, sdk_path
from mcpx.gateway.clients.identity import client_of, connection_of, session_client
from mcpx.gateway.clients.known_clients import shows_structured_content, wants_structured_content
from mcpx.gateway.clients.sessions import ClientSessions, client_name
from mcpx.gateway.native.requests import UNCACHED, ResourcesAndPrompts
from mcpx.gateway.native.tools import has_output_schema, tools_page
from mcpx.gateway.tools import definitions as tools
from mcpx.gateway.tools import parameters
from mcpx.gateway.tools.parameters import ExecParameters, WrongParameter, collect_arguments
from mcpx.rendering.descriptions import instructions, native_instructions
from mcpx.rendering.results import ToolResult
from mcpx.text import cut, shown_name
from mcpx.text.nearest import nearest
from mcpx.upstream.context import ClientId
from mcpx.validation.arguments import encode_arguments
from mcpx.version import __version__

Context = ServerRequestContext[Any, Any]
SETTLED_TIMEOUT_S: Final = 60.0  # of a list that is to wait for all servers
_CALL: Final = "exec(server_name, tool_name, arguments)"
DESCRIBED_TIMEOUT_S: Final = 3.0  # of the same list, for the descriptions of resources


class GatewayServer(Server[Any]):
    """Serves the three tools over a hub. `expose` is what its clients have chosen, None for as configured."""

    def __init__(self, hub: Hub, clients: ClientSessions, expose: Expose | None = None) -> None:
        super().__init__(
            "mcpx",
            version=__version__,
            title="MCPX",
            on_list_tools=self._list_tools,  # type: ignore[arg-type]  # plain JSON is a HandlerResult too
            on_call_tool=self._call_tool,  # type: ignore[arg-type]  # likewise
            # without it the SDK lists our tools, and waits as the list does, before a call over modern HTTP
            get_tool_input_schema=self._input_schema,
        )
        # not by name: the SDK calls these parts of the protocol deprecated, and warns
        self.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, self._set_level)
        self.add_notification_handler(
            "notifications/roots/list_changed", mcp_types.NotificationParams, self._roots_changed
        )
        self.tool_list = clients.tool_list(expose)
        self.exposure = self.tool_list.exposure
        self.middleware = [clients.tracking(self.tool_list), metering.metered_requests(hub, self.exposure)]
        self._hub = hub
        self._wait_until = anyio.current_time() + hub.config.startup_wait
        self._native = ResourcesAndPrompts(
            hub, clients.subscribers, self.tool_list.bus, self._wait_for_servers
        )
        self._native.register(self)

    @property
    def instructions(self) -> str | None:
        """How to use the tools, and the servers as they are now; asked for at each greeting."""
        servers = self._hub.registry.list_servers()
        if not self.exposure.shown.three:
            return native_instructions(servers)
        return instructions(self.exposure.described(servers))

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

    async def _list_tools(self, ctx: Context, params: mcp_types.PaginatedRequestParams | None) -> JSON:
        if ctx.meta and ctx.meta.get(SETTLED_KEY):
            await self._hub.settled(SETTLED_TIMEOUT_S)
            await self._hub.described(DESCRIBED_TIMEOUT_S)
        else:
            await self._wait_for_servers()
        name = client_name(ctx.session)
        descriptions, native = self.tool_list.give(name)
        made = [] if descriptions is None else tools.tools(descriptions)
        three = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in made]
        wanted = self._wants_structured(ctx) and not shows_structured_content(name)  # which may be cut
        cursor = params.cursor if params is not None else None
        return UNCACHED | tools_page(three, native, cursor, with_output_schema=wanted)

    def _input_schema(self, name: str) -> JSON | None:
        """What the headers of a call are held against."""
        if name in tools.SCHEMAS:
            return tools.SCHEMAS[name]
        tool = self.exposure.shown.native.get(name)
        return None if tool is None else tool.input_schema

    async def _call_tool(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> JSON:
        wanted, native = self._wants_structured(ctx), None
        try:
            if params.name in tools.NAMES:
                result = await self._run(ctx, params.name, params.arguments or {})
            else:
                native = await self._native_tool(params.name)
                encoded = encode_arguments(params.arguments, server=native.server_name, tool=native.name)
                result = await self._exec(ctx, self.exposure.shown.call_of(native, encoded))
        except WrongParameter as wrong:
            return tools.wrong_parameters(params.name, str(wrong), structured=wanted)
        except CallError as error:
            if native is not None and has_output_schema(native):
                return tools.failure_in_meta(error)
            return tools.failure(error, structured=wanted)
        return tools.result(result, structured=wanted) if isinstance(result, ToolResult) else result

    async def _native_tool(self, name: str) -> ToolInfo:
        """The tool that is shown under that name; waits for its server's first listing.

        Raises:
            MCPError: There is none.
            CallError: `server_unavailable`: the server has never listed its tools.
        """
        if name not in self.exposure.shown.native:
            await self._wait_for_servers()
            for server in self.exposure.unlisted(name):
                await server.await_catalogue()
                if server.catalogue is None:
                    raise not_listed(server.info(), "")
        tool = self.exposure.shown.native.get(name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, self._unknown(name))
        return tool

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

    def _wants_structured(self, ctx: Context) -> bool:
        """Whether `structuredContent` is sent."""
        return wants_structured_content(self._hub.config.include_structured_content, client_name(ctx.session))

    def _shows_structured(self, ctx: Context) -> bool:
        """Whether it is sent, to a client that gives it to its model."""
        return self._wants_structured(ctx) and shows_structured_content(client_name(ctx.session))

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

    def _unknown(self, name: str) -> str:
        """Why a tool cannot be called: there is none of that name."""
        shown = self.exposure.shown
        near = nearest(name, [*(tools.NAMES if shown.three else ()), *shown.native])
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        text = f"Unknown tool: {shown_name(cut(name, NAME_LEN))}{hint} "
        if not shown.three:
            return f"{text}tools/list has the names of all"
        own = "Other tools are" if shown.native else "a server's own tools are"
        return f"{text}MCPX has inspect, exec and resources; {own} run with {_CALL}"

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

"""The MCP server that clients see: the SDK's server with the tools that are shown on it.

One instance serves every connection of a frontend, in both protocol eras. `initialize` is answered at once;
the first `tools/list` waits for the servers, up to `startup_wait` from the start of MCPX.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import anyio
import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from mcpx.core.calls.exposure import Exposure
from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.events.costs import definitions_cost
from mcpx.core.gateway.clients.identity import connection_of, is_probe, session_client
from mcpx.core.gateway.clients.known_clients import gets_structured_content_whole
from mcpx.core.gateway.clients.sessions import ClientSessions, client_name
from mcpx.core.gateway.endpoint_server import EndpointServer
from mcpx.core.gateway.native.lists import definition, tools_page
from mcpx.core.gateway.native.requests import UNCACHED, ResourcesAndPrompts
from mcpx.core.gateway.sdk_path import stamp_of
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.gateway.tools.handler import ToolCall
from mcpx.core.rendering.result_members import enveloped
from mcpx.core.system.endpoint import COUNTED_KEY, DEFAULT_ENDPOINT, SETTLED_KEY, Endpoint
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire.enclosed import enclose
from mcpx.version import __version__

Context = ServerRequestContext[Any, Any]
PEER_PREFIX: Final = "mcpx/"
"""Prefix of the methods that only another MCPX knows."""
SETTLED_TIMEOUT_S: Final = 60.0  # of a list that is to wait for all servers
DESCRIBED_TIMEOUT_S: Final = 3.0  # of the same list, for the descriptions of resources


class GatewayServer(EndpointServer):
    """Serves the clients of one endpoint over what it shows of a hub."""

    def __init__(self, hub: Hub, clients: ClientSessions, endpoint: Endpoint = DEFAULT_ENDPOINT) -> None:
        super().__init__(
            "mcpx",
            clients,
            endpoint,
            version=__version__,
            title="MCPX",
            on_list_tools=self._list_tools,  # plain JSON is a HandlerResult too
            on_call_tool=self._call_tool,  # likewise
            # without it the SDK lists our tools, and waits as the list does, before a call over modern HTTP
            get_tool_input_schema=self._input_schema,
        )
        self.middleware.append(self._answer_peers)
        self._all = hub
        self._stamp = stamp_of(self)
        self._wait_until = self.hub.started + hub.config.startup_wait
        self._native = ResourcesAndPrompts(
            self.hub,
            clients.subscribers,
            self.tool_list.bus,
            self._wait_for_servers,
            self.stamp_for,
            wait_to_list=self._wait_to_list,
        )
        self._native.register(self)

    @property
    def instructions(self) -> str | None:
        """Asked for at each greeting."""
        return self.tool_list.instructions()

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        """The SDK sets what it was given, which is nothing."""

    @property
    def stamp(self) -> bytes:
        """The `_meta` of results for clients of 2026-07-28."""
        return self._stamp

    @property
    def announces_native(self) -> bool:
        """True if there may be resources and prompts of servers."""
        return self._native.enabled

    async def _answer_peers(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A middleware: answer what another MCPX asks, which takes the servers in."""
        if not ctx.method.startswith(PEER_PREFIX) or ctx.request_id is None:
            return await call_next(ctx)
        if not connection_of(ctx.session).initialize_accepted:
            return await call_next(ctx)
        found = await self._all.peers.answer(self.hub, ctx, self.stamp_for(ctx))
        return await call_next(ctx) if found is None else found

    async def _wait_for_servers(self) -> None:
        """Wait until it is known what every server offers, or it has failed.

        But not beyond `startup_wait` after the start. Nor beyond it for the descriptions that MCPX makes of
        resources, without which the next list differs.
        """
        await self.hub.listed(self._wait_until - anyio.current_time())
        await self.hub.described(self._wait_until - anyio.current_time())

    async def _wait_to_list(self, ctx: Context) -> bool:
        """Wait for the servers before a list; whether it is paged. For a shim it is whole, to be compared."""
        asked = ctx.meta.get(SETTLED_KEY) if ctx.meta else None
        if asked:
            await self.hub.listed(SETTLED_TIMEOUT_S)
            await self.hub.described(DESCRIBED_TIMEOUT_S)
        else:
            await self._wait_for_servers()
        return asked is None

    async def _list_tools(self, ctx: Context, params: mcp_types.PaginatedRequestParams | None) -> JSON:
        paged = await self._wait_to_list(ctx)
        name, cursor = client_name(ctx.session), params.cursor if params is not None else None
        descriptions, native = self.tool_list.give(name)
        three = [] if descriptions is None else tools.tools(descriptions)
        own = [tools.as_json(tool) for tool in three]
        whole = gets_structured_content_whole(self.hub.config.include_structured_content, name)
        define = partial(definition, with_output_schema=whole)
        page = tools_page(own, native, cursor, define=define, paged=paged)
        if cursor is None:
            note_listing(self.hub, ctx, three, self.exposure)
        return enclose([enveloped(UNCACHED | page, self.stamp_for(ctx))])

    async def _call_tool(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> JSON:
        call = ToolCall(self.hub, ctx, self.stamp_for(ctx))
        if params.name in tools.names(self.exposure.shown):
            return await call.of_own(params.name, params.arguments or {})
        if params.name not in self.exposure.shown.native:
            await self._wait_for_servers()
        return await call.of_native(params.name, params.arguments, self.exposure)

    def _input_schema(self, name: str) -> JSON | None:
        """Return the schema that the headers of a call over HTTP are checked against."""
        if name in tools.SCHEMAS:
            return tools.SCHEMAS[name]
        tool = self.exposure.shown.native.get(name)
        return None if tool is None else tool.input_schema


def note_listing(hub: HubView, ctx: Context, three: Iterable[mcp_types.Tool], exposure: Exposure) -> None:
    """Note a listing: of the three tools, where they are shown, and of all that are native.

    A shim that compares lists stands for its client: the menu of the session is what it lists now. The daemon
    before has counted that already, unless the client has read what an earlier daemon once said.
    """
    try:
        connection = connection_of(ctx.session)
        if is_probe(connection):
            return
        asked: Mapping[str, Any] = ctx.meta or {}
        cost = definitions_cost((tool.name, tool.description, tool.input_schema) for tool in three)
        cost += exposure.cost_of_native()
        hub.meter.note_listing(
            session_client(connection),
            client_name(ctx.session),
            cost,
            hub.upstreams,
            counted_before=asked.get(SETTLED_KEY) is True and asked.get(COUNTED_KEY) is not False,
        )
    except Exception as error:  # noqa: BLE001 - a fault of the meter costs no answer
        contain(error, "meter")

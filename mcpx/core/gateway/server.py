"""The MCP server that clients see: the SDK's server with the tools that are shown on it.

One instance serves every connection of a frontend, in both protocol eras. `initialize` is answered at once;
the first `tools/list` waits for the servers, up to `startup_wait` from the start of MCPX, and so does the
greeting of a client that knows skills, which are declared only where a server has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types
from mcp.server.context import CallNext, HandlerResult

from mcpx.core.catalog.extensions import SKILLS
from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.identity import connection_of
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoint_server import EndpointServer
from mcpx.core.gateway.eras import GREETINGS, INITIALIZE
from mcpx.core.gateway.native.requests import ResourcesAndPrompts
from mcpx.core.gateway.offer import NAME, TITLE, Offer
from mcpx.core.gateway.sdk_path import Context
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.gateway.tools.handler import ToolCall
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import CLIENT_CAPABILITIES_META_KEY
from mcpx.version import __version__

PEER_PREFIX: Final = "mcpx/"
"""Prefix of the methods that only another MCPX knows."""


def _extensions_of(ctx: Context) -> Mapping[str, Any]:
    """The extensions that a client declares with its greeting, of either era."""
    params = ctx.params or {}
    declared = params.get("capabilities") or (params.get("_meta") or {}).get(CLIENT_CAPABILITIES_META_KEY)
    extensions = declared.get("extensions") if isinstance(declared, Mapping) else None
    return extensions if isinstance(extensions, Mapping) else {}


class GatewayServer(EndpointServer):
    """Serves the clients of one endpoint over what it shows of a hub, which is its `offer`."""

    def __init__(
        self,
        hub: Hub,
        clients: ClientSessions,
        endpoint: Endpoint = DEFAULT_ENDPOINT,
        offer: Offer | None = None,
    ) -> None:
        self.offer = Offer(hub, clients, endpoint) if offer is None else offer
        super().__init__(
            NAME,
            clients,
            endpoint,
            version=__version__,
            title=TITLE,
            on_list_tools=self._list_tools,  # plain JSON is a HandlerResult too
            on_call_tool=self._call_tool,  # likewise
            # without it the SDK lists our tools, and waits as the list does, before a call over modern HTTP
            get_tool_input_schema=self._input_schema,
        )
        self.middleware += [self._greet, self._answer_peers]
        self._all = hub
        ResourcesAndPrompts(
            self.hub,
            clients.subscribers,
            self.tool_list.bus,
            self.offer.wait_for_servers,
            self.stamp_for,
            wait_to_list=self._wait_to_list,
        ).register(self, declared=self.offer.has_native)

    @property
    def opening(self) -> Offer | None:
        """The opening of sessions on streams without this server."""
        return self.offer.opening

    @property
    def instructions(self) -> str | None:
        """The instructions for an unknown client, made at each greeting; `_greet` puts in the client's."""
        return self.tool_list.instructions(None)

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        """The SDK sets what it was given, which is nothing."""

    @property
    def stamp(self) -> bytes:
        """The `_meta` of results for clients of 2026-07-28."""
        return self.offer.stamp

    @property
    def announces_native(self) -> bool:
        """True if there may be resources and prompts of servers."""
        return self.hub.has_native

    async def _greet(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A middleware: put the instructions into a greeting that are for this client."""
        result = await call_next(ctx)
        if ctx.method in GREETINGS and isinstance(result, dict):
            about = (ctx.params or {}).get("clientInfo") if ctx.method == INITIALIZE else None
            name = about["name"] if about else connection_of(ctx.session).client_name
            return result | {"instructions": self.tool_list.instructions(name)}
        return result

    async def _answer_peers(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A middleware: answer what another MCPX asks, which takes the servers in."""
        if not ctx.method.startswith(PEER_PREFIX) or ctx.request_id is None:
            return await call_next(ctx)
        if not connection_of(ctx.session).initialize_accepted:
            return await call_next(ctx)
        found = await self._all.peers.answer(self.hub, ctx, self.stamp_for(ctx))
        return await call_next(ctx) if found is None else found

    async def _declare(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Declare the extensions, to a client that knows skills when it is known which servers have some."""
        if ctx.method in GREETINGS and SKILLS in _extensions_of(ctx):
            await self.offer.wait_for_servers()
        return await super()._declare(ctx, call_next)

    async def _wait_to_list(self, ctx: Context) -> bool:
        return await self.offer.wait_to_list(ctx.meta)

    async def _list_tools(self, ctx: Context, params: mcp_types.PaginatedRequestParams | None) -> JSON:
        cursor = params.cursor if params is not None else None
        return enclose(
            [await self.offer.list_tools(connection_of(ctx.session), ctx.meta, cursor, self.stamp_for(ctx))]
        )

    async def _call_tool(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> JSON:
        call = ToolCall(self.hub, ctx, self.stamp_for(ctx))
        if params.name in tools.names(
            query=self.tool_list.shows_query(connection_of(ctx.session).client_name)
        ):
            return await call.of_own(params.name, params.arguments or {})
        if params.name not in self.exposure.shown.native:
            await self.offer.wait_for_servers()
        return await call.of_native(params.name, params.arguments, self.exposure)

    def _input_schema(self, name: str) -> JSON | None:
        """Return the schema that the headers of a call over HTTP are checked against."""
        if name in tools.SCHEMAS:
            return tools.SCHEMAS[name]
        shown = self.exposure.shown
        tool = shown.native.get(name) or shown.apps.get(name)
        return None if tool is None else tool.input_schema

"""The MCP server that another MCPX sees at the endpoint of one server: that server, as in the catalogue.

Its name, instructions, capabilities and lists are those of the server; a greeting waits until they are known.
Calls go the way of all calls, over the session that all clients share, or the peer's own where the server
has one for each client (`sessions: per_client`): then a peer over HTTP needs a session, and so the handshake.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import anyio
import mcp_types
import msgspec
from mcp.server.context import CallNext, HandlerResult
from mcp.server.models import InitializationOptions
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mcpx.core.calls.names import not_listed
from mcpx.core.calls.recording import noting_refusals
from mcpx.core.catalog.model import JSON, Catalogue, PromptInfo, TemplateInfo, ToolInfo, present
from mcpx.core.gateway import sdk_path
from mcpx.core.gateway.clients.identity import connection_of, origin_of
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.clients.subscribers import ResourceTarget
from mcpx.core.gateway.endpoint_server import EndpointServer
from mcpx.core.gateway.eras import GREETINGS
from mcpx.core.gateway.native.lists import UNCACHED, ListEntry, tools_page
from mcpx.core.gateway.native.lookup import Lookup
from mcpx.core.gateway.native.requests import ResourcesAndPrompts, completes
from mcpx.core.gateway.peer.results import PeerEncoder, as_peer_error
from mcpx.core.gateway.sdk_path import Context, is_modern
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.rendering.result_members import enveloped
from mcpx.core.rendering.suggest import unknown_server
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.validation.arguments import encode_arguments
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import SERVER_INFO_META_KEY, UNSUPPORTED_PROTOCOL_VERSION, Bytes, MCPError
from mcpx.errors import CallError


class OwnLookup(Lookup):
    """Finds everything at the one server that the endpoint shows."""

    def catalogues(self) -> Iterator[tuple[VisibleServer, Catalogue]]:
        for upstream in self._hub.upstreams.values():
            if upstream.catalogue is not None:
                yield upstream, upstream.catalogue

    async def resource(self, uri: str, *, version: str) -> ResourceTarget:
        del version  # the server says itself that it has no such resource
        upstream = self._upstream()
        await upstream.await_catalogue()
        return ResourceTarget(upstream, uri, uri, str, partial(self._is_shown, upstream.name))

    async def prompt(self, offered: str) -> tuple[VisibleServer, str]:
        return self._upstream(), offered  # the server says which ones it has

    def _upstream(self) -> VisibleServer:
        """The server.

        Raises:
            MCPError: It is not there any more.
        """
        peer = self._hub.endpoint.peer or ""
        upstream = self._hub.upstreams.get(peer)
        if upstream is None:
            raise as_peer_error(unknown_server(peer, []))
        return upstream


class OwnResourcesAndPrompts(ResourcesAndPrompts):
    """The handlers: everything as the server has it, and what fails as `as_peer_error` has it."""

    def _key(self, info: ListEntry) -> str:
        if isinstance(info, TemplateInfo):
            return info.uri_template
        return info.name if isinstance(info, PromptInfo) else info.uri

    def _entry(self, info: ListEntry) -> JSON:
        return info.to_protocol()

    def _contents(self, ctx: Context, target: ResourceTarget, raw: msgspec.Raw) -> JSON | list[Bytes]:
        return self._as_it_came(ctx, target.upstream.name, raw)

    def _messages(self, ctx: Context, server: str, raw: msgspec.Raw) -> JSON | list[Bytes]:
        return self._as_it_came(ctx, server, raw)

    def _completed(self, ctx: Context, server: str, raw: msgspec.Raw) -> JSON | list[Bytes]:
        return self._as_it_came(ctx, server, raw)

    def _as_it_came(self, ctx: Context, server: str, raw: msgspec.Raw) -> list[Bytes]:
        return PeerEncoder(self._hub.views, self._stamp_for(ctx)).passed(raw, server=server)

    async def _kept_page(self, _ctx: Context, _uri: str) -> list[JSON] | None:
        return None  # nothing is cut here, so nothing is kept

    def _about_resource(
        self, _ctx: Context, error: CallError, _uri: str, _own: str, *, version: str | None = None
    ) -> MCPError:
        del version  # it is the peer that has clients
        return as_peer_error(error)

    def _failure(self, error: CallError) -> MCPError:
        return as_peer_error(error)


WAIT_SHARE: Final = 0.9  # of the server's connect timeout, for which a greeting waits
LISTS: Final = ("tools", "resources", "prompts")
"""Capabilities with lists, whose changes are announced whether the server does so or not."""
_PASSED_ON: Final = (*LISTS, "logging", "completions", "experimental")


class PeerServer(EndpointServer):
    """Serves the peers at the endpoint of one server. `server_name` is its name here."""

    def __init__(self, clients: ClientSessions, endpoint: Endpoint) -> None:
        self.server_name = endpoint.peer or ""
        super().__init__(
            self.server_name,
            clients,
            endpoint,
            as_error=as_peer_error,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=self._input_schema,
        )
        self.middleware.insert(-2, self._greet)  # before those that answer
        OwnResourcesAndPrompts(
            self.hub,
            clients.subscribers,
            self.tool_list.bus,
            self._wait_for_server,
            self.stamp_for,
            wait_to_list=self._wait_to_list,
            lookup=OwnLookup,
        ).register(self)

    # --- what the server is, asked for at each greeting

    @property
    def upstream(self) -> VisibleServer:
        """The server.

        Raises:
            CallError: `unknown_server`: it is not there any more.
        """
        upstream = self.hub.upstreams.get(self.server_name)
        if upstream is None:
            raise unknown_server(self.server_name, [])
        return upstream

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue of the server; an empty one while none is known."""
        upstream = self.hub.upstreams.get(self.server_name)
        known = None if upstream is None else upstream.catalogue
        return Catalogue(generation=0) if known is None else known

    @property
    def server_info(self) -> mcp_types.Implementation:
        """The name and version that the server gives itself."""
        known = self.catalogue
        name = known.implementation or self.server_name
        title = None if known.server_title == name else known.server_title
        return mcp_types.Implementation(name=name, version=known.server_version or "", title=title)

    @property
    def server_info_stamp(self) -> JSON:
        """The same for the `_meta` of results."""
        info = self.server_info
        return present(name=info.name, version=info.version, title=info.title)

    @property
    def stamp(self) -> bytes:
        """The `_meta` of results for peers of 2026-07-28."""
        return msgspec.json.encode({SERVER_INFO_META_KEY: self.server_info_stamp})

    @property
    def instructions(self) -> str | None:
        """The instructions of the server."""
        return self.catalogue.instructions

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        """The SDK sets what it was given, which is nothing."""

    def create_initialization_options(self, *parts: Any, **options: Any) -> InitializationOptions:
        """Give the name and version of the server; else as the base."""
        info = self.server_info
        named = {"server_name": info.name, "server_version": info.version, "title": info.title}
        return super().create_initialization_options(*parts, **options).model_copy(update=named)

    def get_capabilities(
        self, *_options: Any, protocol_version: str | None = None, **_more: Any
    ) -> mcp_types.ServerCapabilities:
        """Return the server's capabilities that are passed on; changes of lists are always announced."""
        known = self.catalogue
        found: JSON = {name: known.capabilities[name] for name in _PASSED_ON if name in known.capabilities}
        for name in LISTS:
            given = found.get(name)
            if isinstance(given, dict) or getattr(known, name):
                found[name] = {**(given or {}), "listChanged": True}
        if completes(known):
            found.setdefault("completions", {})
        if protocol_version in MODERN_PROTOCOL_VERSIONS and self.extensions:
            found["extensions"] = self.extensions
        return mcp_types.ServerCapabilities.model_validate(found)

    # --- greetings

    async def _greet(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A middleware: wait for the server before a greeting, and refuse what cannot be served."""
        try:
            self._check_session(ctx, self.upstream)
            if ctx.method in GREETINGS:
                await self._wait_to_list(ctx)
        except CallError as error:
            raise as_peer_error(error) from None
        return await call_next(ctx)

    def _check_session(self, ctx: Context, upstream: VisibleServer) -> None:
        """Refuse requests without a session, where each peer has one of its own with the server.

        Raises:
            MCPError: The peer has to connect in an era with sessions.
        """
        over_http = connection_of(ctx.session).transport == "http"
        if over_http and upstream.per_client and is_modern(ctx):
            text = f"{self.server_name} has a session for each client: over HTTP that takes a handshake"
            data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": ctx.protocol_version}
            raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, text, data)

    async def _wait_for_server(self) -> None:
        """Wait until it is known what the server offers, for most of its connect timeout.

        The peer has the same, most likely, and is to hear why there is nothing to offer.
        """
        upstream = self.upstream
        with anyio.move_on_after(WAIT_SHARE * upstream.config.call_limits.connect_timeout):
            await upstream.await_catalogue()

    async def _wait_to_list(self, _ctx: Context) -> bool:
        """The same before a list, which is always paged.

        Raises:
            MCPError: It is not known.
        """
        try:
            await self._wait_for_server()
            upstream = self.upstream
            if upstream.catalogue is None:
                raise not_listed(upstream.info(), "")
        except CallError as error:
            raise as_peer_error(error) from None
        return True

    # --- tools

    async def _list_tools(self, ctx: Context, params: mcp_types.PaginatedRequestParams | None) -> JSON:
        await self._wait_to_list(ctx)
        cursor = params.cursor if params is not None else None
        page = tools_page([], self.catalogue.every_tool(), cursor, define=ToolInfo.to_protocol)
        return enclose([enveloped(UNCACHED | page, self.stamp_for(ctx))])

    async def _call_tool(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> JSON:
        encoder = PeerEncoder.for_request(self.hub.views, ctx, self.stamp_for(ctx))
        client, origin = (connection_of(ctx.session).client, origin_of(connection_of(ctx.session), self.hub))
        server, tool = self.server_name, params.name
        try:
            with noting_refusals(self.hub.records, "tool", server, tool, origin):
                arguments = encode_arguments(params.arguments or {}, server=server, tool=tool)
            context = RequestContext(client=client, origin=origin)
            request = Exec(server, tool, arguments, context, for_app=True)
            result = await sdk_path.run(self.hub, ctx, request, lambda raw: encoder.tool(raw, request))
        except CallError as error:
            raise as_peer_error(error) from None
        return enclose(result if isinstance(result, list) else encoder.members(result))

    def _input_schema(self, name: str) -> JSON | None:
        """Return the schema that the headers of a call over HTTP are compared with."""
        tool = self.catalogue.tool(name)
        return None if tool is None else tool.input_schema

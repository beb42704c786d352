"""Calls of tools, as the SDK's server gets them: with the usual slips, and over HTTP.

The fast path takes what is plain, on streams. Both encode with `ResultEncoder`, and give the same answers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeVar

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types import INVALID_PARAMS

from mcpx.core.calls.auditing import noting_refusals
from mcpx.core.calls.calls import Render
from mcpx.core.calls.exposure import Exposure, Shown
from mcpx.core.calls.results.result_selection import Selectable
from mcpx.core.calls.tool_names import not_listed, rule_against
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway import sdk_path
from mcpx.core.gateway.clients.handles import capabilities_in
from mcpx.core.gateway.clients.identity import connection_of, origin_of, session_client
from mcpx.core.gateway.clients.sessions import client_name
from mcpx.core.gateway.metering import MeteredCall
from mcpx.core.gateway.native.tools import has_output_schema
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.gateway.tools import parameters
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.gateway.tools.parameters import ExecParameters, WrongParameter, collect_arguments
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.protocol.result_address import read_address
from mcpx.core.rendering.result_members import Bytes
from mcpx.core.text import cut, shown_name
from mcpx.core.text.nearest import nearest
from mcpx.core.validation.arguments import encode_arguments
from mcpx.core.wire.enclosed import enclose
from mcpx.errors import NAME_LEN, CallError

Context = ServerRequestContext[Any, Any]
R = TypeVar("R")


class ToolCall:
    """One call of a client; `stamp` as for `ResultEncoder`. The results are enclosed."""

    def __init__(self, hub: HubView, ctx: Context, stamp: bytes | None) -> None:
        self._hub = hub
        self._ctx = ctx
        name, capabilities = client_name(ctx.session), capabilities_in(ctx.params)
        self._encoder = ResultEncoder.for_client(hub.views, name, stamp, capabilities)
        self._client = session_client(connection_of(ctx.session), hub)
        """Which results are kept for."""
        self._context = RequestContext(client=self._client, origin=origin_of(ctx.session, hub))
        self._metered = MeteredCall(hub, ctx)

    async def of_own(self, name: str, arguments: JSON) -> JSON:
        """The result of one of MCPX's own tools.

        Raises:
            MCPError: What the client sent is not of the protocol.
        """
        try:
            result = await self._run(name, arguments)
        except WrongParameter as wrong:
            result = self._encoder.wrong_parameters(name, str(wrong))
        except CallError as error:
            result = self._encoder.failure(error)
        return self._enclosed(result)

    async def of_native(self, name: str, arguments: Any, exposure: Exposure) -> JSON:
        """The result of a tool under its own name; waits for its server's first listing.

        Raises:
            MCPError: There is no such tool; or what the client sent is not of the protocol.
        """
        tool: ToolInfo | None = None
        try:
            with self._noting_refusals("", name):
                tool = await _native_tool(name, exposure)
                encoded = encode_arguments(arguments, server=tool.server_name, tool=tool.name)
            result = await self._exec(exposure.shown.call_of(tool, encoded, self._context))
        except CallError as error:
            result = self._encoder.failure(error, in_meta=tool is not None and has_output_schema(tool))
        return self._enclosed(result)

    def _enclosed(self, result: list[Bytes] | JSON) -> JSON:
        """A result, noted in the meter; or input requests."""
        if not isinstance(result, list):
            return enclose(self._encoder.members(result))
        self._metered.note(result)
        return enclose(result)

    async def _run(self, name: str, arguments: JSON) -> list[Bytes] | JSON:
        """The result; or input requests to the client, which are a result of their own kind."""
        text = parameters.text
        if name == tools.INSPECT:
            tool_names, query = parameters.tool_names(arguments), text(arguments, "query")
            calls, server = self._hub.calls, text(arguments, "server_name")
            return self._encoder.shaped(await calls.inspect(server, tool_names, query=query))
        if name == tools.RESOURCES:
            return await self._resources(text(arguments, "server_name"), text(arguments, "uri"))
        read_only = name == tools.QUERY
        return await self._exec(
            await self._exec_request(parameters.read_exec(arguments), read_only=read_only)
        )

    async def _resources(self, server: str, uri: str) -> list[Bytes] | JSON:
        """The list of a server's resources, a resource, or a page of a kept result."""
        if not uri:
            return self._encoder.shaped(await self._hub.calls.list_resources(server))
        server = self._hub.calls.own_name(server)
        registry, views = self._hub.registry, self._hub.views
        address = read_address(uri)
        kept_here = address is not None and views.has(address, self._client)
        if address is not None and (kept_here or not registry.may_read(server, uri)):
            return self._encoder.shaped(await views.read(address, self._client))
        server = server or registry.server_with(uri)
        if not server:
            raise WrongParameter("server_name is missing")
        request = Read(server, uri, self._context)
        return await self._ask(request, lambda raw: self._encoder.resource(raw, request))

    async def _exec(self, request: Exec) -> list[Bytes] | JSON:
        encoder, views = self._encoder, self._hub.views
        if request.select is None:
            return await self._ask(request, lambda raw: encoder.tool(raw, request))
        with self._noting_refusals(request.server_name, request.tool_name):
            views.check(request)
        render: Render[Selectable | list[Bytes]] = lambda raw: encoder.selectable(raw, request)  # noqa: E731
        found: Selectable | list[Bytes] | JSON = await self._ask(request, render)
        if not isinstance(found, Selectable):
            return found
        return encoder.shaped(
            await views.project(found, request, self._client, structured_is_shown=encoder.structured_is_shown)
        )

    async def _ask(self, request: Exec | Read, render: Render[R]) -> R | JSON:
        """What `render` makes of the server's result."""
        return await sdk_path.run(self._hub, self._ctx, request, self._metered.rendering(request, render))

    async def _exec_request(self, given: ExecParameters, *, read_only: bool) -> Exec:
        """The request for `ToolCalls`, with the names and arguments that are meant."""
        with self._noting_refusals(given.server_name, given.tool_name):
            server, tool_name = await self._hub.calls.resolve(given.server_name, given.tool_name)
            tool = self._hub.registry.get_tool(server, tool_name)
            arguments = given.arguments if tool is None else collect_arguments(given, tool)
            encoded = encode_arguments(arguments, server=server, tool=tool_name)
        select, max_tokens = given.select, given.max_tokens
        return Exec(server, tool_name, encoded, self._context, select, max_tokens, read_only=read_only)

    def _noting_refusals(self, server: str, tool: str) -> AbstractContextManager[None]:
        return noting_refusals(
            self._hub.audit,
            "tool",
            server,
            tool,
            self._context.origin,
            rule_against=lambda: rule_against(self._hub.upstreams.values(), server, tool),
        )


async def _native_tool(name: str, exposure: Exposure) -> ToolInfo:
    """The tool that is shown under that name.

    Raises:
        MCPError: There is none.
        CallError: `server_unavailable`: its server has never listed its tools.
    """
    if name not in exposure.shown.native:
        for server in exposure.unlisted(name):
            await server.await_catalogue(lambda _known: False)
            if not server.has_listed:
                raise not_listed(server.info(), "")
    tool = exposure.shown.native.get(name)
    if tool is None:
        raise MCPError(INVALID_PARAMS, _unknown(name, exposure.shown))
    return tool


def _unknown(name: str, shown: Shown) -> str:
    near = nearest(name, [*(tools.names(shown) if shown.three else ()), *shown.native])
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    text = f"Unknown tool: {shown_name(cut(name, NAME_LEN))}{hint} "
    if not shown.three:
        return f"{text}tools/list has the names of all"
    own = "other tools" if shown.native else "a server's own tools"
    run = "are run with exec(server_name, tool_name, arguments)"
    three = "inspect, query, exec" if shown.query else "inspect, exec"
    return f"{text}MCPX has {three} and resources; {own} {run}"

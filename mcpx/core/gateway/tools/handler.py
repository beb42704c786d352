"""Calls of tools, as the SDK's server gets them: with the usual slips, and over HTTP.

The fast path takes what is plain, on streams. Both encode with `ResultEncoder`, and give the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from mcpx.core.calls.asking import Render
from mcpx.core.calls.exposure import Exposure, Shown, has_output_schema
from mcpx.core.calls.names import not_listed, rule_against
from mcpx.core.calls.recording import noting_refusals
from mcpx.core.calls.results.large import Apart
from mcpx.core.calls.results.parts import Selectable, check_expression
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.catalog.naming import native_name
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.events.meter import tool_label
from mcpx.core.events.stats import INSPECT, RESOURCES
from mcpx.core.gateway import sdk_path
from mcpx.core.gateway.clients.handles import capabilities_in, shows_apps
from mcpx.core.gateway.clients.identity import connection_of, origin_of
from mcpx.core.gateway.clients.known_clients import known_client, wants_query, writes_strictly
from mcpx.core.gateway.sdk_path import Context
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.gateway.tools.definitions import ExecParameters, WrongParameter, collect_arguments
from mcpx.core.gateway.tools.encoding import ResultEncoder
from mcpx.core.protocol.messages import Exec, Read, Request
from mcpx.core.protocol.requests import RequestContext, Watched
from mcpx.core.protocol.result_address import read_address
from mcpx.core.telemetry.contained import containing
from mcpx.core.text import cut, shown_name
from mcpx.core.text.nearest import nearest
from mcpx.core.validation.arguments import encode_arguments
from mcpx.core.validation.respelling import as_given
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import INVALID_PARAMS, Bytes, MCPError
from mcpx.errors import NAME_LEN, CallError

R = TypeVar("R")

_LABELS: Final = {tools.INSPECT: INSPECT, tools.RESOURCES: RESOURCES}


class ToolCall:
    """One call of a client; `stamp` as for `ResultEncoder`. The results are enclosed."""

    def __init__(self, hub: HubView, ctx: Context, stamp: bytes | None) -> None:
        self._hub = hub
        self._ctx = ctx
        self._client_name = name = connection_of(ctx.session).client_name
        capabilities = capabilities_in(ctx.params)
        self._encoder = ResultEncoder.for_client(hub.views, name, stamp, capabilities)
        self._client = connection_of(ctx.session).client
        """Which results are kept for."""
        watched = None if hub.records.watch is None else Watched()
        self._context = RequestContext(
            client=self._client, origin=origin_of(connection_of(ctx.session), hub), watched=watched
        )
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
            result = self._encoder.failure(self._hub.explained(error))
        return self._enclosed(result)

    async def of_native(self, name: str, arguments: Any, exposure: Exposure) -> JSON:
        """The result of a tool under its own name; waits for its server's first listing.

        Raises:
            MCPError: There is no such tool; or what the client sent is not of the protocol.
        """
        tool: ToolInfo | None = None
        try:
            with self._noting_refusals("", name):
                with_apps = shows_apps(connection_of(self._ctx.session))
                tool = await _native_tool(name, exposure, self._own_names, with_apps=with_apps)
                if writes_strictly(self._hub.config, self._client_name):
                    arguments = as_given(tool.input_schema, arguments)
                encoded = encode_arguments(arguments, server=tool.server_name, tool=tool.name)
            result = await self._exec(exposure.shown.call_of(tool, encoded, self._context))
        except CallError as error:
            result = self._encoder.failure(error, in_meta=tool is not None and has_output_schema(tool))
        return self._enclosed(result)

    @property
    def _own_names(self) -> tuple[str, ...]:
        client = known_client(self._client_name)
        return tools.names(query=wants_query(self._hub.config.tiers, client))

    def _enclosed(self, result: list[Bytes] | JSON) -> JSON:
        """A result, noted in the meter; or input requests."""
        if not isinstance(result, list):
            return enclose(self._encoder.members(result))
        self._metered.note(result)
        return enclose(result)

    async def _run(self, name: str, arguments: JSON) -> list[Bytes] | JSON:
        """The result; or input requests to the client, which are a result of their own kind."""
        text = tools.text
        if name == tools.INSPECT:
            tool_names, query = tools.tool_names(arguments), text(arguments, "query")
            calls, server = self._hub.calls, text(arguments, "server_name")
            origin = self._context.origin
            return self._encoder.shaped(await calls.inspect(server, tool_names, query=query, origin=origin))
        if name == tools.RESOURCES:
            return await self._resources(text(arguments, "server_name"), text(arguments, "uri"))
        read_only = name == tools.QUERY
        given = tools.read_exec(arguments, with_fresh=self._hub.keeps_reads)
        return await self._exec(await self._exec_request(given, read_only=read_only))

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
            check_expression(request.select, server=request.server_name, tool=request.tool_name)
        render: Render[Selectable | list[Bytes]] = lambda raw: encoder.selectable(raw, request)  # noqa: E731
        found: Selectable | list[Bytes] | JSON = await self._ask(request, render)
        if not isinstance(found, Selectable):
            return found
        return encoder.shaped(
            await views.project(found, request, self._client, structured_is_shown=encoder.structured_is_shown)
        )

    async def _ask(self, request: Exec | Read, render: Render[R]) -> R | JSON:
        """Send a request, and render its result."""
        return await sdk_path.run(self._hub, self._ctx, request, self._metered.rendering(request, render))

    async def _exec_request(self, given: ExecParameters, *, read_only: bool) -> Exec:
        """The request for `ToolCalls`, with the names and arguments that are meant."""
        with self._noting_refusals(given.server_name, given.tool_name):
            server, tool_name = await self._hub.calls.resolve(given.server_name, given.tool_name)
            tool = self._hub.registry.get_tool(server, tool_name)
            arguments = given.arguments if tool is None else collect_arguments(given, tool)
            encoded = encode_arguments(arguments, server=server, tool=tool_name)
        select, max_tokens = given.select, given.max_tokens
        context = replace(self._context, fresh=True) if given.fresh else self._context
        return Exec(server, tool_name, encoded, context, select, max_tokens, read_only=read_only)

    def _noting_refusals(self, server: str, tool: str) -> AbstractContextManager[None]:
        return noting_refusals(
            self._hub.records,
            "tool",
            server,
            tool,
            self._context.origin,
            rule_against=lambda: rule_against(self._hub.upstreams.values(), server, tool),
        )


class MeteredCall:
    """A call of a tool, until its answer is noted."""

    def __init__(self, hub: HubView, ctx: Context) -> None:
        self._meter = hub.meter
        self._ctx = ctx
        self._served: tuple[Request, msgspec.Raw] | None = None

    def rendering(self, request: Request, render: Render[R]) -> Render[R]:
        """`render`, which also remembers what a server has answered to this request."""
        self._served = (request, msgspec.Raw())  # nothing, where it fails

        def rendered(raw: msgspec.Raw) -> R | Apart[R]:
            self._served = (request, raw)
            return render(raw)

        return rendered

    def note(self, pieces: Sequence[Bytes]) -> None:
        """Note the answer, in pieces. Input requests to the client are none."""
        with containing("meter"):  # a fault of it costs no answer
            request: Request | None = None
            if self._served is None:  # MCPX has answered by itself
                server, tool, raw = *_names_in(self._ctx.params or {}), msgspec.Raw()
            else:
                request, raw = self._served
                server, tool = request.server_name, tool_label(request)
            client = self._meter.of_client(connection_of(self._ctx.session).client_name)
            client.note(server, tool, raw, pieces, request)


async def _native_tool(name: str, exposure: Exposure, own: Sequence[str], *, with_apps: bool) -> ToolInfo:
    """The tool that is shown under that name; or, with apps, the one that the page of an app means.

    `own` are the names of MCPX's own.

    Raises:
        MCPError: There is none, or several servers have what the page may mean.
        CallError: `server_unavailable`: its server has never listed its tools.
    """
    if name not in exposure.shown.native:
        for server in exposure.unlisted(name):
            await server.await_catalogue(lambda _known: False)
            if not server.has_listed:
                raise not_listed(server.info(), "")
    tool = exposure.shown.natively(with_apps=with_apps).get(name)
    meant = [tool] if tool is not None else exposure.app_tools(name) if with_apps else []
    if len(meant) > 1:
        names = [native_name(each.server_name, each.name) for each in meant]
        cure = "call" if {*names} <= exposure.shown.natively(with_apps=True).keys() else "show (expose)"
        text = f"Several servers have {shown_name(cut(name, NAME_LEN))}: {cure} {' or '.join(names)}"
        raise MCPError(INVALID_PARAMS, text)
    if not meant:
        raise MCPError(INVALID_PARAMS, _unknown(name, exposure.shown, own))
    return meant[0]


def _unknown(name: str, shown: Shown, own: Sequence[str]) -> str:
    near = nearest(name, [*(own if shown.three else ()), *shown.native])
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    text = f"Unknown tool: {shown_name(cut(name, NAME_LEN))}{hint} "
    if not shown.three:
        return f"{text}tools/list has the names of all"
    others = "other tools" if shown.native else "a server's own tools"
    run = "are run with exec(server_name, tool_name, arguments)"
    return f"{text}MCPX has {', '.join(own[:-1])} and {own[-1]}; {others} {run}"


def _names_in(params: Mapping[str, Any]) -> tuple[str, str]:
    """The server and the tool that a call of one of the three tools names; "" where it names none."""
    arguments = params.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    server, tool = given.get("server_name"), _LABELS.get(str(params.get("name"))) or given.get("tool_name")
    return server if isinstance(server, str) else "", tool if isinstance(tool, str) else ""

"""What the paths of the gateway note in the meter: whose call it was, of which tool, and what was answered.

Only tools and their listing are counted. A native read or prompt costs the same with MCPX and
without. Nothing here raises: a fault of the meter costs no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

from mcpx.catalog.model import JSON
from mcpx.core.costs import definitions_cost
from mcpx.core.exposure import Exposure
from mcpx.core.hub import Hub
from mcpx.core.messages import Exec, Request
from mcpx.core.stats import INSPECT, RESOURCES
from mcpx.gateway.clients.identity import connection_of, session_client
from mcpx.gateway.clients.sessions import client_name
from mcpx.gateway.tools import definitions as tools
from mcpx.observe.contained import contain

Context = ServerRequestContext[Any, Any]
R = TypeVar("R")
_served: ContextVar[tuple[Request, msgspec.Raw] | None] = ContextVar("_served")
"""What a server has answered to the request that this task serves, and to which request of ours."""
_LABELS: Final = {tools.INSPECT: INSPECT, tools.RESOURCES: RESOURCES}


def tool_label(request: Request) -> str:
    """What the meter knows the tool of a request by."""
    return request.tool_name if isinstance(request, Exec) else RESOURCES


def metered_requests(hub: Hub, exposure: Exposure) -> ServerMiddleware[Any]:
    """A middleware for the SDK's server: notes its answers to calls of tools, and their listing."""

    async def answered(ctx: Context, call_next: CallNext) -> HandlerResult:
        before = _served.set(None)
        try:
            result = await call_next(ctx)
            try:
                if isinstance(result, dict) and ctx.method == "tools/list":
                    _note_listing(hub, ctx, exposure, result)
                elif isinstance(result, dict) and ctx.method == "tools/call":
                    _note_call(hub, ctx, result)
            except Exception as error:  # noqa: BLE001 - the promise of this module
                contain(error, "meter")
            return result
        finally:
            _served.reset(before)

    return answered


def metered_render(request: Request, render: Callable[[msgspec.Raw], R]) -> Callable[[msgspec.Raw], R]:
    """`render`, which also remembers what a server has answered to this request, until it is noted."""
    _served.set((request, msgspec.Raw()))  # nothing, where it fails

    def rendered(raw: msgspec.Raw) -> R:
        _served.set((request, raw))
        return render(raw)

    return rendered


def _note_listing(hub: Hub, ctx: Context, exposure: Exposure, listed: JSON) -> None:
    """Note a listing with its first page, at the cost of all pages."""
    if (ctx.params or {}).get("cursor") is not None:
        return
    three = [tool for tool in listed["tools"] if tool["name"] in tools.NAMES]
    cost = definitions_cost((tool["name"], tool.get("description"), tool["inputSchema"]) for tool in three)
    client = session_client(connection_of(ctx.session), hub)
    hub.meter.note_listing(client, client_name(ctx.session), cost + exposure.cost_of_native())


def _note_call(hub: Hub, ctx: Context, result: JSON) -> None:
    """Note the answer to a call; input requests are none."""
    if result.get("resultType") == "input_required":
        return
    served = _served.get()
    if served is None:  # MCPX has answered by itself
        server, tool, raw = *_names(ctx.params or {}), msgspec.Raw()
    else:
        request, raw = served
        server, tool = request.server_name, tool_label(request)
    shown = "content" if result.get("content") else "structuredContent"
    answer = msgspec.json.encode({shown: result.get(shown)})
    hub.meter.of_client(client_name(ctx.session)).note(server, tool, raw, [answer])


def _names(params: Mapping[str, Any]) -> tuple[str, str]:
    """The server and the tool that a call of one of the three tools names; "" where it names none."""
    arguments = params.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    server, tool = given.get("server_name"), _LABELS.get(str(params.get("name"))) or given.get("tool_name")
    return server if isinstance(server, str) else "", tool if isinstance(tool, str) else ""

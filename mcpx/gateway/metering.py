"""What the paths of the gateway note in the meter: whose call it was, of which tool, and what was answered.

Only the three tools and their listing are counted. A native read or prompt costs the same with MCPX and
without. Nothing here raises: a fault of the meter costs no answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import mcp_types
import msgspec
from mcp.server.context import ServerRequestContext

from mcpx.catalog.model import JSON
from mcpx.core.calls import Exec, Request
from mcpx.core.costs import definitions_cost
from mcpx.core.hub import Hub
from mcpx.core.stats import INSPECT, RESOURCES
from mcpx.gateway.clients.identity import connection_of, session_client
from mcpx.gateway.clients.sessions import client_name
from mcpx.gateway.tools import definitions as tools
from mcpx.observe.contained import contain
from mcpx.rendering.results import ToolResult

Context = ServerRequestContext[Any, Any]
CallTool = Callable[[Context, mcp_types.CallToolRequestParams], Awaitable[JSON]]
R = TypeVar("R")
_noted: ContextVar[bool] = ContextVar("_noted")  # whether the call that this task answers has been noted
_LABELS: Final = {tools.INSPECT: INSPECT, tools.RESOURCES: RESOURCES}


def tool_label(request: Request) -> str:
    """What the meter knows the tool of a request by."""
    return request.tool_name if isinstance(request, Exec) else RESOURCES


def metered(hub: Hub, answer: CallTool) -> CallTool:
    """`answer`, which answers the SDK's calls of the three tools; what MCPX answers by itself is noted here.

    Where a server's result is in the answer, `metered_render` has noted both.
    """

    async def answered(ctx: Context, params: mcp_types.CallToolRequestParams) -> JSON:
        unnoted = _noted.set(False)
        try:
            result = await answer(ctx, params)
            if not _noted.get() and result.get("resultType") != "input_required":
                arguments = params.arguments or {}
                tool = _LABELS.get(params.name) or arguments.get("tool_name")
                _note(hub, ctx, (arguments.get("server_name"), tool), result)
            return result
        finally:
            _noted.reset(unnoted)

    return answered


def metered_render(
    hub: Hub, ctx: Context, request: Request, render: Callable[[msgspec.Raw], R]
) -> Callable[[msgspec.Raw], R]:
    """`render`, which also notes the server's result and what is made of it, if that is a tool's result."""

    def rendered(raw: msgspec.Raw) -> R:
        made = render(raw)
        if isinstance(made, ToolResult):
            _noted.set(True)
            called = (request.server_name, tool_label(request))
            _note(hub, ctx, called, {"content": made.content}, raw)
        return made

    return rendered


def note_listing(hub: Hub, ctx: Context, listed: list[mcp_types.Tool]) -> None:
    """Note a listing of the three tools."""
    try:
        spent = definitions_cost((tool.name, tool.description, tool.input_schema) for tool in listed)
        client = session_client(connection_of(ctx.session), hub)
        hub.meter.note_listing(client, client_name(ctx.session), spent)
    except Exception as error:  # noqa: BLE001 - the promise of this module
        contain(error, "meter")


def _note(
    hub: Hub, ctx: Context, called: tuple[Any, Any], result: JSON, raw: msgspec.Raw | bytes = b""
) -> None:
    """Note what was answered to a call of a server's tool, and what the server had answered."""
    try:
        server, tool = (name if isinstance(name, str) else "" for name in called)
        meter = hub.meter.of_client(client_name(ctx.session))
        meter.note(server, tool, raw, [msgspec.json.encode(result)])
    except Exception as error:  # noqa: BLE001 - the promise of this module
        contain(error, "meter")

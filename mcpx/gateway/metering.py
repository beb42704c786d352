"""What the paths of the gateway note in the meter: whose call it was, of which tool, and what was answered.

Only the three tools and their listing are counted. A native read or prompt costs the same with MCPX and
without. Nothing here raises: a fault of the meter costs no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

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
R = TypeVar("R")
_noted: ContextVar[bool] = ContextVar("_noted")  # whether the call that this task answers has been noted
_LABELS: Final = {tools.INSPECT: INSPECT, tools.RESOURCES: RESOURCES}


def tool_label(request: Request) -> str:
    """What the meter knows the tool of a request by."""
    return request.tool_name if isinstance(request, Exec) else RESOURCES


def metered_requests(hub: Hub) -> ServerMiddleware[Any]:
    """A middleware for the SDK's server: notes listings of the tools, and what MCPX answers by itself.

    Where a server's result is in the answer, `metered_render` has noted both.
    """

    async def answered(ctx: Context, call_next: CallNext) -> HandlerResult:
        unnoted = _noted.set(False)
        try:
            result = await call_next(ctx)
            if isinstance(result, dict) and ctx.method == "tools/list":
                _note_listing(hub, ctx, result)
            elif isinstance(result, dict) and ctx.method == "tools/call" and not _noted.get():
                _note_own(hub, ctx, result)
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


def _note_listing(hub: Hub, ctx: Context, listed: JSON) -> None:
    try:
        definitions = (
            (tool["name"], tool.get("description"), tool["inputSchema"]) for tool in listed["tools"]
        )
        client = session_client(connection_of(ctx.session), hub)
        hub.meter.note_listing(client, client_name(ctx.session), definitions_cost(definitions))
    except Exception as error:  # noqa: BLE001 - the promise of this module
        contain(error, "meter")


def _note_own(hub: Hub, ctx: Context, result: JSON) -> None:
    """Note an answer of MCPX itself to a call of one of the three tools; input requests are none."""
    params = ctx.params or {}
    arguments = params.get("arguments")
    if result.get("resultType") == "input_required":
        return
    if not isinstance(arguments, dict):
        arguments = {}
    tool = _LABELS.get(str(params.get("name"))) or arguments.get("tool_name")
    _note(hub, ctx, (arguments.get("server_name"), tool), result)


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

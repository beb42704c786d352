"""What the SDK's server notes in the meter: whose call it was, of which tool, and what was answered.

Only tools and their listing are counted. A native read or prompt costs the same with MCPX and
without. Nothing here raises: a fault of the meter costs no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import mcp_types
import msgspec
from mcp.server.context import ServerRequestContext

from mcpx.core.calls.calls import Render
from mcpx.core.calls.exposure import Exposure
from mcpx.core.calls.results.large_views import Apart
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.events.costs import definitions_cost
from mcpx.core.events.stats import INSPECT, RESOURCES
from mcpx.core.gateway.clients.identity import connection_of, is_probe, session_client
from mcpx.core.gateway.clients.sessions import client_name
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.protocol.messages import Exec, Request
from mcpx.core.system.control_protocol import COUNTED_KEY, SETTLED_KEY
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire.envelope import Bytes

Context = ServerRequestContext[Any, Any]
R = TypeVar("R")
_LABELS: Final = {tools.INSPECT: INSPECT, tools.RESOURCES: RESOURCES}


def tool_label(request: Request) -> str:
    """What the meter knows the tool of a request by."""
    return request.tool_name if isinstance(request, Exec) else RESOURCES


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
            session_client(connection, hub),
            client_name(ctx.session),
            cost,
            hub.upstreams,
            counted_before=asked.get(SETTLED_KEY) is True and asked.get(COUNTED_KEY) is not False,
        )
    except Exception as error:  # noqa: BLE001 - the promise of this module
        contain(error, "meter")


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
        try:
            request: Request | None = None
            if self._served is None:  # MCPX has answered by itself
                server, tool, raw = *_names(self._ctx.params or {}), msgspec.Raw()
            else:
                request, raw = self._served
                server, tool = request.server_name, tool_label(request)
            client = self._meter.of_client(client_name(self._ctx.session))
            client.note(server, tool, raw, pieces, request)
        except Exception as error:  # noqa: BLE001 - the promise of this module
            contain(error, "meter")


def _names(params: Mapping[str, Any]) -> tuple[str, str]:
    """The server and the tool that a call of one of the three tools names; "" where it names none."""
    arguments = params.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    server, tool = given.get("server_name"), _LABELS.get(str(params.get("name"))) or given.get("tool_name")
    return server if isinstance(server, str) else "", tool if isinstance(tool, str) else ""

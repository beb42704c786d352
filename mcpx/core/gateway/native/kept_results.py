"""Results that are kept for a client, read as resources. Called by the handlers of `resources/read`."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.identity import connection_of, session_client
from mcpx.core.gateway.native.errors import about_resource
from mcpx.core.protocol.result_address import KEPT_SERVER, read_address
from mcpx.errors import CallError


async def kept_page(hub: HubView, ctx: ServerRequestContext[Any, Any], uri: str) -> list[JSON] | None:
    """The contents of a page of a kept result; None for the URI of anything else.

    Raises:
        MCPError: It is not kept, or there is no such page.
    """
    try:
        address = read_address(uri)
        client = session_client(connection_of(ctx.session), hub)
        server = hub.upstreams.get(KEPT_SERVER)  # its URIs look the same
        if address is None or (server is not None and not hub.views.has(address, client)):
            return None
        read = await hub.views.read(address, client)
    except CallError as error:
        raise about_resource(error, uri=uri, own=uri, version=ctx.protocol_version) from None
    return [{"uri": uri, "mimeType": "text/plain", "text": block["text"]} for block in read.content]

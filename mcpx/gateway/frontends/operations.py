"""The three tools for the command line, and the lists beside them, as plain JSON.

The command line asks the daemon over its socket, or a hub of its own; both come here, so that both respond
alike. A response is `{"shaped": {content, structuredContent, isError}}`, `{"servers": [...]}` or
`{"resources": {server: [...]}}`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mcpx.catalog.model import JSON
from mcpx.core.hub import Hub
from mcpx.rendering.results import Shaped
from mcpx.upstream.context import Client


class ControlRequest(msgspec.Struct, frozen=True):
    """One request. `mcpx` names the operation; which other fields count depends on it."""

    mcpx: str
    server: str | None = None
    tool: str | None = None
    uri: str | None = None
    arguments: Any = None


async def perform(hub: Hub, request: ControlRequest) -> JSON:
    """The response to `inspect`, `exec` or `resources`. The command line is a client for as long as it waits.

    Raises:
        CallError: As the tool of that name.
    """
    client = Client()
    try:
        return await _perform(hub, request, client)
    finally:
        hub.client_left(client)


async def _perform(hub: Hub, request: ControlRequest, client: Client) -> JSON:
    match request:
        case ControlRequest(mcpx="inspect", server=None):
            # "described" is the state as a person reads it
            return {"servers": [_server(hub, name) for name in hub.upstreams]}
        case ControlRequest(mcpx="inspect", server=str(server)):
            return _shaped(await hub.calls.inspect(server, request.tool))
        case ControlRequest(mcpx="exec", server=str(server), tool=str(tool)):
            return _shaped((await hub.calls.exec(server, tool, request.arguments, client=client)).shaped)
        case ControlRequest(mcpx="resources", server=str(server), uri=str(uri)):
            return _shaped(await hub.calls.read(server, uri, client=client))
        case _:
            return {"resources": _resources(hub, request.server)}


def _server(hub: Hub, name: str) -> JSON:
    info = hub.upstreams[name].info()
    return {**info.to_dict(), "described": info.describe_state()}


def _resources(hub: Hub, server: str | None) -> JSON:
    found = hub.registry.list_all_resources()
    if server is not None:
        hub.registry.upstream(server)  # an unknown name is an error, with the nearest ones
        found = {server: hub.registry.list_resources(server)}
    return {name: [item.to_dict() for item in items] for name, items in found.items()}


def _shaped(shaped: Shaped) -> JSON:
    shown = {
        "content": shaped.content,
        "structuredContent": shaped.structured_content,
        "isError": shaped.is_error,
    }
    return {"shaped": shown}

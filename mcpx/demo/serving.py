"""Common parts of the low-level demo servers: serving over stdio, answers, the error for no such resource.

Called by `mcpx.demo.knowledge` and `mcpx.demo.changing`. Both protocol eras are spoken; the client's first
message decides which one a session is of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server import Server

RESOURCE_NOT_FOUND: Final = -32002  # as revisions up to 2025-11-25 name it; 2026-07-28 says invalid params


async def serve(server: Server[Any], *, tools_change: bool = False, resources_change: bool = False) -> None:
    """Serve on stdin and stdout until stdin ends. The flags announce list-changed notifications."""
    options = NotificationOptions(tools_changed=tools_change, resources_changed=resources_change)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options(options))


def is_modern(protocol_version: str) -> bool:
    """Return True if that revision is of the era without a handshake (2026-07-28 on)."""
    return protocol_version in MODERN_PROTOCOL_VERSIONS


def answer(text: str, *, failed: bool = False, structured: dict[str, Any] | None = None) -> CallToolResult:
    """A tool result of one text block."""
    content = [TextContent(type="text", text=text)]
    return CallToolResult(content=[*content], structured_content=structured, is_error=failed)


def resource_not_found(uri: str, protocol_version: str) -> MCPError:
    """The protocol's error for a URI that names nothing, with `data.uri`, as that revision has it."""
    code = INVALID_PARAMS if is_modern(protocol_version) else RESOURCE_NOT_FOUND
    return MCPError(code, f"Resource not found: {uri}", {"uri": uri})

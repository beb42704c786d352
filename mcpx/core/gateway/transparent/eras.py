"""The era of a request through a transparent endpoint, and what a server says to one of the other era."""

from __future__ import annotations

from typing import Final

import msgspec
from mcp import MCPError
from mcp_types import METHOD_NOT_FOUND, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.config import ServerConfig
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.passthrough.messages import members_of

DISCOVER: Final = "server/discover"
_VERSION_KEY: Final = PROTOCOL_VERSION_META_KEY.encode()


def is_modern(method: str, params: msgspec.Raw | bytes) -> bool:
    """Whether a request is of 2026-07-28: it has the envelope, or asks for the server's revisions."""
    if method == DISCOVER:
        return True
    if _VERSION_KEY not in bytes(params) or method == "initialize":
        return False
    return PROTOCOL_VERSION_META_KEY in members_of(members_of(params).get("_meta", msgspec.Raw()))


def refusal_of(request: Passed, config: ServerConfig, *, modern: bool) -> MCPError | None:
    """What a server says that speaks only the era that its configuration allows; None where it is asked.

    Of another MCPX every endpoint speaks both: that it is spoken to in the modern one is our own choice.
    """
    era = "auto" if config.peer is not None and config.era == "modern" else config.era
    if era == "handshake" and modern:
        return MCPError(METHOD_NOT_FOUND, "Method not found", request.method)
    if era == "modern" and request.method == "initialize":
        supported = {"supported": list(MODERN_PROTOCOL_VERSIONS)}
        return MCPError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", supported)
    return None

"""What a client writes into a request for the server behind it, above all into its `_meta`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from mcp import MCPError
from mcp_types import INVALID_PARAMS

from mcpx.core.validation.bounds import holds_nonfinite

_RESERVED: Final = ("io.modelcontextprotocol/", "mcpx/")
"""Prefixes of the keys that each connection has for itself: those of the protocol's envelope, and MCPX's."""
_TOKEN: Final = "progressToken"  # noqa: S105 - MCPX chooses its own for the server


def meta_for_server(params: Mapping[str, Any] | None) -> bytes:
    """The members of `_meta` in the params of a request that are to be passed on (`RequestContext.meta`).

    Raises:
        MCPError: A number is beyond what JSON can say.
    """
    given = (params or {}).get("_meta")
    return members_for_server(given) if isinstance(given, Mapping) else b""


def members_for_server(meta: Mapping[str, Any]) -> bytes:
    """The members to pass on, as JSON without the braces; values may be JSON already (`msgspec.Raw`).

    Raises:
        MCPError: A number is beyond what JSON can say.
    """
    own = {key: value for key, value in meta.items() if key != _TOKEN and not key.startswith(_RESERVED)}
    return encode_for_server(own, "_meta")[1:-1]


def encode_for_server(value: Any, what: str) -> bytes:
    """What a client gave, as JSON; `what` names it in the error.

    Raises:
        MCPError: A number is beyond what JSON can say.
    """
    encoded = msgspec.json.encode(value)
    if b"null" in encoded and holds_nonfinite(value):  # as msgspec writes them
        raise MCPError(
            INVALID_PARAMS,
            f"{what} holds a number that JSON cannot say (NaN or infinity); nothing was sent",
        )
    return encoded

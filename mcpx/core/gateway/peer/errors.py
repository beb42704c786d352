"""Failures as another MCPX gets them: one form for all, which no server can make up. Pure.

Whatever fails is a JSON-RPC error whose `data` is `{"mcpx": {code, outcome, server, tool?, ...details}}`,
with the text as its message. What the server itself has said is inside of it, under `upstream`.
"""

from __future__ import annotations

import msgspec
from mcp import MCPError
from mcp_types import INTERNAL_ERROR

from mcpx.core.servers.call_errors import FAILURE_KEY
from mcpx.core.wire.enclosed import enclose
from mcpx.errors import CallError


def as_peer_error(error: CallError) -> MCPError:
    """The error, its data enclosed (`mcpx.core.wire.enclosed`)."""
    return MCPError(INTERNAL_ERROR, _text(error), enclose([_data(error)]))


def encoded_error(error: CallError) -> bytes:
    """The same as the `error` of a JSON-RPC answer."""
    said = {"code": INTERNAL_ERROR, "message": _text(error), "data": msgspec.Raw(_data(error))}
    return msgspec.json.encode(said)


def _data(error: CallError) -> bytes:
    """The data, without the details where these cannot be encoded."""
    details = error.to_dict()
    del details["error"]  # it is the message
    try:
        return msgspec.json.encode({FAILURE_KEY: details})
    except (RecursionError, UnicodeEncodeError):  # what the server has said is nested too deeply, or no text
        plain = {name: details[name] for name in ("code", "outcome", "server", "tool") if name in details}
        return msgspec.json.encode({FAILURE_KEY: {key: _sendable(text) for key, text in plain.items()}})


def _text(error: CallError) -> str:
    return _sendable(str(error))


def _sendable(text: str) -> str:
    """A text in characters that can be sent."""
    return text if text.isascii() else text.encode(errors="replace").decode()

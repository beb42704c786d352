"""The words on the daemon's socket before MCP: for the shim, the command line and the gateway.

A connection is an MCP client's, or begins with a control request: one line of JSON whose first key is `mcpx`
(`mcpx.core.gateway.frontends.control` lists them). Standard library and msgspec only, for `mcpx attach`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mcpx.core.system.endpoint import Endpoint

CONTROL_PREFIX: Final = b'{"mcpx"'
"""How a connection begins that makes a control request."""
PROGRESS_PREFIX: Final = b'{"progress"'
"""How a line begins that comes before the response to a control request."""
LIMIT_KEY: Final = "max_message_bytes"
"""In the answer to the greeting: the longest line that the daemon takes."""
SETTLED_KEY: Final = "mcpx/settled"
"""In the `_meta` of a list: answer in one page, and if it is true, when every server is ready, asleep, or has
failed once. The shim asks for that when it compares the daemon's lists with those that its client has."""

COUNTED_KEY: Final = "mcpx/counted"
"""Beside it: whether a daemon has counted the list that the client has, so that the next one does not. Where
it is false, the client has read what the shim remembers of an earlier daemon."""
PROBE_KEY: Final = "mcpx/probe"
"""In the `_meta` of `initialize`: MCPX itself asks, in a client's name, to see what that client would see.
It is no client: nothing is counted for it, and nothing of it is remembered."""


def greeting(endpoint: Endpoint) -> bytes:
    """The shim's control request: once answered, the connection is an MCP client's, at that endpoint."""
    return msgspec.json.encode({"mcpx": "attach", **msgspec.to_builtins(endpoint)}) + b"\n"

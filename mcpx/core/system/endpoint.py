"""Endpoints, which clients attach to, and the words on the daemon's socket before MCP.

Every frontend gives each of its clients an `Endpoint`: from the command line (`mcpx attach`, `mcpx serve`),
the greeting on the daemon's socket, or the URL over HTTP. A connection to that socket is an MCP client's, or
begins with a control request: one line of JSON whose first key is `mcpx`
(`mcpx.core.gateway.frontends.control` lists them). Standard library and msgspec only, for `mcpx attach`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Expose = Literal["three", "all", "both"]
"""How tools are shown: by the three tools, each under its own name, or both."""
EXPOSURES: Final[tuple[Expose, ...]] = ("three", "all", "both")


class Endpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A way in. `expose` is the client's own choice, None for what the configuration says.

    With `server` the endpoint is transparent: it shows that server alone, as it is. Any other endpoint shows
    all servers, or those of a `profile` of the configuration, or those named in `only` (sorted, each once),
    or with both those that are in both (`mcpx.core.policy.profiles`).

    With `peer` the client is another MCPX, which is given that server to offer as one of its own
    (`mcpx.core.gateway.peer`).
    """

    expose: Expose | None = None
    server: str | None = None
    only: tuple[str, ...] | None = None
    profile: str | None = None
    peer: str | None = None

    @property
    def alone(self) -> str | None:
        """The one server that it gives under its own names, as it is or to another MCPX; None where it shows
        servers by those of MCPX.
        """
        return self.peer if self.server is None else self.server

    @property
    def shows_all(self) -> bool:
        """True if its clients see every server."""
        return self.server is None and self.only is None and self.profile is None and self.peer is None


DEFAULT_ENDPOINT: Final = Endpoint()


def only_of(lists: Iterable[str]) -> tuple[str, ...]:
    """The servers named in lists such as `git,linear`, as `Endpoint.only` has them."""
    return tuple(sorted({name for each in lists for name in map(str.strip, each.split(",")) if name}))


# --- the words on the daemon's socket before MCP, for the shim, the command line and the gateway

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


def greeting(endpoint: Endpoint, **about: object) -> bytes:
    """The shim's control request: once answered, the connection is an MCP client's, at that endpoint.

    `about` is what it says of the client beside: its `environment`.
    """
    return msgspec.json.encode({"mcpx": "attach", **msgspec.to_builtins(endpoint), **about}) + b"\n"

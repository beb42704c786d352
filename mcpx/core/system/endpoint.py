"""The ways in: what a client attaches to.

Every frontend gives each of its clients an `Endpoint`: from the command line (`mcpx attach`, `mcpx serve`),
the greeting on the daemon's socket, or the URL over HTTP. Standard library and msgspec only, for `mcpx
attach`.
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

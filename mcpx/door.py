"""The ways in: what a client attaches to.

Every frontend gives each of its clients a `Door`: from the command line (`mcpx attach`, `mcpx serve`), the
greeting on the daemon's socket, or the URL over HTTP. Standard library and msgspec only, for `mcpx attach`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Expose = Literal["three", "all", "both"]
"""How tools are shown: by the three tools, each under its own name, or both."""
EXPOSURES: Final[tuple[Expose, ...]] = ("three", "all", "both")


class Door(msgspec.Struct, frozen=True, omit_defaults=True):
    """A way in. `expose` is the client's own choice, None for what the configuration says.

    With `server` the door is transparent: it shows that server alone, as it is.
    """

    expose: Expose | None = None
    server: str | None = None


FRONT_DOOR: Final = Door()

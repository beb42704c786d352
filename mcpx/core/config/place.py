"""Where in a cluster a server is to run: the setting `place`, which means nothing without a cluster.

Shape, bounds and meaning, as in `mcpx.core.config.per_server`; what follows from it `mcpx.cluster` decides.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from mcpx.core.config.trust import NonEmpty, doc

MAX_AMOUNT: Final = 1_000_000_000
Amount = Annotated[float, Meta(ge=0, le=MAX_AMOUNT)]


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server asks of the node that it runs on. A slip must not send it to any node."""

    resources: Annotated[
        dict[NonEmpty, Amount],
        doc('Amounts of a node\'s resources that it takes, by the names that Ray has for them: {"gpu": 1}.'),
    ] = {}
    node: Annotated[
        NonEmpty | None,
        doc("The node that it must run on: its name, id or host, or a label that it must have (key=value)."),
    ] = None
    spread: Annotated[
        bool, doc("Whether it is kept away from the others that say so, as far as there are nodes.")
    ] = False

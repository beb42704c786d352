"""Listings of tools, for the meter: what they cost a client without MCPX, and which are counted already."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from mcpx.catalog.model import Catalogue
from mcpx.core.costs import tools_cost
from mcpx.upstream.actor import Upstream

MAX_LISTINGS: Final = 1024  # clients whose last listing is remembered
SESSION_S: Final = 3600.0  # after which a client without sessions is taken for a new one


class _Listing(NamedTuple):
    direct: int
    spent: int
    at: float
    """On the monotonic clock, in seconds."""


class Listings:
    """The listing that each client was last counted with."""

    def __init__(self) -> None:
        self._last: dict[object, _Listing] = {}

    def is_news(self, client: object, direct: int, spent: int) -> bool:
        """Whether the client has not been counted with this listing; it has been from now on.

        A client without sessions is a text: it is counted again after an hour.
        """
        now = time.monotonic()
        last = self._last.pop(client, None)
        known = last is not None and (last.direct, last.spent) == (direct, spent)
        if known and isinstance(client, str) and last is not None and now - last.at > SESSION_S:
            known = False
        self._last[client] = last if known and last is not None else _Listing(direct, spent, now)
        if len(self._last) > MAX_LISTINGS:
            del self._last[next(iter(self._last))]
        return not known

    def client_left(self, client: object) -> None:
        """Forget a client that has left."""
        self._last.pop(client, None)


def cost_of_menus(upstreams: Mapping[str, Upstream]) -> dict[str, int]:
    """The cost of each server's tools, to a client that is connected to it directly."""
    known = ((name, upstream.catalogue) for name, upstream in upstreams.items())
    return {name: _cost_of_menu(its) for name, its in known if its is not None and its.tools}


def _cost_of_menu(catalogue: Catalogue) -> int:
    """The cost of the tools of a catalogue, which is kept with it."""
    kept: dict[str, int] = catalogue.__dict__
    if "menu_cost" not in kept:
        kept["menu_cost"] = tools_cost(catalogue.tools.values())
    return kept["menu_cost"]

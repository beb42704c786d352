"""Listings of tools, for the meter: what they cost a client without MCPX, and which one counts.

Of a session the last listing counts, in the place of those before: a menu that grows while servers come up is
one menu.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from mcpx.core.catalog.model import Catalogue
from mcpx.core.events.costs import tools_cost
from mcpx.core.events.stats import MCPX

MAX_LISTINGS: Final = 1024  # clients whose last listing is remembered
SESSION_S: Final = 3600.0  # after which a client without sessions is taken for a new one


class Offers(Protocol):
    """A server, as far as its catalogue is looked at."""

    @property
    def catalogue(self) -> Catalogue | None:
        """The offers of the server, or its last ones; None where they are not known."""
        ...


Menu = Mapping[str, tuple[int, int]]
"""The cost of a listing: the direct and the spent tokens of each server."""


class _Listing(NamedTuple):
    menu: Menu
    at: float
    """On the monotonic clock, in seconds."""


class Listings:
    """The listing that each client is counted with: its last one."""

    def __init__(self) -> None:
        self._last: dict[object, _Listing] = {}

    def replace(self, client: object, menu: Menu) -> list[tuple[str, int, int]]:
        """Count a client with this listing from now on.

        Returns what changes for each server, in direct and in spent tokens; nothing where the listing that
        counted until now is the same. A client without sessions is a text: it is a new one after an hour.
        """
        now = time.monotonic()
        last = self._last.pop(client, None)
        if last is not None and isinstance(client, str) and now - last.at > SESSION_S:
            last = None
        self._last[client] = _Listing(menu, now if last is None else last.at)
        if len(self._last) > MAX_LISTINGS:
            del self._last[next(iter(self._last))]
        before = {} if last is None else last.menu
        changes = []
        for server in menu.keys() | before.keys() if menu != before else ():
            shown, then = menu.get(server, (0, 0)), before.get(server, (0, 0))
            changes.append((server, shown[0] - then[0], shown[1] - then[1]))
        return changes

    def counted_before(self, client: object, menu: Menu) -> None:
        """Take it that the session was counted with its listing by the daemon before this one."""
        if client not in self._last:
            self.replace(client, menu)

    def client_left(self, client: object) -> None:
        """Forget a client that has left."""
        self._last.pop(client, None)


def menu_of(servers: Mapping[str, Offers], spent: int) -> Menu:
    """Return the direct cost of each server's tools, with its share of what was spent; the shares add up."""
    menus = cost_of_menus(servers)
    whole = sum(menus.values())
    if not whole:
        return {MCPX: (0, spent)}
    menu, until = {}, 0
    for server, direct in menus.items():
        share = spent * (until + direct) // whole - spent * until // whole
        menu[server] = direct, share
        until += direct
    return menu


def cost_of_menus(upstreams: Mapping[str, Offers]) -> dict[str, int]:
    """Return the cost of each server's tools, to a client that is connected to it directly."""
    known = ((name, upstream.catalogue) for name, upstream in upstreams.items())
    return {name: _cost_of_menu(its) for name, its in known if its is not None and its.tools}


def _cost_of_menu(catalogue: Catalogue) -> int:
    """Return the cost of the tools of a catalogue, which is kept with it."""
    kept: dict[str, int] = catalogue.__dict__
    if "menu_cost" not in kept:
        kept["menu_cost"] = tools_cost(catalogue.tools.values())
    return kept["menu_cost"]

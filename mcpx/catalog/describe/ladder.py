"""The longest listing that fits a token budget.

Owns the choice of how fully each server is shown. A ladder is a list of rungs, from the fullest to the
barest; a rung is a pure function from a server to its block of text. Everybody starts on rung 0. If that does
not fit, servers step down one rung, the one with the longest block first, and nobody steps to rung 2 before
all stand on rung 1. If even the last rung does not fit, the servers at the end are left out and counted.

Theory: stepping down the largest until the sum fits leaves the smallest standing, so the same choice is found
from below: take the fullest rung on which all fit, then lift servers to the next, smallest first, while there
is room. That never renders or counts much more than what fits, however large the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import msgspec

from mcpx.catalog.model import ServerInfo
from mcpx.catalog.tokens import estimate

Rung = Callable[[ServerInfo], str]

# No folded text has more characters a token by `estimate`: longer texts need no counting to be too long.
_MOST_CHARACTERS_A_TOKEN: Final = 12


class Ladder(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind of list gets shorter.

    The first `listing` rungs name every entry of a server, `entries` of them, each at a token or more: where
    that alone is over the budget the block is not even made. `hint` stands above a shortened list and says
    how to see the rest; `left_out` makes the last line, from the number of servers that are not shown.
    """

    rungs: tuple[Rung, ...]
    listing: int
    entries: Callable[[ServerInfo], int]
    hint: str
    left_out: Callable[[int], str]


class _Listing:
    """The blocks of all servers on all rungs, with their costs: each made once, when first asked for."""

    def __init__(self, servers: Sequence[ServerInfo], ladder: Ladder, budget: int) -> None:
        self.everyone = range(len(servers))
        self.block = cache(lambda rung, index: ladder.rungs[rung](servers[index]))
        self.cost = cache(self._cost)
        self._entries = [ladder.entries(server) for server in servers]
        self._listing = ladder.listing
        self._budget = budget

    def size(self, rung: int, index: int) -> int:
        """How large a block is, in characters; of one that cannot fit, a guess from its entries."""
        entries = self._entries[index]
        if rung < self._listing and entries > self._budget:
            return entries * _MOST_CHARACTERS_A_TOKEN
        return len(self.block(rung, index))

    def _cost(self, rung: int, index: int) -> int:
        """Tokens of a block with its line break; of one that cannot fit, merely more than the budget."""
        if self.size(rung, index) > self._budget * _MOST_CHARACTERS_A_TOKEN:
            return self._budget + 1
        return estimate(self.block(rung, index)) + 1

    def fits(self, rung: int, budget: int) -> bool:
        """Whether all servers fit on this rung."""
        spent = 0
        for index in self.everyone:
            spent += self.cost(rung, index)
            if spent > budget:
                return False
        return True


def fit(servers: Sequence[ServerInfo], ladder: Ladder, budget: int) -> str:
    """The listing: a block a server in the order given, within `budget` tokens.

    Under the handful of tokens that the hint and the last line need, the text is empty.
    """
    listing = _Listing(servers, ladder, budget)
    last = len(ladder.rungs) - 1
    rung = last + 1
    while rung and listing.fits(rung - 1, budget):
        rung -= 1
    if rung == 0:
        return "\n".join(listing.block(0, index) for index in listing.everyone)
    room = budget - estimate(ladder.hint) - 1
    while rung <= last and not listing.fits(rung, room):
        rung += 1
    blocks = _lifted(listing, rung, room) if rung <= last else _left_out(listing, last, ladder, room)
    return "\n".join([ladder.hint, *blocks]) if blocks else ""


def _lifted(listing: _Listing, rung: int, room: int) -> list[str]:
    """All servers on `rung`, and as many as there is room for on the rung above it, smallest first."""
    room -= sum(listing.cost(rung, index) for index in listing.everyone)
    above = rung - 1
    lifted = set()
    for index in sorted(listing.everyone, key=lambda index: listing.size(above, index)):
        room -= listing.cost(above, index) - listing.cost(rung, index)
        if room < 0:
            break
        lifted.add(index)
    return [listing.block(above if index in lifted else rung, index) for index in listing.everyone]


def _left_out(listing: _Listing, rung: int, ladder: Ladder, room: int) -> list[str]:
    """As many servers as there is room for on the barest rung, and a line with the number of the others."""
    total = len(listing.everyone)
    room -= estimate(ladder.left_out(total)) + 1
    if room < 0:
        return []
    blocks = []
    for index in listing.everyone:
        room -= listing.cost(rung, index)
        if room < 0:
            break
        blocks.append(listing.block(rung, index))
    return [*blocks, ladder.left_out(total - len(blocks))]

"""The longest listing that fits a token budget.

Owns the choice of how fully each server is shown. A ladder is a list of rungs, from the fullest to the
barest; a rung is a pure function from a server to its block of text. All servers start on rung 0. If that
does not fit, servers step down one rung, the one with the longest block first, and none steps to rung 2
before all stand on rung 1; but for an outlier, many times as long as the others, which steps down alone and
takes no line from them. A rung that more than a quarter of the servers, and more than one, cannot reach is
left to none. If even the last rung does not fit, the servers at the end are left out and counted.

Theory: stepping down the largest until the sum fits leaves the smallest standing, so the same choice is found
from below. All stand on the last rung; then, rung by rung, all that have come so far are lifted to the next,
smallest first, while there is room; those left behind end the climb, unless they are outliers. A block that
cannot fit is judged by the number of its entries and never made, and one that was made is kept with its
catalogue: the work follows the budget, not the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

import msgspec

from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.tokens import estimate

Rung = Callable[[ServerInfo], str]

# No folded text has more characters a token by `estimate`: longer texts need no counting to be too long.
_MAX_CHARS_PER_TOKEN: Final = 12
_MIN_CHARS_PER_TOKEN: Final = 2  # at least
_TOO_MANY_TOKENS: Final = 1_000_000  # what a text costs that is too long for any budget
_MIN_TOKENS_PER_ENTRY: Final = 2  # a name, and what parts it from the next
_OUTLIER: Final = 10  # times the usual length: a server that others need not step down for
_MAX_BEHIND: Final = 4  # one server of so many may stay below a rung that the others reach
_MAX_KEPT: Final = 64  # blocks of one catalogue
_MAX_TRIES: Final = 8  # blocks of a rung that are made in vain; the others are larger


class Ladder(msgspec.Struct, frozen=True, kw_only=True):
    """The steps in which a kind of list gets shorter.

    `name` tells ladders apart whose rungs make different blocks. The first `listing` rungs name every entry
    of a server, `entries` of them, each at two tokens or more: where that alone is over the budget the block
    is not even made. `hint` stands above a shortened list and says how to see the rest; `left_out` makes the
    last line, from the number of servers that are not shown. `beside` is what a block says of servers beside
    its own, and `servers` of how many in all it tells.
    """

    name: tuple[str, int]
    rungs: tuple[Rung, ...]
    listing: int
    entries: Callable[[ServerInfo], int]
    hint: str
    left_out: Callable[[int], str]
    beside: Callable[[ServerInfo], Hashable] = lambda _server: None
    servers: Callable[[ServerInfo], int] = lambda _server: 1


class _Block(msgspec.Struct, frozen=True):
    """A server on one rung: its text, and what that costs with its line break. A block may be empty."""

    text: str
    cost: int


class _Listing:
    """The blocks of all servers on all rungs, each made once and kept with its catalogue."""

    def __init__(self, servers: Sequence[ServerInfo], ladder: Ladder, budget: int) -> None:
        self.all = range(len(servers))
        self._servers = servers
        self.entries = [ladder.entries(server) for server in servers]
        self.told = [ladder.servers(server) for server in servers]
        self._ladder = ladder
        self._budget = budget
        self._made: dict[tuple[int, int], _Block] = {}

    def block(self, rung: int, index: int) -> _Block:
        """The block of a server on a rung."""
        made = self._made.get((rung, index))
        if made is None:
            made = self._made[rung, index] = self._kept(rung, index)
        return made

    def _kept(self, rung: int, index: int) -> _Block:
        server = self._servers[index]
        kept: dict[object, _Block] = {}
        if server.catalogue is not None:
            kept = server.catalogue.__dict__.setdefault("blocks", kept)
        key = (self._ladder.name, rung, server.name, server.lasting, self._ladder.beside(server))
        made = kept.get(key)
        if made is None:
            if len(kept) >= _MAX_KEPT:
                kept.clear()
            made = kept[key] = _made(self._ladder.rungs[rung](server))
        return made

    def least(self, rung: int, index: int) -> int:
        """Tokens that the block costs at least, without making it."""
        return _MIN_TOKENS_PER_ENTRY * self.entries[index] if rung < self._ladder.listing else 1

    def cost(self, rung: int, index: int) -> int:
        """Tokens of a block with its line break; of one that cannot fit, merely more than the budget."""
        return self._budget + 1 if self.least(rung, index) > self._budget else self.block(rung, index).cost

    def total(self, rung: int, room: int) -> int:
        """Cost of all servers on this rung; anything over `room` where that is more."""
        spent = 0
        for index in self.all:
            spent += self.cost(rung, index)
            if spent > room:
                break
        return spent

    def lift(self, rung: int, climbing: list[int], room: int) -> tuple[list[int], int, bool]:
        """Lift the climbing servers to `rung`, those with the fewest entries first, while there is room.

        Returns those that were lifted, the room that is left, and whether one was left behind that is no
        outlier.
        """
        lifted: list[int] = []
        behind: list[int] = []
        for index in sorted(climbing, key=self.entries.__getitem__):
            stands = self.block(rung + 1, index).cost
            tried = len(behind) < _MAX_TRIES and self.least(rung, index) - stands <= room
            more = self.cost(rung, index) - stands if tried else room + 1
            if more <= room:
                room -= more
                lifted.append(index)
            else:
                behind.append(index)
        lengths = sorted(len(self.block(rung, index).text) for index in lifted)
        usual = lengths[(len(lengths) - 1) // 2] if lengths else 0  # their median
        return lifted, room, any(self._length(rung, index) <= _OUTLIER * usual for index in behind)

    def _length(self, rung: int, index: int) -> int:
        """Characters of a block; of one that was not made, what its entries take at least."""
        made = self._made.get((rung, index))
        return len(made.text) if made else self.least(rung, index) * _MIN_CHARS_PER_TOKEN


def _made(text: str) -> _Block:
    too_long = len(text) > _TOO_MANY_TOKENS * _MAX_CHARS_PER_TOKEN
    return _Block(text, _TOO_MANY_TOKENS if too_long else estimate(text) + bool(text))


def fit(servers: Sequence[ServerInfo], ladder: Ladder, budget: int) -> str:
    """The listing: a block a server in the order given, within `budget` tokens.

    Under the handful of tokens that the hint and the last line need, the text is empty.
    """
    listing = _Listing(servers, ladder, budget)
    last = len(ladder.rungs) - 1
    if listing.total(0, budget) <= budget:
        return _joined(listing.block(0, index).text for index in listing.all)
    room = budget - estimate(ladder.hint) - 1
    if listing.total(last, room) <= room:
        blocks = _lifted(listing, last, room)
    elif listing.total(last, budget) <= budget:  # the hint alone does not fit
        return _joined(listing.block(last, index).text for index in listing.all)
    else:
        blocks = _left_out(listing, last, ladder, room)
    return _joined([ladder.hint, *blocks]) if any(blocks) else ""


def _joined(blocks: Iterable[str]) -> str:
    return "\n".join(filter(None, blocks))


def _lifted(listing: _Listing, last: int, room: int) -> list[str]:
    """All servers on the last rung or above it, as high as there is room: rung by rung, smallest first."""
    at = dict.fromkeys(listing.all, last)
    room -= listing.total(last, room)
    climbing = list(listing.all)
    for rung in range(last - 1, -1, -1):
        lifted, room, held_back = listing.lift(rung, climbing, room)
        behind = len(listing.all) - len(lifted)
        if behind > max(1, len(listing.all) // _MAX_BEHIND):  # the signatures of some are seldom worth it
            break
        at |= dict.fromkeys(lifted, rung)
        climbing = lifted
        if held_back:
            break
    return [listing.block(at[index], index).text for index in listing.all]


def _left_out(listing: _Listing, rung: int, ladder: Ladder, room: int) -> list[str]:
    """Return as many servers as there is room for on the barest rung, and a line with the number of the
    others.
    """
    left = sum(listing.told)
    room -= estimate(ladder.left_out(left)) + 1
    if room < 0:
        return []
    blocks = []
    for index in listing.all:
        room -= listing.cost(rung, index)
        if room < 0:
            break
        blocks.append(listing.block(rung, index).text)
        left -= listing.told[index]
    return [*blocks, ladder.left_out(left)]


def counted(number: int, noun: str) -> str:
    """`1 tool`, `1,403 tools`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

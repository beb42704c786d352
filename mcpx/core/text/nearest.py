"""The known names that a wrong one was probably meant to be: the one "did you mean" of MCPX. Pure.

Called with the names of servers, tools, resources and arguments, and with the keys of a configuration. Takes
a bounded time, whatever the names are and however many there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

LETTERS_COMPARED: Final = 64  # of a name; real ones are shorter
_LIKENESS: Final = 0.6  # the share of the letters of both names that must be common to them, in order
_LIKENESS_OF_TYPO: Final = 0.8
_SAME_WORDS: Final = 4  # the score of names with the same words in another order
_SHORTEST_PART: Final = 3  # letters; a shorter part is found in everything
MAX_KNOWN: Final = 1000  # names looked at, at half a microsecond each: many wrong names may come at once
_MAX_COMPARED: Final = 100  # of them letter by letter, at up to 30 us each
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


def nearest(name: str, known: Iterable[str], *, most: int = 3, typos_only: bool = False) -> list[str]:
    """Up to `most` of the `known` names that `name` was probably meant to be, best first.

    Case and separators do not count (`readFile` finds `read_file`), nor does the order of words; then come
    beginnings, then parts. Names alike letter by letter are looked for only where those are too few. Of very
    many names the first thousand count.

    With `typos_only` parts do not count, and nearly all letters must be alike: for names that may be right
    for somebody else, such as the keys of another client's configuration.
    """
    wanted = _letters(name[:LETTERS_COMPARED])
    others = [(other, _letters(other[:LETTERS_COMPARED])) for other in islice(known, MAX_KNOWN)]
    matches = ((_match(wanted, letters), other) for other, letters in others)
    good = _best(matches, most, _SAME_WORDS if typos_only else _LIKENESS)
    if len(good) < most:
        least = _LIKENESS_OF_TYPO if typos_only else _LIKENESS
        found = set(good)
        left = ((other, letters[0]) for other, letters in others if other not in found)
        alike = ((other, text) for other, text in left if _can_be_alike(wanted[0], text, least))
        scored = ((_likeness(wanted[0], text), other) for other, text in islice(alike, _MAX_COMPARED))
        good += _best(scored, most - len(good), least)
    return good


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return what to say of a wrong name: what it was probably meant to be, or what there is."""
    known = list(known)
    near = nearest(name, known, most=1)
    there_are = f"there are: {', '.join(known)}" if known else "there are none"
    return f"did you mean {near[0]}?" if near else there_are


def _best(scored: Iterable[tuple[float, str]], most: int, least: float) -> list[str]:
    """Up to `most` names with the highest scores, none below `least`."""
    alike = [pair for pair in scored if pair[0] >= least]
    return [name for _, name in sorted(alike, key=lambda pair: -pair[0])[:most]]


@lru_cache(maxsize=16384)
def _letters(name: str) -> tuple[str, str]:
    """The letters of a name without its separators; and its words in alphabetical order, as one text."""
    words = [word.casefold() for word in _WORD.findall(name)]
    return "".join(words), " ".join(sorted(words))


def _match(wanted: tuple[str, str], other: tuple[str, str]) -> float:
    """Rate how well two names match by words and parts: 1 to 5, or 0 for not at all. Takes `_letters`."""
    short, long = wanted[0], other[0]
    if len(short) > len(long):
        short, long = long, short
    if short not in long:
        return _SAME_WORDS if short and wanted[1] == other[1] else 0
    if short == long:
        return 5 if short else 0
    if len(short) < _SHORTEST_PART:
        return 0
    return (2 if long.startswith(short) else 1) + len(short) / len(long)


def _can_be_alike(one: str, other: str, least: float) -> bool:
    """Return True if their lengths allow the names to be alike to that share."""
    return 2 * min(len(one), len(other)) >= least * (len(one) + len(other)) > 0


def _likeness(one: str, other: str) -> float:
    """The share of letters that both names have in the same order, 0 to 1.

    By the longest common subsequence, which takes one step a letter with the bits of an integer (Hyyro 2004);
    difflib's ratio takes seconds for names such as `a1ba1b...`.
    """
    places: dict[str, int] = {}
    for index, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << index
    everywhere = (1 << len(one)) - 1
    free = everywhere
    for letter in other:
        taken = free & places.get(letter, 0)
        free = ((free + taken) | (free - taken)) & everywhere
    common = len(one) - free.bit_count()
    return 2 * common / (len(one) + len(other))

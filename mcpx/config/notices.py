"""Remarks about a configuration that are no errors: keys without effect, likely misspellings.

Owns the wording and the gathering: a key without effect is reported once, however many servers carry it, and
a key that looks like a misspelling gets the likely one. One `ConfigNotices` lives for one parse.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mcpx.config.document import Location, quote
from mcpx.text.nearest import nearest

_HINTS: Final = {
    "timeout": 'use "call_timeout", in seconds',
    "initTimeout": 'use "connect_timeout", in seconds',
    "startup_timeout_sec": 'use "connect_timeout"',
    "tool_timeout_sec": 'use "call_timeout"',
    "envFile": 'the variables in that file are not set; put them under "env"',
    "inputs": "nobody can be asked; use environment variables",
}
"""Keys of other clients that have a counterpart here, or that would be missed."""

_PLACES_SHOWN: Final = 3
_MAX_GUESSES: Final = 50  # of one configuration


def similar(key: str, known: Iterable[str]) -> str | None:
    """The known key that `key` is probably a misspelling of, or `None`."""
    return next(iter(nearest(key, known, most=1, typos_only=True)), None)


def is_comment(key: str) -> bool:
    """Whether a key is for readers and editors: `$schema`, or one that starts with `_` or `//`."""
    return key == "$schema" or key.startswith(("_", "//"))


class ConfigNotices:
    """The remarks about one configuration, gathered while it is read."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._unused: dict[str, list[str]] = {}
        self._guesses = 0

    def add(self, at: Location, remark: str) -> None:
        """Add a remark on one place."""
        self._lines.append(f"{at.path}: {remark}")

    def unused(
        self, given: Iterable[str], at: Location, *, known: tuple[str, ...], elsewhere: tuple[str, ...] = ()
    ) -> None:
        """Add remarks on the keys given at a place that are not `known` there.

        `elsewhere` are keys that MCPX knows, but at the top level.
        """
        for key in given:
            if key in known or is_comment(key):
                continue
            if key in elsewhere:
                self.add(at.key(key), "this setting works at the top level only")
            elif self._guess() and (meant := similar(key, known)):
                self.add(at.key(key), f"unknown key, has no effect; did you mean {quote(meant)}?")
            else:
                self._unused.setdefault(key, []).append(at.path)

    def _guess(self) -> bool:
        """Whether to guess what one more key was meant to be; a guess takes some time."""
        self._guesses += 1
        return self._guesses <= _MAX_GUESSES

    def lines(self) -> tuple[str, ...]:
        """All remarks: a line each for places, then a line for each unused key."""
        return (*self._lines, *(_unused_line(key, places) for key, places in self._unused.items()))


def _unused_line(key: str, places: list[str]) -> str:
    shown = ", ".join(places[:_PLACES_SHOWN])
    more = f" and {len(places) - _PLACES_SHOWN} more" if len(places) > _PLACES_SHOWN else ""
    hint = f"; {_HINTS[key]}" if key in _HINTS else ""
    return f"{quote(key)} is not used by MCPX (in {shown}{more}){hint}"

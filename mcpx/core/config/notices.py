"""What is found while a configuration is read: mistakes, and remarks that are no errors.

Owns the wording and the gathering: reading goes on behind a mistake, so that all are found at once; a key
without effect is reported once, however many servers carry it, and a key that looks like a misspelling gets
the likely one. One `ConfigNotices` lives for one parse.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from mcpx.core.config.document import LocatedError, Location, quote
from mcpx.core.text.nearest import nearest

_ALLOW: Final = 'use "tools": {"allow": [...]}'
_DENY: Final = 'use "tools": {"deny": [...]}'
_HINTS: Final = {
    "timeout": 'use "call_timeout", in seconds',
    "initTimeout": 'use "connect_timeout", in seconds',
    "startup_timeout_sec": 'use "connect_timeout"',
    "tool_timeout_sec": 'use "call_timeout"',
    "inputs": "nobody can be asked; use environment variables",
    "enabledTools": _ALLOW,
    "includeTools": _ALLOW,
    "enabled_tools": _ALLOW,
    "disabledTools": _DENY,
    "excludeTools": _DENY,
    "disabled_tools": _DENY,
    "projects": "the servers of single projects are not read",
}
"""Keys of other clients that have a counterpart here, or that would be missed."""
_OTHER_WORDS: Final = {
    "arguments": "args",
    "cmd": "command",
    "directory": "cwd",
    "endpoint": "url",
    "environment": "env",
    "environmentVariables": "env",
    "envs": "env",
    "workingDirectory": "cwd",
}
"""What people write for some keys. A misspelling of one is a misspelling of the key."""
_NO_MISSPELLINGS: Final = frozenset({"source"})
"""Keys of other clients that are spelled much like some of MCPX's."""
_SHORT: Final = 5
"""Letters of a key up to which one wrong letter is a misspelling: too large a share of them for `nearest`."""
_SHORTEST: Final = 3
_PLACES_SHOWN: Final = 3
_MAX_GUESSES: Final = 50  # of one configuration
_MAX_UNUSED: Final = 8
"""Keys of the top level that have a line each; a file with more is another program's settings."""


def similar(key: str, known: Iterable[str]) -> str | None:
    """The known key that `key` is probably a misspelling of, or another word for; `None` if there is none."""
    known = list(known)
    words = {other: meant for other, meant in _OTHER_WORDS.items() if meant in known}
    if key in words:
        return words[key]
    found = next(iter(nearest(key, [*known, *words], most=1, typos_only=True)), None)
    if found is None:
        found = next((short for short in known if len(short) <= _SHORT and _is_one_slip(key, short)), None)
    return None if found is None else words.get(found, found)


def _is_one_slip(given: str, meant: str) -> bool:
    """Whether one letter is wrong, missing or too many, or two are exchanged."""
    if min(len(given), len(meant)) < _SHORTEST or abs(len(given) - len(meant)) > 1 or given[0] != meant[0]:
        return False
    start = next((n for n, (a, b) in enumerate(zip(given, meant, strict=False)) if a != b), len(given))
    rest, wanted = given[start:], meant[start:]
    slips = (rest[1:], wanted), (rest, wanted[1:]), (rest[1:], wanted[1:])
    return any(a == b for a, b in slips) or (rest[1::-1] + rest[2:] == wanted and len(rest) > 1)


def is_comment(key: str) -> bool:
    """Whether a key is for readers and editors: `$schema`, or one that starts with `_` or `//`."""
    return key == "$schema" or key.startswith(("_", "//"))


class Remark(msgspec.Struct, frozen=True):
    """Something odd at one place, or first there. `is_warning`: it was hardly meant so."""

    at: Location
    text: str
    is_warning: bool
    line: str
    """The remark with its place or places, for the log."""


class _Gathering:
    """Appends the mistake that is raised inside to a list, and stops it there."""

    def __init__(self, mistakes: list[LocatedError]) -> None:
        self._mistakes = mistakes

    def __enter__(self) -> None:
        """Nothing is prepared."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, LocatedError):
            return False
        self._mistakes.append(error)
        return True


class ConfigNotices:
    """The mistakes in one configuration and the remarks about it, gathered while it is read."""

    def __init__(self) -> None:
        self.mistakes: list[LocatedError] = []
        self._remarks: list[Remark] = []
        self._unused: dict[str, list[Location]] = {}
        self._guesses = 0

    def gathering(self) -> AbstractContextManager[None, bool]:
        """Add the mistake that is raised inside, in place of letting it through."""
        return _Gathering(self.mistakes)

    def add(self, at: Location, remark: str) -> None:
        """Add a remark on one place: something that was hardly meant so."""
        self._remarks.append(Remark(at, remark, is_warning=True, line=f"{at.path}: {remark}"))

    def note(self, at: Location, remark: str) -> None:
        """Add a remark on one place: something that is good to know."""
        self._remarks.append(Remark(at, remark, is_warning=False, line=f"{at.path}: {remark}"))

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
                self.add(at.name(key), "this setting works at the top level only")
            elif key not in _NO_MISSPELLINGS and self._guess() and (meant := similar(key, known)):
                self.add(at.name(key), f"unknown key, has no effect; did you mean {quote(meant)}?")
            else:
                self._unused.setdefault(key, []).append(at)

    def _guess(self) -> bool:
        """Whether to guess what one more key was meant to be; a guess takes some time."""
        self._guesses += 1
        return self._guesses <= _MAX_GUESSES

    def remarks(self) -> tuple[Remark, ...]:
        """All remarks: those on single places, then one on each unused key."""
        top = [key for key, places in self._unused.items() if not places[0].steps and key not in _HINTS]
        foreign = top if len(top) > _MAX_UNUSED else []
        others = [
            _unused(key, places) for key, places in self._unused.items() if key not in foreign or places[1:]
        ]
        return (*self._remarks, *others, *([_foreign(foreign, self._unused)] if foreign else []))

    def lines(self) -> tuple[str, ...]:
        """The remarks for the log."""
        return tuple(remark.line for remark in self.remarks())


def _unused(key: str, places: list[Location]) -> Remark:
    shown = ", ".join(place.path for place in places[:_PLACES_SHOWN])
    more = f" and {len(places) - _PLACES_SHOWN} more" if len(places) > _PLACES_SHOWN else ""
    hint = f"; {_HINTS[key]}" if key in _HINTS else ""
    text = f"{quote(key)} is not used by MCPX"
    line = f"{text} (in {shown}{more}){hint}"
    return Remark(places[0].name(key), line if places[1:] else text + hint, is_warning=False, line=line)


def _foreign(keys: list[str], unused: dict[str, list[Location]]) -> Remark:
    """One remark on many keys of the top level."""
    shown = ", ".join(map(quote, keys[:_PLACES_SHOWN]))
    text = f"{shown} and {len(keys) - _PLACES_SHOWN} more keys are not used by MCPX"
    return Remark(unused[keys[0]][0].name(keys[0]), text, is_warning=False, line=f"{text} (in $)")

"""The file as plain JSON, a place for everything in it, and what is found wrong or odd there.

Owns the decoding: UTF-8 (a byte order mark is tolerated), and syntax errors as `file:line:column`; comments
and trailing commas are none (`mcpx.core.text.jsonc`). Owns `Location`: how a place inside the file is written
in messages, each of which is one printable line. Owns the gathering of mistakes and remarks while a
configuration is read: reading goes on behind a mistake, so that all are found at once; a key without effect
is reported once, however many servers carry it, and a key that looks like a misspelling gets the likely one.
Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from mcpx.core.text import kind_of, quoted
from mcpx.core.text.jsonc import BOM, JSONCError, JSONObject, line_and_column, loads
from mcpx.core.text.nearest import nearest
from mcpx.errors import ConfigError

_NAME_SHOWN: Final = 60
"""Characters of a name in a message; more would bury the message."""
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
_NO_MISSPELLINGS: Final = frozenset({"source", "timeout"})
"""Keys of other clients that are spelled much like some of MCPX's."""
_SHORT: Final = 5
"""Letters of a key up to which one wrong letter is a misspelling: too large a share of them for `nearest`."""
_SHORTEST: Final = 3
_PLACES_SHOWN: Final = 3
_MAX_GUESSES: Final = 50  # of one configuration
_MAX_UNUSED: Final = 8
"""Keys of the top level that have a line each; a file with more is another program's settings."""


def quote(name: str) -> str:
    """The name in double quotes, escaped where it would not print, cut where it is long."""
    return quoted(name if len(name) <= _NAME_SHOWN else name[: _NAME_SHOWN - 3] + "...")


class Location(msgspec.Struct, frozen=True):
    """A place inside a configuration: `source` is the file as shown, `steps` lead there from the top.

    `is_key` is whether the last step's key is meant, and not its value.
    """

    source: str
    steps: tuple[str | int, ...] = ()
    is_key: bool = False

    @property
    def path(self) -> str:
        """The place in a message: `$`, `$.fs.args[1]`, or `$["my server"]` where a name is awkward."""
        return "$" + "".join(map(_step, self.steps))

    def key(self, name: str) -> Location:
        """The value of the member `name` of this object."""
        return Location(self.source, (*self.steps, name))

    def name(self, name: str) -> Location:
        """The key of the member `name` of this object."""
        return Location(self.source, (*self.steps, name), is_key=True)

    def item(self, index: int) -> Location:
        """The item `index` (from 0) of this array."""
        return Location(self.source, (*self.steps, index))

    def holds(self, other: Location) -> bool:
        """Return True if another place is this one, or inside it."""
        return other.steps[: len(self.steps)] == self.steps

    def error(self, problem: str) -> LocatedError:
        """The error that says what is wrong here."""
        return LocatedError(self, problem)

    def expected(self, what: str, value: Any) -> LocatedError:
        """The error for a value of the wrong kind; the value itself is not shown, it may be a secret."""
        return self.error(f"expected {what}, got {kind_of(value)}")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f"[{quote(step)}]"


class JSONSyntaxError(ConfigError):
    """The file is not JSON, from the character at `offset` on."""

    def __init__(self, text: str, error: JSONCError, where: str) -> None:
        line, column = line_and_column(text, error.offset)
        hint = "; mcpx import reads such files" if "looks like" in error.problem else ""
        super().__init__(f"{where}:{line}:{column}", f"not JSON: {error.problem}{hint}")
        self.offset = error.offset


class LocatedError(ConfigError):
    """Something wrong at one place of the file.

    `server` is the one whose entry it is in, which alone it disables; None where it spoils the whole file.
    """

    def __init__(self, at: Location, problem: str) -> None:
        super().__init__(f"{at.source}: {at.path}", problem)
        self.at = at
        self.server: str | None = None


def as_text(data: str | bytes, *, where: str) -> str:
    """The text of a file, without its byte order mark.

    Raises:
        ConfigError: Not UTF-8, or empty.
    """
    text = (data if isinstance(data, str) else _decoded(data, where)).removeprefix(BOM)
    if not text.strip():
        raise ConfigError(f"{where}:1:1", 'the file is empty; it needs at least {"mcpServers": {}}')
    return text


def decode(text: str, *, where: str) -> Any:
    """The JSON value in `text`, which may hold comments; every object in it is a `JSONObject`.

    Raises:
        JSONSyntaxError: It is not JSON.
    """
    try:
        return loads(text)
    except JSONCError as error:
        raise JSONSyntaxError(text, error, where) from None


def as_object(value: Any, at: Location) -> JSONObject:
    """`value` as an object, each key of it given once.

    Raises:
        LocatedError: It is something else, or a key is given twice.
    """
    if not isinstance(value, JSONObject):
        raise at.expected("an object", value)
    if value.repeated:
        raise at.name(value.repeated[0]).error("this key is given twice")
    return value


def _decoded(data: bytes, where: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(f"{where}:1:1", "not UTF-8 text; it looks like UTF-16: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = f"not UTF-8 text (byte 0x{data[error.start]:02x}): save it as UTF-8"
        raise ConfigError(f"{where}:{line}:{column}", problem) from None


# --- mistakes and remarks


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
    """Return True if one letter is wrong, missing or too many, or two are exchanged."""
    if min(len(given), len(meant)) < _SHORTEST or abs(len(given) - len(meant)) > 1 or given[0] != meant[0]:
        return False
    start = next((n for n, (a, b) in enumerate(zip(given, meant, strict=False)) if a != b), len(given))
    rest, wanted = given[start:], meant[start:]
    slips = (rest[1:], wanted), (rest, wanted[1:]), (rest[1:], wanted[1:])
    return any(a == b for a, b in slips) or (rest[1::-1] + rest[2:] == wanted and len(rest) > 1)


def unknown_key(key: str, known: Collection[str], at: Location) -> LocatedError:
    """Return the error for a key that means nothing at a place, with the likely one or all."""
    meant = similar(key, known)
    hint = f"did you mean {quote(meant)}?" if meant else f"the keys are {', '.join(known)}"
    return at.name(key).error(f"unknown key; {hint}")


def is_comment(key: str) -> bool:
    """Return True for a key for readers and editors: `$schema`, or one that starts with `_` or `//`."""
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

    def add(self, at: Location, remark: str, *, is_warning: bool = True) -> None:
        """Add a remark on one place: hardly meant so, or good to know if it is no warning."""
        self._remarks.append(Remark(at, remark, is_warning=is_warning, line=f"{at.path}: {remark}"))

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
        """Return True if one more key may be guessed at, which takes some time."""
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

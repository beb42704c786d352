"""The arguments of a call, read for the person who is asked about it. Pure.

Here one strict reader stands for all that may read them later: it reads to the end of the JSON or refuses it.
Programs differ in what they make of a member that is named twice, of half a surrogate pair, of `NaN` and of
what is nested very deeply; so nobody is asked about a call that holds one of these. Numbers keep the digits
they were written with. Nothing is exempt for its size or its depth: what is too much to be read is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.text import cut, quoted

MAX_READ_BYTES: Final = 1 << 23  # of arguments that somebody is asked about
MAX_VALUES: Final = 50_000  # in them; counted where there may be so many
MAX_MEMBERS: Final = 200  # of the arguments themselves: each is shown
MAX_NAME_CHARS: Final = 100
_COUNTED_BYTES: Final = 1 << 18  # smaller JSON holds few values
_INT_DIGITS: Final = 4000  # of an integer that Python reads
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_MARK: Final = f"mcpx-{os.urandom(8).hex()}:"  # before the digits of a number; of this process alone
_MARKED: Final = re.compile(rf'"{_MARK}([^"]*)"')
_ARGUMENTS: Final = "arguments"  # of a call; of `exec` they are among those of the call


class Unreadable(ValueError):
    """JSON about which nobody can be asked; the text is the rest of a sentence that begins with its name."""


class Arguments(msgspec.Struct, frozen=True):
    """The members of the arguments in their order, and a digest of all of them.

    The digest is the same for arguments that every reader takes for the same, and for no others: the order of
    members, white space and escapes do not count.
    """

    members: JSON
    digest: bytes

    @classmethod
    def read(cls, raw: bytes) -> Arguments:
        """Read the JSON of an object.

        Raises:
            Unreadable: It cannot be read to its end, or in more than one way.
        """
        value = _read(raw, MAX_READ_BYTES)
        if not isinstance(value, dict):
            raise Unreadable("are no object")
        if len(value) > MAX_MEMBERS:
            raise Unreadable(f"are {len(value):,}, and {MAX_MEMBERS} are the most that can be shown")
        return cls(value, hashlib.sha256(_dumped(value, sort_keys=True).encode()).digest())


def check(raw: bytes) -> None:
    """Check the message that arguments came in, which something else has read already.

    It may have made one of two members of the same name. Arguments in a string are checked as well.

    Raises:
        Unreadable: As from `Arguments.read`.
    """
    _read_inside(_read(raw, 2 * MAX_READ_BYTES, _members_of_message))


def written(value: Any) -> str:
    """A value that was read, as JSON on one line."""
    return _dumped(value, ensure_ascii=False)


class _Number:
    """A number whose digits Python would not give back, as it was written."""

    __slots__ = ("digits",)

    def __init__(self, digits: str) -> None:
        self.digits = digits


def _read(raw: bytes, most: int, members: Callable[[list[tuple[str, Any]]], JSON] | None = None) -> Any:
    if len(raw) > most:
        raise Unreadable(f"are over {most >> 20} MB, more than can be shown")
    if len(raw) > _COUNTED_BYTES and _values(raw) >= MAX_VALUES:
        raise Unreadable(f"hold {MAX_VALUES:,} values or more, more than can be shown")
    try:
        value = json.loads(
            raw.decode(),
            object_pairs_hook=members or _members,
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=_constant,
        )
        written(value).encode()  # not with half a surrogate pair
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("are nested too deeply") from None
    except UnicodeEncodeError:
        raise Unreadable("hold half a character (a lone surrogate)") from None
    except ValueError as error:
        raise Unreadable(f"cannot be read ({error})") from None
    return value


def _values(raw: bytes) -> int:
    """The number of values, roughly; of very many no more than shows that."""
    marks, strings = _STRING.subn(b"", raw, 2 * MAX_VALUES)
    return max(strings // 2, marks.count(b",") + marks.count(b"[") + marks.count(b"{"))


def _members(pairs: list[tuple[str, Any]]) -> JSON:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Unreadable(f"name {quoted(cut(name, MAX_NAME_CHARS))} twice")
            seen.add(name)
    return members


def _members_of_message(pairs: list[tuple[str, Any]]) -> JSON:
    members = _members(pairs)
    _read_inside(members.get(_ARGUMENTS))
    return members


def _read_inside(value: Any) -> None:
    """Check the object that a string holds, where it does."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        _read(value.encode(errors="surrogatepass"), 2 * MAX_READ_BYTES)


def _integer(digits: str) -> int | _Number:
    return int(digits) if len(digits) <= _INT_DIGITS and digits != "-0" else _Number(digits)


def _fraction(digits: str) -> float | _Number:
    number = float(digits)
    return number if repr(number) == digits else _Number(digits)


def _constant(name: str) -> Any:
    raise Unreadable(f"hold {name}, which is no JSON")


def _marked(value: Any) -> str:
    if isinstance(value, _Number):
        return f"{_MARK}{value.digits}"
    raise TypeError(type(value).__name__)


def _dumped(value: Any, **options: bool) -> str:
    text = json.dumps(value, default=_marked, **options)  # type: ignore[arg-type]  # names of options
    return _MARKED.sub(r"\1", text) if _MARK in text else text

"""Addresses of kept results: `mcpx://result/ID?block=2&from=60&count=20&select=EXPRESSION`. Pure.

All that follows the id is optional: `block` is the text of a result that has several (1 is the first), `from`
the first row or line of it to show (0 is the first; with `unit=characters` the first character), `count` how
many, and `select` a JMESPath expression, percent-encoded or as it is.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from mcpx.core.catalog.naming import offered_uri
from mcpx.core.text import cut, quoted
from mcpx.errors import CallError, Code

KEPT_SERVER: Final = "result"
"""The server that an address would be of, if there were one of that name."""
PREFIX: Final = offered_uri(KEPT_SERVER, "")
SERVER: Final = "mcpx"
"""Stands for the name of a server where a kept result is read with the resources tool."""
MAX_ADDRESS_CHARS: Final = 65_536
_ID: Final = r"[0-9a-f]{4,64}(?:~[A-Za-z0-9_-]{1,512}~[A-Za-z0-9_-]{22})?"  # of a replica, sealed
_ADDRESS: Final = re.compile(rf"{re.escape(PREFIX)}({_ID})/?(?:\?(.*))?", re.DOTALL)
_PARAMETERS: Final = ("from", "count", "select", "block", "unit")
_NEXT_PARAMETER: Final = re.compile(rf"&(?=(?:{'|'.join(_PARAMETERS)})=)")  # `&` stands in expressions, too
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_PLAIN: Final = "!$'()*,./:;@-_~"
_SHOWN_CHARS: Final = 40


class ResultAddress(msgspec.Struct, frozen=True):
    """A kept result, or a part of it. `start` and `count` are rows or lines of the block, or characters."""

    id: str
    block: int = 1
    start: int = 0
    count: int | None = None
    select: str | None = None
    in_characters: bool = False

    def __str__(self) -> str:
        given = {
            "block": self.block if self.block > 1 else None,
            "from": self.start or None,
            "unit": "characters" if self.in_characters else None,
            "count": self.count,
            "select": None if self.select is None else quote(self.select, safe=_PLAIN),
        }
        query = "&".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"{PREFIX}{self.id}" + (f"?{query}" if query else "")

    @property
    def call(self) -> str:
        """The call of the resources tool that reads it."""
        return f'resources("{SERVER}", "{self}")'


def read_address(uri: str) -> ResultAddress | None:
    """The address that a URI is; None for any other URI.

    Raises:
        CallError: `invalid_arguments`: a part of it cannot be read.
    """
    found = _ADDRESS.fullmatch(uri) if len(uri) <= MAX_ADDRESS_CHARS else None
    if found is None:
        return None
    given: dict[str, str] = {}
    for part in _NEXT_PARAMETER.split(found[2] or ""):
        name, _, value = part.partition("=")
        if part and name not in _PARAMETERS:
            raise _unreadable(part, f"it takes {', '.join(_PARAMETERS)}")
        given[name] = value
    return ResultAddress(
        found[1],
        _number(given, "block", 1),
        _number(given, "from", 0),
        _number(given, "count", 1) if "count" in given else None,
        unquote(given["select"]) if "select" in given else None,
        in_characters=given.get("unit") == "characters",
    )


def _number(given: dict[str, str], name: str, least: int) -> int:
    text = given.get(name)
    if text is None:
        return least
    if not _NUMBER.fullmatch(text) or int(text) < least:
        raise _unreadable(f"{name}={text}", f"a whole number from {least} is expected")
    return int(text)


def _unreadable(part: str, expected: str) -> CallError:
    text = f"The address of a kept result cannot be read at {quoted(cut(part, _SHOWN_CHARS))}: {expected}."
    return CallError(Code.INVALID_ARGUMENTS, text, server=SERVER)

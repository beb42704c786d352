"""Long lists in pages, with cursors that survive changes of the list. Pure.

A cursor contains the position where the page ended and a digest of its last entry. The next page begins
behind that entry, wherever it is by then; where it is gone, at the same position. So what stays listed is
neither repeated nor skipped, unless the order itself changes. A cursor is valid for the list that it came
from.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec
from mcp import MCPError
from mcp_types import INVALID_PARAMS

PAGE_ENTRIES: Final = 1000  # many hosts never ask for a second page

T = TypeVar("T")


class BadCursorError(MCPError):
    """The cursor is not one of ours, or is for another list."""

    def __init__(self, cursor: str) -> None:
        text = f"The cursor {cursor!r} is not from a page of this list; begin again without one"
        super().__init__(INVALID_PARAMS, text)


class _Cursor(msgspec.Struct, array_like=True):
    kind: str
    at: int
    entry: str


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some entries of a list, and the cursor of the next page."""

    entries: Sequence[tuple[str, T]]
    next_cursor: str | None


def page_of(
    kind: str, entries: Sequence[tuple[str, T]], cursor: str | None, *, size: int = PAGE_ENTRIES
) -> Page[T]:
    """The page behind `cursor`, or the first one. `entries` are pairs of a unique key and a value.

    Raises:
        BadCursorError: `cursor` does not come from a page of this kind of list.
    """
    start = 0 if cursor is None else _after(_read(kind, cursor), entries)
    end = start + size
    if end >= len(entries):
        return Page(entries[start:], None)
    made = _Cursor(kind, end, _digest(entries[end - 1][0]))
    return Page(entries[start:end], base64.urlsafe_b64encode(msgspec.json.encode(made)).decode().rstrip("="))


def _read(kind: str, cursor: str) -> _Cursor:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        read = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=_Cursor)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise BadCursorError(cursor) from None
    if read.kind != kind or read.at < 1:
        raise BadCursorError(cursor)
    return read


def _after(cursor: _Cursor, entries: Sequence[tuple[str, T]]) -> int:
    at = cursor.at
    if at <= len(entries) and _digest(entries[at - 1][0]) == cursor.entry:
        return at
    found = (place for place, (key, _) in enumerate(entries, 1) if _digest(key) == cursor.entry)
    # where the entry is gone, the one behind it has moved up by one
    return next(found, at - 1)


def _digest(key: str) -> str:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()

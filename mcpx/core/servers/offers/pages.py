"""The pages of one list, followed to the end and taken apart into entries, within what a listing may cost.

A server may offer so many entries, in so many bytes, over all pages of its four lists together (`Budget`).
What goes beyond that is left out, and no page is requested after it. An entry stays JSON until it is decoded
by itself, so that one that is too large, too deep or malformed costs none of the others. Bounds are checked
on the bytes where that can be done, before objects are made of them.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import anyio.lowlevel
import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.servers.causes import BadListing
from mcpx.core.servers.offers.entries import InvalidEntry
from mcpx.core.wire.malformed import NAN, cut_depth, stand_in_for_numbers
from mcpx.core.wire.outgoing import UnreadableAnswer

MAX_PAGE_VALUES: Final = 2_000_000  # objects in one page, or commas where not all entries are objects
MAX_PAGE_DEPTH: Final = 300  # levels kept of a page that is nested too deeply; more than an entry may have
MAX_ENTRY_BYTES: Final = 4 * 1024 * 1024  # of an entry without the texts that are cut
MAX_ENTRY_VALUES: Final = 200_000  # JSON values in an entry
MAX_ENTRY_DEPTH: Final = 250  # levels of JSON in an entry; the Python SDK takes no more

_NAN: Final = NAN.decode()
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\[\s\S])*+"')
_CUT_MEMBERS: Final = ("description", "title")

T = TypeVar("T")
MAX_ENTRIES: Final = 10_000  # of a server, over all of its lists
MAX_VALUES: Final = 1_000_000  # JSON values in them: each takes some hundred bytes of memory, however short
MAX_PAGES: Final = 1000  # of one list
MAX_CURSOR_CHARS: Final = 64 * 1024
TURN_BYTES: Final = 64 * 1024  # of entries are read in one turn of the event loop
TURN_ENTRIES: Final = 50  # at most, in such a turn: about 1 ms


class Page(msgspec.Struct, frozen=True):
    """One page. `overhead` is the size in bytes of everything but the entries."""

    entries: list[msgspec.Raw]
    next_cursor: str | None
    overhead: int


def read_page(result: msgspec.Raw, key: str) -> Page:
    """Take a page apart.

    Raises:
        BadListing: It is not a page of this list, or holds too much.
    """
    data = bytes(result) or b"{}"
    members = _decode_mended(data, dict[str, msgspec.Raw])
    listed = members.get(key, msgspec.Raw(b"null"))
    if data.count(b"{") > MAX_PAGE_VALUES or (
        data.count(b",") > MAX_PAGE_VALUES and not _are_objects(listed)
    ):
        raise BadListing(f"a page of the server's list of {key} holds over {MAX_PAGE_VALUES:,} values")
    try:
        entries = msgspec.json.decode(listed, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        raise BadListing(f"the server's answer has no list of {key}") from None
    size = sum(len(memoryview(entry)) for entry in entries)
    return Page(entries, _cursor(members.get("nextCursor")), len(data) - size)


class _Answer(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"{}")


def result_in(answer: bytes) -> msgspec.Raw:
    """The result in an answer that is nested too deeply, or has numbers that are no JSON, without those.

    Raises:
        BadListing: It cannot be read even so.
    """
    return _decode_mended(answer, _Answer).result


def _decode_mended(data: bytes, kind: type[T]) -> T:
    """Decode `data`, without what is too deep, and with others in the place of numbers that are no JSON."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        mended, problem = cut_depth(data, MAX_PAGE_DEPTH), "is nested too deeply"
    except msgspec.DecodeError as error:
        mended, problem = stand_in_for_numbers(data), f"cannot be read: {error}"
    if mended is None or mended == data:
        raise BadListing(f"the server's answer {problem}")
    return _decode_mended(mended, kind)


class _AnyObject(msgspec.Struct, gc=False):
    """Decodes any object, and keeps nothing of it."""


def _are_objects(listed: msgspec.Raw) -> bool:
    """True if all entries are objects; keeps none of them."""
    try:
        msgspec.json.decode(listed, type=list[_AnyObject])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _cursor(value: msgspec.Raw | None) -> str | None:
    """The next cursor; None, and so the end of the list, where it is not a text."""
    try:
        cursor = msgspec.json.decode(value) if value is not None else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return cursor if isinstance(cursor, str) and cursor else None


def decode_entry(entry: bytes) -> tuple[JSON, list[str]]:
    """The entry as an object, with a sentence for what was changed in it.

    Raises:
        InvalidEntry: It is not a JSON object, or is too large or too deep.
    """
    if len(entry) > MAX_ENTRY_BYTES and _size_without_texts(entry) > MAX_ENTRY_BYTES:
        raise InvalidEntry(f"it has {len(entry):,} bytes; MCPX takes {MAX_ENTRY_BYTES:,}")
    if max_values_in(entry) > MAX_ENTRY_VALUES:
        raise InvalidEntry(f"it has over {MAX_ENTRY_VALUES:,} JSON values in it")
    try:
        value, changes = _loads(entry)
    except RecursionError:
        raise InvalidEntry(f"it is nested over {MAX_ENTRY_DEPTH} levels deep") from None
    except ValueError as error:
        raise InvalidEntry(f"it cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise InvalidEntry("it is not an object")
    if entry.count(b"[") + entry.count(b"{") > MAX_ENTRY_DEPTH and _is_deep(value):
        raise InvalidEntry(f"it is nested over {MAX_ENTRY_DEPTH} levels deep")
    return value, changes


def max_values_in(entry: bytes) -> int:
    """An upper bound of the JSON values in an entry; far above the limit it is not refined."""
    bound = _punctuation(entry)
    if bound <= MAX_ENTRY_VALUES or entry.count(b'"') - entry.count(b'\\"') > 4 * MAX_ENTRY_VALUES:
        return bound
    return _punctuation(_STRING.sub(b"", entry))  # texts have commas too


def _punctuation(entry: bytes) -> int:
    return 1 + entry.count(b",") + entry.count(b"[") + entry.count(b"{")


def _loads(entry: bytes) -> tuple[Any, list[str]]:
    try:
        return msgspec.json.decode(entry), []
    except msgspec.DecodeError:  # a number beyond all floats, for one
        changes: dict[str, None] = {}  # each sentence once

        def finite(text: str) -> float | None:
            if text == _NAN:
                changes["a NaN in it, which JSON does not have, was made null"] = None
                return None
            number = float(text)
            if math.isinf(number):
                changes["a number in it that is beyond all floats was made the largest of them"] = None
                return math.copysign(sys.float_info.max, number)
            return number

        value = json.loads(entry, parse_float=finite, parse_constant=_refuse_constant)
        return value, list(changes)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_deep(value: JSON) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_ENTRY_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(outer: Any) -> Iterator[Any]:
    values = outer.values() if isinstance(outer, dict) else outer
    return (value for value in values if isinstance(value, dict | list) and value)


def _size_without_texts(entry: bytes) -> int:
    """Its size in bytes, without the texts that are going to be cut."""
    try:
        members = msgspec.json.decode(entry, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return len(entry)
    return len(entry) - sum(len(memoryview(members[key])) for key in _CUT_MEMBERS if key in members)


class _Named(msgspec.Struct):
    name: Any = None
    uri: Any = None
    uri_template: Any = msgspec.field(default=None, name="uriTemplate")


def name_of(entry: bytes, number: int) -> str:
    """The name or URI of an entry that may be invalid, else its position in the list: `entry 7`."""
    try:
        named = msgspec.json.decode(entry, type=_Named)
    except (msgspec.DecodeError, RecursionError):
        named = _Named()
    candidates = (named.name, named.uri, named.uri_template)
    return next((each for each in candidates if isinstance(each, str) and each), f"entry {number}")


RequestPage = Callable[[str | None], Awaitable[msgspec.Raw]]
"""Requests the page of that cursor: its result, as it came."""


class Budget:
    """Budget of the listing of one server. `limit` is in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = limit
        self._entries = MAX_ENTRIES
        self._values = MAX_VALUES

    def charge(self, entry: bytes) -> None:
        """Charge one more entry."""
        self._entries -= 1
        self._bytes -= len(entry)
        values = max_values_in(entry)
        if values <= MAX_ENTRY_VALUES:  # otherwise the entry is going to be left out
            self._values -= values

    def charge_bytes(self, size: int) -> None:
        """Charge the rest of a page."""
        self._bytes -= size

    @property
    def exceeded(self) -> str | None:
        """Which limit is exceeded, in words; None where none is."""
        if self._entries < 0:
            return f"MCPX takes {MAX_ENTRIES:,} entries of a server"
        if self._bytes < 0:
            return f"MCPX takes {self._limit:,} bytes of lists of a server"
        return f"MCPX takes {MAX_VALUES:,} values in the lists of a server" if self._values < 0 else None


class Pages:
    """One list. Iterate over `entries` once; `skipped` and `incomplete` say what it did not give."""

    def __init__(self, key: str, request: RequestPage, budget: Budget) -> None:
        self._key = key
        self._request = request
        self._budget = budget
        self.skipped = 0
        """The number of entries that were received and not given."""
        self.incomplete: str | None = None
        """Reason why the list is not complete; None where it is."""

    async def entries(self) -> AsyncIterator[bytes]:
        """The JSON of each entry, in order.

        Raises:
            MCPError: The server refused a page.
            MalformedMessage: A page cannot be decoded.
            ResponseTooLarge: A page exceeds the limit of one message.
            BadListing: A page is not one of this list, or the pages do not end and have no entries.
        """
        cursor: str | None = None
        seen: set[int] = set()  # hashes: cursors may be long
        found = 0
        while True:
            page = read_page(await self._request_readable(cursor), self._key)
            found += len(page.entries)
            self._budget.charge_bytes(page.overhead)
            async for entry in self._affordable(page.entries):
                yield entry
            cursor = page.next_cursor
            if cursor is None or self.incomplete is not None:
                return
            if len(cursor) > MAX_CURSOR_CHARS or hash(cursor) in seen or len(seen) + 1 >= MAX_PAGES:
                break
            seen.add(hash(cursor))
        self.incomplete = (
            f"the server's list of {self._key} does not end: stopped after {len(seen) + 1} pages"
        )
        if not found:
            raise BadListing(self.incomplete)

    async def _affordable(self, entries: list[msgspec.Raw]) -> AsyncIterator[bytes]:
        """Read as many entries as the budget allows; other tasks run between them."""
        read = 0
        for number, raw in enumerate(entries):
            entry = bytes(raw)
            self._budget.charge(entry)
            if self._budget.exceeded is not None:
                self.skipped, self.incomplete = len(entries) - number, self._budget.exceeded
                return
            yield entry
            read += max(len(entry), TURN_BYTES // TURN_ENTRIES)
            if read >= TURN_BYTES:
                read = 0
                await anyio.lowlevel.checkpoint()
        self.incomplete = self._budget.exceeded

    async def _request_readable(self, cursor: str | None) -> msgspec.Raw:
        """Request a page. What strict readers cannot read in it is mended."""
        try:
            return await self._request(cursor)
        except UnreadableAnswer as error:
            return result_in(error.line)

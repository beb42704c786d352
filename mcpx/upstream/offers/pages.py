"""The pages of one list, followed to the end and taken apart into entries, within what a listing may cost.

A server may offer so many entries, in so many bytes, over all pages of its four lists together (`Budget`).
What goes beyond that is left out; no page is asked for after it. The entries come as JSON, each for itself,
so that one that cannot be read costs none of the others. Used by `upstream.listing`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import anyio.lowlevel
import msgspec

from mcpx.upstream.errors import BadListing
from mcpx.upstream.offers.entries import ENTRY_VALUES_MOST, values_in
from mcpx.wire.mending import cut_depth
from mcpx.wire.outgoing import TooDeep

ENTRIES_MOST: Final = 10_000  # of a server, over all of its lists
VALUES_MOST: Final = 1_000_000  # JSON values in them: each takes some hundred bytes of memory, however short
PAGE_MOST: Final = 2_000_000  # objects in one page, or commas where not all entries are objects
PAGE_CAP: Final = 1000  # pages of one list
DEPTH_READ: Final = 300  # levels of a page that is nested too deeply as a whole; more than an entry may have
CURSOR_MOST: Final = 64 * 1024  # characters
BREATH_BYTES: Final = 64 * 1024  # of entries are read in one turn of the event loop
BREATH_ENTRIES: Final = 50  # and so many entries: about 1 ms

AskPage = Callable[[str | None], Awaitable[msgspec.Raw | dict[str, Any]]]
"""Asks for the page of that cursor: its result, as it came or decoded."""


class Budget:
    """What is left for the listing of one server. `limit` is in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = limit
        self._entries = ENTRIES_MOST
        self._values = VALUES_MOST

    def pay(self, entry: bytes) -> None:
        """For one more entry."""
        self._entries -= 1
        self._bytes -= len(entry)
        values = values_in(entry)
        if values <= ENTRY_VALUES_MOST:  # else it is going to be left out
            self._values -= values

    def pay_bytes(self, size: int) -> None:
        """For the rest of a page."""
        self._bytes -= size

    @property
    def overspent(self) -> str | None:
        """What there was too much of."""
        if self._entries < 0:
            return f"MCPX takes {ENTRIES_MOST:,} entries of a server"
        if self._bytes < 0:
            return f"MCPX takes {self._limit:,} bytes of lists of a server"
        return f"MCPX takes {VALUES_MOST:,} values in the lists of a server" if self._values < 0 else None


class Pages:
    """One list. Iterate over `entries` once; what was not given is said in `unread` and `why`."""

    def __init__(self, key: str, ask: AskPage, budget: Budget) -> None:
        self._key = key
        self._ask = ask
        self._budget = budget
        self.unread = 0
        """How many entries that came were not given."""
        self.why: str | None = None
        """Why the list is not whole."""

    async def entries(self) -> AsyncIterator[bytes]:
        """The JSON of each entry, in order.

        Raises:
            MCPError: The server refused a page.
            MalformedMessage: A page cannot be read; so for ResponseTooLarge.
            BadListing: A page is not one of this list; or there is no end of pages, and nothing in them.
        """
        cursor: str | None = None
        seen: set[int] = set()  # hashes: cursors may be long
        found = 0
        while True:
            page = read_page(await self._ask_readable(cursor), self._key)
            found += len(page.entries)
            self._budget.pay_bytes(page.overhead)
            async for entry in self._affordable(page.entries):
                yield entry
            cursor = page.next_cursor
            if cursor is None or self.why is not None:
                return
            if len(cursor) > CURSOR_MOST or hash(cursor) in seen or len(seen) + 1 >= PAGE_CAP:
                break
            seen.add(hash(cursor))
        self.why = f"the server's list of {self._key} does not end: stopped after {len(seen) + 1} pages"
        if not found:
            raise BadListing(self.why)

    async def _affordable(self, entries: list[msgspec.Raw]) -> AsyncIterator[bytes]:
        """As many as the budget allows; between them others have their turn."""
        read = 0
        for number, raw in enumerate(entries):
            entry = bytes(raw)
            self._budget.pay(entry)
            if self._budget.overspent is not None:
                self.unread, self.why = len(entries) - number, self._budget.overspent
                return
            yield entry
            read += max(len(entry), BREATH_BYTES // BREATH_ENTRIES)
            if read >= BREATH_BYTES:
                read = 0
                await anyio.lowlevel.checkpoint()
        self.why = self._budget.overspent

    async def _ask_readable(self, cursor: str | None) -> msgspec.Raw | dict[str, Any]:
        """A page; one that is nested too deeply, without what is too deep."""
        try:
            return await self._ask(cursor)
        except TooDeep as error:
            line = cut_depth(error.line, DEPTH_READ)
            if line is None:
                raise
            return msgspec.json.decode(line, type=_Answer).result


class _Answer(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"{}")


class Page(msgspec.Struct, frozen=True):
    """One page. `overhead` is the size in bytes of what is not an entry."""

    entries: list[msgspec.Raw]
    next_cursor: str | None
    overhead: int


def read_page(result: msgspec.Raw | dict[str, Any], key: str) -> Page:
    """Take a page apart. Raises BadListing."""
    data = _encoded(result) if isinstance(result, dict) else bytes(result) or b"{}"
    members = _members(data)
    listed = members.get(key, msgspec.Raw(b"null"))
    if data.count(b"{") > PAGE_MOST or (data.count(b",") > PAGE_MOST and not _are_objects(listed)):
        raise BadListing(f"a page of the server's list of {key} holds over {PAGE_MOST:,} values")
    try:
        entries = msgspec.json.decode(listed, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        raise BadListing(f"the server's answer has no list of {key}") from None
    size = sum(len(memoryview(entry)) for entry in entries)
    return Page(entries, _cursor(members.get("nextCursor")), len(data) - size)


def _members(data: bytes) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except RecursionError:
        if (cut := cut_depth(data, DEPTH_READ)) is not None and cut != data:
            return _members(cut)
        raise BadListing("the server's answer is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise BadListing(f"the server's answer cannot be read: {error}") from None


class _AnyObject(msgspec.Struct, gc=False):
    """What an object leaves behind of which nothing is read."""


def _are_objects(listed: msgspec.Raw) -> bool:
    """Whether all entries are objects, found out without keeping any."""
    try:
        msgspec.json.decode(listed, type=list[_AnyObject])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _encoded(result: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise BadListing(f"the server's answer cannot be read: {error}") from None


def _cursor(value: msgspec.Raw | None) -> str | None:
    """The next cursor; what is none ends the list."""
    try:
        cursor = msgspec.json.decode(value) if value is not None else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return cursor if isinstance(cursor, str) and cursor else None

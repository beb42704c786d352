"""The pages of one list, followed to the end and taken apart into entries, within what a listing may cost.

A server may offer so many entries, in so many bytes, over all pages of its four lists together (`Budget`).
What goes beyond that is left out, and no page is requested after it. Each entry comes as JSON of its own, so
that one that cannot be decoded costs none of the others. Used by `upstream.offers.listing`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import anyio.lowlevel
import msgspec

from mcpx.core.servers.errors import BadListing
from mcpx.core.servers.offers.decoding import MAX_ENTRY_VALUES, max_values_in, read_page, result_in
from mcpx.core.wire.outgoing import UnreadableAnswer

MAX_ENTRIES: Final = 10_000  # of a server, over all of its lists
MAX_VALUES: Final = 1_000_000  # JSON values in them: each takes some hundred bytes of memory, however short
MAX_PAGES: Final = 1000  # of one list
MAX_CURSOR_CHARS: Final = 64 * 1024
TURN_BYTES: Final = 64 * 1024  # of entries are read in one turn of the event loop
TURN_ENTRIES: Final = 50  # at most, in such a turn: about 1 ms

RequestPage = Callable[[str | None], Awaitable[msgspec.Raw]]
"""Requests the page of that cursor: its result, as it came."""


class Budget:
    """What the listing of one server may still cost. `limit` is in bytes."""

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
        """Why the list is not complete; None where it is."""

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
        """As many entries as the budget allows; other tasks run between them."""
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

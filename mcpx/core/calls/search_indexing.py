"""Reads what the servers offer into their search indices, a little in each turn of the event loop.

Owned by the inspector. The hub starts it when a catalogue has changed, so that the indices are whole by the
time somebody searches; a search that comes earlier waits for them. It begins when the catalogues have been
quiet for a while: servers that start need the processor more. A turn takes a few milliseconds, however long
the catalogues are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from mcpx.core.catalog.search_index import ServerIndex, index_of
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.words import groups_of, load_stemmer
from mcpx.core.telemetry.contained import containing

QUIET_S: Final = 1.0  # after the last change of a catalogue
CHARS_PER_TURN: Final = 5_000  # about 2 ms


class SearchIndexing:
    """Reads the catalogues of `servers`, which is asked again in each round."""

    def __init__(self, servers: Callable[[], Sequence[ServerInfo]]) -> None:
        self._servers = servers
        self._unread: list[ServerIndex] = []
        self._waiting: list[Callable[[], object]] = []
        self._running = False
        self._quiet: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Read what is not read yet, once this has not been called for `QUIET_S`."""
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(QUIET_S, self._run)

    def _run(self) -> None:
        """Read what is not read yet, in turns to come."""
        if not self._running:
            self._running = True
            asyncio.get_running_loop().call_soon(self._begin)

    def when_read(self, done: Callable[[], object]) -> None:
        """Call `done` when everything that is listed now has been read: now, or in a turn to come."""
        if not self._running and not self._find_unread():
            done()
            return
        self._waiting.append(done)
        self._run()

    def _begin(self) -> None:
        """Take a turn for the stemmer alone, which takes some time to import, and one for the synonyms."""
        self._step(load_stemmer, self._read_synonyms)

    def _read_synonyms(self) -> None:
        self._step(lambda: groups_of(""), self._turn)

    def _step(self, work: Callable[[], object], then: Callable[[], None]) -> None:
        """Do some work, and go on in the next turn even where it fails: there are searches that wait."""
        with containing("search_indexing"):  # the boundary: one odd entry costs itself, it is not read again
            work()
        asyncio.get_running_loop().call_soon(then)

    def _turn(self) -> None:
        if not self._unread:
            self._unread = self._find_unread()
        if not self._unread:
            self._end()
            return
        index = self._unread[-1]
        self._step(lambda: index.read(CHARS_PER_TURN), self._turn)
        if index.whole:
            self._unread.pop()

    def _end(self) -> None:
        self._running = False
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()

    def _find_unread(self) -> list[ServerIndex]:
        listed = [(one.name, one.catalogue) for one in self._servers() if one.catalogue is not None]
        indices = (index_of(name, catalogue) for name, catalogue in listed)
        return [index for index in indices if not index.whole]

"""The tools that a person used after a search, so that a later search in like words names them, too.

Off unless `search_history` is set. Owns the memory and its file, `searches.json` in a configuration's folder.
Of a search those words are remembered, as stems, that the tools or the synonyms know: names, numbers and
secrets in a question are not among them. The tools that the client then runs with success are noted with its
last searches. Nothing else is kept: no arguments, no results, no times.

`likely` compares the words of a search with those of earlier ones, where rare words count more, and returns
the tools of the nearest. Who shows a token with a name has a memory apart; all others share that of the user
whose state folder this is. Clients that call themselves the same are not told apart while they search.

Bounded: MAX_SEARCHES of each of MAX_PEOPLE, the oldest forgotten first. The file is written at most once a
minute and at the end, and forgotten with everything else when it is removed or the setting is turned off. Of
several processes with one configuration, the last to write counts.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from mcpx.core.events.records import Record
from mcpx.core.protocol.context import Origin
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import read_own_file, remove_partial, replace_file
from mcpx.core.telemetry.contained import contain
from supervisors import Incarnation

log = structlog.get_logger()
FILE_NAME: Final = "searches.json"
MAX_FILE_BYTES: Final = 16 << 20
WRITE_INTERVAL_S: Final = 60.0
MAX_SEARCHES: Final = 400
MAX_PEOPLE: Final = 20
MAX_WORDS: Final = 24  # of one search
MAX_TOOLS: Final = 12  # of one search
_OPEN_SEARCHES: Final = 4  # of a client, that a call is noted with
_OPEN_S: Final = 1800.0  # since the search
_MAX_CLIENTS: Final = 64
_NEAREST: Final = 10  # searches whose tools are likely
_LEAST: Final = 0.1  # of likeness, from which on an earlier search counts

Tool = tuple[str, str]
"""A server and a tool."""


class Search(msgspec.Struct, array_like=True):
    """The words of a search, and the tools that were used after it."""

    words: frozenset[str]
    tools: list[Tool] = []


class SearchHistory:
    """The tools used after each search, by person. `now` is the clock, in seconds."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.people: dict[str, deque[Search]] = {}
        """The searches after which a tool was used, the oldest first."""
        self.open: OrderedDict[Origin, deque[tuple[float, Search]]] = OrderedDict()
        """The last searches of each client, which calls are noted with."""
        self.revision = 0
        """Grows with each change of what is remembered."""

    def searched(self, origin: Origin, words: Iterable[str]) -> None:
        """Note a search of a client, by the words of it that may be kept."""
        kept = frozenset([*words][:MAX_WORDS])
        if not kept:
            return
        searches = self.open.setdefault(origin, deque(maxlen=_OPEN_SEARCHES))
        searches.append((self._now(), Search(kept, [])))
        self.open.move_to_end(origin)
        if len(self.open) > _MAX_CLIENTS:
            self.open.popitem(last=False)

    def ended(self, record: Record) -> None:
        """Note the end of a call whose client is among `open`. Never raises."""
        origin, server, kind, name = record.target
        if kind == "tool" and record.end() == "ok" and not record.is_question():
            self.used(origin, (server, name))

    def used(self, origin: Origin, tool: Tool) -> None:
        """Note that a client has used a tool, with the searches that it may have found it by."""
        now = self._now()
        for at, search in self.open.get(origin, ()):
            if now - at > _OPEN_S or tool in search.tools or len(search.tools) == MAX_TOOLS:
                continue
            if not search.tools:
                self._of(origin).append(search)
            search.tools.append(tool)
            self.revision += 1

    def likely(self, origin: Origin, words: Collection[str]) -> list[Tool]:
        """The tools that were used after searches like this one, the likeliest first."""
        searches = self.people.get(_person(origin), ())
        asked = frozenset(words)
        alike = [search for search in searches if search.words & asked]
        if not alike:
            return []
        having = Counter(word for search in searches for word in search.words)
        weight = {
            word: math.log(1 + (len(searches) + 1) / (having[word] + 0.5)) for word in asked | having.keys()
        }
        own = math.sqrt(sum(weight[word] for word in asked))

        def likeness(search: Search) -> float:
            shared = sum(weight[word] for word in search.words & asked)
            return shared / (own * math.sqrt(sum(weight[word] for word in search.words)))

        nearest = sorted(((likeness(search), search.tools) for search in alike), key=lambda one: -one[0])
        scores: dict[Tool, float] = defaultdict(float)
        for near, tools in nearest[:_NEAREST]:
            if near >= _LEAST:
                for tool in tools:
                    scores[tool] += near * near
        return sorted(scores, key=lambda tool: -scores[tool])

    def forget(self) -> None:
        """Forget everything."""
        self.people.clear()
        self.open.clear()
        self.revision += 1

    def _of(self, origin: Origin) -> deque[Search]:
        person = _person(origin)
        if person not in self.people and len(self.people) >= MAX_PEOPLE:
            del self.people[next(iter(self.people))]
        return self.people.setdefault(person, deque(maxlen=MAX_SEARCHES))


def _person(origin: Origin) -> str:
    """The name of the token that was shown; else whoever uses this state folder."""
    return origin.token or ""


class HistoryFile:
    """Keeps a history in a file while that is `wanted`: a child of the root supervisor, which never fails."""

    def __init__(
        self,
        history: SearchHistory,
        folder: Path,
        wanted: Callable[[], bool],
        *,
        interval_s: float = WRITE_INTERVAL_S,
    ) -> None:
        self._history = history
        self._wanted = wanted
        self._interval_s = interval_s
        self._saved = 0
        """The revision of the history that is in the file, or was forgotten."""
        self._has_file: bool | None = None
        """Whether there is a file; None where that is not known."""
        self._broken = False
        self.path = folder / FILE_NAME

    async def run(self, incarnation: Incarnation) -> None:
        """Read the file, then write it now and then, and at last when this child is to stop."""
        if self._wanted():
            await self._contained(self.read)
        incarnation.ready()
        while not incarnation.stopping.is_set():
            with anyio.move_on_after(self._interval_s):
                await incarnation.stopping.wait()
            await self._contained(self.keep)

    async def _contained(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except OSError as error:
            if not self._broken:
                log.warning("search_history.unusable", path=str(self.path), reason=error.strerror)
            self._broken = True
        except Exception as error:  # noqa: BLE001 - the class's promise: the root must not end for a history
            contain(error, "search_history")
        else:
            self._broken = False

    async def read(self) -> None:
        """Take over what the file holds; one that cannot be read as a history is begun again.

        Raises:
            OSError: It is not to be opened.
        """
        try:
            data = await anyio.to_thread.run_sync(read_own_file, self.path, MAX_FILE_BYTES)
            people = msgspec.json.decode(data, type=dict[str, list[Search]])
        except (FileNotFoundError, ValueError, RecursionError):
            return
        for person, searches in islice(people.items(), MAX_PEOPLE):
            self._history.people[person] = deque(searches, maxlen=MAX_SEARCHES)
        self._has_file = True

    async def keep(self) -> None:
        """Write what is new; or forget all, if it is not wanted or somebody has removed the file.

        Raises:
            OSError: It is not to be written or removed.
        """
        history = self._history
        if not self._wanted():
            if self._has_file is not False:
                await anyio.to_thread.run_sync(partial(self.path.unlink, missing_ok=True))
                self._forget()
            return
        if self._has_file and not await anyio.to_thread.run_sync(self.path.exists):
            self._forget()
        if (revision := history.revision) != self._saved:
            data = msgspec.json.encode({person: list(of) for person, of in history.people.items()})
            await anyio.to_thread.run_sync(self._write, data)
            self._saved, self._has_file = revision, True

    def _forget(self) -> None:
        self._history.forget()
        self._saved, self._has_file = self._history.revision, False

    def _write(self, data: bytes) -> None:
        ensure_folder(self.path.parent)
        remove_partial(self.path)
        replace_file(self.path, data)

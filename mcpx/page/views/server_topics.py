"""The topics of one server: `server`, its card and timeline, and `log`, what it says on standard error.

State goes out at once, gathered for `GATHER_S`; figures once a second, where they have changed. `offers` is a
number that is another one whenever the page has to ask again what the server offers.

A log begins with the last lines of its file. What is written while somebody follows comes from the writer
itself, so nothing is read again and again. Lines are gathered for a moment, long ones are cut, and of more
than can be read the last ones are kept.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import anyio
import anyio.to_thread

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.servers.fleet.observers import NO_SERVER
from mcpx.core.store.private_files import READ_FLAGS
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.core.text import cut, escaped
from mcpx.errors import CallError
from mcpx.page.cards import OpenPage, card, settled
from supervisors import Signal

GATHER_S: Final = 0.1  # in which changes come together
FIGURES_S: Final = 1.0  # between two looks at the figures
OFFERS_S: Final = 1.0  # between two versions of what is offered
FIRST_LINES: Final = 200
MAX_LINES: Final = 500  # in one piece of news
MAX_LINE_CHARS: Final = 4_000
MAX_TAIL_BYTES: Final = 1 << 18  # of the file, in which the first lines are looked for
PAUSE_S: Final = 0.1  # in which lines are gathered
FLOOD_PAUSE_S: Final = 1.0  # where there were too many to be read: a browser has other things to do
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")


async def server(page: OpenPage, name: str) -> AsyncGenerator[Any, None]:
    """`{card, offers, timeline}`, then what of these has changed: of `timeline` the new entries, as `new`.

    Raises:
        CallError: `unknown_server`.
    """
    hub = page.hub
    hub.upstream(name)
    offers = _Offers(hub, name)
    with ExitStack() as stack:
        stack.callback(hub.observe(offers.note))
        before: JSON = {}
        seen = 0
        while name in hub.upstreams:
            version, timeline = hub.fleet.version, hub.fleet.timelines[name]
            card = card_of(page, name)
            now: JSON = {"card": settled(card), "offers": offers.version()}
            news = {key: value for key, value in now.items() if before.get(key) != value}
            if "card" in news:
                news["card"] = card
            if not before:
                news["timeline"] = timeline.entries()
            elif timeline.count != seen:
                news["new"] = timeline.entries(seen)
            before, seen = now, timeline.count
            if news:
                yield news
            await anyio.sleep(GATHER_S)
            with anyio.move_on_after(FIGURES_S - GATHER_S):
                while hub.fleet.version == version and not offers.wants:
                    await hub.fleet.news.wait()
        hub.upstream(name)  # which says that it is gone


def card_of(page: OpenPage, name: str) -> JSON:
    """The card of a server, as the overview has it.

    Raises:
        CallError: `unknown_server`.
    """
    pids = (upstream.pid for upstream in page.hub.upstreams.values())
    page.processes.refresh([pid for pid in pids if pid is not None])  # all: others look at them, too
    return card(page.hub, name, page.processes.uses)


class _Offers:
    """Versions of what a server offers. The version begins with the time, so that none comes twice."""

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub = hub
        self._name = name
        self._version = time.time_ns() // 1_000_000
        self._is_new = False
        self._due = 0.0

    def note(self, name: str, _changed: object) -> None:
        """For `Hub.observe`."""
        if name in {self._name, NO_SERVER}:
            self._is_new = True
            self._hub.fleet.news.pulse()

    @property
    def wants(self) -> bool:
        """True if there is another version that may be told of."""
        return self._is_new and time.monotonic() >= self._due

    def version(self) -> int:
        """The version, another one at most each `OFFERS_S`: a page asks for all that is offered then."""
        if self.wants:
            self._version += 1
            self._is_new = False
            self._due = time.monotonic() + OFFERS_S
        return self._version


async def log(page: OpenPage, name: str) -> AsyncGenerator[Any, None]:
    """`{lines, from_start: true}` with the last lines, then `{lines, skipped?}` with those that follow.

    Raises:
        CallError: `unknown_server`.
    """
    page.hub.upstream(name)
    with _Follower(page.hub, name) as follower:
        file = _opened(follower.server_log.path) if follower.server_log else None
        try:
            lines = [] if file is None else await anyio.to_thread.run_sync(partial(_tail, *file))
        finally:
            if file is not None:
                os.close(file[0])
        if page.hub.upstreams[name].config.is_remote_mcpx:
            lines = [*await _from_peer(page.hub, name), *lines][-FIRST_LINES:]
        yield {"lines": lines, "from_start": True}
        while follower.server_log is not None or follower.count:
            if not follower.count:
                await follower.news.wait()
                continue
            lines, skipped = follower.take()
            yield {"lines": lines, **({"skipped": skipped} if skipped else {})}
            await anyio.sleep(FLOOD_PAUSE_S if skipped else PAUSE_S)


async def _from_peer(hub: Hub, name: str) -> list[str]:
    """The last lines that a server has written at the other MCPX that it is one of, or why not."""
    try:
        return [_line(line) for line in await hub.log_tail(name, FIRST_LINES)]
    except CallError as error:
        return [_line(str(error))]


class _Follower:
    """Gathers what a server writes, also after another entry in the configuration has replaced it."""

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub = hub
        self._name = name
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._end_observing: Callable[[], None] = lambda: None
        self.count = 0
        """How many lines have come that were not taken."""
        self.news = Signal()
        self.server_log: ServerLog | None = None
        """Where it writes; None once there is no such server."""

    def __enter__(self) -> Self:
        self._end_observing = self._hub.observe(self._note)
        self._follow()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_observing()
        if self.server_log is not None:
            self.server_log.followers.remove(self._write)

    def take(self) -> tuple[list[str], int]:
        """The lines that have come, and how many of them were too many."""
        lines, skipped = list(self._lines), self.count - len(self._lines)
        self._lines.clear()
        self.count = 0
        return lines, skipped

    def _note(self, name: str, _changed: object) -> None:
        if name == self._name:
            self._follow()

    def _follow(self) -> None:
        """Follow the server of that name as it is now: called before one that is new has begun to write."""
        upstream = self._hub.upstreams.get(self._name)
        now = None if upstream is None else upstream.server_log
        if now is self.server_log:
            return
        if self.server_log is not None:
            self.server_log.followers.remove(self._write)
        self.server_log = now
        if now is not None:
            now.followers.append(self._write)
        self.news.pulse()

    def _write(self, text: str) -> None:
        lines = text.split("\n")
        self.count += len(lines)
        self._lines.extend(map(_line, lines[-MAX_LINES:]))
        self.news.pulse()


def _opened(path: Path) -> tuple[int, int] | None:
    try:
        descriptor = os.open(path, READ_FLAGS)
    except OSError:
        return None
    return descriptor, os.fstat(descriptor).st_size


def _tail(descriptor: int, size: int) -> list[str]:
    """The last lines of a file of that size."""
    start = max(0, size - MAX_TAIL_BYTES)
    try:
        read = os.pread(descriptor, size - start, start)
    except OSError:
        return []
    lines = read.decode(errors="replace").split("\n")
    return [_line(line) for line in lines[1 if start else 0 :][-FIRST_LINES - 1 :] if line]


def _line(text: str) -> str:
    """A line as it is shown: without colours, and what else would harm as an escape."""
    return escaped(_COLOUR.sub("", cut(text, MAX_LINE_CHARS)))

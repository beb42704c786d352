"""Timelines of the servers: started, ready, died of that, tried again, and so on.

The fleet notes each event of its supervisor here, for as long as it has the server: a server whose
configuration changes keeps its timeline. Only the session that MCPX itself has with a server counts, not the
ones beside it. Bounded: of each server the last `MAX_ENTRIES` are kept, and of a cause the beginning.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection
from typing import Final, Literal

import msgspec

from mcpx.core.config.diagnosis import DISABLED, INVALID, NEEDS_SETUP, Diagnosis, diagnose
from mcpx.core.servers.ports import Supervised
from mcpx.core.servers.server import Server
from mcpx.core.text import cut
from supervisors import (
    ChildFailed,
    ChildHeld,
    ChildInterrupted,
    ChildParked,
    ChildReady,
    ChildRested,
    ChildStarting,
    ChildStopped,
    Event,
)

MAX_ENTRIES: Final = 100  # of one server
MAX_CAUSE_CHARS: Final = 1000
What = Literal[
    "started",
    "ready",
    "interrupted",
    "died",
    "waiting",
    "parked",
    "asleep",
    "stopped",
    "needs_sign_in",
    "needs_setup",
    "invalid",
    "disabled",
]
_NOT_STARTED: Final[dict[str, What]] = {DISABLED: "disabled", NEEDS_SETUP: "needs_setup", INVALID: "invalid"}


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened to a server, `at` so many milliseconds since 1970.

    `took_s` is how long it took to be ready, `retry_in_s` when the next attempt is due, `pid` the process.
    """

    at: int
    event: What
    cause: str | None = None
    pid: int | None = None
    took_s: float | None = None
    retry_in_s: float | None = None


class Timeline:
    """Of one server. `count` is how many entries there ever were: with it one knows what is new."""

    def __init__(self) -> None:
        self.count = 0
        self._entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._pid: int | None = None

    def entries(self, after: int = 0) -> list[Entry]:
        """Return what is kept of the entries after the first `after` ones, the oldest first."""
        new = min(max(0, self.count - after), len(self._entries))
        return list(self._entries)[len(self._entries) - new :]

    def not_started(self, why: Diagnosis) -> None:
        """Note that the server is not to be started, unless that was noted last."""
        event = _NOT_STARTED[why.state]
        last = self._entries[-1] if self._entries else None
        if last is None or (last.event, last.cause) != (event, why.cause):
            self._add(event, cause=why.cause)

    def note(self, event: Event, pid: int | None) -> None:
        """Note an event of the server's supervisor; `pid` is its process then, as far as that is known."""
        self._pid = pid or self._pid
        match event:
            case ChildStarting():
                self._pid = None
                self._add("started")
            case ChildReady(_, _, took):
                self._add("ready", took_s=took)
            case ChildInterrupted(_, _, cause):
                self._add("interrupted", cause=cause.text)
            case ChildFailed(_, _, cause, _, retry_in):
                self._add("died", cause=cause.text)
                self._add("waiting", retry_in_s=retry_in)
            case ChildParked(_, _, cause, _, probe_in):
                self._add("died", cause=cause.text)
                self._add("parked", retry_in_s=probe_in)
            case ChildHeld(_, _, cause):
                self._add("needs_sign_in", cause=cause.text)
            case ChildRested():
                self._add("asleep")
            case ChildStopped():
                self._add("stopped")

    def _add(
        self,
        what: What,
        *,
        cause: str | None = None,
        took_s: float | None = None,
        retry_in_s: float | None = None,
    ) -> None:
        entry = Entry(
            at=time.time_ns() // 1_000_000,
            event=what,
            cause=None if cause is None else cut(cause, MAX_CAUSE_CHARS),
            pid=self._pid if what in {"ready", "interrupted", "died", "asleep", "stopped"} else None,
            took_s=None if took_s is None else round(took_s, 3),
            retry_in_s=None if retry_in_s is None else round(max(0.0, retry_in_s), 2),
        )
        self._entries.append(entry)
        self.count += 1


class Timelines:
    """Timelines of a fleet, by the server's name."""

    def __init__(self) -> None:
        self._of: dict[str, Timeline] = {}

    def __getitem__(self, name: str) -> Timeline:
        """Timeline of a server, which may have nothing in it yet."""
        return self._of.setdefault(name, Timeline())

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def note(self, event: Event, session: Supervised) -> None:
        """Note an event of the session that MCPX itself has with a server."""
        self[session.name].note(event, session.pid)

    def keep(self, upstreams: Collection[Server]) -> None:
        """Have a timeline for each of these servers, and none for any other."""
        self._of = {each.name: self[each.name] for each in upstreams}
        for each in upstreams:
            if each.config.disabled is not None and (why := diagnose(each.config)) is not None:
                self[each.name].not_started(why)

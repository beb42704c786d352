"""The turn of the event loop in which messages are taken: reads first, then one write for each peer.

`ChannelLoop` reads the channels (`mcpx.core.wire.channel`) that are ready; what they lead to is queued in
them, and written by `flush_all` at the end of the turn, with what is put off until before and after that.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

from mcpx.core.system.processes import processors
from mcpx.core.telemetry.contained import contain, containing
from mcpx.core.telemetry.suspend import AwakeLoop

LOOK_S: Final = 0.00015  # for something to come, in place of a sleep
SHORT_SLEEPS: Final = 8


class ChannelLoop(AwakeLoop):
    """An event loop that reads its channels itself, all that are ready before anything else of a turn.

    That saves what a callback costs before the answer to a small call is written, and what follows from all
    of them is written once: many requests to one server in one write. On other loops a channel is read by a
    callback of its own.
    """

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}
        """What reads a channel, by the descriptor."""
        super().__init__(_ChannelSelector(self.readers))


class _ChannelSelector(selectors.DefaultSelector):
    """Reads the channels that are ready, and returns what else is.

    To sleep and be woken takes longer than a quick peer does to answer, and what follows is slower for it:
    the processor has forgotten it. So after `SHORT_SLEEPS` in a row that lasted less than `LOOK_S`, it looks
    for that long before it sleeps, until a look finds nothing. An idle daemon, and one whose peers take
    milliseconds, never looks, nor does one that has a single processor, which its peers need.
    """

    def __init__(self, readers: dict[int, Callable[[], None]]) -> None:
        super().__init__()
        self._readers = readers
        self._short = 0  # sleeps in a row
        self._may_look = processors() > 1

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as any selector does."""
        others: list[tuple[selectors.SelectorKey, int]] = []
        has_read = False
        for key, events in self._wait(timeout):
            read = self._readers.get(key.fd)
            if read is None:
                others.append((key, events))
                continue
            if events & selectors.EVENT_READ:
                has_read = TURN.is_open = True
                try:
                    read()
                except Exception as error:  # noqa: BLE001 - as a callback that fails, it ends nothing else
                    contain(error, "channel")
            if events & selectors.EVENT_WRITE:
                others.append((key, selectors.EVENT_WRITE))
        if has_read and (TURN.is_open or DIRTY):
            flush_all()  # the end of this turn, without another round of the loop
        if not (has_read and others):
            return others
        known = self.get_map()
        return [(key, events) for key, events in others if known.get(key.fd) is key]  # not those that went

    def _wait(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, after a sleep or a look."""
        if timeout is not None and timeout <= LOOK_S:
            return super().select(timeout)
        began = perf_counter()
        if self._short >= SHORT_SLEEPS:
            ends = began + LOOK_S
            while perf_counter() < ends:
                if ready := super().select(0):
                    return ready
            self._short = 0
            return super().select(timeout)
        ready = super().select(timeout)
        self._short = self._short + 1 if self._may_look and perf_counter() - began < LOOK_S else 0
        return ready


class Writer(Protocol):
    """Has something to write: a channel."""

    def flush(self) -> None:
        """Write what is queued, as far as the peer takes it now."""


DIRTY: list[Writer] = []
"""Channels with something to write in this turn. One event loop a process runs channels."""


class Turn:
    """The turn of the loop in which messages are taken, and what is put off to be done once for all of them.

    Whoever takes messages sets `is_open`, and calls `flush_all` at the end, which closes it. A fault of what
    is put off is logged, and costs nothing else.
    """

    is_open = False

    def __init__(self) -> None:
        self.before: Callable[[], None] | None = None
        """What is to be done before anything is written. It raises nothing."""
        self.after: list[Callable[[], None]] = []
        """What is to be done when all is written, while the peers are at work."""


TURN: Final = Turn()


def flush_all() -> None:
    """Write what all channels have queued. Called at the end of each turn of the loop."""
    try:
        if (before := TURN.before) is not None:
            TURN.before = None
            before()
        while DIRTY:
            batch = DIRTY.copy()
            DIRTY.clear()
            for channel in batch:
                channel.flush()
    finally:
        TURN.is_open = False
    if TURN.after:
        due, TURN.after = TURN.after, []  # what comes meanwhile stays
        for work in due:
            with containing("turn"):  # the others are to be done, too
                work()


def do_before() -> None:
    """Do now what is to be done before anything is written."""
    before, TURN.before = TURN.before, None
    if before is not None:
        before()


def after_turn(work: Callable[[], None]) -> None:
    """Do something when what is queued in this turn has been written."""
    if TURN.is_open:
        TURN.after.append(work)
    else:
        asyncio.get_running_loop().call_soon(work)  # behind `flush_all`

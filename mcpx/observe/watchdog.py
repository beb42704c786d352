"""The event loop is watched: when it stands still, the log says where, and in the end the process ends.

Everything that MCPX does for its clients happens on one event loop, so one endless computation or one
blocking call takes it from all of them. Its service manager, or the shims, start it again; the ledger ends
the servers that were left behind. Two watchers, because neither sees everything:

* A thread counts how long the loop has not come round. It sees every stand in which other threads may run:
  blocking calls, and Python code without an end. It logs the stack of the loop's thread, and later ends the
  process.
* Timers of the kernel count the processor time that was used since the loop last came round, and their
  signals are dealt with in C (faulthandler). They work where code in C does not let the thread run at all,
  as a regular expression that backtracks does. They write the stack as it is, and a signal ends the process.

Time in which the process could not run is no stand: while it is stopped (SIGSTOP) or the machine sleeps, the
thread counts no more than its own two ticks, and the timers nothing.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import structlog

log = structlog.get_logger()
TELL_S: Final = 5.0  # for the last words, should the log be what the loop waits for
EXIT_CODE: Final = 1
GRACE: Final = 1.05  # by how much the timers wait longer than the thread, which says it in better words


class Patience(NamedTuple):
    """How long the loop may stand, in seconds: until the log says where, and until the process ends."""

    said_s: float = 10.0
    ended_s: float = 60.0
    tick_s: float = 1.0


@contextmanager
def watching(patience: Patience, on_end: Callable[[str], None]) -> Iterator[None]:
    """Watch the running loop, from its own thread.

    `on_end` is called in another thread with the reason before the process ends; it may end it itself.
    """
    watchdog = _Watchdog(patience, on_end)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class _Watchdog:
    def __init__(self, patience: Patience, on_end: Callable[[str], None]) -> None:
        self._patience = patience
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._turns = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        faulthandler.register(signal.SIGPROF, file=sys.__stderr__ or 2, all_threads=False)
        faulthandler.register(signal.SIGVTALRM, file=sys.__stderr__ or 2, all_threads=False, chain=True)
        self._come_round()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._next is not None:
            self._next.cancel()
        _arm(0, 0)
        faulthandler.unregister(signal.SIGPROF)
        faulthandler.unregister(signal.SIGVTALRM)
        self._thread.join(self._patience.tick_s)

    def _come_round(self) -> None:
        """On the loop: it lives."""
        self._turns += 1
        _arm(self._patience.said_s * GRACE, self._patience.ended_s * GRACE)
        self._next = self._loop.call_later(self._patience.tick_s, self._come_round)

    # --- in the thread

    def _watch(self) -> None:
        seen, stood, said = self._turns, 0.0, False
        wall, used = time.monotonic(), time.process_time()
        while not self._over.wait(self._patience.tick_s):
            now_wall, now_used = time.monotonic(), time.process_time()
            # what we could not do is not counted against the loop, unless the processor was kept from us
            could = max(2 * self._patience.tick_s, now_used - used)
            stood += min(now_wall - wall, could)
            wall, used = now_wall, now_used
            if seen != self._turns:
                seen, stood, said = self._turns, 0.0, False
            elif stood >= self._patience.ended_s:
                self._end(stood)
            elif stood >= self._patience.said_s and not said:
                said = True
                self._say(stood)

    def _say(self, stood: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        stack = _stack_of(self._watched)
        tell = threading.Thread(target=_tell, args=(stood, stack), daemon=True)
        tell.start()  # and not waited for: it may be the log that the loop waits for

    def _end(self, stood: float) -> None:
        why = f"its event loop has stood for {stood:.0f} s"
        tell = threading.Thread(target=self._on_end, args=(why,), daemon=True)
        tell.start()
        tell.join(TELL_S)
        os._exit(EXIT_CODE)


def _arm(said_s: float, ended_s: float) -> None:
    """Seconds of processor time until each signal; 0 for never."""
    signal.setitimer(signal.ITIMER_PROF, said_s)
    signal.setitimer(signal.ITIMER_VIRTUAL, ended_s)


def _stack_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the standard library's only way
    return "".join(traceback.format_stack(frame)) if frame is not None else "unknown"


def _tell(stood: float, stack: str) -> None:
    log.error("loop.stands", seconds=round(stood, 1), stack=stack)

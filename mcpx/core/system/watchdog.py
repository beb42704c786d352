"""A watchdog for the event loop: when it stalls, the log says where, and later the process exits.

Everything that MCPX does for its clients happens on one event loop, so one endless computation or one
blocking call stops it for all of them. The service manager, or the shims, start MCPX again; the ledger ends
the servers that were left behind. There are two watchers, because neither sees everything:

* A thread measures the time since the loop's last heartbeat. It sees every stall during which other threads
  can run: blocking calls, and endless Python code. It logs the stack of the loop's thread, and later ends the
  process.
* Timers of the kernel measure the processor time used since the last heartbeat; their signals are handled in
  C (faulthandler). They work even while code in C keeps the thread from running, as a regular expression that
  backtracks does. They print the stack, and a signal ends the process.

Time during which the process could not run is no stall: while it is stopped (SIGSTOP) or the machine sleeps,
the thread counts at most two of its own ticks, and the timers nothing.
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
REPORT_TIMEOUT_S: Final = 5.0  # for the last log entry: the log may be what the loop waits for
EXIT_CODE: Final = 1
TIMER_MARGIN: Final = 1.05  # times as long as the thread waits, whose report is better


class Patience(NamedTuple):
    """The times that the loop may stall, in seconds: until it is logged, and until the process exits."""

    report_after_s: float = 10.0
    exit_after_s: float = 60.0
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
        self._beats = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        faulthandler.register(signal.SIGPROF, file=sys.__stderr__ or 2, all_threads=False)
        faulthandler.register(signal.SIGVTALRM, file=sys.__stderr__ or 2, all_threads=False, chain=True)
        self._heartbeat()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._next is not None:
            self._next.cancel()
        _arm(0, 0)
        faulthandler.unregister(signal.SIGPROF)
        faulthandler.unregister(signal.SIGVTALRM)
        self._thread.join(self._patience.tick_s)

    def _heartbeat(self) -> None:
        """Runs on the loop: proof that it is alive."""
        self._beats += 1
        _arm(self._patience.report_after_s * TIMER_MARGIN, self._patience.exit_after_s * TIMER_MARGIN)
        self._next = self._loop.call_later(self._patience.tick_s, self._heartbeat)

    # --- in the thread

    def _watch(self) -> None:
        seen, stalled_s, reported = self._beats, 0.0, False
        wall, used = time.monotonic(), time.process_time()
        while not self._stopped.wait(self._patience.tick_s):
            now_wall, now_used = time.monotonic(), time.process_time()
            # time in which this process could not run is not counted against the loop
            could = max(2 * self._patience.tick_s, now_used - used)
            stalled_s += min(now_wall - wall, could)
            wall, used = now_wall, now_used
            if seen != self._beats:
                seen, stalled_s, reported = self._beats, 0.0, False
            elif stalled_s >= self._patience.exit_after_s:
                self._end(stalled_s)
            elif stalled_s >= self._patience.report_after_s and not reported:
                reported = True
                self._report(stalled_s)

    def _report(self, stalled_s: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        stack = _stack_of(self._watched)
        thread = threading.Thread(target=_log_stall, args=(stalled_s, stack), daemon=True)
        thread.start()  # and not waited for: the log may be what the loop waits for

    def _end(self, stalled_s: float) -> None:
        why = f"its event loop has stood for {stalled_s:.0f} s"
        thread = threading.Thread(target=self._on_end, args=(why,), daemon=True)
        thread.start()
        thread.join(REPORT_TIMEOUT_S)
        os._exit(EXIT_CODE)


def _arm(report_after_s: float, exit_after_s: float) -> None:
    """Seconds of processor time until each signal; 0 for never."""
    signal.setitimer(signal.ITIMER_PROF, report_after_s)
    signal.setitimer(signal.ITIMER_VIRTUAL, exit_after_s)


def _stack_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the standard library's only way
    return "".join(traceback.format_stack(frame)) if frame is not None else "unknown"


def _log_stall(stalled_s: float, stack: str) -> None:
    log.error("loop.stands", seconds=round(stalled_s, 1), stack=stack)

"""Starting and ending a daemon from outside, with every wait bounded. Used by `mcpx daemon`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from mcpx.daemon.control_client import ask
from mcpx.daemon.launch import START_S, Summons
from mcpx.daemon.paths import POLL_S, Meeting, claim_folder, holder, open_lock, try_lock
from mcpx.errors import MCPXError

STOP_S: Final = 30.0  # beyond the longest ordered end: the grace time, the servers' teardown, a margin


def start(place: Meeting, *, lock: int | None = None) -> bool:
    """Have a daemon that answers; whether this call started it. Raises MeetingError."""
    summons = Summons(place, lock=lock)
    try:
        summons.wait().close()
        return summons.started is not None
    finally:
        summons.close()


def stop(place: Meeting, *, marked: bool) -> int | None:
    """End the daemon and wait until it has left; its process id, or None if there was none.

    `marked` leaves word that it was on purpose: shims wait for their client's next request.

    Raises:
        MCPXError: It does not leave.
    """
    pid = holder(place)
    if pid is None:
        return None
    if marked:
        place.stopped.touch(mode=0o600)
    told = None
    with suppress(MCPXError):  # one that hangs is asked in another way
        told = ask(place, {"mcpx": "stop"})
    if told is None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not _within(STOP_S, lambda: holder(place) != pid):
        raise MCPXError(f"the daemon (pid {pid}) does not leave within {STOP_S:g} s; run: kill -9 {pid}")
    return pid


@contextmanager
def turn_to_start(place: Meeting) -> Iterator[int]:
    """Nobody else starts a daemon meanwhile; the lock, for `start`."""
    claim_folder(place)
    lock = open_lock(place.starting)
    try:
        if not _within(START_S, lambda: try_lock(lock)):
            raise MCPXError(f"somebody has been starting a daemon for {START_S:g} s; see {place.log}")
        yield lock
    finally:
        with suppress(OSError):  # `start` has closed it
            os.close(lock)


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True

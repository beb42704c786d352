"""Ending the servers that a MCPX left behind when it was killed, and no other process.

A process is ended only when it is proven to be ours: it is in the process group that was noted, and carries
the random mark that its server was started with (`MCPX_CHILD`, which descendants inherit). The proof is taken
again, with the process held by a descriptor (pidfd), right before each signal, because a number may have been
given to somebody else. A process that has thrown its environment away, or that nobody may look into, is left.
Where there is no /proc (macOS) the proof is that the leader of the group started when it was noted.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import msgspec

from mcpx.daemon.environment import CHILD_MARK
from mcpx.upstream.transport.process_table import group_of, has_proc, processes, start_time, started_with

TERM_GRACE_S: Final = 0.5  # their client is gone for good
POLL_S: Final = 0.02
KILL_ROUNDS: Final = 10  # for those that were forked while the others were killed
LARGEST_PID: Final = 2**31 - 1


class Entry(msgspec.Struct, frozen=True):
    """A process: its id (also its group's, for a server), its start in the system's words, and its mark."""

    pid: int
    started: str
    mark: str = ""


class Ended(msgspec.Struct, frozen=True):
    """The process groups that were ended, and those that live but are not proven to be ours."""

    groups: list[int]
    left: list[int]


def end(servers: Iterable[Entry]) -> Ended:
    """TERM, a short wait, KILL, for the processes of those servers. Never for our own group."""
    noted = {one.pid: one for one in servers if 1 < one.pid <= LARGEST_PID and one.pid != os.getpgrp()}
    if not noted:
        return Ended([], [])
    return _by_mark(noted) if has_proc() else _by_leader(noted)


# --- where there is a /proc


def _by_mark(noted: dict[int, Entry]) -> Ended:
    found = _proven(noted)
    groups, signalled = set(found.values()), set(found)
    for pid, group in found.items():
        _signal(pid, noted[group], signal.SIGTERM)
    _wait(lambda: not any(_is_proven(pid, noted[group]) for pid, group in found.items()))
    for _ in range(KILL_ROUNDS if found else 0):
        if not (rest := _proven(noted)):
            break
        signalled |= set(rest)
        for pid, group in rest.items():
            _signal(pid, noted[group], signal.SIGKILL)
        time.sleep(POLL_S)
    return Ended(sorted(groups), sorted(_left(noted, signalled)))


def _proven(noted: dict[int, Entry]) -> dict[int, int]:
    """The processes that are ours, with their groups."""
    candidates = {pid: group for pid in processes() if (group := group_of(pid)) in noted}
    return {pid: group for pid, group in candidates.items() if _is_proven(pid, noted[group])}


def _is_proven(pid: int, server: Entry) -> bool:
    if not server.mark or pid <= 1 or pid == os.getpid() or group_of(pid) != server.pid:
        return False
    return started_with(pid, CHILD_MARK, server.mark)


def _left(noted: dict[int, Entry], signalled: set[int]) -> set[int]:
    """The groups in which somebody lives whom no signal was sent, unless their number is another's by now."""
    groups = {group for pid in processes() if pid not in signalled and (group := group_of(pid)) in noted}
    return {group for group in groups if start_time(group) in {None, noted[group].started}}


def _signal(pid: int, server: Entry, number: signal.Signals) -> None:
    """Send a signal to a process that is still proven to be ours."""
    with suppress(OSError):  # it is gone, or not ours to signal
        held = _hold(pid)
        try:
            if not _is_proven(pid, server):
                return
            if held is None:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(held, number)
        finally:
            if held is not None:
                os.close(held)


def _hold(pid: int) -> int | None:
    """A descriptor of this very process; None where the kernel has none. Raises ProcessLookupError."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


# --- where there is none


def _by_leader(noted: dict[int, Entry]) -> Ended:
    groups = [pid for pid, server in noted.items() if _leads(server)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in groups:
            if _leads(noted[pid]):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, number)
        if number is signal.SIGTERM and groups:
            _wait(lambda: not any(_leads(noted[pid]) for pid in groups))
    return Ended(groups, [])


def _leads(server: Entry) -> bool:
    return bool(server.started) and start_time(server.pid) == server.started


def _wait(over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TERM_GRACE_S
    while not over() and time.monotonic() < deadline:
        time.sleep(POLL_S)

"""Ends the servers that a MCPX left behind when it was killed, and no other process.

A process is ended only if it is proven to be ours: it is in a process group of the ledger, and carries the
random mark that its server was started with (`MCPX_CHILD`, which descendants inherit). The proof is repeated,
with the process held by a pidfd, right before each signal, because its id may have been reused. A process
that has discarded its environment, or that we may not inspect, is left. Without /proc (macOS) the proof is
that the leader of the group started when the ledger says.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import msgspec

from mcpx.core.servers.transport.process_table import group_of, has_proc, processes, start_time, started_with
from mcpx.core.system.environment import CHILD_MARK

TERM_TIMEOUT_S: Final = 0.5  # their client is gone for good
POLL_S: Final = 0.02
MAX_KILL_ROUNDS: Final = 10  # for those that were forked while the others were killed
MAX_PID: Final = 2**31 - 1


class Entry(msgspec.Struct, frozen=True):
    """A process: its id (for a server, also its group's), its start time as the system gives it, its mark."""

    pid: int
    started: str
    mark: str = ""


class Ended(msgspec.Struct, frozen=True):
    """The process groups that were ended, and those that live but are not proven to be ours."""

    groups: list[int]
    left: list[int]


def end_orphans(servers: Iterable[Entry]) -> Ended:
    """Send SIGTERM to the processes of those servers, wait shortly, send SIGKILL. Never to our own group."""
    noted = {one.pid: one for one in servers if 1 < one.pid <= MAX_PID and one.pid != os.getpgrp()}
    if not noted:
        return Ended([], [])
    return _by_mark(noted) if has_proc() else _by_leader(noted)


# --- with /proc


def _by_mark(noted: dict[int, Entry]) -> Ended:
    found = _proven(noted)
    groups, signalled = set(found.values()), set(found)
    for pid, group in found.items():
        _signal(pid, noted[group], signal.SIGTERM)
    _wait(lambda: not any(_is_proven(pid, noted[group]) for pid, group in found.items()))
    for _ in range(MAX_KILL_ROUNDS if found else 0):
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
    """The groups with a process that no signal was sent to, unless their id has been reused."""
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
    """A pidfd of the process; None if the kernel has none.

    Raises:
        ProcessLookupError: It is gone.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


# --- without /proc


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
    deadline = time.monotonic() + TERM_TIMEOUT_S
    while not over() and time.monotonic() < deadline:
        time.sleep(POLL_S)

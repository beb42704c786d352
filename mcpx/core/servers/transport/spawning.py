"""Starting the processes of servers, also before the SDK has been imported.

`spawn` starts one. `EARLY` holds those that were started early (`upstream.early_start`), until
`process.running` takes them. Imports neither the SDK nor anyio, and needs no event loop.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import structlog
from msgspec.structs import asdict

from mcpx.core.config import Stdio
from mcpx.core.config.per_server import ProcessLimits
from mcpx.core.running import Inherited, in_force
from mcpx.core.servers.transport.containers import Container, in_container, stop_all
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.system.environment import CHILD_MARK
from mcpx.core.system.limits import limit_processes, restore_for
from mcpx.core.system.linux import has_proc
from mcpx.core.system.marked import Family
from mcpx.core.system.processes import resting
from mcpx.core.system.reaping import kill_group

log = structlog.get_logger()
REAP_TIMEOUT_S: Final = 2.0  # only an unkillable process takes longer
LOOK_PAUSE_S: Final = 0.005  # between two looks at whether early processes are busy
NO_LIMITS: Final = ProcessLimits()
MARK_BYTES: Final = 16  # random: no other process has it by chance


class Spawned(NamedTuple):
    """A process that has just been started, in a process group of its own, with pipes for all its streams."""

    popen: subprocess.Popen[bytes]
    mark: str
    """The value of `MCPX_CHILD` that it was started with, which its descendants inherit."""
    inherited: Inherited
    """Its variables that are not of its entry."""
    container: Container | None = None
    """What it runs in, where it is the client of an engine."""


def spawn(stdio: Stdio, *, speaks: bool = True) -> Spawned:
    """Start the command. The caller ends it, and reads its standard error before the pipe is full.

    One that does not `speak` MCP on its standard output writes both to the same pipe, `stdout`.

    The child is given a stated list of variables of the environment in force, those that `inherit` names, and
    what is configured, never the whole environment; and a random mark, by which MCPX recognises it and its
    descendants as ours. Its command is looked for on its own PATH. Its `limits` are set once it runs.

    Raises:
        OSError: It cannot be started (not found, no permission, no such folder).
    """
    mark = os.urandom(MARK_BYTES).hex()
    inherited = in_force().inherited(stdio.inherit, stdio.env)
    environ = inherited.variables | stdio.env | {CHILD_MARK: mark}
    command, container = in_container([stdio.command, *stdio.args], mark, environ)
    popen = subprocess.Popen(  # as asyncio itself does it: vfork, a millisecond
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if speaks else subprocess.STDOUT,
        bufsize=0,
        env=environ,
        cwd=stdio.cwd,
        start_new_session=True,
    )
    restore_for(popen.pid)
    if stdio.limits != NO_LIMITS:
        limit_processes(popen.pid, **asdict(stdio.limits))
    return Spawned(popen, mark, inherited, container)


class EarlyChildren:
    """The processes that were started early and that nobody has taken yet."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Stdio, Spawned]] = []
        self._ledger: Ledger | None = None
        self._thread: threading.Thread | None = None
        self._enough = threading.Event()

    @staticmethod
    def sweep() -> None:
        """End what an earlier MCPX left behind."""
        if orphans := Ledger().sweep():
            log.warning("orphans.ended", process_groups=orphans)

    def start(self, commands: Iterable[Stdio], *, at_once: int) -> None:
        """Start these; one that cannot be started is left out.

        Those beyond the first `at_once` follow in a thread, each when one before it waits to be asked, until
        somebody takes a process.
        """
        left = deque(commands)
        self._ledger = ledger = Ledger()
        self._start_next(ledger, left, at_once)
        if left and has_proc():
            self._enough.clear()
            args = ledger, left, at_once
            self._thread = threading.Thread(target=self._start_rest, args=args, daemon=True)
            self._thread.start()

    def _start_next(self, ledger: Ledger, left: deque[Stdio], count: int) -> None:
        for _ in range(min(count, len(left))):
            stdio = left.popleft()
            with suppress(OSError):  # the server's own start says so
                child = spawn(stdio)
                ledger.add(child.mark, child.popen.pid, child.mark, child.container)
                self._waiting.append((stdio, child))

    def _start_rest(self, ledger: Ledger, left: deque[Stdio], at_once: int) -> None:
        looks: dict[int, tuple[str, str] | None] = {}
        while left and not self._enough.wait(LOOK_PAUSE_S):
            before, looks = looks, {child.popen.pid: resting(child.popen.pid) for _, child in self._waiting}
            busy = sum(1 for pid, look in looks.items() if look is None or look != before.get(pid))
            self._start_next(ledger, left, at_once - busy)

    def _stop_starting(self) -> None:
        if self._thread is not None:
            self._enough.set()
            self._thread.join()
            self._thread = None

    def take(self, stdio: Stdio) -> Spawned | None:
        """A process of that command, which the caller ends from now on, and has in a ledger soon."""
        self._stop_starting()
        for each in self._waiting:
            if each[0] == stdio:
                self._waiting.remove(each)
                self._forget(each[1])
                return each[1]
        return None

    def end(self) -> None:
        """Kill those that nobody has taken."""
        self._stop_starting()
        children = [child for _, child in self._waiting]
        while self._waiting:
            _, child = self._waiting.pop()
            kill_group(child.popen.pid)
            with suppress(subprocess.TimeoutExpired):
                child.popen.wait(REAP_TIMEOUT_S)
            for stream in (child.popen.stdin, child.popen.stdout, child.popen.stderr):
                if stream is not None:
                    stream.close()
            self._forget(child)
        if children:
            Family(child.mark for child in children).end(0.0)
            stop_all([child.container for child in children if child.container])

    def _forget(self, child: Spawned) -> None:
        if self._ledger is not None:
            self._ledger.remove(child.mark)


EARLY: Final = EarlyChildren()
"""This process's."""

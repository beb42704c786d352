"""Upkeep of one session: a planned restart of a server that has grown, is old, or was edited.

`Upkeep` runs beside the calls of one incarnation, if the entry asks for any of it: `limits.memory`,
`max_uptime`, `max_calls`, `watch`. When a reason comes up it waits until no call is in flight; if there is no
such moment for `PATIENCE_S`, or less where memory grows fast, new calls are held in the queue until those
that run have ended, and after `HOLD_S` let through again, to try it later. Then the supervisor ends the
incarnation in order and begins the next one, which counts as no failure. No call is lost by it, but for those
of a server that holds twice the memory that it may: it is ended at once, within the grace time that every
ending has.

A server that holds more than it may when it has only just started is left alone, and logged: it would be
started again for ever.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

from mcpx.core.config import ServerConfig
from mcpx.core.config.profiles import fits
from mcpx.core.servers.calls import Calls
from mcpx.core.servers.ports import Supervised
from mcpx.core.system.file_events import events_in
from mcpx.core.system.processes import tree_memory
from supervisors import Signal

log = structlog.get_logger()
LOOK_S: Final = 1.0  # between two looks at the memory of a server without calls, and at its age
BUSY_LOOK_S: Final = 0.1  # at that of one with calls: it can grow by about 1 GB a second
MIN_LOOK_S: Final = 0.02  # where it grows fast, and between two looks for an end of its tasks
PATIENCE_S: Final = 10.0
HOLD_S: Final = 5.0  # less than calls wait in a queue
AGAIN_S: Final = 60.0  # after which it is tried again to hold the calls
QUIET_S: Final = 0.3  # without a change of a file, before all of them are taken to be written
URGENT: Final = 2  # times the memory
_MIB: Final = 1 << 20


class Upkeep:
    """Watches one incarnation of a session. `is_bound` tells if a task would be lost with it."""

    def __init__(self, session: Supervised, calls: Calls, is_bound: Callable[[], bool] = bool) -> None:
        self._session = session
        self._config = session.config
        self._calls = calls
        self._is_bound = is_bound
        self._began = session.process_began
        self._edited: str | None = None
        self._changed = Signal()  # there may be a reason now
        self._called = Signal()
        self._limit = session.config.quota.memory
        self._grown = 0  # bytes, once they are too many
        self._patience = anyio.CancelScope()  # for a moment without calls
        if self._limit is not None or self._config.max_calls:
            calls.on_taken = self._on_taken

    async def watch(self) -> None:
        """Restart the session when there is a reason to; return then, or at once if there will be none."""
        config = self._config
        if config.watch and config.transport.program is not None:
            with events_in(
                [_folder(config)], self._concerns, self._changed.set, self._on_no_events, recursive=True
            ):
                await self._follow()
        elif config.quota.memory or config.max_uptime or config.max_calls:
            await self._follow()

    async def _follow(self) -> None:
        async with anyio.create_task_group() as tasks:
            if self._limit is not None:
                tasks.start_soon(self._watch_memory, self._limit)
            while (reason := await self._due()) is None or not await self._is_free():
                pass
            self._restart(reason)
            tasks.cancel_scope.cancel()

    def _restart(self, reason: str) -> None:
        log.info("upstream.renewed", server=self._session.name, reason=reason)
        self._session.queue.recycle()

    async def _watch_memory(self, limit: int) -> None:
        """Note when the server holds more than it may; restart it at once when it is far too much."""
        before, at, taken = await self._memory(limit), time.monotonic(), self._calls.taken
        if before > limit and not self._session.is_connected_again:
            log.warning("upstream.memory_limit_too_low", server=self._session.name, limit=limit)
            return
        pause_s = MIN_LOOK_S
        while True:
            await self._until_look(pause_s, taken)
            held, now = await self._memory(limit), time.monotonic()
            if held > URGENT * limit:
                break
            grown, calls = max(0, held - before), max(1, self._calls.taken - taken)
            room = (URGENT * limit if held > limit else limit) - held
            room -= grown * len(self._calls.running()) // calls  # those that run grow, too
            left_s = max(0, room) * (now - at) / grown if grown else math.inf
            if held > limit:
                self._note_grown(held, left_s)
            before, at, taken = held, now, self._calls.taken
            pause_s = min(BUSY_LOOK_S, max(left_s / 3, MIN_LOOK_S))
        self._restart(_holds(held))

    def _note_grown(self, held: int, left_s: float) -> None:
        """Take in that it holds too much, and the seconds until it is far too much, as it grows now."""
        if not self._grown:
            self._changed.set()
        self._grown = held
        self._patience.deadline = min(self._patience.deadline, anyio.current_time() + left_s / 2)

    async def _until_look(self, pause_s: float, taken: int) -> None:
        """Wait until the memory is to be looked at: soon where there were calls since the last look."""
        await anyio.sleep(pause_s)
        if self._calls.taken == taken and not self._calls.running():
            self._called.clear()
            with anyio.move_on_after(LOOK_S):
                await self._called.wait()

    def _on_taken(self) -> None:
        self._called.set()
        if self._calls.taken == self._config.max_calls:
            self._changed.set()

    async def _memory(self, limit: int) -> int:
        pid = self._session.pid
        return 0 if pid is None else await anyio.to_thread.run_sync(tree_memory, pid, limit)

    async def _due(self) -> str | None:
        """Wait for the next look; the reason for a restart, if there is one."""
        with anyio.move_on_after(LOOK_S):
            await self._changed.wait()
        if self._edited is not None:
            await self._settled()
        self._changed.clear()
        config, age = self._config, time.monotonic() - self._began
        if self._edited is not None:
            return f"{self._edited} has changed"
        if config.max_uptime and age >= config.max_uptime:
            return f"it has run for {config.max_uptime:g} s (max_uptime)"
        if config.max_calls and self._calls.taken >= config.max_calls:
            return f"it has had {self._calls.taken} calls (max_calls)"
        return _holds(self._grown) if self._grown else None

    async def _settled(self) -> None:
        """Wait until files are no longer being written."""
        while self._changed.is_set():
            self._changed.clear()
            with anyio.move_on_after(QUIET_S):
                await self._changed.wait()

    async def _is_free(self) -> bool:
        """Wait for a moment without calls, by holding new ones if need be; False if there was none.

        They are held in time for the restart to come before one that is urgent.
        """
        until = min(self._patience.deadline, anyio.current_time() + PATIENCE_S)
        with anyio.CancelScope(deadline=until) as self._patience:
            while True:
                await self._calls.pause()
                if not self._is_bound():
                    return True
                self._calls.attach()
                await anyio.sleep(MIN_LOOK_S)
        if not self._is_bound():
            with anyio.move_on_after(HOLD_S):
                await self._calls.drain()
                return True
        self._calls.attach()
        await anyio.sleep(AGAIN_S)
        self._patience = anyio.CancelScope()
        return False

    def _concerns(self, path: str) -> bool:
        """True if a file is one of those that are watched. Called in a thread."""
        try:
            below = Path(path).relative_to(_folder(self._config)).as_posix()
        except ValueError:
            return False
        found = any(_fits(below, pattern) for pattern in self._config.watch)
        if found:
            self._edited = below
        return found

    def _on_no_events(self, error: Exception) -> None:
        log.warning("upstream.not_watched", server=self._session.name, reason=str(error))


def _holds(size: int) -> str:
    return f"it holds {size // _MIB} MiB (limits.memory)"


def _folder(config: ServerConfig) -> Path:
    """The folder below which files are watched."""
    program = config.transport.program
    return Path((program and program.cwd) or Path(config.source).parent).expanduser().absolute()


def _fits(path: str, pattern: str) -> bool:
    """True if a path below the folder fits a pattern; one without a slash is for files in any folder."""
    plain = pattern.removeprefix("./")
    if "/" not in plain:
        return fits(path.rpartition("/")[2], plain)
    return fits(path, plain.replace("**/", "*")) or fits(path, plain)

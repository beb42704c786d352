"""Noticing that a configuration file has changed: `changed` returns once it has, and is quiet again.

Editors replace a file by renaming another, links are turned to another file, folders are moved: so what is
watched is the folder of the file, and of each symbolic link on the way to it. An event is only a reason to
look: what counts is the file's `Signature`, which is looked at now and then even without events, because a
network file system has none. Where nothing can be watched (the system's limits, no watchfiles), it is looked
at more often. All that may block happens in threads.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import structlog

from supervisors import Signal

log = structlog.get_logger()
QUIET_S: Final = 0.5  # without a change, before a file is taken to be complete
MAX_UNQUIET_S: Final = 5.0  # for a file that is written to for ever
EVENT_STEP_MS: Final = 250  # that events are collected for: watchfiles looks so often
FIRST_LOOK_S: Final = 1.0  # after the watch was asked for: what changed before it began caused no event
LOOK_INTERVAL_S: Final = 10.0  # beside events
POLL_INTERVAL_S: Final = 3.0  # where there are no events
MAX_LINKS: Final = 40  # on the way to a file, as in the kernel


class Signature(NamedTuple):
    """What changes with a file's content; all zero where there is no file, or none that can be seen."""

    device: int = 0
    inode: int = 0
    size: int = 0
    modified_ns: int = 0
    changed_ns: int = 0
    mode: int = 0
    owner: int = 0

    @property
    def is_endless(self) -> bool:
        """Whether it is a pipe or a device, which cannot be read a second time."""
        return bool(self.mode) and not stat.S_ISREG(self.mode) and not stat.S_ISDIR(self.mode)


def signature(file: Path) -> Signature:
    """The file's signature now."""
    try:
        found = file.stat()
    except (OSError, ValueError):
        return Signature()
    times = found.st_mtime_ns, found.st_ctime_ns
    return Signature(found.st_dev, found.st_ino, found.st_size, *times, found.st_mode, found.st_uid)


def watched_paths(file: Path) -> list[Path]:
    """The file, and every symbolic link on the way to it, each in its real folder."""
    found: list[Path] = []
    rest, here = deque(file.absolute().parts[1:]), Path(file.absolute().anchor)
    while rest:
        part = rest.popleft()
        step = here.parent if part == ".." else here / part
        try:
            target = Path(os.readlink(step)) if len(found) < MAX_LINKS else None  # noqa: PTH115 - as text, on 3.11 too
        except OSError:
            target = None
        if target is None:
            here = step
            continue
        found.append(step)
        if target.is_absolute():
            here = Path(target.anchor)
        rest.extendleft(reversed([part for part in target.parts if part != target.anchor]))
    return [*found, here]


class ConfigWatch:
    """Watches one file. `seen` is the signature that it had when it was read last."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._hint = Signal()
        self._interval_s = LOOK_INTERVAL_S
        self._warned = False
        self.seen = Signature()

    def interrupt(self) -> None:
        """Have `changed` look at the file, and ask whether it is still wanted, now."""
        self._hint.set()

    async def changed(self, wanted: Callable[[], bool]) -> None:
        """Return when the file is not as it was `seen`, and quiet; or as soon as that is not `wanted`."""
        paths = await anyio.to_thread.run_sync(watched_paths, self._file, abandon_on_cancel=True)
        with self._hinted_at_events(paths):
            wait_s = FIRST_LOOK_S
            while wanted() and await self._signature() == self.seen:
                with anyio.move_on_after(wait_s):
                    await self._hint.wait()
                self._hint.clear()
                wait_s = self._interval_s
        if wanted():
            await self._quiet()

    async def _quiet(self) -> None:
        with anyio.move_on_after(MAX_UNQUIET_S):
            before = await self._signature()
            while True:
                await anyio.sleep(QUIET_S)
                now = await self._signature()
                if now == before:
                    return
                before = now

    async def _signature(self) -> Signature:
        return await anyio.to_thread.run_sync(signature, self._file, abandon_on_cancel=True)

    @contextmanager
    def _hinted_at_events(self, paths: Sequence[Path]) -> Iterator[None]:
        """Set the hint at each event of one of these paths."""
        loop, stopping = asyncio.get_running_loop(), threading.Event()

        def on_loop(callback: Callable[..., None], *given: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for it
                loop.call_soon_threadsafe(callback, *given)

        def follow() -> None:
            try:
                for _ in _events(paths, stopping):
                    on_loop(self._hint.set)
            except Exception as error:  # noqa: BLE001 - the boundary: watching may fail in every way that a system has
                on_loop(self._on_no_events, error)

        self._interval_s = LOOK_INTERVAL_S
        # not a daemon thread: those must not be in foreign code when Python ends; and not waited for here
        threading.Thread(target=follow, name="config-watch").start()
        try:
            yield
        finally:
            stopping.set()

    def _on_no_events(self, error: Exception) -> None:
        if not self._warned:
            log.warning("config.not_watched", path=str(self._file), reason=str(error), poll_s=POLL_INTERVAL_S)
        self._warned, self._interval_s = True, POLL_INTERVAL_S
        self._hint.set()


def _events(paths: Sequence[Path], stopping: threading.Event) -> Iterator[object]:
    """Yield after each event of one of these paths, until `stopping` is set: blocks, in a thread of its own.

    Raises:
        Exception: The system refuses to watch, or there is nothing to watch with.
    """
    from watchfiles import watch  # noqa: PLC0415 - for those who watch

    names, folders = set(map(str, paths)), {path.parent for path in paths}
    there = [folder for folder in folders if folder.is_dir()]
    if not there:
        raise FileNotFoundError(f"there is no folder {paths[0].parent}")
    yield from watch(
        *there,
        watch_filter=lambda _change, path: path in names,
        step=EVENT_STEP_MS,
        stop_event=stopping,
        raise_interrupt=False,
        recursive=False,
        ignore_permission_denied=True,
    )

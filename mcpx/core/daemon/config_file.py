"""The file that a hub's configuration comes from: read again on request, and by itself when it has changed.

A file that cannot be used (broken, or gone) changes nothing: `problem` says why until a good one was read,
for the status and for inspect. Each such content is logged once. Content that was read before is not put in
force again by itself; nor is what another user may have written.

Editors replace a file by renaming another, links are turned to another file, folders are moved: so what is
watched is the folder of the file, and of each symbolic link on the way to it. An event is only a reason to
look: what counts is the file's `Signature`, which is looked at now and then even without events, because a
network file system has none. Where nothing can be watched (the system's limits, no watchfiles), it is looked
at more often. All that may block happens in threads.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import structlog

from mcpx.core.config import Config, parse, read_file
from mcpx.core.config.document import as_text
from mcpx.core.servers.fleet.reload import ReloadError, ReloadPlan
from mcpx.core.system.file_events import events_in
from mcpx.core.telemetry.contained import contain, containing
from mcpx.errors import ConfigError, MCPXError
from mcpx.paths import config_hint
from supervisors import Incarnation, Signal

QUIET_S: Final = 0.5  # without a change, before a file is taken to be complete
MAX_UNQUIET_S: Final = 5.0  # for a file that is written to for ever
FIRST_LOOK_S: Final = 1.0  # after the watch was asked for: what changed before it began caused no event
LOOK_INTERVAL_S: Final = 10.0  # beside events
POLL_INTERVAL_S: Final = 3.0  # where there are no events
MAX_LINKS: Final = 40  # on the way to a file, as in the kernel


class Signature(NamedTuple):
    """The figures that change with a file; all zero where there is no file, or none that can be seen."""

    device: int = 0
    inode: int = 0
    size: int = 0
    modified_ns: int = 0
    changed_ns: int = 0
    mode: int = 0
    owner: int = 0

    @property
    def is_endless(self) -> bool:
        """True of a pipe or a device, which cannot be read a second time."""
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
            target = Path(os.readlink(step)) if len(found) < MAX_LINKS else None
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
        self._interval_s = LOOK_INTERVAL_S
        names, folders = set(map(str, paths)), {path.parent for path in paths}
        with events_in(folders, names.__contains__, self._hint.set, self._on_no_events):
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

    def _on_no_events(self, error: Exception) -> None:
        if not self._warned:
            log.warning("config.not_watched", path=str(self._file), reason=str(error), poll_s=POLL_INTERVAL_S)
        self._warned, self._interval_s = True, POLL_INTERVAL_S
        self._hint.set()


log = structlog.get_logger()
START_DELAY_S: Final = 1.0  # the servers go first
RELOAD_PAUSE_S: Final = 1.0  # between two reloads by itself, for a file that changes all the time


class ConfigFile:
    """The file named by `source`. `in_force` tells what is; `put_in_force` changes that, as `Hub.reload`."""

    def __init__(
        self,
        source: str,
        in_force: Callable[[], Config],
        put_in_force: Callable[[Config], Awaitable[ReloadPlan]],
    ) -> None:
        self._source = source
        self._file = Path(source).absolute()
        self._in_force = in_force
        self._put_in_force = put_in_force
        self._watch = ConfigWatch(self._file)
        self._used: bytes | None = None  # the content in force
        self._tried: bytes | str | None = None  # the content that was read last, or why there is none
        self._reloaded = Signal()
        self.problem: str | None = None
        """The reason why the file as it is cannot be used; None while what is in force comes from it."""

    async def reload(self) -> ReloadPlan:
        """Read the file and put it in force, changed or not, with the environment and the secrets of now.

        Raises:
            ConfigError: It cannot be used; nothing has changed.
            ReloadError: It could not be put in force, or not for each server; the text says which.
        """
        try:
            data = await self._read()
            return await self._use(data, await self._parse(data, anew=True))
        finally:
            self._reloaded.set()
            self._watch.interrupt()

    async def reread(self, server: str, *, asks_shell: bool = True) -> Config | None:
        """The file with the environment and that server's secrets of now; None if it cannot be used.

        Without `asks_shell`, the environment is the one that is known.
        """
        try:
            data = await anyio.to_thread.run_sync(_contents, self._file)
            return await self._resolve(data, anew=server, asks_shell=asks_shell)
        except ConfigError:  # the watch notes it
            return None

    async def content_in_force(self) -> bytes | None:
        """The file's content as it was when it was put in force; None where it has changed unseen since."""
        if self._used is not None:
            return self._used
        try:
            data = await anyio.to_thread.run_sync(_contents, self._file)
        except ConfigError:
            return None
        return data if self._is_in_force(data) else None

    async def watch(self, incarnation: Incarnation) -> None:
        """Reload whenever the file has changed, while the configuration wants that: a child's `run`."""
        incarnation.ready()
        await incarnation.while_wanted(self._follow)

    async def _follow(self) -> None:
        await anyio.sleep(START_DELAY_S)
        if signature(self._file).is_endless:
            await anyio.sleep_forever()  # `mcpx serve <(...)`: it was read once, and that was all of it
        while True:
            self._reloaded.clear()
            if not self._wanted():
                await self._reloaded.wait()
                continue
            with containing("config"), suppress(ConfigError, ReloadError):  # noted where found
                await self._catch_up()
            try:
                await self._watch.changed(self._wanted)
            except Exception as error:  # noqa: BLE001 - the boundary: no thread can be started, for instance
                contain(error, "config")
                await anyio.sleep(POLL_INTERVAL_S)

    def _wanted(self) -> bool:
        return self._in_force().watch_config

    async def _catch_up(self) -> None:
        """Put the file in force if its content is another than the one that was read last."""
        data = await self._read()
        if data == self._used or (self._used is None and self._is_in_force(data)):
            self._note_in_force(data)
        elif data != self._tried:
            config = await self._parse(data)
            self._check_owner()
            await self._use(data, config)
            await anyio.sleep(RELOAD_PAUSE_S)

    def _is_in_force(self, data: bytes) -> bool:
        """Return True if this is what was read at the start."""
        with suppress(ConfigError):
            return hash(as_text(data, where=self._source)) == self._in_force().digest
        return False

    async def _use(self, data: bytes, config: Config) -> ReloadPlan:
        try:
            plan = await self._put_in_force(config)
        except ReloadError as error:
            self._note(data, error)
            if error.in_force:
                self._used = data
            raise
        self._used = self._tried = data
        self.problem = None
        return plan

    def _note_in_force(self, data: bytes) -> None:
        if self.problem is not None:
            log.info("config.usable_again", path=self._source)
        self._used = self._tried = data
        self.problem = None

    # --- the file; each of its problems is noted

    async def _read(self) -> bytes:
        def read() -> bytes:
            self._watch.seen = signature(self._file)  # first: what is written meanwhile has another
            return _contents(self._file)

        try:
            return await anyio.to_thread.run_sync(read)
        except ConfigError as error:
            self._note(str(error), error)
            raise

    async def _parse(self, data: bytes, *, anew: bool = False) -> Config:
        try:
            return await self._resolve(data, anew=anew)
        except ConfigError as error:
            self._note(data, error)
            raise

    async def _resolve(self, data: bytes, *, anew: bool | str, asks_shell: bool = True) -> Config:
        folder = self._file.parent
        read = partial(parse, data, where=self._source, folder=folder, resolve=True, anew=anew)
        read = partial(read, asks_shell=asks_shell)
        # it may wait for the login shell and for secrets: bounded, and who has asked may leave before
        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)

    def _check_owner(self) -> None:
        """Take nothing by itself that another user may have written: it names commands to run."""
        found = self._watch.seen
        if found.owner not in {os.getuid(), 0} or found.mode & stat.S_IWOTH:
            why = "others may write to it, so it is not put in force by itself; read it and run mcpx reload"
            why += config_hint(self._file, {})  # who reads it has another environment
            error = ConfigError(str(self._file), why)
            self._note(str(error), error)
            raise error

    def _note(self, tried: bytes | str, error: MCPXError) -> None:
        if tried != self._tried:
            log.error("config.unusable", problem=str(error))
        self._tried, self.problem = tried, str(error)


def _contents(file: Path) -> bytes:
    """The content of the file. Blocks.

    Raises:
        ConfigError: It cannot be read, or not a second time: it is a pipe or a device.
    """
    if signature(file).is_endless:
        raise ConfigError(str(file), "this is not a regular file")
    return read_file(file)

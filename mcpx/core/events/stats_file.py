"""`stats.json` in a configuration's folder: the meter's sums for good, shared by all processes that serve it.

Each process adds what it has counted since it last did, under a lock, and replaces the file whole; so nothing
that another has added is lost. It does so at most once a minute, and when it ends: a process that is killed
loses the last minute. A file that cannot be read as what it should be is set aside under another name. A
file that cannot be written is logged once; the counts are kept, and written when that is possible again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from mcpx.core.events.stats import Totals
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import read_own_file, remove_partial, replace_file
from mcpx.core.system.locks import locked
from mcpx.core.telemetry.contained import contain
from mcpx.paths import CONFIGURATIONS, state_folder
from supervisors import Incarnation

if TYPE_CHECKING:
    from mcpx.core.events.meter import Meter

log = structlog.get_logger()
STATS_NAME: Final = "stats.json"
WRITE_INTERVAL_S: Final = 60.0
LOCK_TIMEOUT_S: Final = 1.0  # another process holds the lock for milliseconds
MAX_FILE_BYTES: Final = 16 << 20  # ten times what the largest sums take


def stats_file(folder: Path) -> StatsFile:
    """The file of the configuration with that folder (`configuration_folder`)."""
    return StatsFile(folder, former=state_folder() / STATS_NAME)


def read_all_stats() -> Totals:
    """The sums of all configurations together.

    Raises:
        OSError: One of the files cannot be opened.
    """
    summed = StatsFile(state_folder()).read()  # before the first configuration has taken it over
    for path in (state_folder() / CONFIGURATIONS).glob(f"*/{STATS_NAME}"):
        summed.merge(StatsFile(path.parent).read())
    return summed


class StatsFile:
    """The file in one folder. Its methods block: for another thread.

    `former` is the file that all configurations once shared: the first that asks takes it over.
    """

    def __init__(self, folder: Path, *, former: Path | None = None) -> None:
        self._folder = folder
        self._former = former
        self.path = self._folder / STATS_NAME

    def read(self) -> Totals:
        """The sums in the file; none where there is no file, or none that can be read.

        Raises:
            OSError: It cannot be opened; `filename` is its path.
        """
        try:
            return self._load()
        except (ValueError, RecursionError):
            return Totals()
        except OSError as error:
            error.filename = str(self.path)
            raise

    def add(self, counted: Totals) -> Totals:
        """Add to the sums in the file; those that it holds then.

        Raises:
            OSError: It cannot be written, or another process does not give the lock back.
        """
        if not counted.clients:
            return self.read()
        ensure_folder(self._folder)
        with locked(self.path.with_suffix(".lock"), timeout_s=LOCK_TIMEOUT_S):
            try:
                kept = self._load()
            except (ValueError, RecursionError) as error:
                self._set_aside(error)
                kept = Totals()
            kept.merge(counted)
            remove_partial(self.path)
            replace_file(self.path, msgspec.json.encode(kept))
            return kept

    def _load(self) -> Totals:
        try:
            data = read_own_file(self.path, MAX_FILE_BYTES, closed_to=0)
        except FileNotFoundError:
            return self._load() if self._take_over() else Totals()
        return msgspec.json.decode(data, type=Totals)

    def _take_over(self) -> bool:
        """Make the former file this one; whether there was one to be had."""
        if self._former is None:
            return False
        try:
            if not self._former.is_file():
                return False
            ensure_folder(self._folder)
            self._former.rename(self.path)
        except OSError:
            return False
        return True

    def _set_aside(self, error: Exception) -> None:
        aside = self.path.with_suffix(".unreadable.json")
        self.path.replace(aside)
        log.warning("stats.unreadable", path=str(self.path), kept_as=aside.name, reason=str(error))


class StatsWriter:
    """Keeps a meter's sums in a file: a child of the root supervisor, which it never fails."""

    def __init__(self, meter: Meter, file: StatsFile, *, interval_s: float = WRITE_INTERVAL_S) -> None:
        self._meter = meter
        self._file = file
        self._interval_s = interval_s
        self._broken = False

    async def run(self, incarnation: Incarnation) -> None:
        """Write now and then, and at last when the supervisor asks this child to stop."""
        incarnation.ready()
        while not incarnation.stopping.is_set():
            await self._write()
            with anyio.move_on_after(self._interval_s):
                await incarnation.stopping.wait()
        await self._write()

    async def _write(self) -> None:
        try:
            counted = self._meter.begin_saving()
            self._meter.saved(await anyio.to_thread.run_sync(self._file.add, counted))
        except OSError as error:
            self._meter.not_saved()
            if not self._broken:
                log.warning("stats.unwritable", path=str(self._file.path), reason=error.strerror)
            self._broken = True
        except Exception as error:  # noqa: BLE001 - the class's promise: the root must not end for a statistic
            self._meter.not_saved()
            contain(error, "stats")
        else:
            self._broken = False

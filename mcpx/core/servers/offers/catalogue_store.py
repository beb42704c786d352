"""Keeping what servers offer over the end of MCPX: the one who writes the remembered catalogues.

`CatalogueStore` is what the rest of MCPX holds. Upstreams note in it what they have listed, without waiting;
`run`, a child of the root supervisor, writes that down a moment later, in a thread, and at last when it is
asked to stop. A process that is killed loses that moment. What cannot be written is logged once, kept, and
written when that is possible again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from mcpx.core.catalog.model import Catalogue
from mcpx.core.config import ServerConfig
from mcpx.core.servers.offers.remembered import CatalogueFiles, Descriptions, Remembered
from mcpx.core.servers.offers.server_identity import server_identity
from mcpx.core.telemetry.contained import contain, containing
from supervisors import Incarnation, Signal

log = structlog.get_logger()
WRITE_DEBOUNCE_S: Final = 0.5  # listings within this time are one write
TOUCH_INTERVAL_S: Final = 3600.0  # between two notes that a catalogue is still wanted, or still right


class _Note(msgspec.Struct, frozen=True):
    server: ServerConfig
    identity: str
    catalogue: Catalogue
    descriptions: Descriptions


class CatalogueStore:
    """The catalogues of all servers, on disk. `state` is the state folder, if it is not the usual one."""

    def __init__(self, state: Path | None = None, *, debounce_s: float = WRITE_DEBOUNCE_S) -> None:
        self._files = CatalogueFiles(state)
        self._debounce_s = debounce_s
        self._notes: dict[str, _Note] = {}  # by identity
        self._right: set[str] = set()
        self._wanted: set[str] = set()
        self._news = Signal()
        self._broken = False

    def identity(self, server: ServerConfig) -> str:
        """Identity of the server now, for `keep` and `touch`; taken at its start: programs are upgraded."""
        return server_identity(server)

    def load(self, server: ServerConfig) -> Remembered | None:
        """Load what this very server offered last, or None. Blocks for the time of reading a file."""
        if server.disabled is not None:
            return None
        with containing("catalogue", server=server.name):  # a file may hold anything, and costs itself
            identity = server_identity(server)
            self._wanted.add(identity)
            return self._files.load(server, identity)
        return None

    def keep(
        self, server: ServerConfig, identity: str, catalogue: Catalogue, descriptions: Descriptions
    ) -> None:
        """Have a catalogue written that the server has just listed, in place of the one before."""
        self._notes[identity] = _Note(server, identity, catalogue, descriptions)
        self._wanted.add(identity)
        self._news.set()

    def touch(self, identity: str) -> None:
        """Note that what is kept of the server is right at this moment."""
        self._right.add(identity)
        self._news.set()

    async def run(self, incarnation: Incarnation) -> None:
        """Write what is noted, and at last when the supervisor asks this child to stop."""
        incarnation.ready()
        await anyio.to_thread.run_sync(self._tidy)
        while not incarnation.stopping.is_set():
            with anyio.move_on_after(TOUCH_INTERVAL_S) as wait:
                await incarnation.while_wanted(self._news.wait)
            if wait.cancelled_caught:
                await anyio.to_thread.run_sync(self._tidy)
            await incarnation.while_wanted(lambda: anyio.sleep(self._debounce_s))
            await self._write()
        await self._write()

    async def _write(self) -> None:
        self._news.clear()
        notes, self._notes = self._notes, {}
        right, self._right = self._right, set()
        if notes or right:
            failed = await anyio.to_thread.run_sync(self._write_down, notes, right)
            self._notes = failed | self._notes

    def _write_down(self, notes: dict[str, _Note], right: set[str]) -> dict[str, _Note]:
        """Write the notes; return those that could not be written."""
        failed: dict[str, _Note] = {}
        for identity, note in notes.items():
            try:
                self._files.write(note.server, identity, note.catalogue, note.descriptions)
            except OSError as error:
                failed[identity] = note
                if not self._broken:
                    path = str(self._files.folder)
                    log.warning("catalogue.unwritable", path=path, reason=error.strerror)
                self._broken = True
            except Exception as error:  # noqa: BLE001 - the boundary: a catalogue may hold anything, and costs itself
                contain(error, "catalogue", server=note.server.name)
            else:
                self._broken = False
        for identity in right - failed.keys():
            self._files.touch(identity, right=True)
        return failed

    def _tidy(self) -> None:
        for identity in list(self._wanted):
            self._files.touch(identity, right=False)
        try:
            self._files.prune()
        except OSError:  # no folder yet, or one that cannot be read: a write says so
            return

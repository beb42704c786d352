"""The pins of all servers: one holder of what is in memory, and the one that writes it down.

Made by the fleet; `run`, a child of the root supervisor, writes what changed a moment later, in a thread, and
looks now and then whether another process, or a person, has changed the files: that is in force at once. What
cannot be written is logged once, kept, and tried again. A process that is killed loses the last moment.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

from mcpx.core.config import ServerConfig
from mcpx.core.policy.pin_files import Loaded, PinFiles
from mcpx.core.policy.pin_record import Edit, PinRecord, empty_record, entry_key, pin_identity
from mcpx.core.policy.pins import ServerPins
from mcpx.core.telemetry.contained import contain
from supervisors import Incarnation, Signal

log = structlog.get_logger()
LOOK_INTERVAL_S: Final = 3.0  # between looks at files that another process may have changed


class PinStore:
    """The pins in one state folder, the usual one by default.

    `on_change` is called with the name of a server whose pins have changed on the disk; it must not raise.
    """

    def __init__(self, state: Path | None = None, *, on_change: Callable[[str], None]) -> None:
        self.files = PinFiles(state)
        self._on_change = on_change
        self._pins: dict[str, tuple[ServerPins, PinRecord, str]] = {}  # by identity, with base and entry
        self._edits: dict[str, list[Edit]] = {}
        self._seen: dict[str, object] = {}  # the stamps of the files as they were read last
        self._news = Signal()
        self._turn = anyio.Lock()  # so that what is read last is taken in last
        self._in_force: set[str] | None = None  # the identities of servers; None until that is said
        self._broken: str | None = None
        self._awaits_others = False

    def of(self, server: ServerConfig) -> ServerPins:
        """The pins of a server; the same object for each server that is started alike. Reads a file."""
        identity = pin_identity(server)
        if self._in_force is not None:
            self._in_force.add(identity)  # it is to be in force in a moment
        if (known := self._pins.get(identity)) is not None:
            known[0].configure(server)
            return known[0]
        self._seen[identity] = self.files.stamp(identity)
        found = self._load(identity)
        base = self.files.base(server) if found == Loaded() else empty_record(server)
        pins = ServerPins(server, found.record or base, found.problem, keep=partial(self._keep, identity))
        pins.await_others(awaited=self._awaits_others)
        self._pins[identity] = pins, base, entry_key(server)
        return pins

    def keep_only(self, servers: Iterable[ServerConfig]) -> None:
        """Have the pins of all other servers forgotten, once what was to be kept of them is written."""
        self._in_force = set(map(pin_identity, servers))
        self._news.set()

    @property
    def problem(self) -> str | None:
        """The reason why pins cannot be written now, if they cannot."""
        return self._broken

    async def approve(self, server: ServerConfig, edit: Edit) -> None:
        """Have a person's approval written down, and put in force, also where the record was not believed.

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        identity = pin_identity(server)
        async with self._turn:
            pins = self.of(server)
            await self._write()
            anew = pins.record if pins.problem is not None else None
            await self._write_one(identity, edit, anew)

    async def run(self, incarnation: Incarnation) -> None:
        """Write what is to be kept, until the supervisor asks this child to stop, and at last then."""
        incarnation.ready()
        while not incarnation.stopping.is_set():
            with anyio.move_on_after(LOOK_INTERVAL_S):
                await incarnation.while_wanted(self._news.wait)
            self._news.clear()
            async with self._turn:
                await self._write()
                await self._look()
                self._forget()
        await self._write()

    def _forget(self) -> None:
        gone = set() if self._in_force is None else self._pins.keys() - self._in_force - self._edits.keys()
        for identity in gone:
            del self._pins[identity]

    # --- shared with other gateways

    def await_others(self, *, awaited: bool) -> None:
        """Have a server that is seen for the first time wait, or not, for what other gateways know of it."""
        self._awaits_others = awaited
        for pins, _, _ in self._pins.values():
            if pins.await_others(awaited=awaited):
                self._on_change(pins.name)

    def release(self, identity: str) -> None:
        """Have one server wait for others no more."""
        known = self._pins.get(identity)
        if known is not None and known[0].await_others(awaited=False):
            self._on_change(known[0].name)

    def compared(self) -> dict[str, ServerPins]:
        """By identity, the pins that are believed, of servers that are compared with theirs."""
        return {
            identity: pins
            for identity, (pins, _, _) in self._pins.items()
            if pins.is_active and pins.problem is None
        }

    async def written(self, identity: str) -> PinRecord:
        """The record of a server, as it is in the file where it could be written.

        Raises:
            OSError: Its server is gone.
        """
        async with self._turn:
            await self._write()
            return self._known(identity)[0].record

    async def adopt(self, identity: str, edit: Edit) -> None:
        """Have what other gateways know written down, and put in force.

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        async with self._turn:
            await self._write()
            self._known(identity)
            await self._write_one(identity, edit)

    def _known(self, identity: str) -> tuple[ServerPins, PinRecord, str]:
        if identity not in self._pins:
            raise OSError(errno.ENOENT, "its server is gone")
        return self._pins[identity]

    # --- writing

    async def _write_one(self, identity: str, edit: Edit, anew: PinRecord | None = None) -> None:
        _, base, entry = self._pins[identity]
        update = partial(self.files.update, identity, edit, base, entry=entry, anew=anew)
        self._take(identity, await anyio.to_thread.run_sync(update))

    def _keep(self, identity: str, edit: Edit) -> None:
        if identity in self._pins:  # else its server is gone, and says its last words
            self._edits.setdefault(identity, []).append(edit)
            self._news.set()

    async def _write(self) -> None:
        edits, self._edits = self._edits, {}
        for identity, its in edits.items():
            try:
                found = await anyio.to_thread.run_sync(self._update, identity, its)
            except OSError as error:
                self._edits[identity] = its + self._edits.get(identity, [])
                reason = error.strerror or str(error)
                if self._broken is None:
                    log.warning("pins.unwritable", path=str(self.files.folder), reason=reason)
                self._broken = reason
            except Exception as error:  # noqa: BLE001 - the boundary: a tool may hold anything, and costs itself
                contain(error, "pins", server=self._pins[identity][0].name)
            else:
                self._broken = None
                if identity not in self._edits:
                    self._take(identity, found)

    def _update(self, identity: str, edits: list[Edit]) -> Loaded:
        def all_of_them(record: PinRecord) -> PinRecord:
            for edit in edits:
                record = edit(record)
            return record

        _, base, entry = self._pins[identity]
        return self.files.update(identity, all_of_them, base, entry=entry)

    # --- what others have written

    async def _look(self) -> None:
        """Read again what has changed."""
        for identity, found in (await anyio.to_thread.run_sync(self._changed)).items():
            if identity not in self._edits:
                self._take(identity, found)

    def _changed(self) -> dict[str, Loaded]:
        """Read the files that are not as they were; all of them, where the key or the index is another."""
        common = self.files.signature()
        stamps = {identity: self.files.stamp(identity) for identity in list(self._pins)}
        all_again = common != self._seen.get("")
        again = [name for name, stamp in stamps.items() if all_again or stamp != self._seen.get(name)]
        self._seen = {"": common, **stamps}
        return {identity: self._load(identity) for identity in again}

    def _load(self, identity: str) -> Loaded:
        try:
            return self.files.load(identity)
        except Exception as error:  # noqa: BLE001 - the boundary: a file may hold anything, and costs itself
            contain(error, "pins")
            return Loaded(None, f"the file with its pins cannot be read ({type(error).__name__})")

    def _take(self, identity: str, found: Loaded) -> None:
        pins = self._pins[identity][0]
        if pins.take(found.record, found.problem):
            self._on_change(pins.name)

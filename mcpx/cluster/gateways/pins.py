"""The exchange of pins between this gateway and the store that all share.

One round looks at every server whose record here or there is another than when it was looked at last, brings
both together by the rules of `mcpx.core.policy.pin_sharing`, writes the result where no other gateway has
written meanwhile (else it begins again), and puts it in force here. A server that was never seen anywhere is
released to be seen first here. Called by `sharing` alone, one round at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from mcpx.cluster.gateways.table import VersionedTable
from mcpx.core.policy.pin_record import PinRecord
from mcpx.core.policy.pin_sharing import (
    Marks,
    Shared,
    approved_since,
    begun,
    distrusted,
    first_marks,
    is_same,
    marks_of,
    taken_over,
    together,
)
from mcpx.core.policy.pin_store import PinStore
from mcpx.core.policy.pins import ServerPins

log = structlog.get_logger()
ROUND_S: Final = 1.0  # at most; a thousand servers that are new to a gateway take 6 to 15
ATTEMPTS: Final = 10  # at one server in a round, while other gateways write
MAX_RECORD_CHARS: Final = 16_000_000  # of what the store takes


class _NotShared(Exception):
    """The reason why a server's pins are not shared."""


class PinExchange:
    """Brings the pins of a gateway and of the store together."""

    def __init__(self, pins: PinStore, table: VersionedTable, gateway: str) -> None:
        self._pins = pins
        self._table = table
        self._gateway = gateway
        self._origin = ""
        self._known: dict[str, tuple[int, PinRecord]] = {}  # as they were when they were looked at last
        self._marks: dict[str, Marks | None] = {}
        self._logged: set[tuple[str, str]] = set()

    async def round(self, versions: Mapping[str, int], origin: str) -> None:
        """Look at what has changed. `versions` are those of the keys in the store of that origin.

        Of very much that has changed a part waits for the next round, so that others have their turn.

        Raises:
            MCPXError: The store cannot be asked.
        """
        if origin != self._origin:
            self._origin = origin
            self._known.clear()
        deadline = anyio.current_time() + ROUND_S
        for identity, pins in self._pins.compared().items():
            if anyio.current_time() > deadline:
                break
            version = versions.get(f"pins/{identity}", 0)
            before = self._known.get(identity)
            is_known = before is not None and before[0] == version and before[1] is pins.record
            if is_known and not pins.awaits_others:
                continue
            looked_at = version, pins.record
            try:
                looked_at = await self._exchange(identity, pins, version)
            except OSError as error:
                self._log_once(identity, pins, f"it cannot be written here: {error.strerror or error}")
                continue
            except _NotShared as problem:
                self._log_once(identity, pins, str(problem))
            self._known[identity] = looked_at
            self._pins.release(identity)

    async def _exchange(self, identity: str, pins: ServerPins, version: int) -> tuple[int, PinRecord]:
        """Bring both together. Returns the version in the store, and the record here that says the same.

        Raises:
            _NotShared: That cannot be.
            OSError: It cannot be written here.
        """
        for _ in range(ATTEMPTS):
            record, marks = await self._pins.written(identity), await self._marks_of(identity)
            shared = await self._read(identity, pins, version) if version else None
            if shared is None and version:
                version = await self._version(identity)
                continue
            if shared is None:
                new = begun(record, marks, by=self._gateway, origin=self._origin)
            else:
                new = together(record, marks, shared, by=self._gateway)
            if new is None:
                await self._note(identity, marks or first_marks(record))
                return 0, record
            if new is not shared and not await self._write(identity, new):
                version = await self._version(identity)
                continue
            shared = new
            await self._pins.adopt(identity, partial(_adopted, shared=shared.record, since=record))
            taken = pins.record
            await self._note(identity, marks_of(shared.record, shared.number, shared.origin))
            if shared.by != self._gateway and not is_same(record, shared.record):
                log.info("pins.taken_over", server=pins.name, gateway=shared.by, version=shared.number)
            if is_same(taken, shared.record):
                return shared.number, taken
            version = shared.number  # something was approved here meanwhile
        return -1, pins.record  # others write all the while; the next round looks again

    async def _version(self, identity: str) -> int:
        key = f"pins/{identity}"
        return (await self._table.versions(key)).get(key, 0)

    async def _read(self, identity: str, pins: ServerPins, version: int) -> Shared | None:
        """Read that version; None if there is a newer one. Raise _NotShared if it cannot be believed."""
        text = await self._table.get(f"pins/{identity}", version)
        if text is None:
            return None
        try:
            shared = msgspec.json.decode(text, type=Shared)
            problem = distrusted(shared, pins.name, version)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _NotShared(f"what other gateways say of it cannot be read: {error}") from None
        if problem is not None:
            raise _NotShared(f"what other gateways say of it is not believed: {problem}")
        return shared

    async def _write(self, identity: str, new: Shared) -> bool:
        """Have it shared; True if no other gateway was first. Raise _NotShared if it is too large."""
        text = msgspec.json.encode(new).decode()
        if len(text) > MAX_RECORD_CHARS:
            raise _NotShared("it is too large for the store")
        return await self._table.put(f"pins/{identity}", text, new.number)

    async def _marks_of(self, identity: str) -> Marks | None:
        if identity not in self._marks:
            self._marks[identity] = await anyio.to_thread.run_sync(self._pins.files.marks, identity)
        return self._marks[identity]

    async def _note(self, identity: str, marks: Marks | None) -> None:
        if marks is not None and marks != self._marks.get(identity):
            await anyio.to_thread.run_sync(self._pins.files.note_marks, identity, marks)
            self._marks[identity] = marks

    def _log_once(self, identity: str, pins: ServerPins, problem: str) -> None:
        if (identity, problem) not in self._logged:
            self._logged.add((identity, problem))
            log.warning("pins.not_shared", server=pins.name, problem=problem)


def _adopted(record: PinRecord, *, shared: PinRecord, since: PinRecord) -> PinRecord:
    """The edit of the record here: what was approved since it was looked at goes on to hold."""
    marks = None if since.state in {"unseen", "succeeding"} else marks_of(since)
    return taken_over(record, shared, approved_since(record, marks))

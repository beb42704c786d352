"""The calls that are open, in a table that outlives the process: a slot for each, behind the head of a chain.

A slot holds when its call began and what its line says of it; once it has ended, how. So a process that is
killed loses no call, though lines are written a moment after it. The table is mapped into memory where the
file system changes blocks in place, because that costs a call a tenth of a system call; elsewhere a full disk
could end the process through a mapping, so it is written with `pwrite`. Blocks are written before they are
used, so that a full disk does not matter here.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

SLOT_BYTES: Final = 1024
FIRST_SLOTS: Final = 32
MAX_SLOTS: Final = 16384
MAX_TIME_US: Final = 1 << 57  # that a clock can show as a date
IN_PLACE: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "f2fs"})
"""File systems that write a block where it is."""
_SLOT: Final = struct.Struct("<QQHB")
_MARK_AT: Final = 18  # where the number of the end stands
MAX_SAID: Final = SLOT_BYTES - _SLOT.size


class Slots:
    """The slots in an open state file, from `start` on. `begun` counts the calls of all processes."""

    def __init__(self, state: int, start: int, begun: int, *, mapped: bool) -> None:
        self.begun = begun
        self._state = state
        self._start = start
        self._mapped = mapped
        self._map: mmap.mmap | None = None
        self._count = 0
        self._free: list[int] = []

    def begin(self, at_us: int, said: bytes) -> int | None:
        """Note that a call begins: the slot that it takes; None where it cannot be noted."""
        length = len(said)
        if length > MAX_SAID or not (self._free or self._grow_if_possible()):
            return None
        slot = self._free.pop()
        self.begun = begun = self.begun + 1
        data = _SLOT.pack(begun, at_us, length, 0) + said
        at = self._start + slot * SLOT_BYTES
        if self._map is not None:
            self._map[at : at + len(data)] = data
        elif not self._written(data, at):
            self._free.append(slot)
            return None
        return slot

    def end(self, slot: int, mark: int) -> bool:
        """Note how a call has ended, by a number from 1 to 255; false where that is not possible."""
        at = self._start + slot * SLOT_BYTES + _MARK_AT
        if self._map is not None:
            self._map[at] = mark
            return True
        return self._written(bytes((mark,)), at)

    def free(self, slot: int) -> None:
        """Give back the slot of a call that has its line."""
        self._free.append(slot)

    @property
    def open(self) -> int:
        """A bit for each slot whose call has no line yet."""
        bits = bytearray(b"\xff" * ((self._count + 7) // 8))
        for slot in self._free:
            bits[slot >> 3] &= ~(1 << (slot & 7))
        return int.from_bytes(bits, "little") & ((1 << self._count) - 1)

    def _written(self, data: bytes, at: int) -> bool:
        try:
            return os.pwrite(self._state, data, at) == len(data)
        except OSError:
            return False

    def _grow_if_possible(self) -> bool:
        try:
            self.grow(max(FIRST_SLOTS, 2 * self._count))
        except OSError:
            return False
        return bool(self._free)

    def grow(self, count: int) -> None:
        """Make room for so many calls.

        Raises:
            OSError: The disk has none.
        """
        count = min(count, MAX_SLOTS)
        size = self._start + count * SLOT_BYTES
        there = max(os.fstat(self._state).st_size, self._start + self._count * SLOT_BYTES)
        if size > there:
            write_whole(self._state, bytes(size - there), there)  # not a hole, which a full disk cannot fill
        if self._mapped:
            self.close()
            self._map = mmap.mmap(self._state, size)
        self._free[:0] = range(count - 1, self._count - 1, -1)
        self._count = max(count, self._count)

    def close(self) -> None:
        """End the mapping."""
        if self._map is not None:
            self._map.close()
            self._map = None


def open_calls(state: int, start: int, before: int, was_open: int) -> tuple[list[tuple[bytes, int]], int]:
    """The calls that were open when the chain was last written, the oldest first, and how many had begun.

    Of each the beginning of its line, and the number of its end; 0 where it had not ended. `before` is how
    many calls had begun at the last note of the head, `was_open` the bits of those that were open then.
    """
    found: list[tuple[int, bytes, int]] = []
    highest, offset, number = before, start, 0
    while len(data := os.pread(state, SLOT_BYTES, offset)) == SLOT_BYTES:
        begun, at_us, length, mark = _SLOT.unpack_from(data)
        highest = max(highest, begun)
        is_open = bool(was_open >> number & 1) or begun > before
        if begun and is_open and length <= MAX_SAID and at_us < MAX_TIME_US:
            found.append((begun, beginning(at_us, data[_SLOT.size : _SLOT.size + length]), mark))
        offset, number = offset + SLOT_BYTES, number + 1
    return [(text, mark) for _, text, mark in sorted(found)], highest


def beginning(at_us: int, said: bytes) -> bytes:
    """The beginning of a line: the time, in microseconds since the epoch, and the members behind it."""
    second, rest = divmod(at_us, 1_000_000)
    return b'{"time":"%b.%06dZ",%b' % (_utc(second), rest, said)


@lru_cache(maxsize=4)
def _utc(second: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()


def may_be_mapped(folder: Path) -> bool:
    """Return True if the file system of a folder changes blocks in place; false where that is not known."""
    try:
        device = os.stat(folder).st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    kinds = {line.partition(" - ")[2].split(" ", 1)[0] for line in mounts if line.split(" ")[2:3] == [wanted]}
    return bool(kinds) and kinds <= IN_PLACE


def write_whole(fd: int, data: bytes, offset: int) -> None:
    """Write all of it.

    Raises:
        OSError: Not all of it could be written.
    """
    if os.pwrite(fd, data, offset) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

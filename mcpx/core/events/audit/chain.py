"""A chain of audit lines, as its one writer has it.

Lines that are written together, up to `GROUP_LINES`, are a group, and share one hash. Each line ends in its
`"seq"`; the last one of the group has `"prev"` behind it, the hash of the group before, and `"hash"`, the
SHA-256 of all bytes of the group that stand before `,"hash":`, the ends of its other lines included. So a
line that was changed, moved or is missing shows, the last one too. A chain goes on from process to process,
and belongs to one of them at a time, by the lock on its state file. Calls that were open when the last one
was killed are in `left_open`, for the next one to write.

The head in the state file lags behind the lines by `HEAD_LAG_S` at most: whoever takes the chain over reads
what stands behind it. A kill may cut the last write short. Half a line is cut off then, and its call is in
`left_open`; the whole lines of a group without its end stay, and are the beginning of the next group
(`is_cut`), so nothing that was written is lost or written twice. What the head knows of was whole: where it
is missing, the chain goes on behind it, and says so (`problem`).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from mcpx.core.events.audit.calls import FIRST_SLOTS, Slots, may_be_mapped, open_calls, write_whole
from mcpx.core.events.audit.chain_files import (
    CHAINS_NAME,
    HEAD_BYTES,
    MAX_CHAINS,
    CallLine,
    Head,
    NoteLine,
    Place,
    Segment,
    chain_numbers,
    encode_lines,
    head_of,
    known_chains,
    note_chains,
    packed_head,
    place_of,
    read_head,
    segment_path,
    segments,
    state_path,
)
from mcpx.core.store.folders import distrust_folder, ensure_folder
from mcpx.core.system.locks import LOCK_FLAGS, try_lock

MAX_SEGMENT_BYTES: Final = 8 << 20
MAX_KEPT_BYTES: Final = 128 << 20  # of all segments of all chains
HEAD_LAG_S: Final = 0.05
ROOM_BYTES: Final = 8192  # that must be free for a call whose line is required
MAX_UNHEADED: Final = 512 << 10  # bytes that are written before the head is
GROUP_LINES: Final = 32  # to which damage is located; a hash costs as much as the rest of a line
_SHA256: Final = sha256()
_TAIL_BYTES: Final = 2 << 20  # of a segment, in which the lines behind the head are looked for
_LINE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Chain:
    """The chain that this process writes, made by `open_chain`. Call `start` before the first call begins."""

    def __init__(self, folder: Path, number: int, state: int) -> None:
        self.left_open: list[CallLine] = []
        """The calls of which an earlier process wrote no line."""
        self.problem: str | None = None
        """The fault of the chain when it was taken over; empty for none."""
        self.is_new = False
        """True if nothing was there of it."""
        self._folder = folder
        self._number = number
        self._state = state
        self._unheaded = 0
        self._probe: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        head, files, begun = read_head(state), segments(folder, number), 0
        places, last, cut = _mended_tail(files)
        if head is None:
            self.problem, self.is_new = "its head is missing" if files else None, not files
            self._oldest, head = files[0].first if files else 1, Head()
        else:
            self._oldest = head.oldest
            calls, begun = open_calls(state, HEAD_BYTES, head.begun, head.open_slots)
            written = {place.time for place in places}
            self.left_open = [line for line in calls if line.time not in written]
        self.seq, self._hash = head.seq, head.hash  # of its last line
        self._group = _SHA256  # of what the next group begins with
        self._added = list[bytes | memoryview]()  # groups, each with its end
        if last is not None and last.seq >= head.seq:
            self.seq, self._hash = last.seq, last.hash.encode()
        elif head.seq:
            self.problem = "lines are missing at its end"
            files = []  # a new segment, behind whatever is left
        self.is_cut = bool(files and places) and not places[-1].hash
        """True if the last group has no end: the next lines are of it."""
        if self.is_cut:
            self.seq, self._group = places[-1].seq, sha256(cut)
        self.ahead, self._last = self.seq, self._hash  # of the last line that was added
        self._segment = files[-1].first if files else self.seq + 1
        self._lines, self._size = _opened_lines(folder, number, self._segment)
        self.slots = Slots(state, HEAD_BYTES, begun, mapped=may_be_mapped(folder))

    def start(self) -> None:
        """Note that all of `left_open` is written, and make room for calls.

        Raises:
            OSError: The disk takes nothing.
        """
        self.slots.grow(FIRST_SLOTS)
        self._write_head()
        self._prune()

    def check_room(self) -> None:
        """Make sure that the disk takes another line now.

        Raises:
            OSError: It does not.
        """
        if self._probe is None:
            path = self._folder / f"{self._number}.room"
            self._probe = os.open(path, LOCK_FLAGS, 0o600)
            path.unlink()
        write_whole(self._probe, bytes(ROOM_BYTES), 0)
        os.ftruncate(self._probe, 0)

    # --- lines

    def append(self, lines: Sequence[CallLine | NoteLine], slots: Iterable[int | None] = ()) -> None:
        """Number lines and write them, as `write` does."""
        for number, line in enumerate(lines, self.ahead + 1):
            line.seq = number
        for first in range(0, len(lines), GROUP_LINES):
            group = lines[first : first + GROUP_LINES]
            self.add(encode_lines(group), len(group))
        self.write(slots)

    def add(self, text: bytes, count: int) -> None:
        """Take a group of lines, which are numbered on from `ahead`, for `write` to write it."""
        digest = _SHA256.copy() if self._added else self._group.copy()  # half the time of a new one
        open_text = memoryview(text)[:-2]
        prev = b',"prev":"%b"' % self._last
        digest.update(open_text)
        digest.update(prev)
        self._last = digest.hexdigest().encode()
        self._added += open_text, b'%b,"hash":"%b"}\n' % (prev, self._last)
        self.ahead += count

    def write(self, slots: Iterable[int | None]) -> None:
        """Write the groups that were added, all or none; the calls of the slots have ended.

        Raises:
            OSError: They could not be written, and are no longer to be.
        """
        data, self._added = b"".join(self._added), []
        ahead, last, self.ahead, self._last = self.ahead, self._last, self.seq, self._hash
        written = os.write(self._lines, data)
        if written < len(data):
            os.ftruncate(self._lines, os.fstat(self._lines).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._group, self.is_cut = _SHA256, False
        self.seq, self._hash = self.ahead, self._last = ahead, last
        self._size += written
        self.slots.free(slots)
        self._unheaded += written
        if self._unheaded > MAX_UNHEADED:
            with suppress(OSError):  # the lines are written; so is the head, with the next ones
                self._write_head()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEAD_LAG_S, self._tend)

    def _tend(self) -> None:
        """Write the head, and whatever else need not be done with each line."""
        self._timer = None
        with suppress(OSError):  # it is written again with the next lines
            if self._size > MAX_SEGMENT_BYTES or not os.fstat(self._lines).st_nlink:
                self._rotate()
            self._write_head()

    def _write_head(self) -> None:
        head = Head(self.seq, self._hash, self._oldest, self._segment, self.slots.begun, self.slots.open)
        write_whole(self._state, packed_head(head), 0)
        self._unheaded = 0

    def _rotate(self) -> None:
        """Go on in a new segment."""
        first = self.seq + 1
        ensure_folder(self._folder)  # it may have been removed
        lines, size = _opened_lines(self._folder, self._number, first)
        os.close(self._lines)
        self._lines, self._size, self._segment = lines, size, first
        self._prune()

    def _prune(self) -> None:
        """Remove the oldest segments of this chain, where there is too much of all."""
        files = segments(self._folder)
        total = sum(each.path.stat().st_size for each in files)
        mine = [each for each in files if each.chain == self._number and each.first < self._segment]
        for each, following in zip(mine, [*(each.first for each in mine[1:]), self._segment], strict=False):
            if total <= MAX_KEPT_BYTES:
                break
            total -= each.path.stat().st_size
            self._oldest = following
            self._write_head()
            each.path.unlink()

    def close(self) -> None:
        """Note where the chain ends, and give it back."""
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError):
            self._write_head()
        self.slots.close()
        for each in (self._lines, self._state, self._probe):
            if each is not None:
                os.close(each)


def open_chain(folder: Path) -> Chain:
    """The first chain in the folder that no other process has, or a new one.

    Raises:
        OSError: There is none to be had.
    """
    ensure_folder(folder)
    if (problem := distrust_folder(folder)) is not None:
        raise PermissionError(errno.EPERM, problem)
    for number in range(1, MAX_CHAINS + 1):
        state = try_lock(state_path(folder, number))
        if state is not None:
            try:
                return _noted(folder, number, Chain(folder, number, state))
            except BaseException:
                os.close(state)
                raise
    raise BlockingIOError(errno.EAGAIN, "too many processes write audit lines")


def _noted(folder: Path, number: int, chain: Chain) -> Chain:
    """The chain, of which it is known from now on that it is there, or that it was removed."""
    known = known_chains(folder) or 0
    if chain.is_new and number <= known:
        chain.problem = "it was removed"
    elif chain.problem is None and any(
        head_of(folder, each) for each in chain_numbers(folder) if each > known
    ):  # a chain is noted before its head is written
        chain.problem = f"{CHAINS_NAME} was removed or changed"
    # Again after writing: another process that noted its own chain meanwhile may have read less.
    while (known_chains(folder) or 0) < (count := max(number, *chain_numbers(folder))):
        note_chains(folder, count)
    return chain


def _opened_lines(folder: Path, number: int, first: int) -> tuple[int, int]:
    """A segment, open to be written, and its size."""
    lines = os.open(segment_path(folder, number, first), _LINE_FLAGS, 0o600)
    return lines, os.fstat(lines).st_size


def _mended_tail(files: Sequence[Segment]) -> tuple[list[Place], Place | None, bytes]:
    """The places of the last lines of a chain, the last that has a hash, and the lines behind that.

    Half a line at the end is cut off. A segment without a hash was begun last: so there are two at most.
    """
    places: list[Place] = []
    last, cut = None, b""
    for file in reversed(files[-2:]):
        data, rest = _mended(file.path), b""
        found: list[Place] = []
        for line in data.splitlines(keepends=True):
            place = place_of(line)
            if place is not None and place.hash:
                last, rest = place, b""
            else:
                rest += line
            found += [] if place is None else [place]
        cut = rest if file is files[-1] else cut
        places = found + places
        if last is not None:
            break
    return places, last, cut


def _mended(path: Path) -> bytes:
    """The last whole lines of a segment."""
    lines = os.open(path, _LINE_FLAGS)
    try:
        size = os.fstat(lines).st_size
        start = max(0, size - _TAIL_BYTES)
        data = os.pread(lines, size - start, start)
        whole = data.rfind(b"\n") + 1
        if whole < len(data) and (whole or not start):
            os.ftruncate(lines, start + whole)
        return data[:whole]
    finally:
        os.close(lines)

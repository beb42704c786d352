"""The files of a chain of audit lines: its segments, and the file with its head and its open calls.

A chain is `NUMBER.state` and the segments `NUMBER-FIRST.jsonl` in the folder, where FIRST is the `seq` of the
first line. The state file begins with the head, the place of the last line, padded to `HEAD_BYTES`; behind it
stand the calls that are open (`mcpx.core.events.audit.calls`). Read by `mcpx.core.events.audit.reading`,
written by `mcpx.core.events.audit.chain`.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mcpx.core.store.private_files import READ_FLAGS, replace_file

HEAD_BYTES: Final = 4096
MAX_CHAINS: Final = 4096  # processes that write at the same time
GENESIS: Final = b"0" * 64
"""The hash of the line before the first one."""
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of decoding JSON that is none, or is not of the shape that is wanted."""
_HEAD: Final = struct.Struct("<8sQQQQ32sI")
_CHECKSUM: Final = struct.Struct("<I")
CHAINS_NAME: Final = "audit.chains"
_MAX_DIGITS: Final = 9
_MAGIC: Final = b"mcpxaud1"
_NAME: Final = re.compile(r"(\d{1,6})-(\d{12,18})\.jsonl")


class Head(NamedTuple):
    """The place of the last line of a chain, when it was last noted."""

    seq: int = 0
    hash: bytes = GENESIS
    """In hexadecimal."""
    oldest: int = 1
    """The `seq` of the oldest line that is kept."""
    segment: int = 1
    """The `seq` that the last segment begins with."""
    begun: int = 0
    """The number of calls that had begun."""
    open_slots: int = 0
    """A bit for each slot whose call was open."""


class Segment(NamedTuple):
    """One file of lines."""

    path: Path
    chain: int
    first: int


class Place(msgspec.Struct, frozen=True):
    """The members of a line that chain it to the others."""

    seq: int
    hash: str = ""
    """Empty where a later line has the hash of this one too."""
    time: str = ""


class CallLine(msgspec.Struct, gc=False):
    """The line of a call, as it is encoded; `mcpx.core.events.audit.calls` makes it."""

    time: str
    client: msgspec.Raw | bytes
    """With the members behind it, which are known at the beginning."""
    outcome: str
    code: str | None
    ms: float | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    approval: str | None = None
    rule: msgspec.Raw | None = None
    """With the members behind it, where there are any."""
    seq: int = 0


class NoteLine(msgspec.Struct, gc=False):
    """A line of the log on itself."""

    time: str = ""
    kind: str = ""
    name: str = ""
    what: str = ""
    seq: int = 0


encode_lines: Final = msgspec.json.Encoder().encode_lines
NUMBER: Final = b',"seq":'
"""What stands before the number of a line, which is its last member."""


def segment_path(folder: Path, chain: int, first: int) -> Path:
    """Return the file of the segment that begins with that line."""
    return folder / f"{chain}-{first:012d}.jsonl"


def state_path(folder: Path, chain: int) -> Path:
    """Return the file of the head and the open calls of a chain."""
    return folder / f"{chain}.state"


def segments(folder: Path, chain: int | None = None) -> list[Segment]:
    """The segments of one chain, or of all, in order.

    Raises:
        OSError: The folder cannot be read.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208 - by name
    except FileNotFoundError:
        return []
    named = [match for name in names if (match := _NAME.fullmatch(name))]
    found = [Segment(folder / each[0], int(each[1]), int(each[2])) for each in named]
    found.sort(key=lambda each: (each.chain, each.first))
    return found if chain is None else [each for each in found if each.chain == chain]


def chain_numbers(folder: Path) -> set[int]:
    """The numbers of the chains of which anything is there.

    Raises:
        OSError: The folder cannot be read.
    """
    stems = {each.stem for each in folder.glob("*.state")}
    numbers = {int(stem) for stem in stems if stem.isascii() and stem.isdecimal()}
    numbers |= {each.chain for each in segments(folder)}
    return {number for number in numbers if 0 < number <= MAX_CHAINS}


def known_chains(folder: Path) -> int | None:
    """Return the number of chains there have ever been, as noted beside the folder, which may be removed.

    None where nothing that can be read is noted: there has been no chain, or the note was removed.
    """
    try:
        count = int((folder.parent / CHAINS_NAME).read_text()[:_MAX_DIGITS])
    except (OSError, ValueError):
        return None
    return count if 0 < count <= MAX_CHAINS else None


def note_chains(folder: Path, count: int) -> None:
    """Note that there are so many chains.

    Raises:
        OSError: That is not possible.
    """
    replace_file(folder.parent / CHAINS_NAME, b"%d\n" % count, synced=False)


def packed_head(head: Head) -> bytes:
    """The head as it stands in the file."""
    mask = head.open_slots.to_bytes((head.open_slots.bit_length() + 7) // 8, "little")
    fixed = _HEAD.pack(
        _MAGIC, head.seq, head.oldest, head.segment, head.begun, bytes.fromhex(head.hash.decode()), len(mask)
    )
    return b"".join((fixed, mask, _CHECKSUM.pack(zlib.crc32(fixed + mask))))


def read_head(state: int) -> Head | None:
    """The head in an open state file; None where there is none that can be believed."""
    data = os.pread(state, HEAD_BYTES, 0)
    if len(data) < _HEAD.size + _CHECKSUM.size or not data.startswith(_MAGIC):
        return None
    _, seq, oldest, segment, begun, digest, length = _HEAD.unpack_from(data)
    end = _HEAD.size + length
    if end + _CHECKSUM.size > len(data) or _CHECKSUM.unpack_from(data, end)[0] != zlib.crc32(data[:end]):
        return None
    mask = int.from_bytes(data[_HEAD.size : end], "little")
    return Head(seq, digest.hex().encode(), oldest, segment, begun, mask)


def head_of(folder: Path, chain: int) -> Head | None:
    """The head of a chain that another process may be writing; None where there is none.

    Raises:
        OSError: It is there and cannot be read.
    """
    try:
        state = os.open(state_path(folder, chain), READ_FLAGS)
    except FileNotFoundError:
        return None
    try:
        return read_head(state)
    finally:
        os.close(state)


def place_of(line: bytes) -> Place | None:
    """The place that a line gives itself; None where it is no line of the audit log."""
    try:
        return msgspec.json.decode(line, type=Place)
    except UNREADABLE:
        return None

"""A call in the audit log: its slot while it is open, and its line once it has ended.

A line is a JSON object in a fixed order: what is known at the beginning (`say`), then how the call ended,
then its place in the chain (`mcpx.core.events.audit.chain`). It is made of the call's record, and changes
nothing. What is known at the beginning is encoded once for all calls that are alike in it, and stands in a
line as the value of its first member, `client`, with the members behind it: so the lines of a turn are
encoded in one go.

Slots make a table that outlives the process, behind the head of a chain. A slot holds when its call began and
what its line says of it; once it has ended, how. So a process that is killed loses no call, though lines are
written a moment after it. The table is mapped into memory where the file system changes blocks in place,
because that costs a call a tenth of a system call; elsewhere a full disk could end the process through a
mapping, so it is written with `pwrite`. Blocks are written before they are used, so that a full disk does not
matter here.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from mcpx.core.events.audit.chain_files import UNREADABLE, CallLine, encode_lines
from mcpx.core.events.records import ENDS, Record, Target
from mcpx.core.system.linux import file_system_of
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import cut

MAX_NAME_CHARS: Final = 2048  # of a tool or a URI
MAX_SLOT_NAME_CHARS: Final = 200  # the same, where the beginning of a call is too long to be kept whole
MAX_ARGUMENTS: Final = 64  # that are named
MAX_ARGUMENT_CHARS: Final = 128  # of the name of one
MAX_NAMED_BYTES: Final = 512  # of arguments whose names stand in a line whatever they are
MAX_NAMES_BYTES: Final = 1 << 20  # of arguments; those of larger ones are not read
MAX_VALUES_BYTES: Final = 16 << 10  # of arguments whose values are written
_encode: Final = msgspec.json.Encoder().encode
_names: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_CLIENT: Final = b'"client":'
_DIGITS: Final = tuple(f"{number:03d}" for number in range(1000))  # half the time of a format

SLOT_BYTES: Final = 1024
FIRST_SLOTS: Final = 32
MAX_SLOTS: Final = 16384
SECOND_US: Final = 1_000_000
MS_US: Final = 1000
MAX_TIME_US: Final = 1 << 57  # that a clock can show as a date
IN_PLACE: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "f2fs"})
"""File systems that write a block where it is."""
_SLOT: Final = struct.Struct("=QQHB")  # the number of the call, its time, the length of its text, its end
_BEGUN: Final = struct.Struct("=QQ")  # the first two
_LENGTH: Final = struct.Struct("=H")
_LENGTH_AT: Final = 16
MARK_AT: Final = 18
MAX_SAID: Final = SLOT_BYTES - _SLOT.size


# --- the line


def lines_of(records: Iterable[Record], redact: Callable[[Any], Any] | None, last: int) -> bytes:
    """Return the lines of calls that have ended, to follow the line of the number `last`.

    `redact` takes the secrets out of values; None: they are not written.
    """
    lines: list[CallLine] = []
    begins_us, at = 0, ""
    for number, record in enumerate(records, last + 1):  # most are like each other, and go well
        outcome, code, size = record.ending or record.how()
        at_us = record.at_us
        if not 0 <= (rest_us := at_us - begins_us) < MS_US:
            begins_us, rest_us = at_us - at_us % MS_US, at_us % MS_US
            at = time_of(begins_us)[:-4]
        line = CallLine(
            f"{at}{_DIGITS[rest_us]}Z",
            record.said,
            outcome,
            code,
            took_us / 1000 if (took_us := record.ended_at_us - at_us) > 0 else 0.0,  # a clock may be set back
            len(record.arguments),
            size,
            record.approval,
            _last_members(record, redact) if record.rule or record.trace_id or redact else None,
            number,
        )
        lines.append(line)
    return encode_lines(lines)


def _last_members(record: Record, redact: Callable[[Any], Any] | None) -> msgspec.Raw:
    """Return the value of `rule`, and the members behind it."""
    text = b"null" if record.rule is None else encoded(record.rule)
    if record.trace_id is not None:
        text += b',"trace_id":%b' % encoded(record.trace_id)
    return msgspec.Raw(text if redact is None else text + values(record.arguments, redact))


def said_at_beginning(record: Record) -> msgspec.Raw:
    """Return the members of its line that say who asks for what, with which arguments."""
    arguments, target, names = record.arguments, record.target, record.names
    if len(arguments) > MAX_NAMED_BYTES:
        names = record.names = None
    elif names is None:
        with suppress(*UNREADABLE):
            names = tuple(_names(arguments) if arguments else ())
    return said_of(target, argument_names(arguments)) if names is None else _said_before(target, names)


def said_of(target: Target, names: bytes) -> msgspec.Raw:
    """Return the members that say who asks for what; `names` are those of the arguments, or null."""
    return msgspec.Raw(b'%b,"arguments":%b' % (_members_of(target), names))


@lru_cache(maxsize=4096)
def _said_before(target: Target, names: tuple[str, ...]) -> msgspec.Raw:
    return said_of(target, _encode(names))


@lru_cache(maxsize=4096)
def _members_of(target: Target) -> bytes:
    """Return the members that say who asks for what, without the name of the first."""
    origin, server, kind, name = target
    members = (
        ("client", origin.client),
        ("user", origin.user),
        ("transport", origin.transport),
        ("profile", origin.profile),
        ("token", origin.token),
        ("server", cut(server, MAX_ARGUMENT_CHARS)),
        ("kind", kind),
        ("name", cut(name, MAX_NAME_CHARS)),
    )
    pairs = ((key.encode(), b"null" if text is None else encoded(text)) for key, text in members)
    return b",".join(b'"%b":%b' % pair for pair in pairs).removeprefix(_CLIENT)


def encoded(text: str) -> bytes:
    """Return a text as JSON, whatever is in it."""
    try:
        return _encode(text)
    except UnicodeEncodeError:  # half a character, which JSON can spell and UTF-8 cannot
        return _encode(text.encode(errors="replace").decode())


def argument_names(arguments: msgspec.Raw | bytes) -> bytes:
    """Return the names of arguments, as a JSON array; null where they cannot be read."""
    if not arguments:
        return b"[]"
    if len(arguments) > MAX_NAMES_BYTES:
        return b"null"
    try:
        names = list(_names(arguments))
    except UNREADABLE:
        return _other_names(arguments)
    text = _encode(names)
    if len(text) > MAX_NAMED_BYTES:
        return _encode([cut(name, MAX_ARGUMENT_CHARS) for name in names[:MAX_ARGUMENTS]])
    return text


def _other_names(arguments: msgspec.Raw | bytes) -> bytes:
    """Return the names of an object within a string; none of null."""
    try:
        given = msgspec.json.decode(arguments, type=str | None)
    except UNREADABLE:
        return b"null"
    if given is None:
        return b"[]"
    return argument_names(given.encode(errors="replace")) if given.lstrip().startswith("{") else b"null"


def values(arguments: msgspec.Raw | bytes, redact: Callable[[Any], Any]) -> bytes:
    """Return the member with the arguments' values; null where they are too large or cannot be read."""
    if not arguments:
        return b',"values":{}'
    if len(arguments) > MAX_VALUES_BYTES:
        return b',"values":null'
    try:
        return b',"values":%b' % _encode(redact(msgspec.json.decode(arguments)))
    except (*UNREADABLE, UnicodeEncodeError):
        return b',"values":null'


# --- the slot


class Slots:
    """The slots in an open state file, from `start` on. `begun` counts the calls of all processes."""

    def __init__(self, state: int, start: int, begun: int, *, mapped: bool) -> None:
        self.begun = begun
        self._state = state
        self._start = start
        self._mapped = mapped
        self.table: mmap.mmap | None = None
        """The whole file, where it may be mapped."""
        self._count = 0
        self.beginning: list[Record] = []
        """The calls that `note` is to note."""
        self._places = set[int]()  # where they begin in the file: so a slot is known
        self._free: list[int] = []  # of these
        self._texts: dict[int, msgspec.Raw] = {}  # of a slot, the text that stands there
        self._last: Any = None, None, None, self.beginning, self._free, self._texts, _BEGUN.pack_into
        """What the call that began last asked for, and what `note` needs: many begin alone in a turn."""

    def note(self) -> None:
        """Note that the calls of `beginning` begin, and who asks for what. Never raises.

        Each gets a slot, if that can be noted.
        """
        target, names, said, beginning, free, texts, pack = self._last
        table: Any = self.table  # which is there where a text is
        begun = self.begun
        try:
            for record in beginning:
                if (  # as for most calls, which are like the last one
                    record.names == names
                    and (record.target is target or record.target == target)
                    and free
                    and texts.get(slot := free[-1]) is said
                ):
                    record.said = said
                    begun += 1
                    table[slot + MARK_AT] = 0
                    pack(table, slot, begun, record.at_us)
                    record.slot = free.pop()
                else:
                    self.begun = begun
                    record.slot = self._noted(record)
                    target, names, said, *_ = self._last
                    table, begun = self.table, self.begun
            self.begun = begun
        except Exception as error:  # noqa: BLE001 - what others have begun must be sent all the same
            self.begun = max(begun, self.begun)
            contain(error, "audit log")
        beginning.clear()

    def _noted(self, record: Record) -> int | None:
        """Return the slot that a call is noted in; None where that is not possible.

        MCPX may be killed between any two stores, and the next one believes what it finds. So an end is
        taken away first, and the number and the time, by which a call counts as open, come last.
        """
        record.said = said = said_at_beginning(record)
        if record.names is not None:
            self._last = record.target, record.names, said, *self._last[3:]
        if not (self._free or self._grow_if_possible()):
            return None
        slot, length = self._free.pop(), len(said) + len(_CLIENT)
        self.begun += 1
        if self.table is None or length > MAX_SAID:
            if self._is_written(slot, record):
                return slot
            self._free.append(slot)
            return None
        self.table[slot + MARK_AT] = 0
        if self._texts.get(slot) is not said:
            self.table[slot + _SLOT.size : slot + _SLOT.size + length] = _CLIENT + said
            _LENGTH.pack_into(self.table, slot + _LENGTH_AT, length)
            self._texts[slot] = said
        _BEGUN.pack_into(self.table, slot, self.begun, record.at_us)
        return slot

    def _is_written(self, slot: int, record: Record) -> bool:
        """Note a call by a write, cut where it is too long; false where it cannot be noted."""
        whole = _CLIENT + record.said
        if len(whole) > MAX_SAID:
            target = (*record.target[:3], cut(record.target[3], MAX_SLOT_NAME_CHARS))
            whole = _CLIENT + said_of(target, b"null")
        self._texts.pop(slot, None)
        written = _SLOT.pack(self.begun, record.at_us, len(whole), 0) + whole
        return len(whole) <= MAX_SAID and self._written(written, slot)

    def end(self, record: Record) -> bool:
        """Note by a write how a call has ended, where there is no `table`; false where that fails."""
        return record.slot is not None and self._written(bytes((record.mark,)), record.slot + MARK_AT)

    def free(self, slots: Iterable[int | None]) -> None:
        """Give back the slots of calls that have their lines; None is one that had none."""
        self._free += filter(None, slots)

    @property
    def open(self) -> int:
        """A bit for each slot whose call has no line yet."""
        taken = self._places.difference(self._free)
        return sum(1 << (place - self._start) // SLOT_BYTES for place in taken)

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
            self.table = mmap.mmap(self._state, size)
        room = range(self._start + self._count * SLOT_BYTES, self._start + count * SLOT_BYTES, SLOT_BYTES)
        self._free[:0] = reversed(room)
        self._places.update(room)
        self._count = max(count, self._count)

    def close(self) -> None:
        """End the mapping."""
        if self.table is not None:
            self.table.close()
            self.table = None


def open_calls(state: int, start: int, before: int, was_open: int) -> tuple[list[CallLine], int]:
    """The lines of calls that were open when the chain was last written, and how many had begun.

    The oldest is the first. A call that had not ended is `unknown`. `before` is how many calls had begun at
    the last note of the head, `was_open` the bits of those that were open then.
    """
    found: list[tuple[int, CallLine]] = []
    highest, offset, number = before, start, 0
    while len(data := os.pread(state, SLOT_BYTES, offset)) == SLOT_BYTES:
        begun, at_us, length, mark = _SLOT.unpack_from(data)
        highest = max(highest, begun)
        is_open = bool(was_open >> number & 1) or begun > before
        if begun and is_open and length <= MAX_SAID and at_us < MAX_TIME_US:
            said = msgspec.Raw(data[_SLOT.size : _SLOT.size + length].removeprefix(_CLIENT))
            end = ENDS[mark] if mark < len(ENDS) else ENDS[0]
            found.append((begun, CallLine(time_of(at_us), said, *end)))
        offset, number = offset + SLOT_BYTES, number + 1
    return [line for _, line in sorted(found, key=itemgetter(0))], highest


def time_of(at_us: int) -> str:
    """A time, in microseconds since the epoch, as it stands in a line."""
    second, rest = divmod(at_us, SECOND_US)
    return f"{_utc(second)}{rest:06d}Z"


@lru_cache(maxsize=4)
def _utc(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))


def may_be_mapped(folder: Path) -> bool:
    """Return True if the file system of a folder changes blocks in place; false where that is not known."""
    kinds = file_system_of(folder)
    return bool(kinds) and kinds <= IN_PLACE


def write_whole(fd: int, data: bytes, offset: int) -> None:
    """Write all of it.

    Raises:
        OSError: Not all of it could be written.
    """
    if os.pwrite(fd, data, offset) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

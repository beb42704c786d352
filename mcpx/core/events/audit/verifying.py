"""Check that the audit lines in a folder are as they were written: none changed, none missing.

Lines are in groups (`mcpx.core.events.audit.chain`): the last one carries a hash of the group and that of the
group before; in a log of an older version, each line is a group. The head of each chain has the place of its
last line, and how many chains there are is noted beside the folder. Damage is located to a group, and to a
line of it where its form or its `seq` shows it. Reads alone, also while other processes write.
"""

from __future__ import annotations

import os
import re
import time
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from mcpx.core.events.audit.chain_files import (
    CHAINS_NAME,
    GENESIS,
    Head,
    NoteLine,
    Segment,
    chain_numbers,
    head_of,
    known_chains,
    place_of,
    segments,
)

ATTEMPTS: Final = 4
PAUSE_S: Final = 0.1  # between attempts: what looks wrong may be half written
_END: Final = re.compile(rb',"seq":(\d{1,18})(?:,"prev":"([0-9a-f]{64})"(,"hash":"([0-9a-f]{64})"))?\}\n\Z')
NEVER_WRITTEN: Final = (
    "there is no audit log, and no note that there ever was one: nothing has been run yet, or the log and"
    f" {CHAINS_NAME} were both removed; which of these cannot be known"
)
_NO_COUNT: Final = "chains that were removed as a whole cannot be noticed without the right number"
_NOTE: Final = b'"kind":"audit"'


class Problem(msgspec.Struct, frozen=True):
    """A fault at one place."""

    file: str
    """From the folder of the log."""
    line: int | None
    """In the file, from 1; None where it is not about one line."""
    problem: str


class Verified(msgspec.Struct, kw_only=True):
    """The findings."""

    chains: int = 0
    lines: int = 0
    problems: list[Problem] = msgspec.field(default_factory=list)
    remarks: list[Problem] = msgspec.field(default_factory=list)
    """The remarks of the log on itself: lines that a full disk did not take."""


def verify(folder: Path) -> Verified:
    """Look at all chains in the folder.

    Raises:
        OSError: It cannot be read.
    """
    whole = Verified()
    numbers, known = _expected(folder)
    there = max(numbers, default=0)
    note = f"../{CHAINS_NAME}"
    if not there and not os.path.lexists(folder.parent / CHAINS_NAME):
        whole.remarks.append(Problem(note, None, NEVER_WRITTEN))
    elif known < there or not known:
        problem = (
            f"it says {known}, but there are {there} chains" if known else "it is missing or not readable"
        )
        whole.problems.append(Problem(note, None, f"{problem}: {_NO_COUNT}"))
    for number in range(1, max(there, known) + 1):
        if number not in numbers:
            whole.problems.append(Problem(f"{number}.state", None, f"chain {number} is missing"))
            continue
        found = _verified(folder, number)
        whole.chains += 1
        whole.lines += found.lines
        whole.problems += found.problems
        whole.remarks += found.remarks
    return whole


def _expected(folder: Path) -> tuple[set[int], int]:
    """The numbers of the chains of which anything is there, and how many are noted beside the folder."""
    for _ in range(ATTEMPTS):
        numbers, known = chain_numbers(folder), known_chains(folder) or 0
        if known >= max(numbers, default=0):
            break
        time.sleep(PAUSE_S)  # a process that begins a chain notes it at once
    return numbers, known


def _verified(folder: Path, number: int) -> Verified:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            found = _Chain(folder, number).result
        except FileNotFoundError:  # a segment was removed meanwhile, because there is enough of all
            if attempt == ATTEMPTS:
                raise
        else:
            if not found.problems or attempt == ATTEMPTS:
                return found
        time.sleep(PAUSE_S)
    raise AssertionError


class _Group:
    """The lines since the last hash, as far as they follow on each other."""

    def __init__(self, *, is_noted: bool = False) -> None:
        self.digest = sha256()
        self.line = 0  # in the file, of the first one; 0: there is none
        self.first = self.last = 0  # by their `seq`
        self.notes: list[tuple[int, bytes]] = []
        self.is_noted = is_noted
        """True if a fault was found, of which others follow."""


class _Chain:
    """One chain, looked at once."""

    def __init__(self, folder: Path, number: int) -> None:
        self.result = Verified()
        head, files = head_of(folder, number), segments(folder, number)
        if head is None and files:
            self._note(f"{number}.state", None, "the head of the chain is missing")
        self._head = head or Head(oldest=files[0].first if files else 1)
        self._seq = self._head.oldest - 1
        self._hash = GENESIS if self._seq == 0 else None
        """Of the group before; None where it is not known."""
        self._wrong_hash: bytes | None = None
        """The hash that the group before gives itself, where it is not its hash."""
        self._group = _Group()
        if files and files[0].first < self._head.oldest:  # it is about to be removed
            self._seq, self._hash = files[0].first - 1, GENESIS if files[0].first == 1 else None
        for file in files:
            self._segment(file)
        if self._seq < self._head.seq:
            last = files[-1].path.name if files else f"{number}.state"
            self._note(last, None, f"{_lines(self._seq + 1, self._head.seq)} missing at the end")

    def _note(self, file: str, line: int | None, problem: str) -> None:
        self.result.problems.append(Problem(file, line, problem))

    def _segment(self, file: Segment) -> None:
        name = file.path.name
        with file.path.open("rb") as lines:
            if file.first > self._seq + 1:
                self._note(name, None, f"{_lines(self._seq + 1, file.first - 1)} missing before it")
                self._seq, self._hash = file.first - 1, None
            for number, line in enumerate(lines, 1):
                if line.endswith(b"\n"):
                    self._line(name, number, line)
                else:
                    self._note(name, number, "the line is not whole")
                    self._group.is_noted = True
        group, self._group = self._group, _Group()
        self._seq = max(self._seq, group.last)
        if group.line and not group.is_noted and self._seq >= self._head.seq:  # else more is missing
            self._note(name, group.line, f"{_lines(group.first, group.last)} without a hash")

    def _line(self, file: str, number: int, line: bytes) -> None:
        self.result.lines += 1
        group, end = self._group, _END.search(line)
        if end is None or place_of(line) is None:
            self._note(file, number, "this is no line of the audit log")
            self._seq, self._hash = max(self._seq, group.last) + 1, None
            self._group = _Group(is_noted=True)
            return
        seq = int(end[1])
        if group.line and seq != group.last + 1:  # what is behind it may be a group by itself
            if not group.is_noted:
                self._note(file, number, _out_of_order(group.last, seq))
            self._seq, self._hash = max(self._seq, group.last, seq - 1), None
            self._group = group = _Group(is_noted=True)
        if not group.line:
            group.line, group.first = number, seq
        group.last = seq
        if _NOTE in line:
            group.notes.append((number, line))
        if end[4] is None:
            group.digest.update(line)
        else:
            group.digest.update(line[: end.start(3)])
            self._end(file, end[2], end[4])
            self._group = _Group()

    def _end(self, file: str, prev: bytes, own: bytes) -> None:
        """Look at the whole group: `prev` and `own` are the hashes that its last line gives."""
        group, head, before = self._group, self._head, self._seq
        self._seq = max(before, group.last)
        if group.digest.hexdigest().encode() != own:
            if not group.is_noted:
                self._note(file, group.line, _changed(before + 1, group))
            self._seq, self._hash, self._wrong_hash = max(before + 1, group.last), None, own
            return
        if prev == self._wrong_hash:  # so it follows on that one, whatever `seq` that was changed to
            self._seq = group.last
        elif group.first > before + 1 or (group.first <= before and not group.is_noted):
            self._note(file, group.line, _out_of_order(before, group.first))
        elif self._hash is not None and prev != self._hash:
            self._note(file, group.line, f"line {group.first} does not follow on the one before it")
        elif group.first <= head.seq <= group.last and (head.seq, head.hash) != (group.last, own):
            self._note(file, group.line, f"line {head.seq} is not the one that was written")
        self._hash, self._wrong_hash = own, None
        for number, line in group.notes:
            self._read_note(file, number, line)

    def _read_note(self, file: str, number: int, line: bytes) -> None:
        """Take in what the log says of itself."""
        note = msgspec.json.decode(line, type=NoteLine)
        if note.kind != "audit":
            return
        if note.name == "chain":
            self._note(file, number, f"the writer noticed that {note.what}")
        else:
            self.result.remarks.append(Problem(file, number, note.what))


def _out_of_order(before: int, seq: int) -> str:
    if seq > before + 1:
        return f"{_lines(before + 1, seq - 1)} missing before it"
    return f"line {seq} does not belong here"


def _changed(expected: int, group: _Group) -> str:
    """Say of a group whose hash is wrong what is known of its lines."""
    if group.first > expected:
        return f"{_lines(expected, group.last)} changed or missing"
    last = expected + group.last - group.first
    return (
        f"line {last} was changed"
        if last == expected
        else f"one of the lines {expected} to {last} was changed"
    )


def _lines(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"

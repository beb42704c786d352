"""Check that the audit lines in a folder are as they were written: none changed, none missing.

Each line carries a hash of itself and that of the line before, the head of each chain the place of its last
line, and how many chains there are is noted beside the folder. Reads alone, also while other processes write.
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
    Segment,
    chain_numbers,
    head_of,
    known_chains,
    place_of,
    segments,
)

ATTEMPTS: Final = 4
PAUSE_S: Final = 0.1  # between attempts: what looks wrong may be half written
_END: Final = re.compile(rb',"seq":(\d{1,18}),"prev":"([0-9a-f]{64})"\Z')
_HASH: Final = re.compile(rb'(.*),"hash":"([0-9a-f]{64})"\}\Z', re.DOTALL)
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


class _Chain:
    """One chain, looked at once."""

    def __init__(self, folder: Path, number: int) -> None:
        self.result = Verified()
        self._head: Head | None = head_of(folder, number)
        files = segments(folder, number)
        if self._head is None and files:
            self._note(f"{number}.state", None, "the head of the chain is missing")
        head = self._head or Head(oldest=files[0].first if files else 1)
        self._seq = head.oldest - 1
        self._hash = GENESIS if head.oldest == 1 else None
        if files and files[0].first < head.oldest:  # it is about to be removed
            self._seq, self._hash = files[0].first - 1, GENESIS if files[0].first == 1 else None
        for file in files:
            self._segment(file)
        if self._seq < head.seq:
            last = files[-1].path.name if files else f"{number}.state"
            self._note(last, None, f"{_lines(self._seq + 1, head.seq)} missing at the end")

    def _note(self, file: str, line: int | None, problem: str) -> None:
        self.result.problems.append(Problem(file, line, problem))

    def _segment(self, file: Segment) -> None:
        with file.path.open("rb") as lines:
            if file.first > self._seq + 1:
                self._note(file.path.name, None, f"{_lines(self._seq + 1, file.first - 1)} missing before it")
                self._seq, self._hash = file.first - 1, None
            for number, line in enumerate(lines, 1):
                if line.endswith(b"\n"):
                    self._line(file.path.name, number, line[:-1])
                else:
                    self._note(file.path.name, number, "the line is not whole")

    def _line(self, file: str, number: int, line: bytes) -> None:
        self.result.lines += 1
        split = _HASH.match(line)
        end = _END.search(split[1]) if split else None
        if split is None or end is None or place_of(line) is None:
            self._note(file, number, "this is no line of the audit log")
            self._seq, self._hash = self._seq + 1, None
            return
        seq, prev, own = int(end[1]), end[2], split[2]
        if sha256(split[1]).hexdigest().encode() != own:
            self._note(file, number, f"line {self._seq + 1} was changed")
            self._seq, self._hash = self._seq + 1, None
            return
        if seq > self._seq + 1:
            self._note(file, number, f"{_lines(self._seq + 1, seq - 1)} missing before it")
        elif seq <= self._seq:
            self._note(file, number, f"line {seq} does not belong here")
        elif self._hash is not None and prev != self._hash:
            self._note(file, number, f"line {seq} does not follow on the one before it")
        elif self._head is not None and seq == self._head.seq and own != self._head.hash:
            self._note(file, number, f"line {seq} is not the one that was written")
        self._seq, self._hash = max(seq, self._seq), own
        if _NOTE in line:
            self._read_note(file, number, line)

    def _read_note(self, file: str, number: int, line: bytes) -> None:
        """Take in what the log says of itself."""
        note = msgspec.json.decode(line, type=_Note)
        if note.kind != "audit":
            return
        if note.name == "chain":
            self._note(file, number, f"the writer noticed that {note.what}")
        else:
            self.result.remarks.append(Problem(file, number, note.what))


class _Note(msgspec.Struct):
    kind: str = ""
    name: str = ""
    what: str = ""


def _lines(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"

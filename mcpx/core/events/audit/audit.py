"""The audit log of one hub: a line for each record of a call, sent or refused (`mcpx.core.events.records`).

A call is noted when it begins and when it ends (`mcpx.core.events.audit.calls`), before anything of it is
written, to a server or to a client. Its line is written at the end of a turn of the event loop, where many
calls have ended or no line was written for a while; else it waits a moment for others, since one line by
itself costs several times what it does among others. Lines are made, and written, while the peers are at
work: when what the turn has for them is on its way. Nothing here costs a call anything but time, with one
exception: with `audit_required`, `begun` refuses what could not be written.

Where the disk takes nothing, lines wait in bounded memory, and are counted as lost beyond that; the log says
so once, `problem` for as long as it lasts, and a line of its own in the audit log how many were lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from mcpx.core.events.audit.calls import MARK_AT, lines_of, said_at_beginning, said_of, time_of, values
from mcpx.core.events.audit.chain import GROUP_LINES, Chain, open_chain
from mcpx.core.events.audit.chain_files import NUMBER, NoteLine
from mcpx.core.events.records import UNSAID, Record
from mcpx.core.wire.turn import after_turn
from mcpx.errors import CallError, Code

log = structlog.get_logger()
RETRY_S: Final = 1.0
SLOW_S: Final = 0.0005  # of a write
SLOW_LINE_S: Final = 0.00002  # the same, for each line in it
LINES_EVERY_S: Final = 0.02
RECORDS_AT_ONCE: Final = 64  # of which lines are made, which take less memory until they are written
LINES_AT_ONCE: Final = 256  # a write of 32 costs nearly twice as much, for each line
MAX_WAITING_BYTES: Final = 4 << 20


class Backlog:
    """The lines that wait for the disk to take them, in order, each with the slot of its call; bounded."""

    def __init__(self) -> None:
        self.lost = 0
        """The number of lines that there was no room for."""
        self.slots: list[int | None] = []
        """Those of the calls of lost lines."""
        self._waiting = deque[tuple[bytes, int | None]]()  # without their numbers
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, text: bytes, slots: Iterable[int | None]) -> None:
        """Keep the lines of calls until they can be written, as far as there is room."""
        for whole, slot in zip(text.splitlines(), slots, strict=True):
            line = whole.rpartition(NUMBER)[0]
            if self._bytes + len(line) > MAX_WAITING_BYTES:
                self.lost += 1
                self.slots.append(slot)
            else:
                self._waiting.append((line, slot))
                self._bytes += len(line)

    def write(self, chain: Chain) -> None:
        """Write as many as the disk takes.

        Raises:
            OSError: It does not take all.
        """
        most = GROUP_LINES
        while self._waiting:
            lines, slots = zip(*islice(self._waiting, most), strict=True)
            numbered = (b"%b%b%d}\n" % (line, NUMBER, n) for n, line in enumerate(lines, chain.ahead + 1))
            chain.add(b"".join(numbered), len(lines))
            try:
                chain.write(slots)
            except OSError:
                if most == 1:
                    raise
                most //= 2  # there may be room for some of them
            else:
                self._bytes -= sum(map(len, lines))
                for _ in lines:
                    self._waiting.popleft()


class Audit:
    """Writes the audit log in `folder()`, once it is switched on by `configure`."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self.is_written = self.is_required = False
        self._folder = folder
        self._place = ""
        self._redact: Callable[[Any], Any] | None = None
        self._chain: Chain | None = None
        self.problem: str | None = None
        """The reason why it cannot be written at the moment."""
        self.beginning: list[Record] = []
        """The calls that `note` is to note."""
        self.note: Callable[[], None] = self._open_and_note
        """Has the calls of `beginning` on disk. Never raises."""
        self._ended: list[Record] = []  # whose lines are to be made
        self._texts: list[bytes] = []  # the lines that the chain has, to write them
        self._taken: list[int | None] = []  # the slots of their calls
        self.backlog = Backlog()
        self._retry: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._flushed_at = 0.0
        self._is_slow = False

    def configure(self, *, enabled: bool, required: bool, redact: Callable[[Any], Any] | None) -> None:
        """Put settings in force. `redact` takes the secrets out of values; None: none are written."""
        self.is_written, self.is_required, self._redact = enabled, required, redact

    @property
    def folder(self) -> Path | None:
        """The folder that it is written in; None where it is not."""
        return self._folder() if self.is_written else None

    def shown_values(self, arguments: bytes) -> Any:
        """Return the values of arguments as they are written; None where they are not."""
        if self._redact is None or not self.is_written:
            return None
        return msgspec.json.decode(b'{"n":0%b}' % values(arguments, self._redact))["values"]

    def open(self) -> None:
        """Take a chain, and write what the process before has left open. Never raises."""
        if self.is_written and self._chain is None and self.problem is None:
            try:
                self._open()
            except OSError as error:
                self._fail(error)

    def _open(self) -> Chain:
        """Take a chain, and make it ready for calls.

        Raises:
            OSError: There is none to be had.
        """
        folder = self._folder()
        self._place = str(folder)
        chain = open_chain(folder)
        try:
            notes = [_note("chain", chain.problem)] if chain.problem else []
            if chain.is_cut and not chain.left_open:
                notes.append(_note("cut", "the end of the line before it was not written"))
            if notes or chain.left_open:
                chain.append([*notes, *chain.left_open])
            chain.start()
        except OSError:
            chain.close()
            raise
        if chain.problem:
            log.warning("audit.tampered", folder=self._place, problem=chain.problem)
        if chain.left_open:
            log.info("audit.recovered", calls=len(chain.left_open))
        self._chain = chain
        self.beginning, self.note = chain.slots.beginning, chain.slots.note
        return chain

    def close(self) -> None:
        """Write what is to be written, and give the chain back."""
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
        if self._retry is not None:
            self._retry.cancel()
            self._try_again(again=False)
        if unwritten := len(self.backlog) + self.backlog.lost:
            log.error("audit.not_written", folder=self._place, lines=unwritten, reason=self.problem)
        if self._chain is not None:
            self._chain.close()
            self._chain = None
            self.beginning, self.note = [], self._open_and_note

    # --- calls

    def describe(self, record: Record) -> None:
        """Have a record get a line that was refused before its arguments were looked at."""
        record.said = said_of(record.target, b"null")
        self.open()

    def begun(self, record: Record) -> None:
        """Have a record that begins on disk at once, so that it gets a line even if MCPX is killed.

        Raises:
            CallError: `overloaded`: the log is required, and cannot be written.
        """
        self.beginning.append(record)
        self.note()
        if self.is_required and not self._has_room(record):
            raise _not_audited(self.problem or "it is full", record)

    def _open_and_note(self) -> None:
        """Open the log for the calls of `beginning`, of which there may be none."""
        records, self.beginning = self.beginning, []
        self.open()
        if self._chain is None:
            for record in records:
                record.said = said_at_beginning(record)
        else:
            self.beginning += records
            self.note()

    def ended(self, record: Record) -> None:
        """Have the end of a call in its slot at once, and its line written soon."""
        ended = self._ended
        ended.append(record)
        if (slot := record.slot) is None and record.said is UNSAID:  # it ended in the turn in which it began
            self.note()
            slot = record.slot
        if (chain := self._chain) and slot is not None and (table := chain.slots.table) is not None:
            table[slot + MARK_AT] = record.mark
        elif chain is None or not chain.slots.end(record):
            self._flush_soon(is_due=True)
        if len(ended) == RECORDS_AT_ONCE:
            after_turn(self._take_ended)
        elif self._timer is None:
            self._flush_soon(is_due=time.monotonic() - self._flushed_at > LINES_EVERY_S)

    def _flush_soon(self, *, is_due: bool) -> None:
        """Write the lines when those of this turn have been written, if that `is_due`; else in a moment."""
        if self._is_due:
            return
        if is_due:
            self._is_due = True
            after_turn(self.flush)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINES_EVERY_S, self._time_is_up)

    def _has_room(self, record: Record) -> bool:
        """Return True if the line of a call that begins can be written, as far as can be known."""
        if self._chain is None or self.problem is not None or record.slot is None:
            return False
        try:
            self._chain.check_room()
        except OSError as error:
            self.flush()  # there may be room for what the chain has
            if self.problem is None:
                self._fail(error)
            return False
        return True

    # --- lines

    def _time_is_up(self) -> None:
        self._timer = None
        self.flush()

    def _take_ended(self) -> None:
        """Make the lines of the calls that have ended, and write them where there are many."""
        self._make_lines()
        if len(self._taken) >= LINES_AT_ONCE and not self._is_slow:
            self.flush()

    def _make_lines(self) -> None:
        records, self._ended = self._ended, []
        chain = self._chain if self.problem is None else None
        for first in range(0, len(records), GROUP_LINES):
            group = records[first : first + GROUP_LINES]
            slots = [record.slot for record in group]
            text = lines_of(group, self._redact, 0 if chain is None else chain.ahead)
            if chain is None:
                self.backlog.keep(text, slots)
            else:
                chain.add(text, len(group))  # while the processor has it at hand
                self._texts.append(text)
                self._taken += slots

    def flush(self) -> None:
        """Write the lines of the calls that have ended."""
        self._is_due = False
        self._make_lines()
        if self._chain is None or not self._taken:
            return
        started = time.monotonic()
        try:
            self._chain.write(self._taken)
        except OSError as error:
            self.backlog.keep(b"".join(self._texts), self._taken)
            self._fail(error)
        self._flushed_at = time.monotonic()
        self._is_slow = self._flushed_at - started > SLOW_S + SLOW_LINE_S * len(self._taken)
        self._texts, self._taken = [], []

    def _fail(self, error: OSError, *, again: bool = True) -> None:
        """Note that the log cannot be written; `again` says that it is tried again."""
        reason = error.strerror or str(error)
        if self.problem is None:
            log.error("audit.unwritable", folder=self._place, reason=reason, required=self.is_required)
        self.problem = reason
        self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._try_again) if again else None

    def _try_again(self, *, again: bool = True) -> None:
        """Write what waits, as far as the disk takes it."""
        backlog = self.backlog
        try:
            chain = self._chain or self._open()
            if self.is_required and again:
                chain.check_room()
            backlog.write(chain)
            if backlog.lost:
                note = _note("lost", f"{backlog.lost} lines could not be written")
                chain.append([note], backlog.slots)
        except OSError as error:
            self._fail(error, again=again)
            return
        self.backlog = Backlog()
        self.problem = self._retry = None
        log.info("audit.written_again", lost=backlog.lost)


def _note(name: str, what: str) -> NoteLine:
    """Return a line on the log itself."""
    return NoteLine(time_of(time.time_ns() // 1000), "audit", name, what)


def _not_audited(problem: str, record: Record) -> CallError:
    _, server, kind, name = record.target
    text = (
        f"The audit log cannot be written ({problem}), and audit_required is set; nothing was sent."
        " Try again later; mcpx status says whether it can be"
    )
    return CallError(Code.OVERLOADED, text, server=server, tool=name if kind == "tool" else None)

"""The audit log of one hub: a line for each request of a client to a server, sent or refused.

It is where every call is known from its beginning to its end, so calls are counted (`tally`) and watched here
too, whether the log is written or not.
The pipeline calls `begin` for each request, and gives the entry to its reply as the observer; what is
refused before it gets there goes to `refused`. A line is written at the end of the turn of the event loop in
which its call has ended, or under load with those of the next milliseconds. Nothing here costs a call
anything but time, with one exception: with `audit_required`, `begin` refuses what could not be written.

Where the disk takes nothing, lines wait in bounded memory, and are counted as lost beyond that; the log says
so once, `problem` for as long as it lasts, and a line of its own in the audit log how many were lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import structlog

from mcpx.core.events.audit.chain import Chain, open_chain
from mcpx.core.events.audit.entry import (
    WITHDRAWN,
    End,
    Entry,
    Kind,
    Target,
    encoded,
    recovered,
    said_of,
    values,
)
from mcpx.core.events.audit.slots import MAX_SAID, beginning
from mcpx.core.protocol.context import Origin, library_origin
from mcpx.core.text import cut
from mcpx.errors import CallError, Code

# What hears of calls where the audit log does: `Audit`'s contracts with those who count and watch them.


class Tally(Protocol):
    """Counts calls. None of its methods raises."""

    def begun(self, entry: Entry) -> None:
        """Count a call that begins."""
        ...

    def ended(self, entry: Entry) -> None:
        """Count its end."""
        ...

    def asked(self, target: Target, end: End) -> None:
        """Note that a call that ended so was answered with a question, as an entry says of itself."""
        ...

    def goes_on(self, target: Target) -> None:
        """Take back the count of a call that ended with a question: it goes on with the answer."""
        ...


class Uncounted:
    """Counts nothing."""

    def begun(self, entry: Entry) -> None:
        """As `Tally.begun`."""

    def ended(self, entry: Entry) -> None:
        """As `Tally.ended`."""

    def asked(self, target: Target, end: End) -> None:
        """As `Tally.asked`."""

    def goes_on(self, target: Target) -> None:
        """As `Tally.goes_on`."""


class Watch(Protocol):
    """Hears of calls while they run. None of its methods raises."""

    def begun(self, entry: Entry, request: object | None) -> None:
        """A call begins. `request` is what the paths of the gateway know it by, where they do."""
        ...

    def ended(self, entry: Entry) -> None:
        """A call has ended."""
        ...

    def same(self, request: object, again: object) -> None:
        """The second request is the same call as the first."""
        ...


# The lines of the audit log that wait for the disk to take them, in bounded memory.

MAX_WAITING_BYTES: Final = 4 << 20


class Backlog:
    """Lines in order, and the slots of the calls that they are about."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.slots: list[int] = []
        self.lost = 0
        """How many lines there was no room for."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.texts)

    def keep(self, texts: Iterable[bytes], slots: Iterable[int]) -> None:
        """Keep lines until they can be written, as far as there is room."""
        self.slots += slots
        for text in texts:
            if self._bytes + len(text) > MAX_WAITING_BYTES:
                self.lost += 1
            else:
                self.texts.append(text)
                self._bytes += len(text)


log = structlog.get_logger()
MAX_SLOT_NAME_CHARS: Final = 200  # of a tool or a URI, where a call's beginning is too long to be kept whole
RETRY_S: Final = 1.0
LINES_EVERY_S: Final = 0.02  # under load; writing after each call would keep its client waiting
MAX_ENDED: Final = 24  # calls whose lines are written together: more would hold up the others for long
NOTHING: Final = b""


class Audit:
    """Writes the audit log in `folder`, once it is switched on by `configure`.

    `cuts_off` says whether MCPX ends, and waits no longer for what still runs.
    """

    def __init__(
        self, folder: Callable[[], Path], *, cuts_off: Callable[[], bool] = bool, tally: Tally | None = None
    ) -> None:
        self._cuts_off = cuts_off
        self.is_written = False
        self.watch: Watch | None = None
        self.tally: Tally = tally or Uncounted()
        """Counts the calls, written or not."""
        self.running: dict[int, Entry] = {}
        """The calls that run, by when they began, the oldest first; the limits of the servers bound them."""
        self._folder = folder
        self._place = ""
        self._required = False
        self._redact: Callable[[Any], Any] | None = None
        self._hide: Callable[[str], str] = str
        self._chain: Chain | None = None
        self.problem: str | None = None
        """Why it cannot be written at the moment."""
        self._ended: list[Entry] = []
        self.backlog = Backlog()
        self._retry: asyncio.TimerHandle | None = None
        self._scheduled = self._soon = False
        self._flushed_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_us = 0

    def configure(
        self,
        *,
        enabled: bool,
        required: bool,
        redact: Callable[[Any], Any] | None,
        hide: Callable[[str], str] = str,
    ) -> None:
        """Put settings in force. `redact` takes the secrets out of values; None: none are written.

        `hide` takes them out of the URIs of resources.
        """
        self.is_written, self._required, self._redact, self._hide = enabled, required, redact, hide

    def observe(self, watch: Watch | None) -> None:
        """Have this one hear of each call, written or not; None: nobody."""
        self.watch = watch

    @property
    def folder(self) -> Path | None:
        """Where it is written; None where it is not."""
        return self._folder() if self.is_written else None

    def shown_values(self, arguments: bytes) -> Any:
        """The values of arguments as they are written; None where they are not."""
        if self._redact is None or not self.is_written:
            return None
        return msgspec.json.decode(b'{"n":0%b}' % values(arguments, self._redact))["values"]

    def open(self) -> None:
        """Take a chain, and write what the process before has left open. Never raises."""
        if self.is_written and self._chain is None and self.problem is None:
            try:
                self._chain = self._opened()
            except OSError as error:
                self._fail(error)

    def _opened(self) -> Chain:
        """A chain that is ready for calls.

        Raises:
            OSError: There is none to be had.
        """
        folder = self._folder()
        self._place = str(folder)
        chain = open_chain(folder)
        try:
            notes = [self._note("chain", chain.problem)] if chain.problem else []
            left = (b"%b,%b" % (text, recovered(mark)) for text, mark in chain.left_open)
            if lines := [*notes, *left]:
                chain.append(lines)
            chain.start()
        except OSError:
            chain.close()
            raise
        if chain.problem:
            log.warning("audit.tampered", folder=self._place, problem=chain.problem)
        if chain.left_open:
            log.info("audit.recovered", calls=len(chain.left_open))
        return chain

    def close(self) -> None:
        """Write what is to be written, and give the chain back."""
        self.flush()
        if self._retry is not None:
            self._retry.cancel()
            self._try_again(again=False)
        if self._chain is not None:
            self._chain.close()
            self._chain = None

    # --- calls

    def begin(
        self,
        kind: Kind,
        server: str,
        name: str,
        arguments: msgspec.Raw | bytes = NOTHING,
        origin: Origin | None = None,
    ) -> Entry:
        """Note that a request begins. The entry is to be the observer of its reply.

        Raises:
            CallError: `overloaded`: the audit log is required, and cannot be written.
        """
        shown = self._hide(name) if kind == "resource" else name
        target = origin or library_origin(), server, kind, shown
        said = said_of(*target, arguments) if self.is_written else b""
        entry = Entry(self._now_us(), target, said, arguments, self._settled)
        self.running[entry.at_us] = entry
        self.tally.begun(entry)
        if not self.is_written:
            entry.is_written = False
            return entry
        if self._chain is None:
            self.open()
        if self._chain is not None:
            if len(said) > MAX_SAID:
                said = said_of(*target[:3], cut(target[3], MAX_SLOT_NAME_CHARS), None)
            entry.slot = self._chain.slots.begin(entry.at_us, said)
        if self._required and not self._has_room(entry):
            error = _not_audited(self.problem or "it is full", server, name if kind == "tool" else None)
            entry.refused(str(error.code))
            self._settled(entry)
            raise error
        return entry

    def asked(self, kind: Kind, server: str, name: str, origin: Origin | None) -> None:
        """Note that a call that was refused is answered with a question: its answer lets the call go on."""
        self.tally.asked(self._target(kind, server, name, origin), "refused")

    def goes_on(self, kind: Kind, server: str, name: str, origin: Origin | None) -> None:
        """Note that a call which ended with a question is about to go on."""
        self.tally.goes_on(self._target(kind, server, name, origin))

    def _target(self, kind: Kind, server: str, name: str, origin: Origin | None) -> Target:
        return origin or library_origin(), server, kind, self._hide(name) if kind == "resource" else name

    def _has_room(self, entry: Entry) -> bool:
        """Whether the line of a call that begins can be written, as far as can be known."""
        if self._chain is None or self.problem is not None or entry.slot is None:
            return False
        try:
            self._chain.check_room()
        except OSError as error:
            self._fail(error)
            return False
        return True

    def refused(
        self,
        kind: Kind,
        server: str,
        name: str,
        code: str,
        *,
        origin: Origin | None = None,
        rule: str | None = None,
    ) -> None:
        """Note a request that was refused, with that code, before there was anything to send."""
        target = self._target(kind, server, name, origin)
        said = said_of(*target, None) if self.is_written else b""
        entry = Entry(self._now_us(), target, said, NOTHING, self._settled)
        entry.is_written = self.is_written
        self.tally.begun(entry)
        entry.refused(code, rule)
        self._settled(entry)

    def _settled(self, entry: Entry) -> None:
        """Have the line of a call written: at the end of this turn, or where there are many, in a moment.

        In between, its end stands in its slot.
        """
        self.running.pop(entry.at_us, None)
        if entry.mark == WITHDRAWN and self._cuts_off():
            entry.cut_off()
        self.tally.ended(entry)
        if self.watch is not None:
            self.watch.ended(entry)
        if not entry.is_written:
            return
        self._ended.append(entry)
        chain, slot = self._chain, entry.slot
        kept = chain is not None and slot is not None and chain.slots.end(slot, entry.mark)
        if len(self._ended) >= MAX_ENDED:
            self.flush()
        elif not self._scheduled or not (kept or self._soon):
            self._schedule(soon=not kept)

    def _schedule(self, *, soon: bool) -> None:
        loop = self._loop = self._loop or asyncio.get_running_loop()
        self._scheduled = True
        if soon or loop.time() - self._flushed_at > LINES_EVERY_S:
            self._soon = True
            loop.call_soon(self.flush)
        else:
            loop.call_later(LINES_EVERY_S, self.flush)

    def _now_us(self) -> int:
        """The time in microseconds since the epoch, never the same twice."""
        now = time.time_ns() // 1000
        if now <= self._last_us:
            now = self._last_us + 1
        self._last_us = now
        return now

    # --- lines

    def flush(self) -> None:
        """Write the lines of the calls that have ended."""
        self._scheduled = self._soon = False
        if self._loop is not None:
            self._flushed_at = self._loop.time()
        entries, self._ended = self._ended, []
        if not entries:
            return
        texts = [entry.line(self._redact) for entry in entries]
        slots = [entry.slot for entry in entries if entry.slot is not None]
        if self._chain is None or self.problem is not None:
            self.backlog.keep(texts, slots)
            return
        try:
            self._chain.append(texts, slots)
        except OSError as error:
            self.backlog.keep(texts, slots)
            self._fail(error)

    def _fail(self, error: OSError, *, again: bool = True) -> None:
        """Note that the log cannot be written; `again` says that it is tried again."""
        reason = error.strerror or str(error)
        if self.problem is None:
            log.error("audit.unwritable", folder=self._place, reason=reason, required=self._required)
        self.problem = reason
        self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._try_again) if again else None

    def _try_again(self, *, again: bool = True) -> None:
        """Write what waits."""
        texts, lost = [*self.backlog.texts], self.backlog.lost
        try:
            if self._chain is None:
                self._chain = self._opened()
            if self._required and again:
                self._chain.check_room()
            if lost:
                texts.append(self._note("lost", f"{lost} lines could not be written"))
            self._chain.append(texts, self.backlog.slots)
        except OSError as error:
            self._fail(error, again=again)
            return
        self.backlog = Backlog()
        self.problem = self._retry = None
        log.info("audit.written_again", lines=len(texts), lost=lost)

    def _note(self, name: str, what: str) -> bytes:
        """A line on the log itself."""
        said = b'"kind":"audit","name":"%b","what":%b' % (name.encode(), encoded(what))
        return beginning(self._now_us(), said)


def _not_audited(problem: str, server: str, tool: str | None) -> CallError:
    text = (
        f"The audit log cannot be written ({problem}), and audit_required is set; nothing was sent."
        " Try again later; mcpx status says whether it can be"
    )
    return CallError(Code.OVERLOADED, text, server=server, tool=tool)

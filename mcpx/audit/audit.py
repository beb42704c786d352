"""The audit log of one hub: a line for each request of a client to a server, sent or refused.

The router calls `begin` for each request, and gives the entry to the request's reply as its observer; what is
refused before it gets there goes to `refused`. A line is written at the end of the turn of the event loop in
which its call has ended, or under load with those of the next milliseconds. Nothing here costs a call
anything but time, with one exception: with `audit_required`, `begin` refuses what could not be written.

Where the disk takes nothing, lines wait in bounded memory, and are counted as lost beyond that; the log says
so once, `problem` for as long as it lasts, and a line of its own in the audit log how many were lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from mcpx.audit.backlog import Backlog
from mcpx.audit.chain import Chain, open_chain
from mcpx.audit.entry import ANSWERED, Entry, Kind, encoded, recovered, said_of, values
from mcpx.audit.origin import Origin, library
from mcpx.audit.slots import MAX_SAID, beginning
from mcpx.audit.watching import Watch
from mcpx.errors import CallError, Code
from mcpx.text import cut

log = structlog.get_logger()
MAX_SLOT_NAME_CHARS: Final = 200  # of a tool or a URI, where a call's beginning is too long to be kept whole
RETRY_S: Final = 1.0
LINES_EVERY_S: Final = 0.02  # under load; writing after each call would keep its client waiting
MAX_ENDED: Final = 24  # calls whose lines are written together: more would hold up the others for long
NOTHING: Final = b""


class Audit:
    """Writes the audit log in `folder`, once it is switched on by `configure`."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self.enabled = False
        """Whether calls are to be noted here: they are written, or watched."""
        self.is_written = False
        self.watch: Watch | None = None
        self.on_failed: Callable[[str], None] = lambda _server: None
        """Called with the server of each call that is written and did not succeed. Must not raise."""
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
        self.enabled = self.is_written or self.watch is not None

    def observe(self, watch: Watch | None) -> None:
        """Have this one hear of each call, written or not; None: nobody."""
        self.watch = watch
        self.enabled = self.is_written or watch is not None

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
        self._flush()
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
        if kind == "resource":
            name = self._hide(name)
        target = origin or library(), server, kind, name
        if not self.is_written:
            entry = Entry(self._now_us(), target, b"", arguments, self._settled)
            entry.is_written = False
            return entry
        said = said_of(*target, arguments)
        entry = Entry(self._now_us(), target, said, arguments, self._settled)
        if self._chain is None:
            self.open()
        if self._chain is not None:
            if len(said) > MAX_SAID:
                said = said_of(target[0], server, kind, cut(name, MAX_SLOT_NAME_CHARS), None)
            entry.slot = self._chain.slots.begin(entry.at_us, said)
        if self._required and not self._has_room(entry):
            error = _not_audited(self.problem or "it is full", server, name if kind == "tool" else None)
            entry.refused(str(error.code))
            self._settled(entry)
            raise error
        return entry

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
        if self.enabled:
            target = origin or library(), server, kind, self._hide(name) if kind == "resource" else name
            entry = Entry(self._now_us(), target, said_of(*target, None), NOTHING, self._settled)
            entry.is_written = self.is_written
            entry.refused(code, rule)
            self._settled(entry)

    def _settled(self, entry: Entry) -> None:
        """Have the line of a call written: at the end of this turn, or where there are many, in a moment.

        In between, its end stands in its slot.
        """
        if self.watch is not None and (entry.watched is not None or entry.mark != ANSWERED):
            self.watch.ended(entry)
        if not entry.is_written:
            return
        self._ended.append(entry)
        chain, slot = self._chain, entry.slot
        kept = chain is not None and slot is not None and chain.slots.end(slot, entry.mark)
        if len(self._ended) >= MAX_ENDED:
            self._flush()
        elif not self._scheduled or not (kept or self._soon):
            self._schedule(soon=not kept)

    def _schedule(self, *, soon: bool) -> None:
        loop = self._loop = self._loop or asyncio.get_running_loop()
        self._scheduled = True
        if soon or loop.time() - self._flushed_at > LINES_EVERY_S:
            self._soon = True
            loop.call_soon(self._flush)
        else:
            loop.call_later(LINES_EVERY_S, self._flush)

    def _now_us(self) -> int:
        """The time in microseconds since the epoch, never the same twice."""
        now = time.time_ns() // 1000
        if now <= self._last_us:
            now = self._last_us + 1
        self._last_us = now
        return now

    # --- lines

    def _flush(self) -> None:
        """Write the lines of the calls that have ended."""
        self._scheduled = self._soon = False
        if self._loop is not None:
            self._flushed_at = self._loop.time()
        entries, self._ended = self._ended, []
        if not entries:
            return
        texts = [entry.line(self._redact) for entry in entries]
        for entry in entries:
            if entry.has_failed():
                self.on_failed(entry.target[1])
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

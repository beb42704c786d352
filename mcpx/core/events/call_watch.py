"""The calls as they run, for those who watch: each with how it goes, how it ends, and what it costs.

One for each hub. It learns of a call where the audit log does, whether that is written or not, and of its
cost where the meter does; while nobody watches, neither knows of it, and a call costs nothing more.

Every call that runs for longer than a window is kept, at most `MAX_RUNNING`, those first that began first;
and so is its end. Of those that have ended the last `MAX_CALLS` are kept, for those who begin to watch, and
half of that are places that quick ones do not take (`last_of`). Once nobody watches, arguments are forgotten;
of what ran then only the ends are still noted.

Under load not every quick call is kept: in each window of time the first `MAX_NEW` are, and the first
`MAX_FAILED` that fail of the others; the rest are counted. Nothing here raises: a fault of the watch costs no
call.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from mcpx.core.catalog.model import is_read_only
from mcpx.core.events.costs import Offers, Pieces, costs
from mcpx.core.events.meter import Meter
from mcpx.core.events.records import ANSWERED, Record, Records
from mcpx.core.events.watched_call import Call, Json
from mcpx.core.protocol.messages import Exec, Forward, Read
from mcpx.core.protocol.requests import Watched
from mcpx.core.protocol.result_address import PREFIX as KEPT_RESULTS
from mcpx.core.telemetry.contained import containing

MAX_CALLS: Final = 200  # that have ended
MAX_RUNNING: Final = 1000  # the servers' limits may allow more
QUICK_MS: Final = 1000.0  # that a call takes less than which makes room for slower ones
MAX_NEW: Final = 40  # in a window
MAX_FAILED: Final = 10
WINDOW_US: Final = 250_000
_KEPT: Final = KEPT_RESULTS.encode()


class CallWatch:
    """Watches the calls that `records` and `meter` hear of."""

    def __init__(self, records: Records, meter: Meter, upstreams: Mapping[str, Offers]) -> None:
        self._records = records
        self._meter = meter
        self._upstreams = upstreams
        self._followers = 0
        self._running: dict[int, Call] = {}  # by id, the oldest first
        self._ended: dict[int, Call] = {}  # by id, the first to end first
        self._window_ends = self._full_until = 0  # as a record's `at_us`
        self._new = self._failed = 0  # in this window
        self._since = 0  # as a record's `at_us`; calls before it are no skipped ones
        self.version = 0
        """Counts the changes of all calls."""
        self.skipped = 0
        """Counts the calls that are not kept."""

    # --- for those who watch

    @contextmanager
    def following(self) -> Iterator[None]:
        """Have calls watched within the block."""
        if not self._followers:
            self._since = time.time_ns() // 1000
        self._followers += 1
        self._records.watch = self
        self._meter.watch = self
        self.find_running(for_us=0)
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers:
                self._stop()

    def _stop(self) -> None:
        self._meter.watch = None
        for call in self.calls():
            call.arguments = None
            call.shown["repeatable"] = False
        self._rest()

    def _rest(self) -> None:
        """Hear of no more calls, once those that somebody has seen running have ended."""
        if not self._followers and not self._running:
            self._records.watch = None

    def calls(self) -> list[Call]:
        """The calls that are kept: those that have ended, the first to end first, then those that run."""
        return [*self._ended.values(), *self._running.values()]

    def call(self, number: int) -> Call | None:
        """The call of that id, if it is kept."""
        return self._running.get(number) or self._ended.get(number)

    def changed(self, since: int, most: int) -> list[Call]:
        """The calls that have changed since that `version`, at most so many, the longest ago first."""
        changed = [call for call in self.calls() if call.version > since]
        return sorted(changed, key=lambda call: call.version)[:most]

    @property
    def running(self) -> list[int]:
        """The ids of the calls that are kept and run."""
        return list(self._running)

    def find_running(self, *, for_us: int = WINDOW_US) -> None:
        """Keep the calls that have run for so long and were not kept so far."""
        before = time.time_ns() // 1000 - for_us
        for at_us, record in self._records.running.items():
            if at_us > before or len(self._running) >= MAX_RUNNING:
                break
            if record.watched is None:
                self.skipped -= at_us >= self._since
                self._keep(self._made(record))

    # --- for the stream of records

    def begun(self, record: Record, request: object | None) -> None:
        """Note a call that begins; the context of its `request` says if it is one that is known."""
        if not self._followers:
            return
        watched = request.context.watched if isinstance(request, Exec | Read | Forward) else None
        known: Call | None = None if watched is None else watched.call
        if record.at_us < self._full_until and known is None:
            self.skipped += 1
            return
        with containing("call watch"):
            known = known or self._with_question(record, request)
            if known is not None:  # it goes on, with what a person has said
                self._go_on(known, record)
            elif self._has_room(record.at_us):
                known = self._made(record)
                if isinstance(request, Read):
                    known.named(request.uri)  # with its secrets, where it has any
                self._keep(known)
            if watched is not None:
                watched.call = known

    def ended(self, record: Record) -> None:
        """Note that a call that is kept has ended, or that one has failed or was refused."""
        with containing("call watch"):
            call = record.watched or (self._late(record) if self._followers else None)
            if call is not None and call.record is record:
                self._end(call, record)
                self._rest()

    def _with_question(self, record: Record, request: object | None) -> Call | None:
        """The call that ended with a question, and goes on with the client's next request."""
        if not isinstance(request, Exec | Read | Forward) or request.context.answers is None:
            return None
        asked = (call for call in self._ended.values() if call.has_asked and call.target == record.target)
        return next(asked, None)

    # --- for the meter

    def answered(
        self, watched: Watched, raw: msgspec.Raw | bytes, pieces: Pieces, cost: tuple[int, int] | None
    ) -> None:
        """Note the client's answer, in pieces, and its cost (direct, spent), if that is known already."""
        call: Call | None = watched.call
        if call is None:
            return
        direct, spent = costs(raw, pieces) if cost is None else cost
        call.shown |= {
            "tokens_direct": direct,
            "tokens_out": spent,
            "bytes_out": sum(map(len, pieces)),
            "cut": _is_cut(raw, pieces),
        }
        self._change(call)

    # --- the calls

    def _has_room(self, at_us: int) -> bool:
        if at_us >= self._window_ends:
            self._window_ends, self._new, self._failed = at_us + WINDOW_US, 0, 0
        self._new += 1
        if self._new > MAX_NEW or len(self._running) >= MAX_RUNNING:
            self.skipped += 1
            self._full_until = self._window_ends
            return False
        return True

    def _keep(self, call: Call) -> None:
        self._running[call.shown["id"]] = call
        if call.record is not None:
            call.record.watched = call
        self._change(call)

    def _drop_one(self) -> None:
        """Drop the call that makes room."""
        kept = {call["id"] for call in last_of([call.shown for call in self._ended.values()])}
        for number in self._ended.keys() - kept:
            del self._ended[number]

    def _change(self, call: Call) -> None:
        self.version += 1
        call.version = self.version

    def _go_on(self, call: Call, record: Record) -> None:
        call.record, record.watched = record, call
        call.shown |= {"outcome": None, "code": None, "ms": None, "end": None}
        self._ended.pop(call.shown["id"], None)
        self._running[call.shown["id"]] = call
        self._change(call)

    def _late(self, record: Record) -> Call | None:
        """A call that was not kept when it began, or never did, if it is to be kept now."""
        took_us = record.ended_at_us - record.at_us
        if took_us >= 1000 * QUICK_MS:
            self.skipped -= record.at_us >= self._since
            call = self._made(record)
        elif record.mark == ANSWERED:
            return None
        elif took_us == 0 and self._has_room(record.at_us):  # it was refused
            call = self._made(record)
        elif self._failed < MAX_FAILED:
            self._failed += 1
            self.skipped -= 1
            call = self._made(record)
        else:
            return None
        self._keep(call)
        return call

    def _end(self, call: Call, record: Record) -> None:
        outcome, code, size = record.how()
        call.record = record.watched = None
        call.shown |= {
            "ms": max(0, record.ended_at_us - call.shown["id"]) / 1000,
            "outcome": outcome,
            "code": code,
            "end": record.end(),
            "approval": record.approval or call.shown["approval"],
            "rule": record.rule or call.shown["rule"],
        }
        call.has_asked = record.is_question()
        self._running.pop(call.shown["id"], None)
        self._ended[call.shown["id"]] = call
        if len(self._ended) > MAX_CALLS:
            self._drop_one()
        if call.shown["bytes_out"] is None:
            call.shown["bytes_out"] = size
        self._change(call)

    def _made(self, record: Record) -> Call:
        return Call(record, read_only=self._is_read_only(record))

    def _is_read_only(self, record: Record) -> bool:
        _, server, kind, name = record.target
        if kind != "tool":
            return kind in {"resource", "prompt", "completion"}
        upstream = self._upstreams.get(server)
        tool = None if upstream is None or upstream.catalogue is None else upstream.catalogue.tools.get(name)
        return tool is not None and is_read_only(tool)


def last_of(shown: Sequence[Json]) -> list[Json]:
    """The calls that are kept of those that have ended, which are in the order of their ends."""
    slow = {at for at, call in enumerate(shown) if (call["ms"] or 0.0) >= QUICK_MS}
    slow = set(sorted(slow)[-MAX_CALLS // 2 :])
    others = [at for at in range(len(shown)) if at not in slow][-(MAX_CALLS - len(slow)) :]
    return [shown[at] for at in sorted([*slow, *others])]


def _is_cut(raw: msgspec.Raw | bytes, pieces: Pieces) -> bool:
    """Return True if the answer is a part of the result, and says where the rest is."""
    return sum(map(len, pieces)) < len(raw) and any(_KEPT in bytes(piece) for piece in pieces)

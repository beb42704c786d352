"""The calls as they run, for those who watch: each with how it goes, how it ends, and what it costs.

One for each hub. It learns of a call where the audit log does, whether that is written or not, and of its
cost where the meter does; while nobody watches, neither knows of it, and a call costs nothing more. It keeps
the last `MAX_CALLS`, for those who begin to watch; and once nobody does, without their arguments.

Under load not every call is kept: in each window of time the first `MAX_NEW` are, and the first `MAX_FAILED`
that fail of the others; the rest are counted. Nothing here raises: a fault of the watch costs no call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from mcpx.audit.audit import Audit
from mcpx.audit.entry import Entry
from mcpx.core.costs import costs
from mcpx.core.messages import Read
from mcpx.core.meter import Meter
from mcpx.core.result_address import PREFIX as KEPT_RESULTS
from mcpx.core.watched_call import Call
from mcpx.observe.contained import contain
from mcpx.trust.annotations import is_read_only
from mcpx.upstream.actor import Upstream
from mcpx.wire.envelope import Bytes

MAX_CALLS: Final = 200
MAX_NEW: Final = 40  # in a window
MAX_FAILED: Final = 10
WINDOW_US: Final = 250_000
MAX_LARGE: Final = 4  # calls with large arguments that have ended, and may still tell what they cost
_UNMETERED: Final = frozenset({"control", "library", "page"})
_KEPT: Final = KEPT_RESULTS.encode()


class CallWatch:
    """Watches the calls that `audit` and `meter` hear of."""

    def __init__(self, audit: Audit, meter: Meter, upstreams: Mapping[str, Upstream]) -> None:
        self._audit = audit
        self._meter = meter
        self._upstreams = upstreams
        self._followers = 0
        self._calls: dict[int, Call] = {}  # by id, the oldest first
        self._by_request: dict[int, Call] = {}  # by what the gateway knows them by
        self._same: dict[int, tuple[object, object]] = {}  # requests that are none yet, by the later one
        self._large: deque[Call] = deque()  # that have ended, and are known by their requests still
        self._window_ends = self._full_until = 0  # as an entry's `at_us`
        self._new = self._failed = 0  # in this window
        self.version = 0
        """Counts the changes of all calls."""
        self.skipped = 0
        """Counts the calls that are not kept."""

    # --- for those who watch

    @contextmanager
    def following(self) -> Iterator[None]:
        """Have calls watched within the block."""
        self._followers += 1
        self._audit.observe(self)
        self._meter.watch = self
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers:
                self._stop()

    def _stop(self) -> None:
        self._audit.observe(None)
        self._meter.watch = None
        self._by_request.clear()
        self._same.clear()
        self._large.clear()
        for call in list(self._calls.values()):
            if call.entry is not None:
                del self._calls[call.shown["id"]]  # nobody will tell how it ends
            call.entry, call.arguments, call.requests = None, None, []
            call.shown["repeatable"] = False

    def calls(self) -> list[Call]:
        """The calls that are kept, the oldest first."""
        return list(self._calls.values())

    def call(self, number: int) -> Call | None:
        """The call of that id, if it is kept."""
        return self._calls.get(number)

    def changed(self, since: int, most: int) -> list[Call]:
        """The calls that have changed since that `version`, at most so many, the longest ago first."""
        changed = [call for call in self._calls.values() if call.version > since]
        return sorted(changed, key=lambda call: call.version)[:most]

    # --- for the audit log

    def begun(self, entry: Entry, request: object | None) -> None:
        """Note a call that begins; `request` is what the gateway knows it by, where it will tell more."""
        if entry.at_us < self._full_until and id(request) not in self._by_request:
            self.skipped += 1
            return
        try:
            known = self._by_request.get(id(request)) if request is not None else None
            if known is not None:  # it goes on, with what a person has said
                self._go_on(known, entry)
            elif self._has_room(entry.at_us):
                call = Call(entry, read_only=self._is_read_only(entry))
                if isinstance(request, Read):
                    call.named(request.uri)  # with its secrets, where it has any
                self._keep(call, request)
        except Exception as error:  # noqa: BLE001 - the promise of this module
            contain(error, "call watch")

    def ended(self, entry: Entry) -> None:
        """Note that a call that is kept has ended, or that one has failed or was refused."""
        try:
            call = entry.watched or self._late(entry)
            if call is not None and call.entry is entry:
                self._end(call, entry)
        except Exception as error:  # noqa: BLE001 - as above
            contain(error, "call watch")

    def same(self, request: object, again: object) -> None:
        """Note that a request is the same call as one before it, or as one that is its beginning."""
        known = self._by_request.get(id(request))
        if known is not None:
            self._index(known, again)
            return
        self._same[id(again)] = request, again
        if len(self._same) > MAX_CALLS:
            del self._same[next(iter(self._same))]

    # --- for the meter

    def answered(
        self,
        request: object,
        raw: msgspec.Raw | bytes,
        pieces: Sequence[Bytes],
        cost: tuple[int, int] | None,
    ) -> None:
        """Note the client's answer, in pieces, and its cost (direct, spent), if that is known already."""
        call = self._by_request.get(id(request))
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
        if call.entry is None:
            self._release(call)

    # --- the calls

    def _has_room(self, at_us: int) -> bool:
        if at_us >= self._window_ends:
            self._window_ends, self._new, self._failed = at_us + WINDOW_US, 0, 0
        self._new += 1
        if self._new > MAX_NEW:
            self.skipped += 1
            self._full_until = self._window_ends
            return False
        return True

    def _keep(self, call: Call, request: object | None) -> None:
        if len(self._calls) >= MAX_CALLS:
            self._drop_one()
        self._calls[call.shown["id"]] = call
        if call.entry is not None:
            call.entry.watched = call
        if request is not None:
            self._index(call, request)
            first, _ = self._same.pop(id(request), (None, None))
            if first is not None:
                self._index(call, first)
        self._change(call)

    def _drop_one(self) -> None:
        """Drop the oldest call that has ended, or the oldest of all."""
        ended = (number for number, call in self._calls.items() if call.entry is None)
        dropped = self._calls.pop(next(ended, next(iter(self._calls))))
        if dropped.entry is not None:
            dropped.entry.watched = None
        self._release(dropped)

    def _index(self, call: Call, request: object) -> None:
        call.requests.append(request)  # so that no other has its id
        self._by_request[id(request)] = call

    def _release(self, call: Call) -> None:
        for request in call.requests:
            self._by_request.pop(id(request), None)
        call.requests = []

    def _change(self, call: Call) -> None:
        self.version += 1
        call.version = self.version

    def _go_on(self, call: Call, entry: Entry) -> None:
        call.entry, entry.watched = entry, call
        call.shown |= {"outcome": None, "code": None, "ms": None}
        self._change(call)

    def _late(self, entry: Entry) -> Call | None:
        """A call that was not kept when it began, or never did, if it is to be kept now."""
        refused = entry.at_us == entry.ended_at_us
        if refused and self._has_room(entry.at_us):
            call = Call(entry, read_only=self._is_read_only(entry))
        elif self._failed < MAX_FAILED:
            self._failed += 1
            self.skipped -= 1
            call = Call(entry, read_only=self._is_read_only(entry))
        else:
            return None
        self._keep(call, None)
        return call

    def _end(self, call: Call, entry: Entry) -> None:
        outcome, code, size = entry.how()
        call.entry = entry.watched = None
        call.shown |= {
            "ms": max(0, entry.ended_at_us - call.shown["id"]) / 1000,
            "outcome": outcome,
            "code": code,
            "approval": entry.approval or call.shown["approval"],
            "rule": entry.rule or call.shown["rule"],
        }
        if call.shown["bytes_out"] is None:
            call.shown["bytes_out"] = size
        elif call.shown["tokens_out"] is not None:
            self._release(call)
        goes_on = entry.approval == "asked" or outcome == "input_required"
        if call.shown["transport"] in _UNMETERED and not goes_on:
            self._release(call)
        if call.is_large and call.requests:  # which hold the arguments
            self._large.append(call)
            if len(self._large) > MAX_LARGE:
                self._release(self._large.popleft())
        self._change(call)

    def _is_read_only(self, entry: Entry) -> bool:
        _, server, kind, name = entry.target
        if kind != "tool":
            return kind in {"resource", "prompt", "completion"}
        upstream = self._upstreams.get(server)
        tool = None if upstream is None or upstream.catalogue is None else upstream.catalogue.tools.get(name)
        return tool is not None and is_read_only(tool)


def _is_cut(raw: msgspec.Raw | bytes, pieces: Sequence[Bytes]) -> bool:
    """Whether the answer is a part of the result, and says where the rest is."""
    return sum(map(len, pieces)) < len(raw) and any(_KEPT in bytes(piece) for piece in pieces)

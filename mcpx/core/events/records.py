"""One record of each call, and the stream of them.

A request of a client to a server has one `Record`, from its beginning to its end, whichever way it came and
whether it was sent or refused. `Records` makes it, and has its sinks hear of it: the audit log, which can
refuse a call that it could not write (`begun` comes before anything is sent), the meter, and whoever watches
calls. A sink that nobody has asked for costs one comparison. Traces are not among them: they tell of spans
inside a call, but a record has the id of its trace.

The record is the observer of its request's reply, so it ends in the turn in which the reply is settled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec
import structlog

from mcpx.core.protocol.context import Origin, library_origin
from mcpx.core.text import cut
from mcpx.core.wire.turn import TURN, after_turn, do_before
from mcpx.errors import CallError, Code
from supervisors import Abandoned, Reply

log = structlog.get_logger()
Kind = Literal["tool", "resource", "prompt", "completion", "task", "audit"]
"""The kind of thing that was asked for; `audit` is what the audit log says of itself."""
Approval = Literal["asked", "once", "session", "always", "refused"]
"""The word of a person on a call. `asked`: there is none yet, so nothing was sent."""
End = Literal["ok", "failed", "refused", "cancelled"]
"""The end of a call; docs/monitoring.md defines them."""
Target = tuple[Origin, str, Kind, str]
"""The origin of a call, the server, the kind of thing that is asked for, and its name."""

MAX_NOTED: Final = 64  # beginnings and ends that wait to be counted together, which costs a fraction
MAX_RESULT_BYTES: Final = 64 << 10  # of a result that is read for its outcome; of a larger one, the ends are
_END_BYTES: Final = 4096
CACHED: Final = "cached"
"""The outcome of a call that was answered with a result that was kept."""
_GOOD: Final = frozenset({"ok", "task", CACHED})
_NO_END: Final = frozenset({"input_required", "task"})
_CANCELLED: Final = Code.CANCELLED.value
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
NOTHING: Final = b""
UNSAID: Final = b"?"  # until the end of the turn
DIED: Final = "daemon_died"
"""The code of a call that the end of MCPX has cut off: of an earlier process that was killed, or in order."""
ENDS: Final = [
    ("unknown", DIED),
    ("ok", DIED),  # whether the tool reported an error is not known
    *((str(CallError(code, "", server="").outcome), str(code)) for code in Code),
]
"""Outcome and code of a call that ended, by the number in its slot; the first where it had not ended."""
_MARKS: Final = {code: mark for mark, (_, code) in enumerate(ENDS) if code != DIED}
ANSWERED: Final = 1
_WITHDRAWN: Final = _MARKS[_CANCELLED]
MAX_NAMES_CHARS: Final = 16_384  # of a server and what is named there


class _Result(msgspec.Struct, gc=False):
    is_error: bool | None = msgspec.field(name="isError", default=False)
    kind: str | None = msgspec.field(name="resultType", default=None)


_result: Final = msgspec.json.Decoder(_Result).decode


class Record(msgspec.Struct, eq=False):
    """One call: who asks for what, when it began, and how it has ended.

    `at_us` is when it begins, in microseconds since 1970; `arguments` are as they came. `rule` and `approval`
    may be set while it runs: by which rule it was refused or asked, and what came of that.
    """

    at_us: int
    target: Target
    arguments: msgspec.Raw | bytes
    on_end: Callable[[Record], None]
    said: msgspec.Raw | bytes = NOTHING
    """The members of its line in the audit log that are known at its beginning; empty where it gets none."""
    trace_id: str | None = None
    """The id of the trace that the call belongs to, where it is traced."""
    ended_at_us: int = 0
    watched: Any = None
    """The call as whoever watches calls has it."""
    counted: Any = None
    """The row that it is counted in."""
    names: tuple[str, ...] | None = None
    """The names of its arguments, where they have been decoded while its beginning was to be noted."""
    slot: int | None = None
    """Its place among the calls that run, in the audit log."""
    rule: str | None = None
    approval: Approval | None = None
    reply: Reply[Any] | None = None
    mark: int = ANSWERED
    """The number of its end, for its slot."""
    ending: tuple[str, str | None, int] | None = None
    """How it has ended, as `how` returns it, once that is known."""

    def __call__(self, reply: Reply[Any]) -> None:
        """Note that the call has ended."""
        self.ended_at_us = time.time_ns() // 1000
        self.reply = reply
        value, error = reply.value, reply.error
        if error is not None:
            self.mark = _MARKS[error.code if isinstance(error, CallError) else Code.CANCELLED]
        elif value is not None and len(value) > MAX_RESULT_BYTES:
            self.how()
        self.on_end(self)

    def refused(self, code: str, rule: str | None = None) -> None:
        """Note that the call was refused, with that code, before there was a reply."""
        self.rule, self.mark, self.ended_at_us = rule, _MARKS.get(code, 0), self.at_us
        self.ending = "not_sent", code, 0

    def from_cache(self, size: int) -> None:
        """Note that the call is answered with a result that was kept: its server is not asked."""
        self.ending = CACHED, None, size

    def cut_off(self) -> None:
        """Note that nobody has withdrawn the call: MCPX ends, and waits for it no longer."""
        error = self.reply.error if self.reply is not None else None
        if isinstance(error, Abandoned):
            self.mark, self.ending = 0, ("unknown" if error.begun else "not_sent", DIED, 0)

    def how(self) -> tuple[str, str | None, int]:
        """Return how it has ended: the outcome, its code, and the size of its result. Never raises."""
        if self.ending is None:
            try:
                self.ending = self._outcome()
            except Exception:
                # the boundary: a result or an error that cannot be looked at must not cost the other lines
                log.exception("audit.failed")
                self.ending = "unknown", "internal_error", 0
        self.reply = None  # the result is not to stay until the line is written
        return self.ending

    def end(self) -> End:
        """Return how it has ended, in the words in which calls are counted. Never raises."""
        outcome, code, _ = self.ending or self.how()
        return "ok" if outcome == "ok" else end_of(outcome, code)

    def is_question(self) -> bool:
        """Return True if it ended with a question: the request that brings the answer goes on with it."""
        return self.approval == "asked" or self.how()[0] == "input_required"

    def _outcome(self) -> tuple[str, str | None, int]:
        """The outcome of a result is `ok`, `tool_error`, `input_required` or `task`."""
        reply = self.reply
        if reply is None:
            return "unknown", "internal_error", 0
        error = reply.error
        if error is None:
            raw = NOTHING if reply.value is None else reply.value
            size = len(raw)
            if self.approval == "asked":
                return "not_sent", None, 0
            if size > MAX_RESULT_BYTES:
                return _outcome_of_large(memoryview(raw)), None, size
            try:
                read = _result(raw)
            except _UNREADABLE:
                return "ok", None, size
            if read.is_error:
                return "tool_error", None, size
            return read.kind if read.kind in _NO_END else "ok", None, size
        if isinstance(error, CallError):
            self.rule = self.rule or error.rule
            return error.outcome.value, error.code.value, 0
        if isinstance(error, Abandoned):
            return "unknown" if error.begun else "not_sent", "cancelled", 0
        return "unknown", "internal_error", 0


def end_of(outcome: str, code: str | None) -> End:
    """Return the end of a call with that outcome and code, as a line of the audit log has them."""
    if outcome in _GOOD:
        return "ok"
    if code == _CANCELLED:
        return "cancelled"
    return "refused" if outcome == "not_sent" else "failed"


def _outcome_of_large(raw: memoryview) -> str:
    """Return how a result ended, from the ends of its text alone: a very large one is read nowhere."""
    start, end = (bytes(part).replace(b" ", b"") for part in (raw[:_END_BYTES], raw[-_END_BYTES:]))
    failed = b'"isError":true' in start or b'"isError":true' in end
    return "tool_error" if failed else "ok"


# --- the sinks


class Log(Protocol):
    """Writes records down: the audit log."""

    is_written: bool
    is_required: bool
    """True if a call is refused that it could not write."""
    beginning: list[Record]
    """Those that begin in this turn."""
    note: Callable[[], None]
    """Has them on disk; called before anything is written to a server or a client. It never raises."""

    def describe(self, record: Record) -> None:
        """Have a record get a line that was refused before its arguments were looked at."""

    def flush(self) -> None:
        """Write the lines of the calls that have ended."""

    def begun(self, record: Record) -> None:
        """Have a record that begins on disk at once.

        Raises:
            CallError: `overloaded`: it must be, and cannot.
        """

    def ended(self, record: Record) -> None:
        """Have its end on disk at once, and its line written."""


class Tally(Protocol):
    """Counts calls. None of its methods raises."""

    noted: list[Record]
    """To be counted: each record as it begins, and again as it ends. What puts the first there calls
    `count_soon`."""

    def count_soon(self) -> None:
        """Have what is `noted` counted in a moment."""

    def count(self) -> None:
        """Count what is `noted`."""

    def begun(self, record: Record) -> None:
        """Count a call that begins, at once."""

    def asked(self, target: Target, end: End) -> None:
        """Note that a call that ended so was answered with a question, as a record says of itself."""

    def goes_on(self, target: Target) -> None:
        """Take back the count of a call that ended with a question: it goes on with the answer."""


class Uses(Protocol):
    """Notes which tools clients use that have searched. None of its methods raises."""

    @property
    def open(self) -> Mapping[Origin, object]:
        """The clients that it waits for."""

    def ended(self, record: Record) -> None:
        """Note that a call of one of them has ended."""


class Watch(Protocol):
    """Hears of calls while they run. None of its methods raises."""

    def begun(self, record: Record, request: object | None) -> None:
        """Note a call that begins; `request` is that of the pipeline, where it has come there."""

    def ended(self, record: Record) -> None:
        """Note that a call has ended."""


# --- the stream


class Records:
    """The calls of one hub. `cuts_off` says if MCPX ends, and waits no longer for what still runs."""

    def __init__(
        self, log: Log, tally: Tally | None = None, *, cuts_off: Callable[[], bool] = lambda: False
    ) -> None:
        self._log = log
        self._tally = tally
        self._cuts_off = cuts_off
        self._last_us = 0
        self._last: Target = library_origin(), "", "audit", ""
        self.watch: Watch | None = None
        """Hears of each call, for as long as somebody looks."""
        self.uses: Uses | None = None
        self.hide: Callable[[str], str] = str
        """Takes the secrets of the configuration in force out of the URIs of resources."""
        self.running: dict[int, Record] = {}
        """The calls that run, by when they began, the oldest first; the limits of the servers bound them."""

    def begin(
        self,
        kind: Kind,
        server: str,
        name: str,
        arguments: msgspec.Raw | bytes = NOTHING,
        origin: Origin | None = None,
        *,
        request: object | None = None,
        trace_id: str | None = None,
    ) -> Record:
        """Record that a request begins. The record is to be the observer of its reply.

        `request` is that of the pipeline, for whoever watches.
        Raises:
            CallError: `overloaded`: the audit log is required, and cannot be written.
        """
        record = self._new(kind, server, name, arguments, origin)
        if trace_id is not None:
            record.trace_id = trace_id
        self.running[record.at_us] = record
        if (tally := self._tally) is not None:
            if not tally.noted:
                tally.count_soon()
            tally.noted.append(record)
        if (log := self._log).is_written:
            if TURN.is_open and not log.is_required:
                if not log.beginning:
                    if TURN.before is not None:
                        do_before()  # for the log of another hub
                    TURN.before = log.note
                log.beginning.append(record)
            else:
                self._begin_at_once(record)
        if self.watch is not None:
            self.watch.begun(record, request)
        return record

    def _begin_at_once(self, record: Record) -> None:
        try:
            self._log.begun(record)
        except CallError as error:
            record.refused(str(error.code))
            self._ended(record)
            raise

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
        """Record a request that was refused, with that code, before there was anything to send."""
        record = self._new(kind, server, name, NOTHING, origin)
        if self._log.is_written:
            self._log.describe(record)
        record.refused(code, rule)
        if self._tally is not None:
            self._tally.begun(record)
        self._ended(record)

    def asked(self, kind: Kind, server: str, name: str, origin: Origin | None) -> None:
        """Note that a call that was refused is answered with a question: its answer lets the call go on."""
        if self._tally is not None:
            self._tally.asked(self._target(kind, server, name, origin), "refused")

    def goes_on(self, kind: Kind, server: str, name: str, origin: Origin | None) -> None:
        """Note that a call which ended with a question is about to go on."""
        if self._tally is not None:
            self._tally.goes_on(self._target(kind, server, name, origin))

    def _target(self, kind: Kind, server: str, name: str, origin: Origin | None) -> Target:
        """The asker, and what is asked for; names too long to be real are cut, for much is kept by it."""
        last = self._last
        if kind == last[2] == "tool" and name == last[3] and server == last[1] and origin is last[0]:
            return last
        shown = self.hide(name) if kind == "resource" else name
        if len(shown) + len(server) > MAX_NAMES_CHARS:
            server, shown = cut(server, MAX_NAMES_CHARS // 2), cut(shown, MAX_NAMES_CHARS // 2)
        self._last = origin or library_origin(), server, kind, shown
        return self._last

    def _ended(self, record: Record) -> None:
        self.running.pop(record.at_us, None)
        if record.mark == _WITHDRAWN and self._cuts_off():
            record.cut_off()
        is_large = len(record.arguments) > MAX_RESULT_BYTES  # they are not to stay until others have ended
        if (tally := self._tally) is not None:
            tally.noted.append(record)
            if (is_large or len(tally.noted) > MAX_NOTED) and tally.count not in TURN.after:
                after_turn(tally.count)
        if self.watch is not None:
            self.watch.ended(record)
        if self.uses is not None and record.target[0] in self.uses.open:
            self.uses.ended(record)
        if record.said is not NOTHING:
            self._log.ended(record)
            if is_large:
                after_turn(self._log.flush)

    def _new(
        self, kind: Kind, server: str, name: str, arguments: msgspec.Raw | bytes, origin: Origin | None
    ) -> Record:
        """Make a record that begins now; no two of them begin at the same microsecond."""
        now = time.time_ns() // 1000
        if now <= self._last_us:
            now = self._last_us + 1
        self._last_us = now
        said = UNSAID if self._log.is_written else NOTHING
        return Record(now, self._target(kind, server, name, origin), arguments, self._ended, said)

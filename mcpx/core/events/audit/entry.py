"""One call in the audit log: what is known when it begins, and the line that its end makes of that. Pure.

A line is a JSON object in a fixed order: what is known at the beginning (`said_of`), then how the call ended,
then its place in the chain (`mcpx.core.events.audit.chain`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
import structlog

from mcpx.core.events.audit.chain_files import UNREADABLE
from mcpx.core.events.audit.slots import beginning
from mcpx.core.protocol.context import Origin
from mcpx.core.text import cut
from mcpx.errors import CallError, Code
from supervisors import Abandoned, Reply

log = structlog.get_logger()
Kind = Literal["tool", "resource", "prompt", "completion", "task", "audit"]
"""What was asked for; `audit` is what the log says of itself."""
Approval = Literal["asked", "once", "session", "always", "refused"]
"""What a person has said to a call. `asked`: nothing yet, so nothing was sent."""

End = Literal["ok", "failed", "refused", "cancelled"]
"""How a call has ended; docs/monitoring.md defines them."""

Target = tuple[Origin, str, Kind, str]
"""Who asks, the server, what kind of thing is asked for, and its name."""

MAX_NAME_CHARS: Final = 2048  # of a tool or a URI
MAX_ARGUMENTS: Final = 64  # that are named
MAX_ARGUMENT_CHARS: Final = 128  # of the name of one
MAX_ARGUMENTS_TEXT: Final = 512  # bytes; beyond it, the two limits above hold
MAX_NAMES_BYTES: Final = 1 << 20  # of arguments; those of larger ones are not read
MAX_VALUES_BYTES: Final = 16 << 10  # of arguments whose values are written
MAX_RESULT_BYTES: Final = 64 << 10  # of a result that is read for its outcome; of a larger one, the ends are
_END_BYTES: Final = 4096
_GOOD: Final = frozenset({"ok", "task"})
_encode: Final = msgspec.json.Encoder().encode
_names: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Result(msgspec.Struct, gc=False):
    is_error: bool | None = msgspec.field(name="isError", default=False)
    kind: str | None = msgspec.field(name="resultType", default=None)


_result: Final = msgspec.json.Decoder(_Result).decode


_SAID: Final = b'%b,"arguments":%b'
_ENDING: Final = b'%b,"ms":%.3f,"bytes_in":%d,"bytes_out":%d,%b'
_RECOVERED: Final = b'%b,"ms":null,"bytes_in":null,"bytes_out":null,%b'
DIED: Final = "daemon_died"
"""The code of a call that the end of MCPX has cut off: of an earlier process that was killed, or in order."""
_ENDS: Final = [
    ("unknown", DIED),
    ("ok", DIED),  # whether the tool reported an error is not known
    *((str(CallError(code, "", server="").outcome), str(code)) for code in Code),
]
"""How a call has ended, by the number in its slot; the first where it had not ended."""
_MARKS: Final = {code: mark for mark, (_, code) in enumerate(_ENDS) if code != DIED}
ANSWERED: Final = 1
_CANCELLED: Final = Code.CANCELLED.value
WITHDRAWN: Final = _MARKS[_CANCELLED]


class Entry:
    """One call, from its beginning to its line. It is the observer of the call's reply.

    `rule` and `approval` may be set while it runs: by which rule it was refused or asked, and what came of
    that.
    """

    target: Target
    """Who asks, and for what."""
    watched: Any = None
    """What whoever watches calls has made of it."""
    counted: Any = None
    """What it is counted in."""
    is_written = True
    """Whether it becomes a line."""
    slot: int | None = None
    rule: str | None = None
    approval: Approval | None = None
    trace_id: str | None = None
    """The id of the trace that the call belongs to, where it is traced."""
    reply: Reply[Any] | None = None
    mark = ANSWERED
    """The number of its end, for its slot."""
    ending = b""
    """The members of its line that say how it ended, where they are made before the line."""
    _how: tuple[str, str | None, int] | None = None

    def __init__(
        self,
        at_us: int,
        target: Target,
        said: bytes,
        arguments: msgspec.Raw | bytes,
        on_end: Callable[[Entry], None],
    ) -> None:
        """`at_us` is when it begins, `said` are the members that are known then, `arguments` as they came."""
        self.at_us = self.ended_at_us = at_us
        self.target = target
        self.said = said
        self.arguments = arguments
        self._on_end = on_end

    def __call__(self, reply: Reply[Any]) -> None:
        """Note that the call has ended."""
        self.ended_at_us = time.time_ns() // 1000
        self.reply = reply
        value, error = reply.value, reply.error
        if error is not None:
            self.mark = _MARKS[error.code if isinstance(error, CallError) else Code.CANCELLED]
        elif value is not None and len(value) > MAX_RESULT_BYTES:
            self.ending = self._ended()
            self.reply = None  # the result is not to stay until the line is written
        self._on_end(self)

    def refused(self, code: str, rule: str | None = None) -> None:
        """Note that the call was refused, with that code, before there was a reply."""
        self.rule, self.mark = rule, _MARKS.get(code, 0)
        self._how = "not_sent", code, 0
        self.ending = self._ending(*self._how)

    def cut_off(self) -> None:
        """Note that nobody has withdrawn the call: MCPX ends, and waits for it no longer."""
        error = self.reply.error if self.reply is not None else None
        if isinstance(error, Abandoned):
            self.mark, self._how = 0, ("unknown" if error.begun else "not_sent", DIED, 0)

    def line(self, redact: Callable[[Any], Any] | None) -> bytes:
        """The members of its line. `redact` takes the secrets out of values; None: they are not written."""
        text = b"%b,%b" % (beginning(self.at_us, self.said), self.ending or self._ended())
        if self.trace_id is not None:
            text += b',"trace_id":%b' % encoded(self.trace_id)
        return text if redact is None else text + values(self.arguments, redact)

    def how(self) -> tuple[str, str | None, int]:
        """How it has ended: the outcome, its code, and the size of its result. Never raises."""
        if self._how is None:
            try:
                self._how = self._outcome()
            except Exception:
                # the boundary: a result or an error that cannot be looked at must not cost the other lines
                log.exception("audit.failed")
                self._how = "unknown", "internal_error", 0
        return self._how

    def end(self) -> End:
        """How it has ended, in the words in which calls are counted. Never raises."""
        outcome, code, _ = self.how()
        return end_of(outcome, code)

    def is_question(self) -> bool:
        """Whether it has ended with a question: the request with the answer to it goes on with the call."""
        return self.approval == "asked" or self.how()[0] == "input_required"

    def _ended(self) -> bytes:
        """The members of the line that say how it ended."""
        return self._ending(*self.how())

    def _ending(self, outcome: str, code: str | None, size: int) -> bytes:
        took_ms = max(0, self.ended_at_us - self.at_us) / 1000
        by = _by(self.approval, self.rule)
        return _ENDING % (_how(outcome, code), took_ms, len(self.arguments), size, by)

    def _outcome(self) -> tuple[str, str | None, int]:
        """The outcome of the call, its code, and the size of its result."""
        reply = self.reply
        if reply is None:
            return "unknown", "internal_error", 0
        error = reply.error
        if error is None:
            raw = b"" if reply.value is None else reply.value
            size = len(raw)
            if self.approval == "asked":
                return "not_sent", None, 0
            return *_outcome(raw, size), size
        if isinstance(error, CallError):
            self.rule = self.rule or error.rule
            return error.outcome.value, error.code.value, 0
        if isinstance(error, Abandoned):
            return "unknown" if error.begun else "not_sent", "cancelled", 0
        return "unknown", "internal_error", 0


def end_of(outcome: str, code: str | None) -> End:
    """The end of a call with that outcome and code, as a line of the log has them."""
    if outcome in _GOOD:
        return "ok"
    if code == _CANCELLED:
        return "cancelled"
    return "refused" if outcome == "not_sent" else "failed"


def recovered(mark: int) -> bytes:
    """The end of the line of a call that an earlier process has left, by the number in its slot."""
    outcome, code = _ENDS[mark] if mark < len(_ENDS) else _ENDS[0]
    return _RECOVERED % (_how(outcome, code), _by(None, None))


def said_of(
    origin: Origin, server: str, kind: Kind, name: str, arguments: msgspec.Raw | bytes | None
) -> bytes:
    """The members of a line that say who asks for what, with which arguments; None: they are not known."""
    if arguments is None:
        return _SAID % (members_of(origin, server, kind, name), b"null")
    if arguments and len(arguments) <= MAX_ARGUMENTS_TEXT:  # most calls are like earlier ones
        try:
            return _said_before(origin, server, kind, name, tuple(_names(arguments)))
        except UNREADABLE:
            pass
    return _SAID % (members_of(origin, server, kind, name), argument_names(arguments))


@lru_cache(maxsize=4096)
def _said_before(origin: Origin, server: str, kind: Kind, name: str, names: tuple[str, ...]) -> bytes:
    return _SAID % (members_of(origin, server, kind, name), _encode(names))


@lru_cache(maxsize=4096)
def members_of(origin: Origin, server: str, kind: Kind, name: str) -> bytes:
    """The members of a line that say who asks for what."""
    return _texts_or_null(
        ("client", origin.client),
        ("user", origin.user),
        ("transport", origin.transport),
        ("profile", origin.profile),
        ("token", origin.token),
        ("server", cut(server, MAX_ARGUMENT_CHARS)),
        ("kind", kind),
        ("name", cut(name, MAX_NAME_CHARS)),
    )


@lru_cache(maxsize=256)
def _how(outcome: str, code: str | None) -> bytes:
    return _texts_or_null(("outcome", outcome), ("code", code))


@lru_cache(maxsize=256)
def _by(approval: str | None, rule: str | None) -> bytes:
    return _texts_or_null(("approval", approval), ("rule", rule))


def _texts_or_null(*members: tuple[str, str | None]) -> bytes:
    """Members of an object, each a text or null."""
    pairs = ((key.encode(), b"null" if text is None else encoded(text)) for key, text in members)
    return b",".join(b'"%b":%b' % pair for pair in pairs)


def encoded(text: str) -> bytes:
    """A text as JSON, whatever is in it."""
    try:
        return _encode(text)
    except UnicodeEncodeError:  # half a character, which JSON can spell and UTF-8 cannot
        return _encode(text.encode(errors="replace").decode())


def argument_names(arguments: msgspec.Raw | bytes) -> bytes:
    """The names of arguments, as a JSON array; null where they cannot be read."""
    if not arguments:
        return b"[]"
    if len(arguments) > MAX_NAMES_BYTES:
        return b"null"
    try:
        names = list(_names(arguments))
    except UNREADABLE:
        return _other_names(arguments)
    text = _encode(names)
    if len(text) > MAX_ARGUMENTS_TEXT:
        return _encode([cut(name, MAX_ARGUMENT_CHARS) for name in names[:MAX_ARGUMENTS]])
    return text


def _other_names(arguments: msgspec.Raw | bytes) -> bytes:
    """Those of an object within a string; none of null."""
    try:
        given = msgspec.json.decode(arguments, type=str | None)
    except UNREADABLE:
        return b"null"
    if given is None:
        return b"[]"
    return argument_names(given.encode(errors="replace")) if given.lstrip().startswith("{") else b"null"


def values(arguments: msgspec.Raw | bytes, redact: Callable[[Any], Any]) -> bytes:
    """The member with the arguments' values; null where they are too large or cannot be read."""
    if not arguments:
        return b',"values":{}'
    if len(arguments) > MAX_VALUES_BYTES:
        return b',"values":null'
    try:
        return b',"values":%b' % _encode(redact(msgspec.json.decode(arguments)))
    except (*UNREADABLE, UnicodeEncodeError):
        return b',"values":null'


def _outcome(raw: msgspec.Raw | bytes, size: int) -> tuple[str, str | None]:
    """How a result that came ended, and a code: `ok`, `tool_error`, `input_required`, or `task`."""
    if size > MAX_RESULT_BYTES:
        return _outcome_of_large(memoryview(raw))
    try:
        read = _result(raw)
    except UNREADABLE:
        return "ok", None
    if read.is_error:
        return "tool_error", None
    return read.kind if read.kind in {"input_required", "task"} else "ok", None


def _outcome_of_large(raw: memoryview) -> tuple[str, str | None]:
    """The same, from the ends of the text alone: a very large result is read nowhere."""
    start, end = (bytes(part).replace(b" ", b"") for part in (raw[:_END_BYTES], raw[-_END_BYTES:]))
    failed = b'"isError":true' in start or b'"isError":true' in end
    return "tool_error" if failed else "ok", None

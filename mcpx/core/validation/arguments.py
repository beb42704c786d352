"""The arguments of a call: read, and held against the schema of its tool, before anything is sent.

They are JSON from clients, or Python values from programs. Small ones are decoded here; a large object stays
encoded, for the process that checks it. The check is a quick yes on the event loop, or a verdict of another
process.

What is known of a tool is kept while it is listed unchanged. A tool whose schema cannot be used, or whose
check did not end in time, is left unchecked (its server checks too); that is logged once, and inspect says
so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec
import structlog

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.text.json_work import holds_nonfinite
from mcpx.core.validation.bounds import MAX_CHECKED_BYTES, MAX_INLINE_BYTES, MAX_TEXT_BYTES, why_too_large
from mcpx.core.validation.errors import (
    DEADLINE_S,
    Check,
    Problem,
    Verdict,
    decode_verdict,
    describe_value,
    encode_check,
    invalid_arguments,
    unreadable_arguments,
)
from mcpx.core.validation.fast import FastCheck, fast_check
from mcpx.core.validation.respelling import respelled
from mcpx.core.wire.envelope import Bytes
from mcpx.core.wire.workers.pool import Job, NoAnswer, Pending, WorkerPool
from mcpx.errors import CallError

log = structlog.get_logger()
MAX_TOOLS: Final = 4096  # that something is known of
MAX_RESPELLED_BYTES: Final = 1 << 14  # of arguments that are respelled on the event loop
MAX_OVERRUNS: Final = 3  # checks of one server that do not end; then none of its tools is checked

Encoded = msgspec.Raw | bytes
OnVerdict = Callable[[CallError | Encoded], None]
"""Called with the arguments to send, or with what is wrong with them. Must not raise."""

_TASK: Final = "mcpx.core.validation.worker:judge"
EMPTY: Final = b"{}"
HEAD_BYTES: Final = 64  # in which the first byte that is no space is looked for


# --- read


def read_raw_arguments(raw: msgspec.Raw | bytes, tool: ToolInfo) -> tuple[JSON | None, bytes | msgspec.Raw]:
    """Return the arguments as an object, and as the JSON to send: the bytes that came, where possible.

    `raw` is JSON: an object, a string that holds one, null, or empty. A large object is not decoded: then the
    first of the two is None.

    Raises:
        CallError: `invalid_arguments`: they are something else, or cannot be read.
    """
    if not raw:
        return {}, EMPTY
    if len(raw) > MAX_INLINE_BYTES:
        return _large(raw, tool)
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refusal(tool, unreadable(error)) from None
    if isinstance(value, dict):
        return value, raw
    if value is None:
        return {}, EMPTY
    if isinstance(value, str):
        return _decode_text(value, tool)
    raise _not_object(tool, value)


def encode_arguments(arguments: Any, *, server: str, tool: str) -> bytes:
    """Encode a program's arguments as JSON.

    Raises:
        CallError: `invalid_arguments`: JSON has no form for them.
    """
    try:
        encoded = msgspec.json.encode(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise unreadable_arguments(
            server, tool, f"no JSON can be made of them: {unreadable(error)}"
        ) from None
    if b"null" in encoded and holds_nonfinite(arguments):  # as msgspec writes them
        raise unreadable_arguments(
            server, tool, "they hold a number beyond what JSON can say (NaN or infinity)"
        )
    return encoded


def unreadable(error: Exception) -> str:
    """Say why JSON cannot be read, and what to do."""
    if isinstance(error, RecursionError):
        return "they are nested too deeply; send fewer levels"
    return f"they cannot be read ({error}); send a plain JSON object"


def _decode_text(text: str, tool: ToolInfo) -> tuple[JSON, bytes]:
    if not text.strip():
        return {}, EMPTY
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_in_text(tool, error) from None
    if not isinstance(value, dict):
        raise _not_object(tool, value)
    return value, msgspec.json.encode(value)


def _large(raw: msgspec.Raw | bytes, tool: ToolInfo) -> tuple[None, bytes | msgspec.Raw]:
    """Accept what is certainly JSON, judged by how it begins."""
    first = _first(raw)
    if first == b"{":
        return None, raw
    if first != b'"':
        raise _not_object(tool, [] if first == b"[" else 0)
    if len(raw) > MAX_TEXT_BYTES:
        problem = f"a string of over {MAX_TEXT_BYTES} bytes is not looked into; send the object itself"
        raise _refusal(tool, problem)
    try:
        text = msgspec.json.decode(raw, type=str).encode()
        msgspec.json.decode(text, type=msgspec.Raw)  # whether it is JSON, without reading it
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_in_text(tool, error) from None
    if _first(text) != b"{":
        raise _not_object(tool, [])
    return None, text.translate(_NO_LINES)


_NO_LINES: Final = bytes.maketrans(b"\r\n", b"  ")  # line ends between tokens: a message is one line


def _first(raw: msgspec.Raw | bytes) -> bytes:
    """The first byte that is no space."""
    return bytes(memoryview(raw)[:HEAD_BYTES]).lstrip()[:1]


def _not_in_text(tool: ToolInfo, error: Exception) -> CallError:
    return _refusal(tool, f"expected an object, got a string that is not JSON ({error})")


def _not_object(tool: ToolInfo, value: Any) -> CallError:
    return _refusal(tool, f"expected an object, got {describe_value(value)}")


def _refusal(tool: ToolInfo, problem: str) -> CallError:
    return invalid_arguments(tool, [Problem("$", problem)])


# --- held against a schema


class ArgumentChecker:
    """Checks arguments, in the workers of `pool` where that may take long.

    The checks of one server take one worker at a time, so that slow schemas of one do not delay the others.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._known: dict[tuple[str, str], _Tool] = {}
        self._overruns: Counter[str] = Counter()
        self._pool = pool

    def accepts(self, tool: ToolInfo, arguments: JSON, size: int) -> bool:
        """Return True if `arguments`, of `size` bytes, may be sent: they surely fit, or cannot be checked."""
        known = self._known.get((tool.server_name, tool.name))
        if known is None or known.info is not tool:
            known = self._entry(tool)
        fast = known.fast
        return (
            fast is not None and size <= fast.limit and fast.accepts(arguments)
        ) or known.unchecked is not None

    def respelled(self, tool: ToolInfo, arguments: JSON, size: int) -> bytes | None:
        """Arguments that surely fit, made of some that were not accepted, by what their strings spell."""
        fast = self._entry(tool).fast
        if fast is None or size > MAX_RESPELLED_BYTES:
            return None
        other = respelled(tool.input_schema, arguments)
        return msgspec.json.encode(other) if fast.accepts(other) else None

    def judge(
        self, tool: ToolInfo, arguments: Encoded, judged: OnVerdict, client: Hashable = None
    ) -> Callable[[], None] | None:
        """Have encoded `arguments` of a client checked in another process. Call the result to cancel that.

        `judged` is called once: at once, and the result is None; or later, within a second of the start of a
        process. What it gets to send are the arguments as they came, or with other types where they fit only
        then (`mcpx.core.validation.respelling`).
        """
        known = self._entry(tool)
        size = len(arguments)
        if size > MAX_CHECKED_BYTES:
            self._warn_once(known, f"they are over {MAX_CHECKED_BYTES} bytes")
        if size > MAX_CHECKED_BYTES or known.unchecked is not None:
            judged(arguments)
            return None

        def done(verdict: Verdict | NoAnswer) -> None:
            self._record(known, verdict, about_schema=size <= MAX_INLINE_BYTES)
            if isinstance(verdict, NoAnswer):
                judged(arguments)
            elif verdict.problems:
                judged(invalid_arguments(tool, verdict.problems, verdict.schema))
            else:
                judged(verdict.respelled or arguments)

        return self._submit(tool.server_name, Check(known.encoded, bytes(arguments)), done, client).cancel

    def look(self, tool: ToolInfo, done: Callable[[], None]) -> None:
        """Find out whether the schema of `tool` can be used, as `unchecked` says then, and call `done`."""
        known = self._entry(tool)
        if known.unchecked is not None or known.looked_at or known.fast is not None:
            done()
            return

        def looked(verdict: Verdict | NoAnswer) -> None:
            known.looked_at = isinstance(verdict, Verdict)
            self._record(known, verdict, about_schema=True)
            done()

        self._submit(tool.server_name, Check(known.encoded, None), looked, None)

    def _submit(
        self, server: str, check: Check, done: Callable[[Verdict | NoAnswer], None], client: Hashable
    ) -> Pending:
        def answered(answer: Bytes | NoAnswer) -> None:
            done(answer if isinstance(answer, NoAnswer) else _read(answer))

        encoded = (encode_check(check),)
        turns = (("server", server),)
        return self._pool.submit(Job(_TASK, encoded, DEADLINE_S, DEADLINE_S, client, turns), answered)

    def unchecked(self, tool: ToolInfo) -> str | None:
        """Say why the arguments of this tool are not checked, as far as is known; None if they are."""
        known = self._known.get((tool.server_name, tool.name))
        return known.unchecked if known is not None and known.info is tool else None

    def _entry(self, tool: ToolInfo) -> _Tool:
        key = (tool.server_name, tool.name)
        known = self._known.get(key)
        if known is None or known.info is not tool:
            if len(self._known) >= MAX_TOOLS and key not in self._known:
                del self._known[next(iter(self._known))]
            known = self._known[key] = _Tool(tool)
            self._prepare(known)
        return known

    def _prepare(self, known: _Tool) -> None:
        schema, server = known.info.input_schema, known.info.server_name
        if (reason := why_too_large(schema)) is not None:
            self._leave_unchecked(known, reason)
        elif self._overruns[server] >= MAX_OVERRUNS:
            self._leave_unchecked(known, f"checking with other schemas of {server} took too long")
        else:
            known.fast = fast_check(schema)
            try:
                known.encoded = msgspec.json.encode(schema)
            except (TypeError, ValueError) as error:
                self._leave_unchecked(known, f"the schema is no JSON ({error})")

    def _record(self, known: _Tool, verdict: Verdict | NoAnswer, *, about_schema: bool) -> None:
        """Record what a verdict, or the lack of one, says of the tool."""
        if isinstance(verdict, Verdict):
            if verdict.unusable is not None:
                self._leave_unchecked(known, verdict.unusable)
        elif verdict.began and about_schema:
            self._overruns[known.info.server_name] += 1
            self._leave_unchecked(known, verdict.reason)
        else:
            self._warn_once(known, verdict.reason)

    def _leave_unchecked(self, known: _Tool, reason: str) -> None:
        """Check no more arguments of this tool until it is listed again."""
        if known.unchecked is None:
            known.unchecked = reason
            self._warn_once(known, reason)

    def _warn_once(self, known: _Tool, reason: str) -> None:
        """Log that arguments go out unchecked, once for each tool."""
        if not known.warned:
            known.warned = True
            names = {"server": known.info.server_name, "tool": known.info.name}
            log.warning("arguments.unchecked", **names, reason=reason)


def _read(answer: Bytes) -> Verdict | NoAnswer:
    try:
        return decode_verdict(answer)
    except msgspec.DecodeError as error:
        return NoAnswer(f"the verdict cannot be read ({error})", began=True)


class _Tool:
    """One tool as it was last listed, with its compiled checks."""

    __slots__ = ("encoded", "fast", "info", "looked_at", "unchecked", "warned")

    def __init__(self, info: ToolInfo) -> None:
        self.info = info
        self.fast: FastCheck | None = None
        self.encoded = b""  # the schema, for a worker
        self.unchecked: str | None = None
        self.looked_at = False
        self.warned = False

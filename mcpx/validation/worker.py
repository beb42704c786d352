"""The process that checks arguments: jobs on standard input, verdicts on standard output, one at a time.

Started by `mcpx.validation.pool`, and killed by it when it takes too long. It ends by itself when its input
ends and, wherever it hangs, by an alarm signal: it never outlives MCPX. It holds no descriptor but its three,
and imports neither the SDK nor an event loop.
"""

from __future__ import annotations

import gc
import resource
import signal
import sys
from collections import OrderedDict
from contextlib import suppress
from time import monotonic
from typing import BinaryIO, Final

import msgspec

from mcpx.validation.bounds import MAX_INLINE_BYTES
from mcpx.validation.errors import Problem, schema_text
from mcpx.validation.fast import FastCheck, fast_check
from mcpx.validation.full import SchemaCheck, UnusableSchema
from mcpx.validation.protocol import (
    DEADLINE_S,
    LENGTH_BYTES,
    Job,
    Verdict,
    decode_job,
    encode_verdict,
)
from mcpx.validation.respelling import respelled

ALARM_S: Final = 2 * DEADLINE_S  # MCPX kills it before that, unless MCPX itself is gone
MAX_SCHEMAS: Final = 128  # that stay compiled
MAX_MEMORY_BYTES: Final = 1 << 30  # of address space: 16 MB of arguments take a quarter of that
MAX_CHECK_S: Final = DEADLINE_S / 4  # after which arguments are refused and not checked again in other types
RECURSION_LIMIT: Final = 9000  # arguments of 900 levels against a recursive schema


class _Schema:
    """One schema, compiled as far as it was needed."""

    def __init__(self, encoded: bytes) -> None:
        self.schema = msgspec.json.decode(encoded)
        self.fast: FastCheck | None = fast_check(self.schema)
        self.unusable: str | None = None
        try:
            self._check = SchemaCheck(self.schema)
        except UnusableSchema as error:
            self.unusable = str(error)

    def judge(self, arguments: bytes | None) -> Verdict:
        """Return the verdict on arguments, or on the schema alone."""
        if self.unusable is not None or arguments is None:
            return Verdict(unusable=self.unusable)
        began = monotonic()
        problems = self._problems(arguments)
        if not problems:
            return Verdict()
        if len(arguments) <= MAX_INLINE_BYTES and monotonic() - began < MAX_CHECK_S:
            other = self._respelled(arguments)
            if other is not None:
                return Verdict(respelled=other)
        return Verdict(problems, schema_text(self.schema))

    def _respelled(self, arguments: bytes) -> bytes | None:
        """The arguments with other types, if they fit then."""
        value = msgspec.json.decode(arguments)
        other = respelled(self.schema, value)
        return None if other == value or self._check.problems(other) else msgspec.json.encode(other)

    def _problems(self, arguments: bytes) -> list[Problem]:
        try:
            value = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError) as error:
            return [Problem("$", f"cannot be read: {error}")]
        if self.fast is not None and self.fast.accepts(value):
            return []
        return self._check.problems(value)


class Judge:
    """Answers jobs, and keeps compiled schemas."""

    def __init__(self) -> None:
        self._schemas: OrderedDict[bytes, _Schema] = OrderedDict()

    def judge(self, job: Job) -> Verdict:
        """Return the verdict. Never raises."""
        try:
            return self._schema(job.schema).judge(job.arguments)
        except UnusableSchema as error:
            return Verdict(unusable=str(error))
        except Exception as error:  # noqa: BLE001 - the boundary: what cannot be checked is not
            return Verdict(unusable=f"it cannot be checked ({type(error).__name__})")

    def _schema(self, encoded: bytes) -> _Schema:
        known = self._schemas.get(encoded)
        if known is None:
            known = self._schemas[encoded] = _Schema(encoded)
            if len(self._schemas) > MAX_SCHEMAS:
                self._schemas.popitem(last=False)
        self._schemas.move_to_end(encoded)
        return known


def serve(jobs: BinaryIO, verdicts: BinaryIO) -> None:
    """Answer jobs until there are no more. The first frame out is empty: it says that all is imported."""
    judge = Judge()
    _write(verdicts, b"")
    while (frame := _read(jobs)) is not None:
        signal.setitimer(signal.ITIMER_REAL, ALARM_S)
        answer = encode_verdict(judge.judge(decode_job(frame)))
        _write(verdicts, answer)
        signal.setitimer(signal.ITIMER_REAL, 0)
        del frame
        gc.collect()


def _read(stream: BinaryIO) -> bytes | None:
    length = stream.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    expected = int.from_bytes(length)
    frame = stream.read(expected)
    return frame if len(frame) == expected else None


def _write(stream: BinaryIO, frame: bytes) -> None:
    stream.write(len(frame).to_bytes(LENGTH_BYTES) + frame)
    stream.flush()


def main() -> None:
    """Run the process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel's own end: no code of ours has to run
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ValueError, OSError):  # where the system has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(RECURSION_LIMIT)
    gc.disable()  # between the jobs only
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()

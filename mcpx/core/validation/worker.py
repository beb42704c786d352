"""Check arguments in a worker process (`mcpx.core.wire.workers`), which is killed when it takes too long."""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic
from typing import Final

import msgspec

from mcpx.core.validation.bounds import MAX_INLINE_BYTES
from mcpx.core.validation.errors import Problem, schema_text
from mcpx.core.validation.fast import FastCheck, fast_check
from mcpx.core.validation.full import SchemaCheck, UnusableSchema
from mcpx.core.validation.protocol import DEADLINE_S, Check, Verdict, decode_check, encode_verdict
from mcpx.core.validation.respelling import respelled

MAX_SCHEMAS: Final = 128  # that stay compiled
MAX_CHECK_S: Final = DEADLINE_S / 4  # after which arguments are refused and not checked again in other types


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

    def judge(self, job: Check) -> Verdict:
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


_judge = Judge()


def judge(job: memoryview) -> bytes:
    """The task of the worker: the verdict on an encoded job."""
    return encode_verdict(_judge.judge(decode_check(job)))

"""Arguments against the schemas of tools: a quick yes on the event loop, or a verdict of a process apart.

What is known of a tool is kept for as long as it is listed unchanged. A tool whose schema cannot be used, or
with which a check did not end in time, is left unchecked (its server checks too); that is logged once, and
inspect says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from mcpx.catalog.model import JSON, ToolInfo
from mcpx.errors import CallError
from mcpx.validation.bounds import CHECKED, INLINE, why_too_large
from mcpx.validation.errors import invalid_arguments
from mcpx.validation.fast import FastCheck, fast_check
from mcpx.validation.pool import CheckPool, Unjudged
from mcpx.validation.protocol import Job, Verdict

log = structlog.get_logger()
KEPT: Final = 4096  # tools that something is known of
OVERRUNS: Final = 3  # checks that a server's schemas may keep from ending; then none of its tools is checked

Judged = Callable[[CallError | None], None]
"""Called with what is wrong with the arguments; None: nothing, or nobody can tell."""


class ArgumentChecker:
    """Checks arguments. `close` ends the processes that it has started."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Tool] = {}
        self._overruns: Counter[str] = Counter()
        self._pool = CheckPool()

    def close(self) -> None:
        """Check no more."""
        self._pool.close()

    def accepts(self, tool: ToolInfo, arguments: JSON, size: int) -> bool:
        """Whether `arguments`, of `size` bytes, surely fit, or cannot be checked: then they may be sent."""
        known = self._known.get((tool.server_name, tool.name))
        if known is None or known.info is not tool:
            known = self._know(tool)
        fast = known.fast
        return (
            fast is not None and size <= fast.limit and fast.accepts(arguments)
        ) or known.unchecked is not None

    def judge(
        self, tool: ToolInfo, arguments: msgspec.Raw | bytes, judged: Judged
    ) -> Callable[[], None] | None:
        """Have `arguments`, which are JSON, checked apart. The result takes the question back.

        `judged` is called once: now, and the result is None; or later, within a second where processes run,
        or else as soon as one has been started.
        """
        known = self._know(tool)
        size = len(arguments)
        if size > CHECKED:
            self._note(known, f"they are over {CHECKED} bytes")
        if size > CHECKED or known.unchecked is not None:
            judged(None)
            return None

        def done(verdict: Verdict | Unjudged) -> None:
            self._learn(known, verdict, about_schema=size <= INLINE)
            if isinstance(verdict, Unjudged) or not verdict.problems:
                judged(None)
            else:
                judged(invalid_arguments(tool, verdict.problems, verdict.schema))

        return self._pool.submit(tool.server_name, Job(known.encoded, bytes(arguments)), done).cancel

    def look(self, tool: ToolInfo, done: Callable[[], None]) -> None:
        """Find out whether the schema of `tool` can be used, for `unchecked`; then call `done`."""
        known = self._know(tool)
        if known.unchecked is not None or known.looked_at or known.fast is not None:
            done()
            return

        def looked(verdict: Verdict | Unjudged) -> None:
            known.looked_at = isinstance(verdict, Verdict)
            self._learn(known, verdict, about_schema=True)
            done()

        self._pool.submit(tool.server_name, Job(known.encoded, None), looked)

    def unchecked(self, tool: ToolInfo) -> str | None:
        """Why the arguments of this tool are not checked, as far as is known; None where they are."""
        known = self._known.get((tool.server_name, tool.name))
        return known.unchecked if known is not None and known.info is tool else None

    def _know(self, tool: ToolInfo) -> _Tool:
        key = (tool.server_name, tool.name)
        known = self._known.get(key)
        if known is None or known.info is not tool:
            if len(self._known) >= KEPT and key not in self._known:
                del self._known[next(iter(self._known))]
            known = self._known[key] = _Tool(tool)
            self._prepare(known)
        return known

    def _prepare(self, known: _Tool) -> None:
        schema, server = known.info.input_schema, known.info.server_name
        if (reason := why_too_large(schema)) is not None:
            self._leave_unchecked(known, reason)
        elif self._overruns[server] >= OVERRUNS:
            self._leave_unchecked(known, f"checking with other schemas of {server} took too long")
        else:
            known.fast = fast_check(schema)
            try:
                known.encoded = msgspec.json.encode(schema)
            except (TypeError, ValueError) as error:
                self._leave_unchecked(known, f"the schema is no JSON ({error})")

    def _learn(self, known: _Tool, verdict: Verdict | Unjudged, *, about_schema: bool) -> None:
        """What a verdict, or that there is none, says of the tool."""
        if isinstance(verdict, Verdict):
            if verdict.unusable is not None:
                self._leave_unchecked(known, verdict.unusable)
        elif verdict.began and about_schema:
            self._overruns[known.info.server_name] += 1
            self._leave_unchecked(known, verdict.reason)
        else:
            self._note(known, verdict.reason)

    def _leave_unchecked(self, known: _Tool, reason: str) -> None:
        """From now on, until the tool is listed anew."""
        if known.unchecked is None:
            known.unchecked = reason
            self._note(known, reason)

    def _note(self, known: _Tool, reason: str) -> None:
        """Arguments go out unchecked; said once for each tool."""
        if not known.noted:
            known.noted = True
            names = {"server": known.info.server_name, "tool": known.info.name}
            log.warning("arguments.unchecked", **names, reason=reason)


class _Tool:
    """What is known of one tool as it was last listed."""

    __slots__ = ("encoded", "fast", "info", "looked_at", "noted", "unchecked")

    def __init__(self, info: ToolInfo) -> None:
        self.info = info
        self.fast: FastCheck | None = None
        self.encoded = b""  # the schema, for a worker
        self.unchecked: str | None = None
        self.looked_at = False
        self.noted = False

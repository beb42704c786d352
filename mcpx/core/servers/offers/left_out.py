"""What is left out of a server's lists, in bounded memory.

A listing notes each omission with its reason: the first are named, the rest counted by kind.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import structlog

from mcpx.core.catalog.model import LeftOut
from mcpx.core.text import cut, one_line

log = structlog.get_logger()

MAX_NAMED: Final = 20  # of one listing; the rest are counted
MAX_LOGGED: Final = 100  # of one server, however often its lists change
MAX_NAME_CHARS: Final = 64
MAX_REASON_CHARS: Final = 200


class Omissions:
    """The omissions of one listing."""

    def __init__(self) -> None:
        self._named: list[LeftOut] = []
        self._others: Counter[str] = Counter()

    def note(self, kind: str, reason: str, *, name: str | None = None, count: int = 1) -> None:
        """Note what is left out, or cut.

        `kind` is `tool`, `resource`, `resource template`, `prompt` or `instructions`; for a whole list, its
        method.
        """
        if len(self._named) >= MAX_NAMED:
            self._others[kind] += count
            return
        shown = None if name is None else cut(one_line(name[:MAX_REASON_CHARS]), MAX_NAME_CHARS)
        reason = cut(one_line(reason[: 4 * MAX_REASON_CHARS]), MAX_REASON_CHARS)
        self._named.append(LeftOut(kind=kind, name=shown, reason=reason, count=count))

    def all(self) -> tuple[LeftOut, ...]:
        """The omissions in order, then the counts."""
        rest = (
            LeftOut(kind=kind, reason="as others of its kind; only the first are named", count=count)
            for kind, count in self._others.items()
        )
        return (*self._named, *rest)


class OmissionLog:
    """Logs each omission from one server's lists once."""

    def __init__(self, server: str) -> None:
        self._log = log.bind(server=server)
        self._named: set[LeftOut] = set()

    def record(self, left_out: tuple[LeftOut, ...]) -> None:
        """Log those that were not logged before."""
        for each in left_out:
            if each not in self._named and len(self._named) < MAX_LOGGED:
                self._named.add(each)
                self._log.warning("upstream.left_out", **each.to_dict())

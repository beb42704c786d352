"""What is left out of a server's lists while they are read, kept in a bounded number of words.

Whoever lists notes each thing with the reason; the first are named, the others counted by their kind.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import structlog

from mcpx.catalog.model import LeftOut
from mcpx.text import cut, one_line

log = structlog.get_logger()

NAMED_MOST: Final = 20  # of one listing; more are counted
LOGGED_MOST: Final = 100  # of one server, however often its lists change
NAME_SHOWN: Final = 64  # characters
REASON_SHOWN: Final = 200  # characters


class Omissions:
    """Notes of one listing."""

    def __init__(self) -> None:
        self._named: list[LeftOut] = []
        self._others: Counter[str] = Counter()

    def note(self, kind: str, reason: str, *, name: str | None = None, count: int = 1) -> None:
        """Something is left out, or cut. `kind` is `tool`, `resource`, ..., or the method of a whole list."""
        if len(self._named) >= NAMED_MOST:
            self._others[kind] += count
            return
        shown = None if name is None else cut(one_line(name[:REASON_SHOWN]), NAME_SHOWN)
        reason = cut(one_line(reason[: 4 * REASON_SHOWN]), REASON_SHOWN)
        self._named.append(LeftOut(kind=kind, name=shown, reason=reason, count=count))

    def all(self) -> tuple[LeftOut, ...]:
        """What was noted, in order."""
        rest = (
            LeftOut(kind=kind, reason="as others of its kind; only the first are named", count=count)
            for kind, count in self._others.items()
        )
        return (*self._named, *rest)


class OmissionLog:
    """Names in the log, once, what of one server's lists cannot be used."""

    def __init__(self, server: str) -> None:
        self._log = log.bind(server=server)
        self._named: set[LeftOut] = set()

    def name(self, left_out: tuple[LeftOut, ...]) -> None:
        """Those that were not named before."""
        for each in left_out:
            if each not in self._named and len(self._named) < LOGGED_MOST:
                self._named.add(each)
                self._log.warning("upstream.left_out", **each.to_dict())

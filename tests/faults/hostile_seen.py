"""What a row of the hostile table is, and what it has shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

PROMISED_S = 0.1  # the neighbour's p99 on a quiet machine
ROW_S = 40.0  # for one row; beyond, it has failed
LINES = 100  # of the log in a row, unless it names another figure
MEMORY_MB = 32.0  # unless a row names another figure
Play = Callable[[Any], Awaitable[None]]
"""Plays a row on the `Hostile` that it is given."""


@dataclass
class HostileSeen:
    """What one row has shown; without problems it holds."""

    fault: str
    caller_saw: str = ""
    neighbour_calls: int = 0
    neighbour_p99_s: float = 0.0
    neighbour_slowest_s: float = 0.0
    memory_mb: float = 0.0
    """How far MCPX's resident memory rose."""
    memory_bound_mb: float = MEMORY_MB
    log_lines: int = 0
    left: int = 0
    """Processes, zombies."""
    problems: list[str] = field(default_factory=list)

    def late(self) -> list[str]:
        """Where the neighbour waited longer than is promised."""
        if self.neighbour_p99_s <= PROMISED_S:
            return []
        return [f"the neighbour's p99 is {self.neighbour_p99_s * 1000:.0f} ms"]

    def check(self, holds: object, problem: str) -> None:
        """Note a problem unless something holds."""
        if not holds and problem not in self.problems:
            self.problems.append(problem)


class Row(msgspec.Struct, frozen=True):
    """A registered row. `settings` are those of the whole configuration."""

    play: Play
    memory_mb: float
    log_lines: int
    settings: dict[str, Any]
    in_suite: bool = True
    """Whether the test suite plays it, or `scripts/faults` alone: for those that take long."""
    within_s: float = ROW_S
    """For the row; beyond, it has failed."""


class HostileFaults(dict[str, Row]):
    """The rows under the words for their faults, in order."""

    def row(
        self,
        fault: str,
        *,
        memory_mb: float = MEMORY_MB,
        log_lines: int = LINES,
        in_suite: bool = True,
        within_s: float = ROW_S,
        **settings: Any,
    ) -> Callable[[Play], Play]:
        """Register a row."""

        def register(play: Play) -> Play:
            self[fault] = Row(play, memory_mb, log_lines, settings, in_suite, within_s)
            return play

        return register

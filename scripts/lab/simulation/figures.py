"""What a simulation counts, and what it found wrong."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

MAX_PROBLEMS = 1000  # whose text is kept


@dataclass
class Recovery:
    """What followed the death of one node or rack. `placed_s` is when the last of its sessions ran again."""

    nodes: int
    at: float
    lost: int = 0
    in_call: int = 0
    left: int = 0
    placed_s: float = 0.0
    late: int = 0


@dataclass
class Figures:
    """The sums of a simulation. `problems` are broken promises, the first thousand with their text."""

    opened: int = 0
    placed: int = 0
    again: int = 0
    """Placed again after a death or for a drain."""
    refused: int = 0
    """Sessions that found no node at least once."""
    by_nodes: int = 0
    """Refusals of nodes that had no memory, of which their gateway did not know yet."""
    to_the_dead: int = 0
    """Placed on a node that was dead, which was not known yet."""
    late: int = 0
    """Sessions that ran later than a call waits."""
    waits: list[float] = field(default_factory=list)
    decisions_s: list[float] = field(default_factory=list)
    """Processor time of each decision: what alone is not the same in two runs."""
    recoveries: list[Recovery] = field(default_factory=list)
    drained_s: list[float] = field(default_factory=list)
    peak_sessions: int = 0
    peak_at: float = 0.0
    peak_used: float = 0.0
    """The share of all memory in use at the peak of sessions; then the fullest node's, divided by that."""
    peak_balance: float = 0.0
    fullest: float = 0.0
    """The largest share of its memory that any node had in use at any time."""
    too_full: int = 0
    """Nodes with more in use than they have."""
    broken: int = 0
    problems: list[str] = field(default_factory=list)

    def problem(self, text: str) -> None:
        """A promise that was not kept."""
        self.broken += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(text)

    def wait(self, share: float) -> float:
        """The wait below which that share of the sessions stayed, in seconds."""
        return quantile(self.waits, share)

    def same(self) -> tuple[object, ...]:
        """All that must be equal in two runs of one seed."""
        return tuple(value for name, value in sorted(vars(self).items()) if name != "decisions_s")


def quantile(values: list[float], share: float) -> float:
    """That quantile, 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def median(values: list[float]) -> float:
    """The median, 0 for none."""
    return statistics.median(values) if values else 0.0

"""Counters of one upstream server: plain numbers, written by its actor, read by anybody."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Final

RECENT: Final = 512  # calls whose duration is remembered for the percentiles


class Counters:
    """What happened to one server's calls since MCPX started. Durations are in seconds."""

    def __init__(self) -> None:
        self.calls = 0
        self.in_flight = 0
        self.errors: Counter[str] = Counter()
        """By error code."""
        self.listings = 0
        self.malformed = 0
        """Lines or messages that were not MCP."""
        self._durations: deque[float] = deque(maxlen=RECENT)

    def answered(self, seconds: float) -> None:
        """A call was answered after `seconds`."""
        self._durations.append(seconds)

    def percentile(self, share: float) -> float | None:
        """The duration that `share` of the recent calls did not exceed (nearest rank); None without calls."""
        if not self._durations:
            return None
        ranked = sorted(self._durations)
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; latencies in milliseconds."""
        latency = {
            name: None if (seconds := self.percentile(share)) is None else round(seconds * 1000, 3)
            for name, share in (("p50", 0.5), ("p99", 0.99))
        }
        return {
            "calls": self.calls,
            "in_flight": self.in_flight,
            "errors": sum(self.errors.values()),
            "errors_by_code": dict(self.errors),
            "latency_ms": latency,
        }

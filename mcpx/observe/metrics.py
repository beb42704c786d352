"""Counters of one upstream server: plain numbers, written by its actor, read by everyone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

RECENT_CALLS: Final = 512  # calls whose duration is remembered for the percentiles


class Counters:
    """The calls of one server since MCPX started. Durations are in seconds."""

    def __init__(self) -> None:
        self.calls = 0
        self.in_flight = 0
        self.errors: Counter[str] = Counter()
        """By error code."""
        self.listings = 0
        self.malformed = 0
        """Lines or messages that were not MCP."""
        self.find_silent_since: Callable[[], float | None] = lambda: None
        """As `silent_since`; set by what has the calls in flight."""
        self._durations: deque[float] = deque(maxlen=RECENT_CALLS)

    @property
    def silent_since(self) -> float | None:
        """Since when the server, with calls in flight, has given no sign of life; None without calls.

        By `time.monotonic()`. An answer is a sign, and so is progress.
        """
        return self.find_silent_since() if self.in_flight else None

    def answered(self, seconds: float) -> None:
        """Record that a call was answered after `seconds`."""
        self._durations.append(seconds)

    def percentile(self, share: float) -> float | None:
        """The duration that `share` of the recent calls did not exceed (nearest rank); None without calls."""
        if not self._durations:
            return None
        ranked = sorted(self._durations)
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

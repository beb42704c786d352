"""Counters of one upstream server: plain numbers, written by its actor, read by everyone."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final

RECENT_CALLS: Final = 512  # calls whose duration is remembered for the percentiles
BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Of a histogram; from 10 ms on those that OpenTelemetry's conventions name for MCP."""


def percentiles(durations: Iterable[float], *shares: float) -> list[float | None]:
    """For each share the duration that so many of these did not exceed (nearest rank); None without any."""
    ranked = sorted(durations)
    if not ranked:
        return [None] * len(shares)
    return [ranked[min(len(ranked) - 1, int(share * len(ranked)))] for share in shares]


class Histogram:
    """The durations between fixed bounds, in seconds: plain numbers, for `Counters` to count in."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self) -> None:
        self.bounds = BOUNDS_S
        self.counts = [0] * (len(BOUNDS_S) + 1)
        """For each bound, the durations up to it and over the bound before; the last are over all bounds."""
        self.sum = 0.0


class Activity:
    """The state of counting: what has nothing to do meanwhile waits for `begin`, and sets no timer."""

    __slots__ = ("on_begin", "quiet")

    def __init__(self) -> None:
        self.quiet = True
        """Set again by whoever is told by `on_begin`, when nothing has been counted for a while."""
        self.on_begin: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Note that something is counted. Asking `quiet` first saves the call."""
        if self.quiet:
            self.quiet = False
            self.on_begin()


class Counters:
    """The requests that one server was sent, MCPX's own among them. Durations are in seconds.

    What of that are calls of clients, and how they end, the meter counts.
    """

    def __init__(self, activity: Activity | None = None) -> None:
        self.activity = activity or Activity()
        """Shared by all servers of a fleet."""
        self.calls = 0
        self.in_flight = 0
        self.errors: Counter[str] = Counter()
        """By error code."""
        self.listings = 0
        self.malformed = 0
        """Lines or messages that were not MCP."""
        self.silences: set[Callable[[], float | None]] = set()
        """Each finds since when one of the open sessions is silent, with calls in flight."""
        self.durations = Histogram()
        """Of all calls that were answered."""
        self._recent: deque[float] = deque(maxlen=RECENT_CALLS)

    @property
    def silent_since(self) -> float | None:
        """Since when one of its sessions with calls in flight has given no sign of life; None without calls.

        By `time.monotonic()`. An answer is a sign, and so is progress.
        """
        found = (find() for find in self.silences) if self.in_flight else ()
        return min((each for each in found if each is not None), default=None)

    def sent(self) -> None:
        """Record that a call goes out."""
        self.calls += 1
        self.in_flight += 1
        if self.activity.quiet:
            self.activity.begin()

    def failed(self, code: str) -> None:
        """Record that a call failed with that code, sent or not."""
        self.errors[code] += 1
        if self.activity.quiet:
            self.activity.begin()

    def answered(self, seconds: float) -> None:
        """Record that a call was answered after `seconds`."""
        self._recent.append(seconds)
        durations = self.durations
        durations.counts[bisect_left(BOUNDS_S, seconds)] += 1
        durations.sum += seconds

    def percentiles(self, *shares: float) -> list[float | None]:
        """The durations that shares of the recent calls did not exceed (nearest rank); None without calls."""
        return percentiles(self._recent, *shares)

    def recent(self, most: int) -> list[float]:
        """The durations of the last calls that were answered, at most that many; `RECENT_CALLS` are known."""
        return list(self._recent)[-most:] if most > 0 else []

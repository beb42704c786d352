"""The calls of the last hour, in steps: how many, how many failed, how long they took, what they cost.

One for each hub, kept whether anybody looks or not. It looks at the sums of the meter and how long servers
took at the end of each step in which something was counted, and does nothing at all while nothing is
(`Activity`). The steps are those of the clock: they begin at every `STEP_S` seconds since 1970.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from mcpx.core.events.meter import Meter
from mcpx.core.events.stats import Count
from mcpx.core.telemetry.contained import containing
from mcpx.core.telemetry.metrics import Activity, Counters, percentiles

STEP_S: Final = 10
STEPS: Final = 360
MAX_DURATIONS: Final = 2048  # of one step, that are looked at


class Counting(Protocol):
    """A server, as far as its calls are counted."""

    @property
    def counters(self) -> Counters:
        """The calls of its sessions."""


class Point(NamedTuple):
    """One step: the calls that began in it, and those that failed and were refused in it; see `Meter`.

    The percentiles are of those that were answered, None without any; tokens are as the meter estimates them.
    """

    calls: int
    failed: int
    refused: int
    p50_ms: float | None
    p95_ms: float | None
    tokens_direct: int
    tokens_spent: int


NOTHING: Final = Point(0, 0, 0, None, None, 0, 0)


class _Sums(NamedTuple):
    """Of one server, up to now."""

    counters: Counters
    answered: int


class History:
    """The calls of the servers in `upstreams`. `activity` tells when something is counted."""

    def __init__(self, upstreams: Mapping[str, Counting], meter: Meter, activity: Activity) -> None:
        self._upstreams = upstreams
        self._meter = meter
        self._activity = activity
        self._points: dict[int, Point] = {}  # by the number of the step
        self._sums: dict[str, _Sums] = {}
        self._total = Count()
        self._step = 0  # that runs, while something is counted
        activity.on_begin = self._begin

    def ended(self) -> int:
        """The number of the last step that has ended: it began at that many times `STEP_S`."""
        return _now() - 1 if self._activity.quiet else self._step - 1

    def point(self, step: int) -> Point:
        """A step that has ended."""
        return self._points.get(step, NOTHING)

    def points(self) -> list[Point]:
        """The steps that have ended, the last `STEPS`, the oldest first."""
        last = self.ended()
        return [self.point(step) for step in range(last - STEPS + 1, last + 1)]

    def running(self) -> Point:
        """The step that runs, up to now."""
        return NOTHING if self._activity.quiet else self._measured()[0]

    # --- the steps

    def _begin(self) -> None:
        self._step = _now()
        self._set_timer()

    def _set_timer(self) -> None:
        left = (self._step + 1) * STEP_S - time.time()
        asyncio.get_running_loop().call_later(min(max(left, 0.0), STEP_S), self._end_step)

    def _end_step(self) -> None:
        point = NOTHING
        with containing("history"):  # the boundary: a step less does no harm
            point, self._sums, self._total = self._measured()
        if point != NOTHING:
            self._points[self._step] = point
            self._forget()
        is_busy = point != NOTHING or any(each.counters.in_flight for each in self._sums.values())
        self._step = max(_now(), self._step + 1)
        if is_busy:
            self._set_timer()
        else:
            self._activity.quiet = True

    def _forget(self) -> None:
        for step in [step for step in self._points if not self._step - STEPS < step <= self._step]:
            del self._points[step]

    def _measured(self) -> tuple[Point, dict[str, _Sums], Count]:
        """Return what was counted since the end of the step before, and the sums up to now."""
        sums = {name: _sums(upstream.counters) for name, upstream in self._upstreams.items()}
        answered: list[tuple[Counters, int]] = []
        for name, now in sums.items():
            before = self._sums.get(name)
            if before is None or before.counters is not now.counters:
                before = _Sums(now.counters, 0)
            if now.answered > before.answered:
                answered.append((now.counters, now.answered - before.answered))
        total, past = self._meter.since_start().total, self._total
        calls, failed, refused, direct, spent = (
            max(0, getattr(total, name) - getattr(past, name))
            for name in ("calls", "failed", "refused", "direct", "spent")
        )
        p50, p95 = map(milliseconds, percentiles(_durations(answered), 0.5, 0.95))
        return Point(calls, failed, refused, p50, p95, direct, spent), sums, total


def _now() -> int:
    return int(time.time() // STEP_S)


def _sums(counters: Counters) -> _Sums:
    return _Sums(counters, sum(counters.durations.counts))


def _durations(answered: list[tuple[Counters, int]]) -> list[float]:
    """The durations of these calls, so many of each server; of many calls, each server's share of them.

    A server of which less is remembered stands with what is remembered, again and again.
    """
    part = min(1.0, MAX_DURATIONS / max(1, sum(count for _, count in answered)))
    found: list[float] = []
    for counters, count in answered:
        wanted = max(1, round(count * part))
        its = counters.recent(wanted)
        found += (its * (wanted // len(its) + 1))[:wanted]
    return found


def milliseconds(seconds: float | None) -> float | None:
    """Return a time as it is shown; None where it is not known."""
    return None if seconds is None else round(seconds * 1000, 3)

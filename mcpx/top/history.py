"""Rates and their last minutes, out of one status after the other. Pure.

The daemon counts; a rate is the difference of two counts over the time between them. A count that has become
smaller began again, with the daemon or with the server's entry. A time without an answer is a gap in every
curve.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpx.core.daemon.status import Cost, ServerStatus, Status, Tokens

SAMPLES: Final = 300  # kept of each curve: five minutes, one a second

Curve = tuple[float | None, ...]
"""Values a second, the oldest first; None where nothing was known."""


class Row(NamedTuple):
    """A server at one moment."""

    server: ServerStatus
    calls: Curve
    """Calls a second."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self.server.name

    @property
    def rate(self) -> float | None:
        """Calls a second, by the last two answers."""
        return self.calls[-1] if self.calls else None

    @property
    def saved(self) -> int:
        """Tokens that were saved since the start of the daemon; negative where MCPX has cost more."""
        return saved(self.server.tokens)


class Overview(NamedTuple):
    """Everything at one moment. The curves are of all servers together, a second each."""

    status: Status
    rows: list[Row]
    calls: Curve
    failures: Curve
    saved: Curve


class _Counts(NamedTuple):
    calls: int
    failures: int
    saved: int


class History:
    """Takes a status after the other, and says what has changed between them."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._before: dict[str, _Counts] = {}
        self._calls: dict[str, deque[float | None]] = {}
        self._totals: tuple[deque[float | None], ...] = tuple(deque(maxlen=SAMPLES) for _ in _Counts._fields)

    def take(self, status: Status, at: float) -> Overview:
        """The overview with that status in it; `at` is when it came, in seconds of any clock."""
        passed = None if self._at is None else at - self._at
        self._at = at
        now = {server.name: _counts(server) for server in status.servers}
        rates = {name: self._rates(name, counts, passed) for name, counts in now.items()}
        self._calls = {name: self._calls.get(name, deque(maxlen=SAMPLES)) for name in now}
        for name, curve in self._calls.items():
            curve.append(None if (rate := rates[name]) is None else rate[0])
        known = [rate for rate in rates.values() if rate is not None]
        for index, total in enumerate(self._totals):
            total.append(sum(rate[index] for rate in known) if passed is not None else None)
        self._before = now
        return self.overview(status)

    def miss(self) -> None:
        """There was no answer this time."""
        self._at, self._before = None, {}
        for curve in (*self._calls.values(), *self._totals):
            curve.append(None)

    def overview(self, status: Status) -> Overview:
        """Return the last status with the curves as they are now."""
        rows = [Row(server, tuple(self._calls[server.name])) for server in status.servers]
        return Overview(status, rows, *map(tuple, self._totals))

    def _rates(self, name: str, now: _Counts, passed: float | None) -> tuple[float, ...] | None:
        before = self._before.get(name)
        if before is None or not passed or passed < 0:
            return None
        began_again = now.calls < before.calls
        return tuple(
            (new if began_again else new - old) / passed for new, old in zip(now, before, strict=True)
        )


def saved(tokens: object) -> int:
    """The tokens that were saved since the start, of the `tokens` of a status; 0 where it has none."""
    since_start = tokens.since_start if isinstance(tokens, Tokens) else Cost(direct=0, spent=0)
    return since_start.direct - since_start.spent


def _counts(server: ServerStatus) -> _Counts:
    return _Counts(server.calls, server.failed, saved(server.tokens))


def bars(curve: Curve, width: int) -> str:
    """The newest values as blocks of an eighth of a line each, right-aligned; nothing known is a space.

    The highest of them is a whole block. Zero, or less, is the lowest line.
    """
    shown = curve[-width:] if width > 0 else ()
    highest = max((value for value in shown if value is not None), default=0.0)
    return "".join(_blocks(shown, highest)).rjust(max(0, width))


_BLOCKS: Final = "▁▂▃▄▅▆▇█"


def _blocks(values: Curve, highest: float) -> Iterator[str]:
    for value in values:
        if value is None:
            yield " "
        elif value <= 0 or highest <= 0:
            yield _BLOCKS[0]
        else:
            yield _BLOCKS[max(1, round(value / highest * (len(_BLOCKS) - 1)))]

"""How children are to be kept: the settings, as frozen structs, and the one rule about intensity.

Owned by whoever writes a `ChildSpec`; read by `lifecycle.step` and by the supervisor. All times are
seconds. The names and their meaning are OTP's (`supervisor(3erl)`): permanent, transient, temporary,
restart intensity.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Restart(StrEnum):
    """When a child that ended is started again."""

    PERMANENT = "permanent"
    """Always."""
    TRANSIENT = "transient"
    """Only after a failure."""
    TEMPORARY = "temporary"
    """Never."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait between attempts; the formula stands in `backoff.delay`."""

    initial: float = 0.5
    cap: float = 60.0
    healthy_after: float = 30.0
    """Uptime after which earlier failures are forgotten, unless it was `proven` before.

    A mere connect proves nothing.
    """


class Parking(msgspec.Struct, frozen=True, kw_only=True):
    """When to give up for now, and how a parked child is tried again."""

    after: int = 8
    """Consecutive failures that park the child. A fault that cannot be cured parks at once."""
    probe: float = 300.0
    """Time between attempts while parked."""
    refusal: float = 10.0
    """While parked: after an attempt that was made for a demand, demands cause none for this long."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `lifecycle.step` needs to know of one child. Without `parking` it never gives up."""

    restart: Restart = Restart.PERMANENT
    backoff: Backoff = Backoff()
    parking: Parking | None = None
    demand_interval: float = 1.0
    """Shortest time between two attempts that callers cause while the child waits."""


class Shutdown(msgspec.Struct, frozen=True, kw_only=True):
    """How a child is made to leave: told, cancelled after `grace`, reported stuck after `limit` more.

    One that never was ready gets no grace: it has nothing to finish.
    """

    grace: float = 5.0
    limit: float = 8.0


class Intensity(msgspec.Struct, frozen=True, kw_only=True):
    """At most `restarts` restarts within `within` seconds, over all children of one supervisor."""

    restarts: int = 3
    within: float = 60.0

    def exceeded(self, times: Sequence[float], now: float) -> bool:
        """Whether the restarts at `times` (clock readings, the newest included) are too many at `now`."""
        return sum(1 for at in times if now - at <= self.within) > self.restarts

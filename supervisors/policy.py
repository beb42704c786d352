"""Policies by which children are kept: the settings, and the pure rules that apply them.

Part of a `ChildSpec` or of a `Supervisor`; read by `lifecycle.step` and by the supervisor. All times are
seconds. The names and their meaning are OTP's (`supervisor(3erl)`): permanent, transient, temporary, restart
intensity, one for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace


class Restart(StrEnum):
    """When a child that ended is started again."""

    PERMANENT = "permanent"
    """Always."""
    TRANSIENT = "transient"
    """Only after a failure."""
    TEMPORARY = "temporary"
    """Never."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Pauses between attempts; `delay` is the formula."""

    initial: float = 0.5
    cap: float = 60.0
    healthy_after: float = 30.0
    """Uptime after which earlier failures are forgotten, unless it was `proven` before.

    A mere connect proves nothing.
    """


def delay(failures: int, jitter: float, backoff: Backoff) -> float:
    """Seconds to wait after the `failures`-th consecutive failure (1 for the first).

    The first failure is answered at once; after the n-th it is `jitter * min(cap, initial * 2**(n-2))`.
    `jitter` is a random number in [0.5, 1], which spreads children that failed together ("equal jitter").

    Raises:
        ValueError: `failures` is below 1, or `jitter` is outside [0.5, 1].
    """
    if failures < 1:
        raise ValueError(f"failures counts from 1, got {failures}")
    if not 0.5 <= jitter <= 1.0:  # noqa: PLR2004 - the stated range
        raise ValueError(f"jitter must be in [0.5, 1], got {jitter}")
    if failures == 1:
        return 0.0
    doublings = min(failures - 2, 64)  # 2**64 s is past any cap; keeps the float finite
    return jitter * min(backoff.cap, backoff.initial * 2.0**doublings)


class Parking(msgspec.Struct, frozen=True, kw_only=True):
    """When to give up for now, and how a parked child is tried again."""

    after: int = 8
    """Consecutive failures that park the child. A fault that is not retryable parks it at once."""
    probe: float = 300.0
    """Time between attempts while parked."""
    refusal: float = 10.0
    """While parked: after an attempt that was made for a demand, demands cause none for this long."""
    patience: float = 0.0
    """After the first of consecutive failures whose cause is passing: it is not parked for this long, and
    attempts that are made for demands count for nothing."""
    alike: int = 3
    """Starts in a row that end with the same last words, after which the child is parked."""
    slowest_probe: float = 3600.0
    """With the same last words each time, the time between attempts is doubled up to this."""
    slows: bool = False
    """Double it up to that with each failure beyond `after`, too."""


def probe_delay(failures: int, alike: int, parking: Parking) -> float:
    """Seconds to the next attempt at a parked child: it failed so often, and so often with the same words."""
    beyond = failures - parking.after if parking.slows else 0
    doublings = min(max(0, alike - parking.alike, beyond), 64)
    return max(parking.probe, min(parking.slowest_probe, parking.probe * 2.0**doublings))


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `lifecycle.step` needs to know of one child. Without `parking` it never gives up."""

    restart: Restart = Restart.PERMANENT
    backoff: Backoff = Backoff()
    parking: Parking | None = None
    demand_interval: float = 1.0
    """Shortest time between two attempts that callers cause while the child waits."""


class Shutdown(msgspec.Struct, frozen=True, kw_only=True):
    """The stop of a child: asked to leave, cancelled after `grace`, reported stuck after `limit` more.

    One that was never ready gets no grace: it has nothing to finish.
    """

    grace: float = 5.0
    limit: float = 8.0


class Intensity(msgspec.Struct, frozen=True, kw_only=True):
    """At most `restarts` restarts within `within` seconds, over all children of one supervisor.

    Those with `Parking` do not count: they are given up alone.
    """

    restarts: int = 3
    within: float = 60.0

    def exceeded(self, times: Sequence[float], now: float) -> bool:
        """True if the restarts at `times` (clock readings, the newest included) are too many at `now`."""
        return sum(1 for at in times if now - at <= self.within) > self.restarts

    def as_parking(self, policy: Policy) -> Policy:
        """The policy of a child that is parked by such failures, and then tried ever more rarely."""
        parking = Parking(after=self.restarts + 1, probe=self.within / 2, slows=True)
        return replace(policy, parking=parking, backoff=replace(policy.backoff, healthy_after=self.within))


class Strategy(StrEnum):
    """Consequence of one child's failure for its siblings."""

    ONE_FOR_ONE = "one_for_one"
    """Nothing."""
    ONE_FOR_ALL = "one_for_all"
    """All of them are restarted with it."""
    REST_FOR_ONE = "rest_for_one"
    """Children added after it are restarted with it, for they may depend on it."""


def siblings_to_restart(strategy: Strategy, children: Sequence[str], failed: str) -> list[str]:
    """Return the names to restart besides `failed`, in the order they are to be halted (youngest first).

    `children` are all names in the order they were added. All siblings named leave before any is started.

    Raises:
        ValueError: `failed` is not among `children`.
    """
    at = children.index(failed)
    if strategy is Strategy.ONE_FOR_ALL:
        affected = [*children[:at], *children[at + 1 :]]
    elif strategy is Strategy.REST_FOR_ONE:
        affected = list(children[at + 1 :])
    else:
        affected = []
    return affected[::-1]

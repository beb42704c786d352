"""The one formula of waiting: pure, no clock, no random source of its own."""

from __future__ import annotations

from supervisors.policy import Backoff


def delay(failures: int, roll: float, backoff: Backoff) -> float:
    """Seconds to wait after the `failures`-th consecutive failure (1 for the first).

    The first failure is answered at once; after the n-th it is `roll * min(cap, initial * 2**(n-2))`.
    `roll` is a random number in [0.5, 1], which spreads children that failed together ("equal jitter").

    Raises:
        ValueError: `failures` is below 1, or `roll` is outside [0.5, 1].
    """
    if failures < 1:
        raise ValueError(f"failures counts from 1, got {failures}")
    if not 0.5 <= roll <= 1.0:  # noqa: PLR2004 - the stated range
        raise ValueError(f"roll must be in [0.5, 1], got {roll}")
    if failures == 1:
        return 0.0
    doublings = min(failures - 2, 64)  # 2**64 s is past any cap; keeps the float finite
    return roll * min(backoff.cap, backoff.initial * 2.0**doublings)

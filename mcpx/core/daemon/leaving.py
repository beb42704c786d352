"""How MCPX leaves: whether it is about to, and how much of the grace time is left.

One for a hub. A signal has it drain first (`http.drain`), so that a load balancer sends it nothing more; then
it stops, and from there all frontends together have one grace time for what is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Leaving:
    """Whether and since when. `grace_s` gives the grace time, in seconds."""

    def __init__(self, grace_s: Callable[[], float]) -> None:
        self._grace_s = grace_s
        self._stopped_at: float | None = None
        self.begun = False
        """Whether it has been asked to leave: it is not ready for anybody who is not here yet."""
        self.drain_s = 0.0
        """Seconds between the signal and the stop; set by the frontend over HTTP, which has them."""
        self.on_begin: Callable[[], None] = _nothing
        """Called when it is asked; set by the same."""

    def begin(self) -> None:
        """It will stop soon."""
        if not self.begun:
            self.begun = True
            self.on_begin()

    def stop(self) -> None:
        """It stops now: the grace time begins. May be called outside any task."""
        self.begin()
        if self._stopped_at is None:
            self._stopped_at = _now()

    @property
    def grace_left_s(self) -> float:
        """Seconds that requests may still take to finish; before it stops, the whole grace time."""
        if self._stopped_at is None:
            return self._grace_s()
        return max(0.0, self._stopped_at + self._grace_s() - _now())

    @property
    def is_over(self) -> bool:
        """Whether the grace time has passed: what still runs is cut off."""
        return self._stopped_at is not None and self.grace_left_s <= 0


def _now() -> float:
    return asyncio.get_running_loop().time()  # anyio's would have to be asked in a task


def _nothing() -> None:
    pass

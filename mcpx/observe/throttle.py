"""For what would be said a thousand times: once in a while is enough."""

from __future__ import annotations

import time
from typing import Final

AGAIN_S: Final = 60.0


class Throttle:
    """Lets one through, and then none for `seconds`."""

    def __init__(self, seconds: float = AGAIN_S) -> None:
        self._seconds = seconds
        self._next = 0.0

    def lets_through(self) -> bool:
        """Whether it is time to say it (again); if so it counts as said."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True

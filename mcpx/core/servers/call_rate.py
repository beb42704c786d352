"""The rate of requests that a server takes of clients in a minute: one for all of its sessions.

A bucket that holds as many as the server takes in a minute, and fills evenly within one. What finds it empty
is refused, and is never queued: it was not sent.
"""

from __future__ import annotations

import math
from time import monotonic
from typing import Final

from mcpx.core.config import ServerConfig
from mcpx.core.telemetry.metrics import Counters
from mcpx.errors import CallError, Code

PERIOD_S: Final = 60.0
RULE: Final = "limits.calls_per_minute"
_ROUNDING: Final = 1e-6  # of a request


class CallRate:
    """The rate of one server."""

    def __init__(self, config: ServerConfig, counters: Counters) -> None:
        self.per_minute: int | None = None
        """None for any number."""
        self._server = config.name
        self._counters = counters
        self._left = 0.0
        self._looked_at = 0.0
        self.configure(config)

    def configure(self, config: ServerConfig) -> None:
        """Put another rate in force. What was used of the last one counts."""
        per_minute = config.quota.calls_per_minute
        if per_minute == self.per_minute:
            return
        used = 0.0 if self.per_minute is None else self.per_minute - self._refilled(self.per_minute)
        self.per_minute = per_minute
        self._left = max(0.0, (per_minute or 0) - used)
        self._looked_at = monotonic()

    def admit(self, tool: str | None = None) -> None:
        """Count a request, of that tool if it calls one.

        Raises:
            CallError: `overloaded`: the server takes no more now; `retry_in_s` of the details says when.
        """
        per_minute = self.per_minute
        if per_minute is None:
            return
        left = self._left = self._refilled(per_minute)
        self._looked_at = monotonic()
        if left >= 1 - _ROUNDING:
            self._left = left - 1
            return
        raise self._refusal(per_minute, (1 - left) * PERIOD_S / per_minute, tool)

    def _refilled(self, per_minute: int) -> float:
        """Return how many are left now."""
        elapsed = monotonic() - self._looked_at
        return min(per_minute, self._left + elapsed * per_minute / PERIOD_S)

    def _refusal(self, per_minute: int, wait_s: float, tool: str | None) -> CallError:
        retry_in_s = math.ceil(wait_s * 10) / 10
        text = (
            f"{self._server} takes {per_minute:,} calls a minute (its {RULE}), and these are"
            f" used up; nothing was sent, try again in {retry_in_s:g} s"
        )
        self._counters.failed(str(Code.OVERLOADED))
        details = {"retry_in_s": retry_in_s}
        refusal = CallError(Code.OVERLOADED, text, server=self._server, tool=tool, details=details)
        refusal.rule = RULE
        return refusal

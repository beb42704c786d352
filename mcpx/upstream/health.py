"""Is the server still there? The probe that tells a hung server from a busy one.

Runs beside the calls of one incarnation and ends it (by raising) when the server does not answer. Death is
not its business, that is pushed; it is for servers that live and are silent. What it promises:

* An idle session is asked every `interval`; after a miss it is asked again at once, and `failure_threshold`
  misses of `timeout` each end the incarnation: `interval + failure_threshold * timeout` at the most.
* A server that answered a call is asked an `interval` after that answer, so the promise holds for it too. One
  that is busy with a call inside its deadline is never judged: many servers cannot answer while a tool runs.
  What is no excuse: a call that it has not read, and any call while the kernel has stopped it.
* A call past its deadline makes it ask at once, and then one miss is enough: that is a hang.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from mcpx.config import HealthCheck
from mcpx.upstream.errors import ConnectionLost, Unwell
from supervisors import Signal

Ask = Callable[[], Awaitable[object]]
"""Sends the server something that it must answer. Any answer will do, an error too."""


class Activity(Protocol):
    """What the calls tell of themselves."""

    overdue: Signal
    """Set when a call has passed its deadline."""
    answered_at: float
    """When the server last answered a call, by the loop's clock."""

    @property
    def busy(self) -> bool:
        """Whether the server may be at work on a call that is inside its deadline."""
        ...


class Health:
    """Watches one session. `kill`, given the reason, ends a server that would not notice being asked to."""

    def __init__(
        self, settings: HealthCheck, activity: Activity, ask: Ask, kill: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._activity = activity
        self._ask = ask
        self._kill = kill
        self._unwell: str | None = None  # what the server said in place of an answer to the last probe

    async def watch(self) -> None:
        """Ask for as long as the session lives.

        Raises:
            ConnectionLost: The server hangs.
        """
        while self._settings.enabled:
            overdue = await self._pause()
            if self._is_excused() and not overdue:
                continue
            misses = 0
            while not await self._answers():
                misses += 1
                if self._is_excused() and not overdue:
                    break  # a call came meanwhile, and the server is busy with it
                if overdue or misses >= self._settings.failure_threshold:
                    reason = self._explain(misses, overdue=overdue)
                    self._kill(reason)
                    raise ConnectionLost(reason)

    async def _pause(self) -> bool:
        """Wait for the next time to look; true if a call has passed its deadline."""
        overdue = self._activity.overdue
        with anyio.move_on_at(self._next_look()):
            await overdue.wait()
        is_overdue = overdue.is_set()
        overdue.clear()
        return is_overdue

    def _next_look(self) -> float:
        """An interval after the last answer, or from now if that is over (it is busy, or was asked)."""
        now = anyio.current_time()
        due = self._activity.answered_at + self._settings.interval
        return due if due > now else now + self._settings.interval

    def _is_excused(self) -> bool:
        if self._activity.busy:
            return True
        return anyio.current_time() < self._activity.answered_at + self._settings.interval

    async def _answers(self) -> bool:
        self._unwell = None
        with anyio.move_on_after(self._settings.timeout):
            try:
                await self._ask()
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:
                    await anyio.sleep_forever()  # it is lost already, and that is told elsewhere
            except Unwell as error:
                self._unwell = str(error)
                await anyio.sleep_forever()  # a miss, and it has its time to get well
            return True
        return False

    def _explain(self, misses: int, *, overdue: bool) -> str:
        if self._unwell is not None:
            return f"the server does not answer its probe: {self._unwell}"
        asked = f"it did not answer {misses} probe{'s' if misses > 1 else ''} of {self._settings.timeout:g} s"
        return f"the server hangs: {asked}" + (" after a call had passed its deadline" if overdue else "")

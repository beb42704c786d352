"""Logging what waits for approval: each change once in the life of a process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from mcpx.core.policy.pin_changes import Change

log = structlog.get_logger()
MAX_LOGGED: Final = 16  # changes that are logged one by one, of those that come together
MAX_REMEMBERED: Final = 50_000  # that were logged, and are not logged again
_EVENTS: Final = {
    "changed": "pin.changed",
    "new": "pin.new_tool",
    "server": "pin.server_changed",
    "pins": "pin.not_believed",
}


class ChangeLog:
    """Logs the changes of one server. `command` gives the command that approves a tool, or the server."""

    def __init__(self, server: str, command: Callable[..., str]) -> None:
        self._log = log.bind(server=server)
        self._command = command
        self._logged: set[tuple[str | None, str]] = set()

    def record(self, changes: Sequence[Change]) -> None:
        """Log those that were not logged before."""
        fresh = [each for each in changes if _mark(each) not in self._logged]
        for change in fresh[:MAX_LOGGED]:
            tool = {"tool": change.tool} if change.tool else {}
            self._log.warning(
                _EVENTS[change.kind],
                **tool,
                difference=list(change.difference),
                blocked=change.blocked,
                approve=self._command(*tool.values()),
            )
        if len(fresh) > MAX_LOGGED:
            self._log.warning("pin.more", more=len(fresh) - MAX_LOGGED, approve=self._command())
        if len(self._logged) > MAX_REMEMBERED:
            self._logged.clear()
        self._logged.update(map(_mark, fresh))


def _mark(change: Change) -> tuple[str | None, str]:
    return change.tool, change.digest or "\n".join(change.difference)

"""What the steps of the demonstration work with: a hub over the bundled servers, and its log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import msgspec
import structlog
from structlog.testing import LogCapture

from mcpx.core.config import Config, parse
from mcpx.core.daemon.hub import Hub
from mcpx.core.telemetry.log import configure
from supervisors import Signal

SERVERS: Final = ("tools", "knowledge", "changing")

Record = MutableMapping[str, Any]
"""A log record: its fields, `event`, `at` (a reading of the monotonic clock) and `log_level`."""


def demo_config() -> Config:
    """The bundled servers, run by this very Python; all settings are the defaults.

    `-P` keeps modules in the current folder from standing in for the libraries of the servers.
    """
    servers = {
        name: {"command": sys.executable, "args": ["-P", "-m", f"mcpx.demo.{name}"]} for name in SERVERS
    }
    return parse(msgspec.json.encode({"mcpServers": servers}), where="the demonstration's configuration")


class Context:
    """The running hub, and what was logged since `capture_log`."""

    hub: Hub

    def __init__(self) -> None:
        self._log = LogCapture()

    def capture_log(self) -> None:
        """Keep MCPX's log in memory. Errors of other libraries go to standard error."""
        configure("error")
        structlog.configure(
            processors=[lambda _logger, _level, event: {**event, "at": time.monotonic()}, self._log],
            wrapper_class=structlog.make_filtering_bound_logger("info"),
            cache_logger_on_first_use=False,
        )

    def records(self, event: str) -> list[Record]:
        """The records of one event, the oldest first."""
        return [record for record in self._log.entries if record["event"] == event]

    def last_warnings(self, most: int) -> tuple[str, ...]:
        """The last warnings and errors."""
        found = [record for record in self._log.entries if record["log_level"] in {"warning", "error"}]
        return tuple(map(shown, found[-most:]))

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a change of some catalogue that makes `is_so` true."""
        changed = Signal()
        unobserve = self.hub.observe(lambda _server, _diff: changed.pulse())
        try:
            while not is_so():
                await changed.wait()
        finally:
            unobserve()


def shown(record: Record) -> str:
    """A record on one line."""
    fields = (f"{key}={value!r}" for key, value in record.items() if key not in {"event", "at", "log_level"})
    return " ".join([record["event"], *fields])

"""What the scenes play on: a hub over the bundled servers, and its log, kept with the time of each record.

Owns the configuration of the demonstration and the way tokens are counted in it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final, NoReturn

import anyio
import msgspec
import structlog

from mcpx.catalog.diff import Diff
from mcpx.config import Config, parse
from mcpx.core.hub import Hub
from mcpx.observe.log import configure
from mcpx.rendering.tokens import estimate

SERVERS: Final = ("tools", "knowledge", "changing")
_JSON_OVERCHARGE: Final = 1.33
"""`estimate` is made for listings, and charges compact JSON a third more than o200k_base and cl100k_base
do. Here JSON stands on the side that MCPX is compared with, so the third is taken off."""


def demo_config() -> Config:
    """The three bundled servers, run by this very Python; all settings are the defaults.

    `-P` keeps modules in the current folder from standing in for the libraries of the servers.
    """
    servers = {
        name: {"command": sys.executable, "args": ["-P", "-m", f"mcpx.demo.{name}"]} for name in SERVERS
    }
    return parse(msgspec.json.encode({"mcpServers": servers}), where="the demonstration's configuration")


def as_json(value: Any) -> str:
    """Compact JSON."""
    return msgspec.json.encode(value).decode()


def json_tokens(value: Any) -> int:
    """About how many tokens `value` takes as compact JSON."""
    return round(estimate(as_json(value)) / _JSON_OVERCHARGE)


class Record(msgspec.Struct, frozen=True):
    """One record of the log. `at` is a reading of the monotonic clock."""

    at: float
    level: str
    event: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{key}={value!r}" for key, value in self.fields.items())])


class Journal:
    """Takes the log in, in place of standard error."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def install(self) -> None:
        """From now on MCPX logs into here. Complaints of other libraries go to standard error."""
        configure("error")
        structlog.configure(
            processors=[structlog.processors.add_log_level, self._keep],
            wrapper_class=structlog.make_filtering_bound_logger("info"),
            cache_logger_on_first_use=False,
        )

    def _keep(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> NoReturn:
        fields = dict(event)
        self.records.append(Record(time.monotonic(), fields.pop("level"), fields.pop("event"), fields))
        raise structlog.DropEvent

    def of(self, event: str, *, server: str | None = None, since: float = 0.0) -> list[Record]:
        """The records of one event, the oldest first."""
        found = (record for record in self.records if record.event == event and record.at >= since)
        return [record for record in found if server is None or record.fields.get("server") == server]

    def complaints(self, most: int) -> tuple[str, ...]:
        """The last warnings and errors."""
        return tuple(str(record) for record in self.records if record.level in {"warning", "error"})[-most:]


class Stage(msgspec.Struct, frozen=True):
    """The running hub and its log."""

    hub: Hub
    journal: Journal

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a change of some catalogue that makes `is_so` true."""
        news = anyio.Event()

        def note(_server: str, _changed: Diff) -> None:
            news.set()

        unobserve = self.hub.observe(note)
        try:
            while not is_so():
                await news.wait()
                news = anyio.Event()
        finally:
            unobserve()

"""The log of what a server sends that is no message: the first few lines, for it may send a lot of them."""

from __future__ import annotations

from typing import Final

import structlog

from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.telemetry.metrics import Counters

log = structlog.get_logger()
MAX_LOGGED: Final = 3  # lines of one session


class MalformedLog:
    """Logs and counts the malformed lines of one server's session."""

    def __init__(self, config: ServerConfig, counters: Counters) -> None:
        self._server = config.name
        self._redact = redactor_of(config)
        self._counters = counters
        self._lines = 0

    def record(self, line: bytes, problem: str) -> None:
        """Note a line, of which this is the beginning."""
        self._counters.malformed += 1
        self._lines += 1
        if self._lines <= MAX_LOGGED:
            shown = self._redact(line.decode(errors="replace"))
            log.warning("upstream.rubbish", server=self._server, problem=problem, line=shown)

"""What a server of the older revisions is told of the clients as a whole: their log level, changed roots.

Serves one session. The level is the most verbose that any client wants, and before a call at least the
call's own; from 2026-07-28 on the level travels in each request, and there is nothing to tell.
"""

from __future__ import annotations

from typing import Final

import anyio
import msgspec
import structlog
from mcp import MCPError
from mcp_types import METHOD_NOT_FOUND

from mcpx.upstream.context import most_verbose
from mcpx.upstream.relay.clients import Audience
from mcpx.upstream.session.sdk_session import PassingSession
from mcpx.wire.dispatcher import WireDispatcher

log = structlog.get_logger()
SET_LEVEL: Final = "logging/setLevel"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
LEVEL_S: Final = 5.0  # nothing waits longer for a server to take its log level


class Telling:
    """Keeps one session told. `wire` is its stream, where it is one."""

    def __init__(self, client: PassingSession, wire: WireDispatcher | None, audience: Audience) -> None:
        can = client.server_capabilities
        self._handshake = client.discover_result is None
        self._client = client
        self._wire = wire
        self._audience = audience
        self.has_level = self._handshake and can is not None and can.logging is not None
        """Whether the server takes a log level for its whole session."""
        self._level: str | None = None
        self._roots = audience.roots_version

    async def follow(self) -> None:
        """Pass on what changes, for as long as the session lives."""
        while True:
            change = self._audience.next_change()
            if self._handshake and self._roots != self._audience.roots_version:
                self._roots = self._audience.roots_version
                await self._client.notify_raw(ROOTS_CHANGED)
            await self._set_level(self._audience.level)
            await change.wait()

    async def _set_level(self, level: str | None) -> None:
        """Tell the server the level, unless it has it. Nobody's wish leaves it as it is."""
        if not self.has_level or level is None or level == self._level:
            return
        self._level = level
        with anyio.move_on_after(LEVEL_S):
            try:
                await self._client.ask_raw(SET_LEVEL, {"level": level})
            except MCPError as error:
                self.has_level = error.code != METHOD_NOT_FOUND
                log.debug("upstream.level_refused", level=level, reason=error.message)

    def raise_at_once(self, level: str | None) -> None:
        """Before a call on a stream: have the level up when the call comes."""
        if self._wire is not None and self._must_rise(level):
            self._level = level
            outgoing = self._wire.outgoing
            params = msgspec.json.encode({"level": level})
            outgoing.call(outgoing.new_id(), SET_LEVEL, params, lambda _result, _error: None, None)

    async def raise_first(self, level: str | None) -> None:
        """The same over HTTP."""
        if self._must_rise(level):
            await self._set_level(level)

    def _must_rise(self, level: str | None) -> bool:
        if level is None or level == self._level or not self.has_level:
            return False
        return most_verbose([level, self._level]) == level

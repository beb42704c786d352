"""Keeps a server of the older revisions up to date on its clients as a whole: log level and changed roots.

Serves one session. The level is the most verbose that any client wants that sees the server, and before a
call at least the call's own; from 2026-07-28 on the level travels in each request, and there is nothing to
synchronise.
"""

from __future__ import annotations

from typing import Final

import anyio
import msgspec
import structlog
from mcp import MCPError
from mcp_types import METHOD_NOT_FOUND

from mcpx.core.protocol.context import most_verbose
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.session.sdk_session import PassingSession
from mcpx.core.wire.dispatcher import WireDispatcher

log = structlog.get_logger()
SET_LEVEL: Final = "logging/setLevel"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
SET_LEVEL_TIMEOUT_S: Final = 5.0


class LogLevelSync:
    """Synchronises one session. `wire` is its dispatcher, if it runs on a stream."""

    def __init__(
        self, server: str, client: PassingSession, wire: WireDispatcher | None, clients: ConnectedClients
    ) -> None:
        can = client.server_capabilities
        self._handshake = client.discover_result is None
        self._server = server
        self._client = client
        self._wire = wire
        self._clients = clients
        self.has_level = self._handshake and can is not None and can.logging is not None
        """Whether the server accepts a log level for its whole session."""
        self._level: str | None = None
        self._roots = clients.roots_version

    async def follow(self) -> None:
        """Send changes to the server, for as long as the session lives."""
        clients, server = self._clients, self._server
        while True:
            roots, level = clients.roots_version, clients.level_of(server)
            if self._handshake and self._roots != roots:
                self._roots = roots
                await self._client.notify_raw(ROOTS_CHANGED)
            await self._set_level(level)
            while (roots, level) == (clients.roots_version, clients.level_of(server)):
                await clients.changes.wait()

    async def _set_level(self, level: str | None) -> None:
        """Send the level to the server, unless it has it already. None changes nothing."""
        if not self.has_level or level is None or level == self._level:
            return
        self._level = level
        with anyio.move_on_after(SET_LEVEL_TIMEOUT_S):
            try:
                await self._client.ask_raw(SET_LEVEL, {"level": level})
            except MCPError as error:
                self.has_level = error.code != METHOD_NOT_FOUND
                log.debug("upstream.level_refused", level=level, reason=error.message)

    def raise_level_nowait(self, level: str | None) -> None:
        """Raise the level before a call on a stream, without waiting: the server reads it first."""
        if self._wire is not None and self._is_below(level):
            self._level = level
            outgoing = self._wire.outgoing
            params = msgspec.json.encode({"level": level})
            outgoing.call(outgoing.new_id(), SET_LEVEL, [params], lambda _result, _error: None, None)

    async def raise_level(self, level: str | None) -> None:
        """Raise the level before a call over HTTP, and wait until the server has it."""
        if self._is_below(level):
            await self._set_level(level)

    def _is_below(self, level: str | None) -> bool:
        if level is None or level == self._level or not self.has_level:
            return False
        return most_verbose([level, self._level]) == level

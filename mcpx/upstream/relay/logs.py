"""Log messages of a server on their way to clients.

A message that is attributed to a client goes to that client only, if it wants its level. One that comes while
no call is in flight goes to every client that has set a level. While calls of several clients are in flight
on one session it goes to none of them, but into the server's own log file. `logger` is prefixed with the
server's name.
"""

from __future__ import annotations

import msgspec
import structlog

from mcpx.observe.server_log import ServerLog
from mcpx.upstream.context import JSON, LEVELS, wants
from mcpx.upstream.relay.attribution import Attributed, Attribution
from mcpx.upstream.relay.clients import ConnectedClients
from mcpx.upstream.requests import Request

log = structlog.get_logger()


class LogRelay:
    """Passes on the log messages of one session."""

    def __init__(
        self,
        server: str,
        attribution: Attribution,
        clients: ConnectedClients,
        log_file: ServerLog,
        *,
        client: object | None = None,
    ) -> None:
        self._server = server
        self._client = client  # whose own session it is
        self._attribution = attribution
        self._clients = clients
        self._log_file = log_file
        self._announced = False

    def forward(self, params: JSON, named: Request | None, *, on_request: bool) -> None:
        """Pass a message on; the arguments are those of `SessionRelay.handle_notification`."""
        level = params.get("level")
        if level not in LEVELS:
            return
        name = params.get("logger")
        shown = {**params, "logger": f"{self._server}/{name}" if name else self._server}
        found = self._attribution.attribute(named, want_logs=on_request)
        if isinstance(found, Attributed):
            if wants(found.caller.log_level, level):
                found.caller.log(shown)
        elif not found.idle:
            self._write(shown, found.reason)
        elif not on_request:
            self._clients.broadcast_log(shown, self._client)

    def _write(self, params: JSON, reason: str) -> None:
        if not self._announced:
            self._announced = True
            log.info("upstream.log_kept", server=self._server, reason=reason, kept="in the server's log file")
        self._log_file.write(msgspec.json.encode(params))

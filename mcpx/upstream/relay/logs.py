"""Log messages of a server on their way to clients.

A message that can be tied to the calls of one client goes to that client only, if it wants its level. One
that comes while nothing is in flight belongs to nobody in particular and goes to every client that has set a
level. While calls of several clients are in flight on one session it may be any one's: it goes to none of
them, but into the server's own log file. `logger` is prefixed with the server's name.
"""

from __future__ import annotations

import msgspec
import structlog

from mcpx.observe.server_log import ServerLog
from mcpx.upstream.context import JSON, LEVELS, wants
from mcpx.upstream.relay.attribution import Unknown, whose
from mcpx.upstream.relay.clients import Audience
from mcpx.upstream.relay.server_requests import Asking
from mcpx.upstream.requests import Request

log = structlog.get_logger()


class LogRelay:
    """Passes the messages of one session on."""

    def __init__(
        self,
        server: str,
        asking: Asking,
        audience: Audience,
        kept: ServerLog,
        *,
        client: object | None = None,
    ) -> None:
        self.modern = False
        """Whether the server sends only what a request asked for."""
        self._server = server
        self._client = client  # the session is its own
        self._asking = asking
        self._audience = audience
        self._kept = kept
        self._told = False

    def take(self, params: JSON, named: Request | None) -> None:
        """A message has come; `named` is the request on whose stream it came, if that is known."""
        level = params.get("level")
        if level not in LEVELS:
            return
        name = params.get("logger")
        shown = {**params, "logger": f"{self._server}/{name}" if name else self._server}
        running = self._asking.work.running()
        if self.modern:
            running = [call for call in running if call.caller is not None and call.caller.log_level]
        found = whose(running, named, server=self._server)
        if not isinstance(found, Unknown):
            if wants(found.caller.log_level, level):
                found.caller.log(shown)
        elif not found.idle:
            self._keep(shown, found.why)
        elif not self.modern:
            self._audience.broadcast(shown, self._client)

    def _keep(self, params: JSON, why: str) -> None:
        if not self._told:
            self._told = True
            log.info("upstream.log_kept", server=self._server, reason=why, kept="in the server's log file")
        self._kept.write(msgspec.json.encode(params))

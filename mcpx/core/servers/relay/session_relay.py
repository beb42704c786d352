"""The relay of one session: messages that its server sends of its own accord, on their way to clients.

A log message that is attributed to a client goes to that client only, if it wants its level. One that comes
while no call is in flight goes to every client that has set a level, except those that came with a token of
a name. While calls of several clients are in
flight on one session it goes to none of them, but into the server's own log file. `logger` is prefixed with
the server's name. Requests go through `ServerRequestRouter`.
"""

from __future__ import annotations

import msgspec
import structlog

from mcpx.core.catalog.model import JSON
from mcpx.core.protocol.context import LEVELS, wants
from mcpx.core.protocol.requests import Request
from mcpx.core.servers.relay.clients import LOG, Attributed, Attribution, CallsInFlight, ConnectedClients
from mcpx.core.servers.relay.server_requests import ELICITATION_COMPLETE, ServerRequestRouter
from mcpx.core.servers.relay.suspended import SuspendedCalls
from mcpx.core.telemetry.log_files import ServerLog

log = structlog.get_logger()


class SessionRelay:
    """The relay of one session, to the clients behind its `calls`.

    `client` is the one whose own session it is, if any.
    """

    def __init__(
        self,
        server: str,
        calls: CallsInFlight,
        clients: ConnectedClients,
        suspended: SuspendedCalls,
        log_file: ServerLog,
        *,
        client: object | None = None,
        from_mcpx: bool = False,
    ) -> None:
        self.clients = clients
        self._server = server
        self._client = client
        self._attribution = Attribution(server, calls)
        self._log_file = log_file
        self._announced = False
        self.requests = ServerRequestRouter(
            server, self._attribution, clients, suspended, client=client, from_mcpx=from_mcpx
        )

    def handle_notification(
        self, method: str, params: JSON, named: Request | None, *, logs_on_request: bool
    ) -> None:
        """Pass on a notification that concerns clients; ignore any other.

        `named` is the request on whose stream it came, if that is known. `logs_on_request` says that the
        server sends log messages only for requests that asked for them (2026-07-28).
        """
        if method == LOG:
            self._forward_log(params, named, on_request=logs_on_request)
        elif method == ELICITATION_COMPLETE:
            self.requests.completed(params)

    def _forward_log(self, params: JSON, named: Request | None, *, on_request: bool) -> None:
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
            self._keep_log(shown, found.reason)
        elif not on_request:
            self.clients.broadcast_log(self._server, shown, self._client)

    def _keep_log(self, params: JSON, reason: str) -> None:
        if not self._announced:
            self._announced = True
            kept = "in the server's log file"
            log.info("upstream.log_kept", server=self._server, reason=reason, kept=kept)
        self._log_file.write(msgspec.json.encode(params))

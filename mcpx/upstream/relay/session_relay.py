"""What a server sends of its own accord on one session, relayed: all that a session knows of the relay."""

from __future__ import annotations

from mcpx.observe.server_log import ServerLog
from mcpx.upstream.context import JSON
from mcpx.upstream.relay.attribution import Attribution, CallsInFlight
from mcpx.upstream.relay.clients import LOG, ConnectedClients
from mcpx.upstream.relay.logs import LogRelay
from mcpx.upstream.relay.server_requests import ELICITATION_COMPLETE, ServerRequestRouter
from mcpx.upstream.relay.suspended import SuspendedCalls
from mcpx.upstream.requests import Request


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
    ) -> None:
        self.clients = clients
        self._attribution = Attribution(server, calls)
        self.requests = ServerRequestRouter(server, self._attribution, clients, suspended, client=client)
        self._logs = LogRelay(server, self._attribution, clients, log_file, client=client)

    def handle_notification(
        self, method: str, params: JSON, named: Request | None, *, logs_on_request: bool
    ) -> None:
        """Pass on a notification that concerns clients; ignore any other.

        `named` is the request on whose stream it came, if that is known. `logs_on_request` says that the
        server sends log messages only for requests that asked for them (2026-07-28).
        """
        if method == LOG:
            self._logs.forward(params, named, on_request=logs_on_request)
        elif method == ELICITATION_COMPLETE:
            self.requests.completed(params)

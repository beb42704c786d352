"""What a server sends of its own accord on one session, relayed: all that a session knows of the relay."""

from __future__ import annotations

from mcpx.observe.server_log import ServerLog
from mcpx.upstream.relay.attribution import Attribution, CallsInFlight
from mcpx.upstream.relay.clients import ConnectedClients
from mcpx.upstream.relay.logs import LogRelay
from mcpx.upstream.relay.server_requests import ServerRequestRouter
from mcpx.upstream.relay.suspended import SuspendedCalls


class SessionRelay:
    """The relay of one session.

    `client` is the one whose own session it is, if any.
    """

    def __init__(
        self,
        server: str,
        clients: ConnectedClients,
        suspended: SuspendedCalls,
        log_file: ServerLog,
        *,
        client: object | None = None,
    ) -> None:
        self.clients = clients
        self._attribution = Attribution(server)
        self.requests = ServerRequestRouter(server, self._attribution, clients, suspended, client=client)
        self.logs = LogRelay(server, self._attribution, clients, log_file, client=client)

    def attach(self, calls: CallsInFlight) -> None:
        """Relay to the clients behind these calls from now on; during the handshake there are none."""
        self._attribution.attach(calls)

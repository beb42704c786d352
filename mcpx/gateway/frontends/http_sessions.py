"""The sessions of one door over HTTP: the SDK's, with events that are kept for clients that come again."""

from __future__ import annotations

from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from mcpx.gateway.frontends.http_events import RETRY_MS, KeptEvents, SessionEvents


class SessionManager(StreamableHTTPSessionManager):
    """Serves any number of sessions; what they keep counts in `kept`, with that of other managers."""

    def __init__(
        self, server: Server, *, security: TransportSecuritySettings, limit: int, kept: KeptEvents
    ) -> None:
        """`limit` is the most bytes of a request's body."""
        super().__init__(
            server, security_settings=security, max_request_body_size=limit, retry_interval=RETRY_MS
        )
        self._kept = kept
        self._events: dict[str, SessionEvents] = {}

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Open a session, which gets a store of its own: the SDK's would be one for all."""
        transport = super()._admit_session(requestor)
        if transport is not None and transport.mcp_session_id is not None:
            store = SessionEvents(self._kept, transport.close_sse_stream)
            transport._event_store = self._events[transport.mcp_session_id] = store  # noqa: SLF001 - no other way
        return transport

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        """End a session, and what it keeps."""
        if (store := self._events.pop(session_id, None)) is not None:
            store.close()
        await super()._discard_session(session_id, transport)

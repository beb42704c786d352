"""Sessions with one server that belong to one client each (`sessions: per_client`).

The server's own session, which belongs to no client, gives the catalogue that all clients see. A client's own
is opened at its first call, is supervised like any other, and ends when the client leaves. Owned by the
server's `Upstream`; opened and ended by the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from mcpx.core.config import Era
from mcpx.core.protocol.context import ClientId
from mcpx.errors import CallError, Code

S = TypeVar("S")
"""A session with the server, as the fleet makes it."""


class PerClientSessions(Generic[S]):
    """The sessions by client. `open_session` makes one in the client's era, and has it supervised."""

    def __init__(self, server: str, open_session: Callable[[ClientId, Era | None], S]) -> None:
        self._server = server
        self._open = open_session
        self._sessions: dict[ClientId, S] = {}

    def get_or_open(self, client: ClientId, era: Era | None = None) -> S:
        """The client's own session, opened now if it has none: in the client's era, if the server speaks it.

        Raises:
            CallError: `server_unavailable`; the client has left, or has no session with MCPX.
        """
        own = self._sessions.get(client)
        if own is None:
            self._require_session(client)
            own = self._sessions[client] = self._open(client, era)
        return own

    def _require_session(self, client: ClientId) -> None:
        cause = None if client.connected else "the client has left"
        if client.sessionless:
            cause = (
                "it gives each client a session of its own, and this request belongs to none; connect over"
                " stdio, or with a protocol revision that has sessions over HTTP (before 2026-07-28)"
            )
        if cause is not None:
            text = f"{self._server} is not available ({cause}); nothing was sent"
            raise CallError(Code.SERVER_UNAVAILABLE, text, server=self._server, details={"cause": cause})

    def remove(self, client: ClientId) -> S | None:
        """Remove and return the session of a client that leaves; None if it has none. The caller ends it."""
        return self._sessions.pop(client, None)

    def __iter__(self) -> Iterator[S]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

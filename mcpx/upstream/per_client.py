"""Sessions of one server that belong to one client each (`sessions: per_client`).

The server's own session, which belongs to nobody, gives the catalogue that all see. A client's own is opened
at its first call, is supervised like any other, and ends when the client leaves. A client that calls nothing
costs nothing. Owned by the server's `Upstream`; opened and ended by the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from mcpx.errors import CallError, Code
from mcpx.upstream.context import STATELESS, Client

S = TypeVar("S")
"""A session with the server, as the fleet makes it."""


class PrivateSessions(Generic[S]):
    """By client. `open_for` makes one, and has it supervised."""

    def __init__(self, server: str, open_for: Callable[[Client], S]) -> None:
        self._server = server
        self._open_for = open_for
        self._of: dict[Client, S] = {}

    def of(self, client: Client) -> S:
        """The client's own session, opened now if it has none.

        Raises:
            CallError: `server_unavailable`; the client has left, or cannot be told from others.
        """
        own = self._of.get(client)
        if own is None:
            self._check(client)
            own = self._of[client] = self._open_for(client)
        return own

    def _check(self, client: Client) -> None:
        why = None if client.here else "the client has left"
        if client is STATELESS:
            why = (
                "it gives each client a session of its own, and this request belongs to none; connect over"
                " stdio, or with a protocol revision that has sessions over HTTP (before 2026-07-28)"
            )
        if why is not None:
            text = f"{self._server} is not available ({why}); nothing was sent"
            raise CallError(Code.SERVER_UNAVAILABLE, text, server=self._server, details={"cause": why})

    def leave(self, client: Client) -> S | None:
        """The session of a client that leaves, which is to be ended; None if it has none."""
        return self._of.pop(client, None)

    def __iter__(self) -> Iterator[S]:
        return iter(list(self._of.values()))

    def __len__(self) -> int:
        return len(self._of)

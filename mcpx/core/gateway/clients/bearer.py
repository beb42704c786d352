"""The clients of one token with a name, over HTTP: what is theirs, and how a request finds it.

The frontend puts a `Bearer` into the scope of each request that was let in with such a token. From there it
gets onto the connection of the SDK that the request comes over, for all that serves it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from mcp.server.connection import Connection

from mcpx.core.protocol.context import ClientId
from mcpx.core.servers.passthrough.client import DirectClient

if TYPE_CHECKING:
    from mcpx.core.policy.tokens import NamedToken

_KEY: Final = "mcpx.bearer"


class Bearer:
    """The HTTP clients that use one token with a name, taken together, and what is theirs.

    No other token's clients get at that. Clients of the default token have no bearer.
    """

    def __init__(self, token: NamedToken) -> None:
        self.token = token
        self.principal = f"{token.sha256}\0"
        """What tells it from all others, also from a later token of its name (`ClientId.principal`)."""
        self.sessionless = ClientId(sessionless=True, principal=self.principal)
        """Stands for its requests without a session (2026-07-28)."""
        self.direct = DirectClient(None)
        """Stands for the same at transparent endpoints."""
        self.open_requests: set[anyio.CancelScope] = set()


def put_bearer(scope: MutableMapping[str, Any], bearer: Bearer) -> None:
    """Note the bearer of a request in its ASGI scope."""
    scope[_KEY] = bearer


def bearer_in(scope: MutableMapping[str, Any]) -> Bearer | None:
    """The bearer of a request by its ASGI scope."""
    return cast("Bearer | None", scope.get(_KEY))


def bind_bearer(connection: Connection, request: Any) -> None:
    """Note on a connection the bearer of an HTTP request that came over it; `request` is None on a stream."""
    if request is not None and (bearer := bearer_in(request.scope)) is not None:
        connection.state[_KEY] = bearer


def bearer_of(connection: Connection) -> Bearer | None:
    """The bearer that is bound to a connection."""
    return cast("Bearer | None", connection.state.get(_KEY))

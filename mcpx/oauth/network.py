"""The requests of a sign-in, within bounds: where they may go, how long they take, how much is read.

Every URL comes from a server that may lie. It must be https, or http on loopback for a server on loopback;
a server with a public address cannot lead to addresses of private networks, which is checked at the
connected socket. Redirects are followed within their origin only, bodies end at `MAX_BODY_BYTES`, requests
after `REQUEST_TIMEOUT_S`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2

from mcpx.config import ServerConfig

REQUEST_TIMEOUT_S: Final = 10.0  # of one request with its answer
MAX_BODY_BYTES: Final = 262_144  # of one answer; metadata has a few thousand
MAX_REDIRECTS: Final = 5  # of one request


class OAuthNetwork:
    """The connections of one sign-in, refresh or revocation."""

    def __init__(self, server: ServerConfig) -> None:
        self.server = server

    async def send(self, request: httpx2.Request, *, follow_redirects: bool = True) -> httpx2.Response:
        """Send a request, and read the answer whole. One of any status is returned.

        Raises:
            SignInError: `INSECURE` for a URL or an address that is not allowed, `UNREACHABLE` without an
                answer, `METADATA_REFUSED` for one that is too large.
        """
        raise NotImplementedError

    def check_url(self, url: str, what: str) -> None:
        """Refuse a URL that no request of a sign-in may go to, and no browser; `what` names it in the error.

        Raises:
            SignInError: `INSECURE`.
        """
        raise NotImplementedError


@asynccontextmanager
async def open_network(server: ServerConfig) -> AsyncIterator[OAuthNetwork]:
    """Open connections for one sign-in to a server over HTTP."""
    yield OAuthNetwork(server)

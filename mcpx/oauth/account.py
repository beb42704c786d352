"""The account of one server: its tokens, on its requests.

All sessions with the server share it. `authorize` and `refused` are called by the transport for each request;
nothing else of a call's way knows of OAuth. A refresh is one flight, however many requests wait for it, and
nobody here ever waits for a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.oauth.record import Identity

if TYPE_CHECKING:
    import httpx2

    from mcpx.config import ServerConfig


class Account:
    """The sign-in of one server, for as long as its entry says the same of it."""

    def __init__(self, server: ServerConfig, identity: Identity) -> None:
        self.server = server
        self.identity = identity

    @property
    def is_usable(self) -> bool:
        """Whether a request may succeed: nobody has to sign in first, as far as is known."""
        return True

    async def authorize(self, request: httpx2.Request) -> None:
        """Put the access token on a request, if there is one; one that has expired is refreshed first.

        Raises:
            SignInRequired: A person has to sign in first.
            NoTokenNow: It has expired, and cannot be refreshed at the moment.
        """

    async def refused(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Take in a 401 or 403, to a request that `authorize` has seen; whether to send it once more.

        The response need not be read for that, and is closed by the caller.

        Raises:
            SignInRequired: A person has to sign in first.
            MoreScopesRequired: A person has to agree to more.
            NoTokenNow: The token was refused, and cannot be refreshed at the moment.
        """
        return not request.url and not response.is_error

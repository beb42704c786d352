"""The account of one server: its tokens, on its requests.

All sessions with the server share it. `authorize` and `refused` are called by the transport for each request;
nothing else of a call's way knows of OAuth. A refresh is one flight, however many requests wait for it, and
nobody here ever waits for a person.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from mcpx.oauth.record import Identity, Record
from mcpx.oauth.store import TokenStore

if TYPE_CHECKING:
    import httpx2

    from mcpx.config import ServerConfig
    from mcpx.oauth.challenge import Challenge


class AccountState(StrEnum):
    """What is known of a sign-in."""

    UNKNOWN = "unknown"
    """There are no tokens, and the server has not asked for any yet."""
    SIGNED_IN = "signed in"
    NEEDS_SIGN_IN = "needs sign-in"
    """The server wants tokens, and a person has to sign in for them."""


class Account:
    """The sign-in of one server, for as long as its entry says the same of it.

    `on_change` is called when it was signed in or out, or needs a sign-in, in the turn of that; it must not
    raise.
    """

    def __init__(
        self,
        server: ServerConfig,
        identity: Identity,
        store: TokenStore,
        *,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.server = server
        self.identity = identity
        self.state = AccountState.UNKNOWN
        self.record: Record | None = None
        """What is stored of it, as far as it was loaded."""
        self.challenge: Challenge | None = None
        """What the server has asked for and is not granted: by a 401, or by a 403 for want of a scope."""
        self.problem: str | None = None
        """Why there is no token, or why the last refresh failed: a sentence without secrets."""
        self._store = store
        self._on_change = on_change

    @property
    def is_usable(self) -> bool:
        """Whether a request may succeed: nobody has to sign in first, as far as is known."""
        return self.state is not AccountState.NEEDS_SIGN_IN

    @property
    def is_of_person(self) -> bool:
        """Whether a person signs in, and not the client by itself."""
        raise NotImplementedError

    @property
    def expires_at(self) -> float | None:
        """When the access token expires, in seconds since 1970; None if there is none, or if it does not."""
        raise NotImplementedError

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that were granted, as far as the authorization server said."""
        raise NotImplementedError

    @property
    def login_command(self) -> str:
        """What signs in: `mcpx login NAME`, with the configuration where that is not the usual one."""
        raise NotImplementedError

    # --- for those who sign in and out

    async def load(self) -> None:
        """Take in what is stored, once. Never raises: a store that cannot be read is the `problem`."""

    async def reload(self) -> None:
        """Take in what is stored now, and try again what was refused: for a restart. Never raises."""

    async def adopt(self, record: Record) -> None:
        """Have the result of a sign-in stored, and then put it in force.

        Raises:
            SignInError: It cannot be stored (`NOT_STORED`); nothing has changed.
        """

    async def keep(self, record: Record) -> None:
        """Store what a sign-in that goes on has come to, a registration; tokens in force stay.

        Raises:
            SignInError: It cannot be stored (`NOT_STORED`).
        """

    async def forget(self) -> Record | None:
        """Sign out here: remove what is stored. Returns it, to be revoked.

        Raises:
            SignInError: It cannot be removed (`NOT_STORED`); nothing has changed.
        """
        return None

    # --- for the transport

    async def authorize(self, request: httpx2.Request) -> None:
        """Put the access token on a request, if there is one; one that has expired is refreshed first.

        Raises:
            SignInRequired: A person has to sign in first.
            NoTokenNow: It has expired, and cannot be refreshed at the moment.
            ClientRefused: The authorization server does not give MCPX a token.
        """

    async def refused(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Take in a 401 or 403, to a request that `authorize` has seen; whether to send it once more.

        The response need not be read for that, and is closed by the caller. A request that was sent once more
        is refused for good.

        Raises:
            SignInRequired: A person has to sign in first.
            MoreScopesRequired: A person has to agree to more.
            NoTokenNow: The token was refused, and cannot be refreshed at the moment.
            ClientRefused: The authorization server does not give MCPX a token.
        """
        return not request.url and not response.is_error

"""The port to sign-ins: the account that MCPX has at a server, as sessions, the fleet and the status need it.

`mcpx.oauth.accounts` is behind it; with `NoAccounts` MCPX signs in nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.server_config import TokenStoreKind
from supervisors import Incarnation


class Asked(Protocol):
    """A request over HTTP: its URL, its headers by their names in lower case, and marks of who saw it."""

    url: Any
    headers: Any
    extensions: dict[str, Any]


class Responded(Protocol):
    """The head of its response."""

    status_code: int
    headers: Any


class Authorizer(Protocol):
    """Puts tokens on requests."""

    def authorize_nowait(self, request: Asked) -> bool:
        """Put a token on a request that is about to be sent, unless that takes time; True if it was done."""

    async def authorize(self, request: Asked) -> None:
        """Put a token on a request that is about to be sent.

        Raises:
            NotAuthorized: There is none, and without one it would be in vain.
        """

    async def refused(self, request: Asked, response: Responded) -> bool:
        """Take in a 401 or 403; return True, once, if the request is to be authorized and sent again.

        Raises:
            NotAuthorized: It would be in vain.
        """


class Account(Authorizer, Protocol):
    """The account at one server, shared by all sessions with it. Nothing here waits for a person."""

    @property
    def is_usable(self) -> bool:
        """True if a request may succeed: nobody has to sign in first, as far as is known."""

    @property
    def needs_person(self) -> bool:
        """True if a person has to sign in, or to agree to more scopes."""

    @property
    def is_of_person(self) -> bool:
        """True if a person signs in, and not MCPX as a client of its own."""

    @property
    def is_known(self) -> bool:
        """True once a sign-in is stored, or the server has asked for one."""

    @property
    def login_command(self) -> str:
        """The command by which a person signs in."""

    @property
    def account_name(self) -> str | None:
        """The name of the account, as far as the authorization server tells it."""

    @property
    def expires_at(self) -> float | None:
        """Expiry of the access token, in seconds since 1970; None for none."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that were granted, as far as they are known."""

    @property
    def asked_scopes(self) -> Sequence[str]:
        """The scopes that the server has asked for."""

    @property
    def problem(self) -> str | None:
        """The reason why there is no token, or why the last renewal failed: a sentence without secrets."""

    async def attend(self) -> None:
        """Take in what another process has stored, and renew the tokens if that is due. Never raises."""

    async def reload(self) -> None:
        """Take in what is stored now, and try again what was refused: for a restart. Never raises."""


class Accounts(Protocol):
    """The accounts of a hub's servers. The bodies are for where there are none: `NoAccounts`."""

    def of(self, server: ServerConfig, /) -> Account | None:
        """Return the account of a server; None for one that MCPX does not sign in to."""
        return None

    def configure(self, config: Config, /) -> None:
        """Take in another configuration, before its servers are looked up."""
        return

    async def run(self, incarnation: Incarnation, /) -> None:
        """Keep the tokens fresh: a child's `run`."""
        incarnation.ready()
        await incarnation.stopping.wait()


class NoAccounts(Accounts):
    """MCPX signs in nowhere."""


class OpenAccounts(Protocol):
    """Opens the accounts that are kept in the folder `state`, or in the usual one.

    `on_change` is called with the name of an entry when its account was signed in or out, needs a sign-in, or
    has tokens again, in the turn of that; it must not raise.
    """

    def __call__(
        self, state: Path | None, *, kind: TokenStoreKind, on_change: Callable[[str], None]
    ) -> Accounts: ...


def no_accounts(state: Path | None, *, kind: TokenStoreKind, on_change: Callable[[str], None]) -> Accounts:
    """Open no account anywhere."""
    return NoAccounts()

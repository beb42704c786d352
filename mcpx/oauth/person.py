"""What the sign-in of a person takes from a server's entry, and what is said of it to the command line."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from mcpx.core.config import Config, Http, ServerConfig, Sse
from mcpx.errors import MCPXError
from mcpx.oauth.account import Account
from mcpx.oauth.callback import ports_from
from mcpx.oauth.errors import Problem, SignInError

ACCEPTED: Final = "application/json, text/event-stream"


def account_at(server: ServerConfig, account: Account | None) -> Account:
    """The account of a server, if it has one.

    Raises:
        MCPXError: The server is disabled.
        SignInError: `NOT_FOR_PEOPLE`: MCPX does not sign in there.
    """
    if server.disabled is not None:
        raise MCPXError(f"{server.name} is disabled: {server.disabled}")
    if account is None:
        raise SignInError(Problem.NOT_FOR_PEOPLE, f"{server.name} has no sign-in: {_why_not(server)}")
    return account


def person_account(server: ServerConfig, account: Account | None) -> Account:
    """The account of a server that a person signs in to.

    Raises:
        MCPXError: The server is disabled.
        SignInError: `NOT_FOR_PEOPLE`: nobody signs in there.
    """
    found = account_at(server, account)
    if not found.is_of_person:
        text = f"{server.name} needs nobody: MCPX signs in to it as a client (client_credentials)"
        raise SignInError(Problem.NOT_FOR_PEOPLE, text)
    return found


def _why_not(server: ServerConfig) -> str:
    if not isinstance(server.transport, Http | Sse):
        return "it is a program on this computer"
    if server.transport.auth is None:
        return '"auth": false is in its entry'
    return "its entry has a header Authorization"


def callback_ports(server: ServerConfig, config: Config) -> tuple[int, ...]:
    """The ports that the browser may return to: the one that the entry names, or several."""
    transport = server.transport
    auth = transport.auth if isinstance(transport, Http | Sse) else None
    own = None if auth is None else auth.callback_port
    return ports_from(config.login_port) if own is None else (own,)


async def signed_in(accounts: Mapping[str, Account | None]) -> list[str]:
    """The servers for which a sign-in is stored, of accounts by their names."""
    found: list[str] = []
    for name, account in accounts.items():
        if account is not None:
            await account.load()
            if account.record is not None:
                found.append(name)
    return found


async def needs_sign_in(account: Account) -> bool:
    """Whether a person has to sign in, of a server that nobody has tried: one without tokens is asked."""
    await account.load()
    tokens = account.record.tokens if account.record else None
    if tokens is None:
        return await _wants_sign_in(account.server)
    return tokens.refresh_token is None and (tokens.expires_at or math.inf) <= time.time()


async def _wants_sign_in(server: ServerConfig) -> bool:
    """Whether a server answers 401 to a request that asks for nothing, without a token."""
    import httpx2  # noqa: PLC0415 - for those who look

    from mcpx.oauth.network import open_network  # noqa: PLC0415 - likewise

    if not isinstance(server.transport, Http | Sse):
        return False
    headers = {**server.transport.headers, "content-type": "application/json", "accept": ACCEPTED}
    request = httpx2.Request("POST", server.transport.url, headers=headers, content=b"{}")
    try:
        async with open_network(server) as network:
            response = await network.send(request)
    except MCPXError:
        return False
    return response.status_code == HTTPStatus.UNAUTHORIZED

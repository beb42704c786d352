"""Refreshing an access token: one request to the token endpoint that the record knows, without discovery.

Only where there is no such endpoint any more, the same authorization server is asked where it is now.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import anyio
from msgspec import structs

from mcpx.config import ServerConfig
from mcpx.oauth.answers import EndpointMoved, as_for_now
from mcpx.oauth.client import client_of, is_issuer
from mcpx.oauth.discovery import discover
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.machine import obtain
from mcpx.oauth.network import OAuthNetwork, oauth_of, open_network
from mcpx.oauth.provider import refresh_flow
from mcpx.oauth.record import JSON, Record

REFRESH_TIMEOUT_S: Final = 30.0  # of a refresh with all its requests


async def refresh(server: ServerConfig, record: Record) -> Record:
    """Refresh the access token of a record with a refresh token, and return the record with the new one.

    The old refresh token may be void from then on: save the returned record before you use it. A refresh
    token or scope that the answer does not repeat is kept. The revision is one higher. A machine's token is
    obtained anew with `machine.obtain` instead.

    Raises:
        SignInError: `for_now` says whether to try again with the same record: `UNREACHABLE` for no answer,
            5xx, 429 or an unreadable answer. `GRANT_REFUSED`, `CLIENT_REFUSED` and `WRONG_ISSUER` are for
            good.
    """
    if oauth_of(server).grant == "client_credentials":
        return await obtain(server, record)
    try:
        with anyio.fail_after(REFRESH_TIMEOUT_S):
            return await _refresh(server, record)
    except TimeoutError as error:
        text = f"the tokens of {server.name} could not be refreshed within {REFRESH_TIMEOUT_S:.0f} s"
        raise SignInError(Problem.UNREACHABLE, text) from error


async def _refresh(server: ServerConfig, record: Record) -> Record:
    if record.metadata is None or record.tokens is None or record.tokens.refresh_token is None:
        text = f"the sign-in of {server.name} has expired, and there is nothing to renew it with"
        raise SignInError(Problem.GRANT_REFUSED, text)
    async with open_network(server) as network:
        try:
            return await _refreshed(network, record, record.metadata)
        except EndpointMoved:
            metadata = await _newer_metadata(network, record.metadata)
            if metadata is None:
                raise
            return await _refreshed(network, structs.replace(record, metadata=metadata), metadata)


async def _refreshed(network: OAuthNetwork, record: Record, metadata: JSON) -> Record:
    server = network.server
    client = client_of(server, record, metadata)
    if client is None:
        text = f"the client of {server.name} is no longer known: its sign-in cannot be renewed"
        raise SignInError(Problem.CLIENT_REFUSED, text)
    flow = refresh_flow(server, record, client)
    try:
        tokens = await flow.run(network, refused=Problem.GRANT_REFUSED, what="the refresh token", rounds=0)
    except SignInError as error:
        raise as_for_now(error) from error.__cause__
    return structs.replace(record, tokens=tokens, revision=record.revision + 1)


async def _newer_metadata(network: OAuthNetwork, known: JSON) -> JSON | None:
    """What the same authorization server says now, if it has moved its token endpoint."""
    with suppress(SignInError):
        found = await discover(network)
        if found is None or not is_issuer(found.issuer, str(known["issuer"])):
            return None
        if found.metadata["token_endpoint"] != known["token_endpoint"]:
            return found.metadata
    return None

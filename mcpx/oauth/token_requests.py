"""Requests for tokens that need no person: a refresh, client credentials, and a revocation.

Called off the path of calls, by the renewal of an account and by a sign-out. Each opens its own connections,
ends within its time, and returns a record that is not saved yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import httpx2
from msgspec.structs import replace

from mcpx.core.config import ServerConfig
from mcpx.oauth.answers import EndpointMoved, as_for_now
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.client import client_of, is_issuer, kept, with_advice
from mcpx.oauth.discovery import Discovered, discover
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import OAuthNetwork, oauth_of, open_network
from mcpx.oauth.provider import authenticated, machine_flow, refresh_flow
from mcpx.oauth.record import JSON, Record, identity_of
from mcpx.oauth.scopes import scopes_to_ask

TOKEN_TIMEOUT_S: Final = 30.0  # for a token, with all requests
REVOKE_TIMEOUT_S: Final = 5.0  # for both tokens together


async def refresh(server: ServerConfig, record: Record) -> Record:
    """Refresh the access token of a record with a refresh token, and return the record with the new one.

    The old refresh token may be void from then on: save the returned record before you use it. A refresh
    token or scope that the answer does not repeat is kept. The revision is one higher. The token endpoint is
    the one in the record; only where there is none any more, the same authorization server is asked for it.

    Raises:
        SignInError: `for_now` says whether to try again with the same record: `UNREACHABLE` for no answer,
            5xx, 429 or an unreadable answer. `GRANT_REFUSED`, `CLIENT_REFUSED` and `WRONG_ISSUER` are for
            good.
    """
    if record.metadata is None or record.tokens is None or record.tokens.refresh_token is None:
        text = f"the sign-in of {server.name} has expired, and there is nothing to renew it with"
        raise SignInError(Problem.GRANT_REFUSED, text)
    async with _network(server) as network:
        try:
            return await _refreshed(network, record, record.metadata)
        except EndpointMoved:
            metadata = await _newer_metadata(network, record.metadata)
            if metadata is None:
                raise
            return await _refreshed(network, replace(record, metadata=metadata), metadata)


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
    return replace(record, tokens=tokens, revision=record.revision + 1)


async def _newer_metadata(network: OAuthNetwork, known: JSON) -> JSON | None:
    """What the same authorization server says now, if it has moved its token endpoint."""
    with suppress(SignInError):
        found = await discover(network)
        if found is None or not is_issuer(found.issuer, str(known["issuer"])):
            return None
        if found.metadata["token_endpoint"] != known["token_endpoint"]:
            return found.metadata
    return None


# --- without a person at all


async def obtain(server: ServerConfig, record: Record | None, challenge: Challenge | None = None) -> Record:
    """Obtain an access token with the client's own credentials, and return the record with it.

    The metadata of `record` are used again if it has any; they are discovered where it has none, and for a
    challenge, since they may be old. The revision is one higher.

    Raises:
        SignInError: `for_now` says whether trying again can help: see `refresh`. All others are for good.
    """
    async with _network(server) as network:
        return await _obtain(network, record, challenge)


async def _obtain(network: OAuthNetwork, record: Record | None, challenge: Challenge | None) -> Record:
    server = network.server
    identity = record.identity if record is not None else identity_of(server)
    if identity is None or oauth_of(server).grant != "client_credentials":
        text = f"{server.name} has no client credentials to sign in with"
        raise SignInError(Problem.GRANT_REFUSED, text)
    found = await _found(network, record, challenge)
    client = client_of(server, record, found.metadata)
    if client is None:
        raise SignInError(Problem.CLIENT_REFUSED, f"`auth` of {server.name} has no client_id to sign in with")
    base = Record(
        identity=identity,
        resource=found.resource if oauth_of(server).resource else None,
        registration=kept(server, client),
        metadata=found.metadata,
        resource_metadata=found.resource_metadata,
        revision=(record.revision if record is not None else 0) + 1,
    )
    scope = scopes_to_ask(oauth_of(server), found, challenge, record)
    flow = machine_flow(server, base, client, scope=scope)
    try:
        tokens = await flow.run(network, refused=Problem.GRANT_REFUSED, what="its client credentials")
    except SignInError as error:
        raise with_advice(server, as_for_now(error)) from error.__cause__
    return replace(base, tokens=replace(tokens, refresh_token=None))


async def _found(network: OAuthNetwork, record: Record | None, challenge: Challenge | None) -> Discovered:
    """Where to get a token: as known, unless the server has refused one, or nothing is known."""
    known = _known(network, record)
    if known is not None and challenge is None:
        return known
    try:
        found = await discover(network, challenge)
    except SignInError as error:
        if known is None or not error.for_now:
            raise
        return known
    if (best := found or known) is None:
        text = f"{network.server.name} does not say where to get a token (no OAuth metadata)"
        raise SignInError(Problem.NO_METADATA, text)
    return best


def _known(network: OAuthNetwork, record: Record | None) -> Discovered | None:
    if record is None or record.metadata is None:
        return None
    if record.resource is None and oauth_of(network.server).resource:
        return None  # its entry was another
    return Discovered(
        issuer=str(record.metadata["issuer"]),
        resource=record.resource or "",
        metadata=record.metadata,
        resource_metadata=record.resource_metadata,
    )


@asynccontextmanager
async def _network(server: ServerConfig) -> AsyncIterator[OAuthNetwork]:
    """Connections for one request for a token, for as long as that may take."""
    try:
        with anyio.fail_after(TOKEN_TIMEOUT_S):
            async with open_network(server) as network:
                yield network
    except TimeoutError as error:
        text = f"no token for {server.name} could be had within {TOKEN_TIMEOUT_S:.0f} s"
        raise SignInError(Problem.UNREACHABLE, text) from error


# --- at a sign-out


async def revoke(server: ServerConfig, record: Record) -> None:
    """Revoke the refresh token and then the access token of a record; one that cannot be revoked is left.

    Never raises, but for cancellation.
    """
    with suppress(SignInError), anyio.move_on_after(REVOKE_TIMEOUT_S):
        await _revoke(server, record)


async def _revoke(server: ServerConfig, record: Record) -> None:
    metadata, tokens = record.metadata or {}, record.tokens
    endpoint = metadata.get("revocation_endpoint")
    if tokens is None or not isinstance(endpoint, str):
        return
    client = client_of(server, record, metadata)
    if client is None:
        return
    async with open_network(server) as network:
        for kind, token in (("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token)):
            if token is None:
                continue
            data, headers = authenticated(server, record, client, {"token": token, "token_type_hint": kind})
            with suppress(SignInError):
                await network.send(httpx2.Request("POST", endpoint, data=data, headers=headers))

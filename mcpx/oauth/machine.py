"""Signing in without a person: client credentials, with a secret or a signed assertion (RFC 7523)."""

from __future__ import annotations

from typing import Final

import anyio
from msgspec import structs

from mcpx.config import ServerConfig
from mcpx.oauth.answers import as_for_now
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.client import client_of, kept, with_advice
from mcpx.oauth.discovery import Discovered, discover
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import OAuthNetwork, oauth_of, open_network
from mcpx.oauth.provider import machine_flow
from mcpx.oauth.record import Record, identity_of
from mcpx.oauth.scopes import scopes_to_ask

OBTAIN_TIMEOUT_S: Final = 30.0  # of all requests for one token


async def obtain(server: ServerConfig, record: Record | None, challenge: Challenge | None = None) -> Record:
    """Obtain an access token with the client's own credentials, and return the record with it.

    The metadata of `record` are used again if it has any; they are discovered where it has none, and for a
    challenge, since they may be old. The revision is one higher.

    Raises:
        SignInError: `for_now` says whether trying again can help: see `refresh`. All others are for good.
    """
    try:
        with anyio.fail_after(OBTAIN_TIMEOUT_S):
            async with open_network(server) as network:
                return await _obtain(network, record, challenge)
    except TimeoutError as error:
        text = f"no token for {server.name} could be had within {OBTAIN_TIMEOUT_S:.0f} s"
        raise SignInError(Problem.UNREACHABLE, text) from error


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
    return structs.replace(base, tokens=structs.replace(tokens, refresh_token=None))


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

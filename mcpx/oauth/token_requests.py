"""Requests for tokens: a code, a refresh, client credentials; and their revocation.

`granted` is each of them: a form that shows the client, and an answer that is judged (`mcpx.oauth.answers`).
`refresh`, `obtain` and `revoke` need no person; they are called off the path of calls, by the renewal of an
account and by a sign-out. Each opens its own connections, ends within its time, and returns a record that is
not saved yet.

The SDK has a client for all that (`mcp.client.auth`), a generator that asks a person within a request. Its
knowledge of URLs is used in `discovery`; its flow is not, for what it lacks in 2.3 is most of what is needed
here (numbers are issues of modelcontextprotocol/python-sdk): its lock is held for as long as a request or a
person takes (#3209, #2847); the expiry of stored tokens and the metadata are lost (#3250, #1784, #2875,
#1318); scopes fall back to all that the authorization server knows (#1307, #2317); every refusal is one kind
of error, whose text quotes the answer; a key signs in the client credentials grant only.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import httpx2
from msgspec.structs import replace

from mcpx.core.config import ServerConfig
from mcpx.core.config.server_config import OAuth
from mcpx.oauth.answers import EndpointMoved, as_for_now, name_with_tokens, tokens_in
from mcpx.oauth.challenge import Challenge, clean_scope
from mcpx.oauth.client import authenticated, client_of, is_issuer, kept, with_advice
from mcpx.oauth.discovery import Discovered, discover
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import OAuthNetwork, oauth_of, open_network
from mcpx.oauth.record import JSON, Record, Registration, Tokens, identity_of

TOKEN_TIMEOUT_S: Final = 30.0  # for a token, with all requests
REVOKE_TIMEOUT_S: Final = 5.0  # for both tokens together
OFFLINE: Final = "offline_access"


async def granted(
    network: OAuthNetwork,
    record: Record,
    client: Registration,
    form: dict[str, str],
    *,
    refused: Problem,
    what: str,
) -> tuple[Tokens, str | None]:
    """Ask the token endpoint of a record's metadata for tokens; and the account's name, if they tell it.

    Args:
        network: Sends the request.
        record: Has the metadata, and the resource that the tokens are for.
        client: Shown with the form.
        form: The grant, without the client and the resource.
        refused: The problem if what is shown for tokens is not taken, as for `tokens_in`.
        what: What that is, for the error.

    Raises:
        SignInError: With the problem of the answer.
    """
    metadata = record.metadata or {}
    if record.resource is not None:
        form = {**form, "resource": record.resource}  # RFC 8707
    data, headers = authenticated(network.server, metadata, client, form)
    sent_at = time.time()
    request = httpx2.Request("POST", metadata["token_endpoint"], data=data, headers=headers)
    response = await network.send(request)
    answer = tokens_in(response, refused=refused, what=what)
    lifetime_s = answer.get("expires_in")
    tokens = Tokens(
        access_token=answer["access_token"],
        refresh_token=answer.get("refresh_token"),
        scope=answer.get("scope"),
        obtained_at=sent_at,
        expires_at=None if lifetime_s is None else sent_at + lifetime_s,
    )
    return tokens, name_with_tokens(response)


# --- the scopes to ask for


def scopes_to_ask(
    oauth: OAuth,
    found: Discovered,
    challenge: Challenge | None,
    record: Record | None,
    scopes: Sequence[str] = (),
) -> str | None:
    """Choose the `scope` of an authorization request; None for what the server gives by itself.

    `scopes` are those that a person asked for, exactly. Without: what was granted before, what the
    configuration says, or else the challenge to a request without a token, or else the server's metadata;
    and what a challenge wants more. A refresh token is asked for where that is a scope (SEP-2207). All that
    the authorization server knows is never asked for: the specification leaves the parameter out instead.
    """
    wanted = list(scopes) or [*_granted(record), *_usual(oauth, found, challenge), *_more(challenge)]
    offered = found.metadata.get("scopes_supported")
    if wanted and oauth.grant == "authorization_code" and isinstance(offered, list) and OFFLINE in offered:
        wanted.append(OFFLINE)
    return " ".join(dict.fromkeys(wanted)) or None


def _granted(record: Record | None) -> list[str]:
    tokens = record.tokens if record is not None else None
    return tokens.scope.split() if tokens is not None and tokens.scope else []


def _usual(oauth: OAuth, found: Discovered, challenge: Challenge | None) -> Sequence[str]:
    if oauth.scopes:
        return oauth.scopes
    if challenge is not None and challenge.scope and not challenge.wants_more_scopes:
        return challenge.scope.split()
    named = (found.resource_metadata or {}).get("scopes_supported")
    if not isinstance(named, list):
        return []
    return clean_scope(" ".join(each for each in named if isinstance(each, str))).split()


def _more(challenge: Challenge | None) -> list[str]:
    if challenge is None or not challenge.wants_more_scopes or not challenge.scope:
        return []
    return challenge.scope.split()


# --- without a person


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
            return await _refreshed(network, record, record.metadata, record.tokens)
        except EndpointMoved:
            metadata = await _newer_metadata(network, record.metadata)
            if metadata is None:
                raise
            return await _refreshed(network, replace(record, metadata=metadata), metadata, record.tokens)


async def _refreshed(network: OAuthNetwork, record: Record, metadata: JSON, old: Tokens) -> Record:
    server = network.server
    client = client_of(server, record, metadata)
    if client is None:
        text = f"the client of {server.name} is no longer known: its sign-in cannot be renewed"
        raise SignInError(Problem.CLIENT_REFUSED, text)
    form = {
        "grant_type": "refresh_token",
        "refresh_token": old.refresh_token or "",
        "client_id": client.client_id,
    }
    try:
        tokens, _ = await granted(
            network, record, client, form, refused=Problem.GRANT_REFUSED, what="the refresh token"
        )
    except SignInError as error:
        raise as_for_now(error) from error.__cause__
    tokens = replace(
        tokens, refresh_token=tokens.refresh_token or old.refresh_token, scope=tokens.scope or old.scope
    )
    return replace(record, tokens=tokens, revision=record.revision + 1)


async def _newer_metadata(network: OAuthNetwork, known: JSON) -> JSON | None:
    """Ask the same authorization server for its metadata; None if its token endpoint has not moved."""
    with suppress(SignInError):
        found = await discover(network)
        if found is None or not is_issuer(found.issuer, str(known["issuer"])):
            return None
        if found.metadata["token_endpoint"] != known["token_endpoint"]:
            return found.metadata
    return None


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
    base = found.new_record(server, identity, 1 + (record.revision if record is not None else 0))
    base = replace(base, registration=kept(server, client))
    scope = scopes_to_ask(oauth_of(server), found, challenge, record)
    form = {"grant_type": "client_credentials", **({} if scope is None else {"scope": scope})}
    try:
        tokens, _ = await granted(
            network, base, client, form, refused=Problem.GRANT_REFUSED, what="its client credentials"
        )
    except SignInError as error:
        raise with_advice(server, as_for_now(error)) from error.__cause__
    return replace(base, tokens=replace(tokens, scope=tokens.scope or scope, refresh_token=None))


async def _found(network: OAuthNetwork, record: Record | None, challenge: Challenge | None) -> Discovered:
    """Find where to get a token: as known, unless the server has refused one, or nothing is known."""
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
            form = {"client_id": client.client_id, "token": token, "token_type_hint": kind}
            data, headers = authenticated(server, metadata, client, form)
            with suppress(SignInError):
                await network.send(httpx2.Request("POST", endpoint, data=data, headers=headers))

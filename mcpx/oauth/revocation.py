"""Revoking tokens at the authorization server (RFC 7009), as far as it can be had."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import anyio
import httpx2

from mcpx.config import ServerConfig
from mcpx.oauth.client import client_of
from mcpx.oauth.errors import SignInError
from mcpx.oauth.network import open_network
from mcpx.oauth.provider import authenticated
from mcpx.oauth.record import Record

REVOKE_TIMEOUT_S: Final = 5.0  # for both tokens together


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

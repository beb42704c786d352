"""Signing in without a person: client credentials, with a secret or a signed assertion (RFC 7523)."""

from __future__ import annotations

from mcpx.config import ServerConfig
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.record import Record


async def obtain(server: ServerConfig, record: Record | None, challenge: Challenge | None = None) -> Record:
    """Obtain an access token with the client's own credentials, and return the record with it.

    The metadata of `record` are used again if it has any; they are discovered where it has none.

    Raises:
        SignInError: `for_now` says whether trying again can help: see `refresh`. All others are for good.
    """
    raise NotImplementedError

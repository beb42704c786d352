"""Revoking tokens at the authorization server (RFC 7009), as far as it can be had."""

from __future__ import annotations

from typing import Final

from mcpx.config import ServerConfig
from mcpx.oauth.record import Record

REVOKE_TIMEOUT_S: Final = 5.0  # for both tokens together


async def revoke(server: ServerConfig, record: Record) -> None:
    """Revoke the refresh token and then the access token of a record; one that cannot be revoked is left.

    Never raises, but for cancellation.
    """

"""Where to sign in to a server: its own metadata (RFC 9728), then its authorization server's (RFC 8414).

OpenID Connect discovery is tried where an authorization server has no metadata of RFC 8414. A server without metadata of its own is looked at as of 2025-03-26: it may be its own authorization server.
"""

from __future__ import annotations

import msgspec

from mcpx.config import ServerConfig
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.record import JSON


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization server that a server's tokens come from. Both metadata are as they came, checked."""

    issuer: str
    resource: str
    """What tokens are asked for (RFC 8707)."""
    metadata: JSON
    resource_metadata: JSON | None = None
    """None for a server that is its own authorization server."""


async def find_sign_in(server: ServerConfig, challenge: Challenge | None = None) -> Discovered | None:
    """Find where to sign in to a server; None if it says nothing of that: its 401 means something else.

    Takes one request at best and a handful at worst, each of which is bounded.

    Raises:
        SignInError: `UNREACHABLE` where that cannot be known now (a 5xx, no connection): whether the server
            wants a sign-in is then only known if `challenge.resource_metadata` says so. `NO_METADATA`,
            `METADATA_REFUSED`, `WRONG_ISSUER`, `INSECURE` for one that wants a sign-in that is impossible.
    """
    raise NotImplementedError

"""Which scopes a sign-in asks for. Pure.

The SDK falls back to all scopes that the authorization server knows; the specification leaves the parameter
out instead, and so does this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcpx.core.config.server_config import OAuth
from mcpx.oauth.challenge import Challenge, clean_scope
from mcpx.oauth.discovery import Discovered
from mcpx.oauth.record import Record

OFFLINE: Final = "offline_access"


def scopes_to_ask(
    oauth: OAuth,
    found: Discovered,
    challenge: Challenge | None,
    record: Record | None,
    scopes: Sequence[str] = (),
) -> str | None:
    """The `scope` of an authorization request; None for what the server gives by itself.

    `scopes` are those that a person asked for, exactly. Without: what was granted before, what the
    configuration says, or else the challenge to a request without a token, or else the server's metadata;
    and what a challenge wants more. A refresh token is asked for where that is a scope (SEP-2207).
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

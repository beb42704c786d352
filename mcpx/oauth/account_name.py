"""The name of the account that a person has signed in with, where the authorization server tells it.

It stands in the id token that may come with an access token, or at the userinfo endpoint (OpenID Connect Core
5.3), which answers for the scope `openid`. Nothing is asked for that was not granted anyway. The name is what
a person is shown, and decides nothing, so the id token, which came from the token endpoint itself, is read
without its signature.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import anyio
import httpx2
import msgspec

from mcpx.core.text import one_line
from mcpx.oauth.answers import json_object
from mcpx.oauth.errors import SignInError
from mcpx.oauth.network import OAuthNetwork
from mcpx.oauth.record import JSON, Tokens

ASK_TIMEOUT_S: Final = 3.0  # for the userinfo endpoint: the person waits to hear that they are signed in
MAX_CHARS: Final = 100
MAX_ID_TOKEN_CHARS: Final = 65_536
_CLAIMS: Final = ("preferred_username", "email", "name", "sub")
_OK: Final = 200
_JWT_PARTS: Final = 3


def name_with_tokens(response: httpx2.Response) -> str | None:
    """The name in the id token of a token endpoint's answer; None where there is none that can be read."""
    token = (json_object(response) or {}).get("id_token")
    if not isinstance(token, str) or len(token) > MAX_ID_TOKEN_CHARS or token.count(".") != _JWT_PARTS - 1:
        return None
    payload = token.split(".")[1]
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, binascii.Error, ValueError):
        return None
    return _name_in(claims)


async def name_at_endpoint(
    network: OAuthNetwork, metadata: JSON, tokens: Tokens, asked: str | None
) -> str | None:
    """The name that the userinfo endpoint tells the access token; None where it is not to be had.

    `asked` are the scopes that were asked for: what was granted, where that is not said (RFC 6749 5.1).
    Never raises. It is bounded and shielded: what was granted is not to be lost for want of a name.
    """
    endpoint = metadata.get("userinfo_endpoint")
    if not isinstance(endpoint, str) or "openid" not in (tokens.scope or asked or "").split():
        return None
    request = httpx2.Request("GET", endpoint, headers={"Authorization": f"Bearer {tokens.access_token}"})
    with anyio.move_on_after(ASK_TIMEOUT_S, shield=True):
        try:
            response = await network.send(request, follow_redirects=False)
        except (SignInError, ValueError, TypeError, httpx2.InvalidURL):
            return None
        return _name_in(json_object(response)) if response.status_code == _OK else None
    return None


def _name_in(claims: object) -> str | None:
    """The claim that says most to a person, as text that can be shown."""
    if not isinstance(claims, dict):
        return None
    texts = (one_line(each, MAX_CHARS).strip() for key in _CLAIMS if isinstance(each := claims.get(key), str))
    return next(filter(None, texts), None)

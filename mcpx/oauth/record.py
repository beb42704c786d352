"""The record of one sign-in: the tokens, the client they belong to, and where to refresh them.

A `Record` is what a `TokenStore` reads and writes, as JSON. `identity_of` says which record belongs to a
server's entry: two entries with one URL have one each, so that two accounts of a server live side by side.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Final

import msgspec

from mcpx.core.config import Http, ServerConfig, Sse

JSON = dict[str, Any]
MAX_TIME: Final = 253_402_214_400.0  # seconds since 1970: what a calendar can show
Time = Annotated[float, msgspec.Meta(ge=0.0, le=MAX_TIME)]


class Identity(msgspec.Struct, frozen=True):
    """The owner of a sign-in: an entry of this name, its URL, and its client ("" if it registers)."""

    server: str
    url: str
    client_id: str = ""

    @property
    def key(self) -> str:
        """The name of the record in a store: 32 hexadecimal digits, which tell nothing."""
        text = json.dumps([self.server, self.url, self.client_id])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def identity_of(server: ServerConfig) -> Identity | None:
    """Return the identity of a server's sign-in; None for one that MCPX does not sign in to."""
    transport = server.transport
    if not isinstance(transport, Http | Sse) or transport.auth is None:
        return None
    if any(name.lower() == "authorization" for name in transport.headers):
        return None
    return Identity(server.name, transport.url, transport.auth.client_id or "")


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that were given last. Times are seconds since 1970; scopes are as the server has them."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - a kind of token
    refresh_token: str | None = None
    scope: str | None = None
    obtained_at: Time = 0.0
    expires_at: Time | None = None
    """When the access token expires; None if that was not said."""

    def __repr__(self) -> str:
        return f"Tokens(scope={self.scope!r}, expires_at={self.expires_at!r})"


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The client that the tokens belong to, as the authorization server has registered it."""

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: Time | None = None
    token_auth: str | None = None
    redirect_uris: tuple[str, ...] = ()
    scope: str | None = None
    """The scopes that it may ask for, separated by spaces; None if that is not known."""
    issuer: str | None = None
    """The authorization server that it is registered at; no other is shown its secret."""

    def __repr__(self) -> str:
        return f"Registration(client_id={self.client_id!r}, issuer={self.issuer!r})"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One sign-in. `metadata` is that of the authorization server (RFC 8414), `resource_metadata` that of the
    server (RFC 9728), as they came: a daemon that starts knows from them where to refresh.

    `resource` is what the tokens are for (RFC 8707). `revision` grows with each change.
    """

    identity: Identity
    resource: str | None = None
    registration: Registration | None = None
    tokens: Tokens | None = None
    account: str | None = None
    """The name of the account, for people, as the authorization server has told it."""
    metadata: JSON | None = None
    resource_metadata: JSON | None = None
    revision: int = 0

"""Which client MCPX is at an authorization server: the configured one, a document's, or a registered one.

A client's secret goes to the issuer that it belongs to, and to no other: the one in the configuration, else
the one that it was used at first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec

from mcpx.core.config import ServerConfig
from mcpx.core.text import one_line
from mcpx.oauth.callback_answer import MAX_QUOTE_LEN
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import oauth_of
from mcpx.oauth.record import JSON, Record, Registration

ASSERTION_LIFETIME_S: Final = 300  # of a signed assertion; it is made for one request
EXPIRY_MARGIN_S: Final = 600.0  # of a client's secret, for the time that a person takes

Sign = Callable[[str], str]
"""Makes a signed assertion (RFC 7523) for an issuer."""


def client_of(server: ServerConfig, record: Record | None, metadata: JSON) -> Registration | None:
    """The client to be at the authorization server of `metadata`; None if one has to be registered.

    Raises:
        SignInError: `WRONG_ISSUER` if the client belongs to another authorization server.
    """
    issuer = str(metadata["issuer"])
    oauth = oauth_of(server)
    known = record.registration if record is not None else None
    if oauth.client_id is None:
        if known is None or not (_is_document(known, server) or _is_of(known, issuer)):
            return None
        return known
    belongs_to = oauth.issuer or (known.issuer if known is not None else None)
    if belongs_to is not None and not is_issuer(belongs_to, issuer):
        text = (
            f"the client of {server.name} belongs to {belongs_to}, but the server wants a sign-in at"
            f" {one_line(issuer, MAX_QUOTE_LEN)}; if it has moved, set `issuer` in its `auth`"
        )
        raise SignInError(Problem.WRONG_ISSUER, text)
    return Registration(
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        token_auth=oauth.token_auth or auth_method(metadata, has_secret=oauth.client_secret is not None),
        issuer=issuer,
    )


def kept(server: ServerConfig, client: Registration) -> Registration:
    """A client as it is stored: the secret of one that is configured stays where that is."""
    if oauth_of(server).client_id is None:
        return client
    return msgspec.structs.replace(client, client_secret=None)


def is_registered(server: ServerConfig, client: Registration) -> bool:
    """Whether MCPX has registered a client itself, and can do so again."""
    return oauth_of(server).client_id is None and not _is_document(client, server)


def with_advice(server: ServerConfig, error: SignInError) -> SignInError:
    """An error of a sign-in, which says what to do about a client that is refused."""
    if error.problem is not Problem.CLIENT_REFUSED:
        return error
    if oauth_of(server).client_id is None:
        return SignInError(error.problem, f"{error}; MCPX registers anew when you sign in again")
    advice = f"check client_id and its secret or key in `auth` of {server.name}"
    return SignInError(error.problem, f"{error}; {advice}")


def is_issuer(name: str, issuer: str) -> bool:
    """Whether two names are of one issuer: a slash at the end makes no other (RFC 8414 3.1, SDK's #1919)."""
    return name.rstrip("/") == issuer.rstrip("/")


def is_good_for(client: Registration, redirect_uri: str, scope: str | None) -> bool:
    """Whether a registered client can sign in now with these scopes, and have the browser return to that URI.

    oidc-provider and the SDK's own server refuse scopes that a client has not named when it was registered.
    """
    expires_at = client.client_secret_expires_at
    if expires_at is not None and expires_at < time.time() + EXPIRY_MARGIN_S:
        return False
    if client.scope is not None and not set((scope or "").split()) <= set(client.scope.split()):
        return False
    return redirect_uri in client.redirect_uris


def _is_document(client: Registration, server: ServerConfig) -> bool:
    """Whether a client is that of a metadata document, which is the same at every authorization server."""
    return client.client_id == oauth_of(server).client_metadata_url


def _is_of(client: Registration, issuer: str) -> bool:
    return client.issuer is not None and is_issuer(client.issuer, issuer)


def auth_method(metadata: JSON, *, has_secret: bool) -> str:
    """How a client shows itself at the token endpoint, where it has not been said (RFC 8414, RFC 7591)."""
    if not has_secret:
        return "none"
    offered = metadata.get("token_endpoint_auth_methods_supported")
    if isinstance(offered, list) and "client_secret_basic" not in offered and "client_secret_post" in offered:
        return "client_secret_post"
    return "client_secret_basic"


def method_to_register(metadata: JSON) -> str | None:
    """The method to register with: without a secret if the server has that; None leaves it to the server."""
    offered = metadata.get("token_endpoint_auth_methods_supported")
    if not isinstance(offered, list):
        return None
    methods = ("none", "client_secret_basic", "client_secret_post")
    return next((method for method in methods if method in offered), None)


def signer_of(server: ServerConfig) -> Sign | None:
    """What signs the client's assertions; None for a client without a key.

    The SDK signs in the client credentials grant only; a refresh or a code needs the same.
    """
    oauth = oauth_of(server)
    if oauth.private_key is None or oauth.client_id is None:
        return None
    key, client_id, algorithm = oauth.private_key, oauth.client_id, oauth.algorithm

    def sign(issuer: str) -> str:
        import jwt  # noqa: PLC0415 - takes a while, for who has a key

        now = int(time.time())
        claims = {"iss": client_id, "sub": client_id, "aud": issuer, "iat": now, "jti": uuid4().hex}
        try:
            return jwt.encode({**claims, "exp": now + ASSERTION_LIFETIME_S}, key, algorithm=algorithm)
        except (ValueError, TypeError, NotImplementedError, jwt.PyJWTError) as error:
            text = f"the private_key of {server.name} cannot sign with {algorithm}: {type(error).__name__}"
            raise SignInError(Problem.CLIENT_REFUSED, text) from None  # the error may quote the key

    return sign

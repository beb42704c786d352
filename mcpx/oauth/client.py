"""The client that MCPX is at an authorization server: configured, a document's, or registered now.

A client's secret goes to the issuer that it belongs to, and to no other: the one in the configuration, else
the one that it was used at first. `authenticated` shows the client to an endpoint.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import httpx2
import msgspec
from mcp.client.auth.utils import is_valid_client_metadata_url

from mcpx.core.config import ServerConfig
from mcpx.core.text import one_line
from mcpx.oauth.answers import MAX_LIFETIME_S, MAX_QUOTE_LEN, check_registration
from mcpx.oauth.challenge import clean_scope
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import OAuthNetwork, oauth_of
from mcpx.oauth.record import JSON, Record, Registration

ASSERTION_LIFETIME_S: Final = 300  # of a signed assertion; it is made for one request
EXPIRY_MARGIN_S: Final = 600.0  # of a client's secret, for the time that a person takes

CLIENT_NAME: Final = "MCPX"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_BY_SECRET: Final = frozenset({"client_secret_basic", "client_secret_post"})


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
    """Return True if MCPX has registered a client itself, and can do so again."""
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
    """Return True if two names are of one issuer, but for a slash at the end (RFC 8414 3.1, SDK's #1919)."""
    return name.rstrip("/") == issuer.rstrip("/")


def is_good_for(client: Registration, redirect_uri: str, scope: str | None) -> bool:
    """Return True if a registered client can sign in now with these scopes and that redirect URI.

    oidc-provider and the SDK's own server refuse scopes that a client has not named when it was registered.
    """
    expires_at = client.client_secret_expires_at
    if expires_at is not None and expires_at < time.time() + EXPIRY_MARGIN_S:
        return False
    if client.scope is not None and not set((scope or "").split()) <= set(client.scope.split()):
        return False
    return redirect_uri in client.redirect_uris


def _is_document(client: Registration, server: ServerConfig) -> bool:
    """Return True for the client of a metadata document, the same at every authorization server."""
    return client.client_id == oauth_of(server).client_metadata_url


def _is_of(client: Registration, issuer: str) -> bool:
    return client.issuer is not None and is_issuer(client.issuer, issuer)


def auth_method(metadata: JSON, *, has_secret: bool) -> str:
    """Choose how a client shows itself at the token endpoint, where it is not said (RFC 8414, RFC 7591)."""
    if not has_secret:
        return "none"
    offered = metadata.get("token_endpoint_auth_methods_supported")
    if isinstance(offered, list) and "client_secret_basic" not in offered and "client_secret_post" in offered:
        return "client_secret_post"
    return "client_secret_basic"


# --- registering one


class _Registered(msgspec.Struct):
    """The answer to a registration (RFC 7591 3.2.1), as far as it counts here."""

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: int | None = None
    token_endpoint_auth_method: str | None = None
    redirect_uris: tuple[str, ...] = ()
    scope: str | None = None


def document_client(server: ServerConfig, metadata: JSON, uris: Sequence[str]) -> Registration | None:
    """Return the client that a metadata document describes; None where there is none, or no server for it."""
    url = oauth_of(server).client_metadata_url
    if metadata.get("client_id_metadata_document_supported") is not True:
        return None
    if url is None or not is_valid_client_metadata_url(url):
        return None
    issuer = str(metadata["issuer"])
    return Registration(client_id=url, token_auth="none", redirect_uris=tuple(uris), issuer=issuer)  # noqa: S106


async def register(
    network: OAuthNetwork, metadata: JSON, redirect_uris: Sequence[str], scope: str | None
) -> Registration:
    """Register MCPX as a client at the authorization server of `metadata` (RFC 7591).

    Raises:
        SignInError: `REGISTRATION_REFUSED`, `ClientMetadataRefused` where other properties may be taken, or
            `UNREACHABLE` for a failure for now.
    """
    grants = metadata.get("grant_types_supported")
    refreshes = not isinstance(grants, list) or "refresh_token" in grants
    about: JSON = {
        "redirect_uris": list(redirect_uris),
        "client_name": CLIENT_NAME,
        "application_type": "native",
        "response_types": ["code"],
        "grant_types": ["authorization_code", *(["refresh_token"] if refreshes else [])],
        "token_endpoint_auth_method": _method_to_register(metadata),
        "scope": scope,
    }
    about = {name: value for name, value in about.items() if value is not None}
    response = await network.send(httpx2.Request("POST", metadata["registration_endpoint"], json=about))
    answer = check_registration(response)
    try:
        made = msgspec.convert(
            {name: value for name, value in answer.items() if value}, _Registered, strict=False
        )
    except msgspec.ValidationError:
        raise _unusable(network.server) from None  # the error may quote the answer
    method = made.token_endpoint_auth_method
    if method not in {None, "none", *_BY_SECRET} or (method in _BY_SECRET and made.client_secret is None):
        raise _unusable(network.server)
    return _registration(made, metadata)


def _registration(made: _Registered, metadata: JSON) -> Registration:
    has_secret = made.client_secret is not None
    expires_at = made.client_secret_expires_at if has_secret else None
    latest = int(time.time() + MAX_LIFETIME_S)
    return Registration(
        client_id=made.client_id,
        client_secret=made.client_secret,
        client_secret_expires_at=None if expires_at is None else float(min(expires_at, latest)),
        token_auth=made.token_endpoint_auth_method or auth_method(metadata, has_secret=has_secret),
        redirect_uris=made.redirect_uris,
        scope=None if made.scope is None else clean_scope(made.scope),
        issuer=str(metadata["issuer"]),
    )


def _method_to_register(metadata: JSON) -> str | None:
    """Choose the method to register with: none if the server has that; None leaves it to the server."""
    offered = metadata.get("token_endpoint_auth_methods_supported")
    if not isinstance(offered, list):
        return None
    methods = ("none", "client_secret_basic", "client_secret_post")
    return next((method for method in methods if method in offered), None)


def _unusable(server: ServerConfig) -> SignInError:
    text = f"the authorization server of {server.name} registers MCPX as a client that it cannot be"
    return SignInError(Problem.REGISTRATION_REFUSED, text)


# --- showing it


def authenticated(
    server: ServerConfig, metadata: JSON, client: Registration, form: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Show the client in a form for an endpoint of the authorization server; the form, and its headers.

    Raises:
        SignInError: `CLIENT_REFUSED`: the client's key cannot sign.
    """
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    oauth = oauth_of(server)
    if oauth.private_key is not None and oauth.client_id is not None:
        assertion = _assertion(server, oauth.private_key, oauth.client_id, str(metadata["issuer"]))
        signed = {"client_id": client.client_id, "client_assertion_type": _ASSERTION}
        return {**form, **signed, "client_assertion": assertion}, headers
    if client.client_secret and client.token_auth == "client_secret_basic":  # noqa: S105 - a method
        shown = ":".join(quote(each, safe="") for each in (client.client_id, client.client_secret))
        headers["Authorization"] = f"Basic {base64.b64encode(shown.encode()).decode()}"
    elif client.client_secret and client.token_auth == "client_secret_post":  # noqa: S105 - a method
        form = {**form, "client_id": client.client_id, "client_secret": client.client_secret}
    return form, headers


def _assertion(server: ServerConfig, key: str, client_id: str, issuer: str) -> str:
    """Sign an assertion (RFC 7523) for an issuer."""
    import jwt  # noqa: PLC0415 - takes a while, for who has a key

    now, algorithm = int(time.time()), oauth_of(server).algorithm
    claims = {"iss": client_id, "sub": client_id, "aud": issuer, "iat": now, "jti": uuid4().hex}
    try:
        return jwt.encode({**claims, "exp": now + ASSERTION_LIFETIME_S}, key, algorithm=algorithm)
    except (ValueError, TypeError, NotImplementedError, jwt.PyJWTError) as error:
        text = f"the private_key of {server.name} cannot sign with {algorithm}: {type(error).__name__}"
        raise SignInError(Problem.CLIENT_REFUSED, text) from None  # the error may quote the key

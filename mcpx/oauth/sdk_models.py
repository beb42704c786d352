"""The SDK's models of OAuth and ours, each made of the other; and the SDK's token storage over a record."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import ValidationError

from mcpx.core.config import ServerConfig
from mcpx.oauth.answers import MAX_LIFETIME_S
from mcpx.oauth.challenge import clean_scope
from mcpx.oauth.client import auth_method
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import JSON, Record, Registration, Tokens

_USED: Final = (
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "client_id_metadata_document_supported",
    "authorization_response_iss_parameter_supported",
)
"""What the flow needs of the metadata; an odd value elsewhere is no reason to refuse them all."""

OnRegistration = Callable[[Registration], Awaitable[None]]


class Storage:
    """The SDK's token storage: gives what a record has, and takes what a flow comes to."""

    def __init__(
        self, record: Record, client: Registration | None, on_registration: OnRegistration | None
    ) -> None:
        self._record = record
        self._client = client
        self._on_registration = on_registration
        self.tokens: OAuthToken | None = None
        """What the flow has come to."""

    async def get_tokens(self) -> OAuthToken | None:
        kept = self._record.tokens
        if kept is None:
            return None
        return OAuthToken(access_token=kept.access_token, refresh_token=kept.refresh_token, scope=kept.scope)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None if self._client is None else client_info_of(self._client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Take a registered client; `client_info` is the flow's own, and gets the method it lacks."""
        metadata = self._record.metadata or {}
        if client_info.token_endpoint_auth_method is None:
            has_secret = client_info.client_secret is not None
            client_info.token_endpoint_auth_method = auth_method(metadata, has_secret=has_secret)
        if self._on_registration is not None:
            await self._on_registration(_registration(client_info, str(metadata.get("issuer"))))


def metadata_of(server: ServerConfig, record: Record) -> OAuthMetadata:
    """What the flow needs of a record's metadata.

    Raises:
        SignInError: `METADATA_REFUSED`.
    """
    known = record.metadata or {}
    used: JSON = {key: known[key] for key in _USED if known.get(key) is not None and known[key] != ""}
    used.setdefault("authorization_endpoint", used.get("token_endpoint"))  # a machine's server needs none
    try:
        return OAuthMetadata.model_validate(used)
    except ValidationError as error:
        text = f"the metadata of the authorization server of {server.name} cannot be used: {_fields(error)}"
        raise SignInError(Problem.METADATA_REFUSED, text) from None


def _fields(error: ValidationError) -> str:
    return ", ".join(sorted({str(each["loc"][0]) for each in error.errors() if each["loc"]}))


def client_info_of(client: Registration) -> OAuthClientInformationFull:
    """A client as the SDK has it."""
    return OAuthClientInformationFull(
        client_id=client.client_id,
        client_secret=client.client_secret,
        token_endpoint_auth_method=client.token_auth,
    )


def _registration(client: OAuthClientInformationFull, issuer: str) -> Registration:
    expires_at = client.client_secret_expires_at  # 0 says never (RFC 7591 3.2.1)
    latest = int(time.time() + MAX_LIFETIME_S)
    return Registration(
        client_id=client.client_id,
        client_secret=client.client_secret,
        client_secret_expires_at=float(min(expires_at, latest))
        if expires_at and client.client_secret
        else None,
        token_auth=client.token_endpoint_auth_method,
        redirect_uris=tuple(str(uri) for uri in client.redirect_uris or ()),
        scope=None if client.scope is None else clean_scope(client.scope),
        issuer=issuer,
    )


def tokens_of(tokens: OAuthToken, obtained_at: float) -> Tokens:
    """Tokens with the absolute time of their expiry."""
    return Tokens(
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token,
        scope=tokens.scope,
        obtained_at=obtained_at,
        expires_at=None if tokens.expires_in is None else obtained_at + tokens.expires_in,
    )

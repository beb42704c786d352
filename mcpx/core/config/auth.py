"""How MCPX identifies itself to a server over HTTP: by OAuth, or by a client certificate.

The shapes and meanings of an entry's `auth` and `tls`; `mcpx.core.config.transport` reads them. A `repr`
leaves out what may be secret.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from mcpx.core.config.trust import NonEmpty, doc

Grant = Literal["authorization_code", "client_credentials"]
TokenAuth = Literal["none", "client_secret_basic", "client_secret_post"]
SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749, section 3.3
CallbackHost = Literal["127.0.0.1", "localhost"]
TokenStoreKind = Literal["file", "keychain"]


class OAuth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How MCPX signs in to a server that answers 401. Nothing is needed for most servers: they say the rest.

    With `grant: client_credentials` no person is asked: MCPX signs in with the client's own secret, or with
    an assertion that it signs with `private_key` (RFC 7523).
    """

    client_id: Annotated[
        NonEmpty | None,
        doc("The client that is registered at the authorization server; left out, MCPX registers itself."),
    ] = None
    client_secret: Annotated[NonEmpty | None, doc("Its secret, best as ${keychain:NAME}.")] = None
    client_metadata_url: Annotated[
        NonEmpty | None,
        doc("https URL of a client metadata document of yours, where the server takes such as a client."),
    ] = None
    scopes: Annotated[
        tuple[NonEmpty, ...],
        doc("Scopes to ask for, as a list or in one string; left out, those that the server names."),
    ] = ()
    grant: Annotated[
        Grant,
        doc("authorization_code: a person signs in. client_credentials: the client does, without a person."),
    ] = "authorization_code"
    private_key: Annotated[
        NonEmpty | None,
        doc("PEM of the key that signs the client's assertions, or the path of a file that holds it."),
    ] = None
    """The PEM text, once it is read."""
    algorithm: Annotated[
        NonEmpty, doc("Algorithm of that signature: RS256, PS256, ES256 and their kin, or EdDSA.")
    ] = "RS256"
    issuer: Annotated[
        NonEmpty | None,
        doc("Issuer of the authorization server that the client belongs to; no other gets its secret."),
    ] = None
    token_auth: Annotated[
        TokenAuth | None, doc("How the client shows its secret; left out, client_secret_basic.")
    ] = None
    resource: Annotated[
        bool, doc("Whether the token is asked for this server alone (RFC 8707); some servers refuse that.")
    ] = True
    callback_port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None,
        doc("Port of 127.0.0.1 that the browser returns to; left out, login_port."),
    ] = None
    callback_host: Annotated[
        CallbackHost,
        doc("How that address calls this computer: as the client is registered."),
    ] = "127.0.0.1"

    def __repr__(self) -> str:
        return f"OAuth(grant={self.grant!r}, client_id={self.client_id!r})"


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The certificates of a connection: paths of PEM files, absolute once they are read."""

    cert: Annotated[NonEmpty | None, doc("The client's certificate, with its chain.")] = None
    key: Annotated[NonEmpty | None, doc("Its key, where that is not in the same file.")] = None
    ca: Annotated[NonEmpty | None, doc("Certificates to trust in place of the system's.")] = None

"""The SDK's OAuth client (`mcp.client.auth`), driven from outside of any call: the one module around it.

The SDK's provider is made for one process that asks a person within a request. Its flow is a generator of
requests; here each is sent by an `OAuthNetwork`, and each answer judged (`mcpx.oauth.answers`) before the
generator sees it. The flow builds the registration, the authorization request (PKCE, state, `resource`), the
exchange and the refresh.

What it lacks in 2.3, and what is done instead (numbers are issues of modelcontextprotocol/python-sdk):

* Its lock is held for as long as a request, or a person, takes (#3209, #2847): no request of a session goes
  through it. `Flow` has a provider of its own for one sign-in or refresh.
* The expiry of stored tokens is lost, so that they count as valid for ever, and a 401 leads to the browser
  past the refresh token (#3250, #1784, #2875): the account decides by absolute time, and `refresh_flow` has
  the flow refresh, and do nothing else.
* The metadata are lost as well, so that a restarted process guesses the token endpoint (#3250, #1318): they
  come from the `Record`. A flow that has metadata discovers nothing anew only in a step-up; so its own first
  request is answered here as by a server that wants other scopes.
* A client that the authorization server has forgotten is used for ever: see `mcpx.oauth.sign_in`.
* Scopes fall back to all that the authorization server knows (#1307, #2317): see `mcpx.oauth.scopes`.
* Every refusal is one kind of error, whose text quotes the answer: judged before.
* `private_key_jwt` signs in the client credentials grant only: here, whatever goes to the token endpoint.
* A client that was given a secret, but no method to show it, shows none: `mcpx.oauth.client` has the default.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final, Literal

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import is_valid_client_metadata_url
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from msgspec import structs
from pydantic import ValidationError

from mcpx.core.config import ServerConfig
from mcpx.oauth.account_name import name_with_tokens
from mcpx.oauth.answers import check_registration, is_token_request, tokens_in
from mcpx.oauth.callback_answer import AskPerson, code_in
from mcpx.oauth.client import Sign, method_to_register, signer_of
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import OAuthNetwork, oauth_of, url_of
from mcpx.oauth.record import JSON, Record, Registration, Tokens
from mcpx.oauth.sdk_models import OnRegistration, Storage, client_info_of, metadata_of, tokens_of

CLIENT_NAME: Final = "MCPX"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_LONG_AGO: Final = 1.0


class Context(OAuthContext):
    """The SDK's context, with what it does not know: `resource` (None: not to be named), `sign`, `issuer`."""

    resource: str | None = None
    sign: Sign | None = None
    issuer: str = ""

    def get_resource_url(self) -> str:
        return self.resource or super().get_resource_url()

    def should_include_resource_param(self, _protocol_version: str | None = None) -> bool:
        return self.resource is not None

    def prepare_token_auth(
        self, data: dict[str, str], headers: dict[str, str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        if self.sign is None or self.client_info is None:
            return super().prepare_token_auth(data, {} if headers is None else headers)
        signed = {"client_id": self.client_info.client_id, "client_assertion_type": _ASSERTION}
        return {**data, **signed, "client_assertion": self.sign(self.issuer)}, headers or {}


class Flow:
    """One use of a provider of the SDK, for a record with metadata."""

    def __init__(
        self, provider: OAuthClientProvider, storage: Storage, server: ServerConfig, record: Record
    ) -> None:
        self.provider = provider
        self._storage = storage
        self._server = server
        self.context = provider.context = Context(**vars(provider.context))
        self.context.oauth_metadata = metadata_of(server, record)
        self.context.issuer = str((record.metadata or {}).get("issuer"))
        self.context.resource = record.resource
        self.context.sign = signer_of(server)
        self.account: str | None = None
        """The name of the account that came with the tokens."""

    async def run(
        self,
        network: OAuthNetwork,
        *,
        refused: Problem,
        what: str,
        rounds: int = 1,
        names_scope: bool = True,
    ) -> Tokens:
        """Send what the flow asks for, until it has tokens.

        Args:
            network: Sends the requests.
            refused: The problem if what is shown for tokens is not taken, as for `tokens_in`.
            what: What that is, for the error.
            rounds: How often the flow may send the server's own request, which is answered here: a refresh
                never does before it has ended.
            names_scope: Whether a registration names the scopes that are asked for then.

        Raises:
            SignInError: With the problem of the step that failed.
        """
        own = httpx2.Request("POST", self.context.server_url)
        wants_scopes = httpx2.Response(
            403, headers={"WWW-Authenticate": 'Bearer error="insufficient_scope"'}, request=own
        )
        sent_at = time.time()
        try:
            async with aclosing(self.provider.async_auth_flow(own)) as flow:
                request = await anext(flow)
                while self._storage.tokens is None:
                    if request is own:
                        if not rounds:
                            break
                        rounds -= 1
                        response = wants_scopes
                    else:
                        sent_at = time.time()
                        sent = request if names_scope else _without_scope(request)
                        answer = await network.send(sent)
                        response = _judged(answer, refused=refused, what=what)
                        if is_token_request(sent):
                            self.account = name_with_tokens(answer)
                    request = await flow.asend(response)
        except (OAuthFlowError, OAuthRegistrationError, OAuthTokenError, ValidationError) as error:
            raise _translated(error, self._server) from None  # it may quote the answer
        if self._storage.tokens is None:
            text = f"the answer of {self.context.issuer} cannot be read"
            raise SignInError(Problem.UNREACHABLE, text)
        return tokens_of(self._storage.tokens, sent_at)


def _judged(response: httpx2.Response, *, refused: Problem, what: str) -> httpx2.Response:
    """An answer that the SDK will read as it is meant."""
    if not is_token_request(response.request):
        check_registration(response)
        return response
    answer = tokens_in(response, refused=refused, what=what)
    return httpx2.Response(200, json=answer, request=response.request)


def _without_scope(request: httpx2.Request) -> httpx2.Request:
    """A registration that names no scopes; any other request as it is."""
    if is_token_request(request):
        return request
    about = json.loads(request.content)
    about.pop("scope", None)
    return httpx2.Request(request.method, request.url, json=about)


def _translated(error: Exception, server: ServerConfig) -> SignInError:
    if isinstance(error, OAuthRegistrationError):
        text = f"the authorization server of {server.name} registers MCPX as a client that it cannot be"
        return SignInError(Problem.REGISTRATION_REFUSED, text)
    text = f"the answers of the authorization server of {server.name} cannot be used ({type(error).__name__})"
    return SignInError(Problem.METADATA_REFUSED, text)


# --- the flows


def refresh_flow(server: ServerConfig, record: Record, client: Registration) -> Flow:
    """A refresh of the tokens of a record; run it with `rounds=0`, so that it does nothing else."""
    storage = Storage(record, client, None)
    return Flow(
        _Refresh(url_of(server), OAuthClientMetadata(redirect_uris=None), storage), storage, server, record
    )


class _Refresh(OAuthClientProvider):
    async def _initialize(self) -> None:
        await super()._initialize()
        self.context.token_expiry_time = _LONG_AGO  # else it counts as valid (#3250)


def code_flow(
    server: ServerConfig,
    record: Record,
    client: Registration | None,
    *,
    redirect_uris: Sequence[str],
    scope: str | None,
    ask: AskPerson,
    on_registration: OnRegistration,
) -> Flow:
    """A sign-in of a person at the server of the record's metadata; `client` None registers one at first."""
    metadata = record.metadata or {}
    grants = metadata.get("grant_types_supported")
    refreshes = not isinstance(grants, list) or "refresh_token" in grants
    about: JSON = {
        "redirect_uris": list(redirect_uris),
        "client_name": CLIENT_NAME,
        "application_type": "native",
        "grant_types": ["authorization_code", *(["refresh_token"] if refreshes else [])],
        "token_endpoint_auth_method": method_to_register(metadata),
        "scope": scope,
    }
    url = ""

    async def redirect(to: str) -> None:
        nonlocal url
        url = _with_query(to)

    async def called_back() -> AuthorizationCodeResult:
        callback = await ask(url)
        state = httpx2.URL(url).params.get_list("state")[-1]  # the endpoint may have a query
        names_issuer = metadata.get("authorization_response_iss_parameter_supported") is True
        code = code_in(callback, state=state, issuer=str(metadata.get("issuer")), names_issuer=names_issuer)
        # The SDK compares with the issuer as a URL in normal form; it was compared as it came.
        return AuthorizationCodeResult(code=code, state=state, iss=str(metadata_of(server, record).issuer))

    storage = Storage(structs.replace(record, tokens=None), client, on_registration)
    provider = OAuthClientProvider(
        url_of(server),
        OAuthClientMetadata.model_validate(about),
        storage,
        redirect,
        called_back,
        _document_of(server),
    )
    return Flow(provider, storage, server, record)


def machine_flow(server: ServerConfig, record: Record, client: Registration, *, scope: str | None) -> Flow:
    """A sign-in of the client itself at the server of the record's metadata."""
    storage = Storage(structs.replace(record, tokens=None), None, None)
    by_post = client.token_auth == "client_secret_post"  # noqa: S105 - a method
    method: Literal["client_secret_basic", "client_secret_post"]
    method = "client_secret_post" if by_post else "client_secret_basic"
    provider = ClientCredentialsOAuthProvider(
        url_of(server),
        storage,
        client.client_id,
        client.client_secret or "",  # one with a key has none
        method,
        scope,
        str(metadata_of(server, record).issuer),
    )
    return Flow(provider, storage, server, record)


def authenticated(
    server: ServerConfig, record: Record, client: Registration, data: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """A form for an endpoint of the authorization server, and its headers, with the client shown in them."""
    context = refresh_flow(server, record, client).context
    context.client_info = client_info_of(client)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return context.prepare_token_auth({"client_id": client.client_id, **data}, headers)


def _document_of(server: ServerConfig) -> str | None:
    url = oauth_of(server).client_metadata_url
    return url if is_valid_client_metadata_url(url) else None


def _with_query(url: str) -> str:
    """An authorization URL as it should be where the endpoint has a query of its own (RFC 6749 3.1)."""
    endpoint, _, parameters = url.rpartition("?")
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{parameters}"

"""Signing a person in: discovery, registration, the authorization request, and the exchange of the code."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import msgspec
from mcp.client.auth.utils import union_scopes
from msgspec import structs

from mcpx.core.config import ServerConfig
from mcpx.oauth.answers import Callback, ClientMetadataRefused, code_in, json_object, name_in
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.client import (
    client_of,
    document_client,
    is_good_for,
    is_registered,
    kept,
    register,
    with_advice,
)
from mcpx.oauth.discovery import Discovered, discover
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.network import OAuthNetwork, oauth_of, open_network, url_of
from mcpx.oauth.record import JSON, Record, Registration, Tokens, identity_of
from mcpx.oauth.token_requests import OFFLINE, granted, scopes_to_ask

STUCK_AFTER_S: Final = 30.0  # that a person waits who sees a page which says that the client is unknown
FORGET_TIMEOUT_S: Final = 5.0  # to note that
NAME_TIMEOUT_S: Final = 3.0  # for the userinfo endpoint: the person waits to hear that they are signed in
_OK: Final = 200
_RANDOM_BYTES: Final = 32  # of the state, and of PKCE's verifier
_NO_SUCH_CLIENT: Final = frozenset({400, 401, 404, 410, 422})  # an authorize endpoint's answers to one
_CLIENT_ERRORS: Final = frozenset({"invalid_client", "unauthorized_client"})
Save = Callable[[Record], Awaitable[None]]
AskPerson = Callable[[str], Awaitable[Callback]]
"""Shows a person the URL of the authorization request, and returns what the browser comes back with.

It is called once per sign-in, and may raise `SignInError` (`TIMED_OUT`, `CANCELLED`), which ends the sign-in
with that error.
"""


async def sign_in(
    server: ServerConfig,
    record: Record | None,
    *,
    ask: AskPerson,
    redirect_uris: Sequence[str],
    scopes: Sequence[str] = (),
    challenge: Challenge | None = None,
    save: Save,
    on_found: Callable[[Discovered], None] = lambda _found: None,
) -> Record:
    """Sign a person in to a server, and return the record with the new tokens, which is not saved yet.

    The client that `record` has of an earlier sign-in is used again where it is still good; one that the
    server does not know any more is registered anew. `ask` is the only wait for a person, and sets its own
    bound; `on_found` is called before it. The browser returns to the first of `redirect_uris`. `scopes` are
    empty for those of the configuration, else of the challenge or the server's metadata, and those that were
    granted before.

    `save` is called with a record without tokens when MCPX has registered itself as a client, before the
    person is asked, but not where `record` has tokens, which the new client could not refresh; and with
    `record` without its registration if that has turned out, or may be, stale.

    Raises:
        SignInError: With any `Problem`; nothing was changed but what `save` was given.
    """
    async with open_network(server) as network:
        found = await _found(network, challenge)
        on_found(found)
        identity = record.identity if record is not None else identity_of(server)
        if identity is None:
            text = f"{server.name} is not signed in to: its configuration says how it is authorized"
            raise SignInError(Problem.NOT_FOR_PEOPLE, text)
        attempt = _Attempt(
            network=network,
            record=record,
            base=found.new_record(server, identity, 0 if record is None else record.revision),
            ask=ask,
            redirect_uris=redirect_uris,
            scope=scopes_to_ask(oauth_of(server), found, challenge, record, scopes),
            save=save,
        )
        return await attempt.run()


async def _found(network: OAuthNetwork, challenge: Challenge | None) -> Discovered:
    """Find where to sign in, if a person can.

    A server that does not say that it knows PKCE is refused, as specified.
    """
    server = network.server
    if oauth_of(server).grant == "client_credentials":
        text = f"{server.name} is signed in to by its client credentials: there is nothing for a person to do"
        raise SignInError(Problem.NOT_FOR_PEOPLE, text)
    network.check_url(url_of(server), f"the address of {server.name}")
    found = await discover(network, challenge)
    if found is None:
        text = (
            f"{server.name} does not say where to sign in (no OAuth metadata); if it wants a token, set"
            " `headers` of its entry"
        )
        raise SignInError(Problem.NO_METADATA, text)
    for name in ("client_id_metadata_document_supported", "authorization_response_iss_parameter_supported"):
        if isinstance(found.metadata.get(name), list | dict):
            text = f"the metadata of the authorization server of {server.name} cannot be used: {name}"
            raise SignInError(Problem.METADATA_REFUSED, text)
    methods = found.metadata.get("code_challenge_methods_supported")
    if "authorization_endpoint" not in found.metadata:
        text = f"{found.issuer} signs in no people: it has no authorization endpoint"
        raise SignInError(Problem.METADATA_REFUSED, text)
    if not isinstance(methods, list) or "S256" not in methods:
        text = (
            f"{found.issuer} does not say that it protects codes (PKCE with S256, in"
            " code_challenge_methods_supported), which MCP requires: no sign-in there is safe"
        )
        raise SignInError(Problem.METADATA_REFUSED, text)
    return found


class _StaleClient(Exception):
    """The authorization server does not know the client that MCPX once registered."""


class _Attempt(msgspec.Struct, kw_only=True):
    """One sign-in at the authorization server of `base`; `client` is what it is signed in as."""

    network: OAuthNetwork
    record: Record | None
    base: Record
    ask: AskPerson
    redirect_uris: Sequence[str]
    scope: str | None
    save: Save
    client: Registration | None = None
    was_known: bool = False
    """True if the client was registered by an earlier sign-in."""

    @property
    def metadata(self) -> JSON:
        return self.base.metadata or {}

    async def run(self) -> Record:
        client = client_of(self.network.server, self.record, self.metadata)
        self.was_known = client is not None and is_registered(self.network.server, client)
        if client is not None and self.was_known:
            self.was_known = is_good_for(client, self.redirect_uris[0], self.scope)
            client = client if self.was_known else None
        try:
            return await self._signed_in(client)
        except _StaleClient:
            self.was_known = False
            return await self._signed_in(None)
        except SignInError as error:
            gone = error.problem is Problem.CLIENT_REFUSED
            if gone and self.was_known and self.record is not None:
                await self._forget(self.record)
            raise with_advice(self.network.server, error) from error.__cause__

    async def _signed_in(self, client: Registration | None) -> Record:
        """Sign in as a client, or as one that is registered now.

        Its registration is saved before the person is asked, unless there are tokens of another client.
        """
        if client is None:
            made, named_scope = await self._registered()
            uris = made.redirect_uris or tuple(self.redirect_uris)
            client = structs.replace(made, redirect_uris=uris, scope=union_scopes(made.scope, named_scope))
            self.client = client
            if self.record is None or self.record.tokens is None:
                await self.save(self._result(revision=self.base.revision + 1))
        self.client = client
        form = await self._code(client)
        tokens, account = await granted(
            self.network,
            self.base,
            client,
            form,
            refused=Problem.CODE_REFUSED,
            what="the code of the sign-in",
        )
        tokens = structs.replace(tokens, scope=tokens.scope or self.scope)
        account = account or await _name_at_endpoint(self.network, self.metadata, tokens)
        return structs.replace(self._result(revision=self.base.revision + 2), tokens=tokens, account=account)

    async def _registered(self) -> tuple[Registration, str | None]:
        """Register a client, with less said of it if that is refused; and the scopes that it has named.

        Some servers register one redirect URI and no more. oidc-provider registers no scopes of resources,
        but lets a client that named none ask for them; others let it ask only for those that it named.
        """
        uris = self.redirect_uris
        if (client := document_client(self.network.server, self.metadata, uris)) is not None:
            return client, self.scope
        self._require_registration()
        with suppress(ClientMetadataRefused):
            return await register(self.network, self.metadata, uris, self.scope), self.scope
        with suppress(ClientMetadataRefused):
            return await register(self.network, self.metadata, uris, None), None
        return await register(self.network, self.metadata, uris[:1], None), None

    async def _code(self, client: Registration) -> dict[str, str]:
        """Have the person agree at the authorization endpoint; the form that shows the code."""
        state, verifier = secrets.token_urlsafe(_RANDOM_BYTES), secrets.token_urlsafe(_RANDOM_BYTES)
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": self.redirect_uris[0],
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": self.base.resource,
            "scope": self.scope,
            "prompt": "consent" if OFFLINE in (self.scope or "").split() else None,  # OpenID Connect Core 11
        }
        endpoint = str(httpx2.URL(self.metadata["authorization_endpoint"]))
        query = urlencode({name: value for name, value in asked.items() if value})
        callback = await self._show(f"{endpoint}{'&' if '?' in endpoint else '?'}{query}")
        names_issuer = self.metadata.get("authorization_response_iss_parameter_supported") is True
        issuer = str(self.metadata.get("issuer"))
        return {
            "grant_type": "authorization_code",
            "code": code_in(callback, state=state, issuer=issuer, names_issuer=names_issuer),
            "redirect_uri": self.redirect_uris[0],
            "client_id": client.client_id,
            "code_verifier": verifier,
        }

    def _result(self, *, revision: int) -> Record:
        client = None if self.client is None else kept(self.network.server, self.client)
        return structs.replace(self.base, registration=client, revision=revision)

    def _require_registration(self) -> None:
        """Refuse a server that registers no clients."""
        if not isinstance(self.metadata.get("registration_endpoint"), str):
            text = (
                f"{self.metadata['issuer']} registers no clients by itself: register MCPX there with the"
                f" redirect URI {self.redirect_uris[0]}, and put its client_id (and client_secret) into"
                f" `auth` of {self.network.server.name}"
            )
            raise SignInError(Problem.REGISTRATION_REFUSED, text)

    async def _show(self, url: str) -> Callback:
        """Ask the person; a client from an earlier sign-in is looked for first, for they would be stuck."""
        self.network.check_url(url.partition("?")[0], "the address to sign in at")
        if self.was_known and await self._is_stale(url):
            raise _StaleClient
        asked_at = anyio.current_time()
        try:
            return await self.ask(url)
        except BaseException:
            if self.was_known and anyio.current_time() - asked_at > STUCK_AFTER_S:
                with anyio.CancelScope(shield=True, deadline=anyio.current_time() + FORGET_TIMEOUT_S):
                    if self.record is not None and self.record.tokens is None:  # others may still be good
                        await self._forget(self.record)
            raise

    async def _is_stale(self, url: str) -> bool:
        """Ask without credentials whether the authorization server has forgotten the client."""
        request = httpx2.Request("GET", url, headers={"Accept": "text/html"})
        try:
            response = await self.network.send(request, follow_redirects=False)
        except SignInError:
            return False  # the browser may fare better
        to = parse_qs(urlsplit(response.headers.get("location", "")).query)
        return response.status_code in _NO_SUCH_CLIENT or not _CLIENT_ERRORS.isdisjoint(to.get("error", []))

    async def _forget(self, record: Record) -> None:
        await self.save(structs.replace(record, registration=None, revision=record.revision + 1))


async def _name_at_endpoint(network: OAuthNetwork, metadata: JSON, tokens: Tokens) -> str | None:
    """The name that the userinfo endpoint tells the access token; None where it is not to be had.

    Never raises. It is bounded and shielded: what was granted is not to be lost for want of a name.
    """
    endpoint = metadata.get("userinfo_endpoint")
    if not isinstance(endpoint, str) or "openid" not in (tokens.scope or "").split():
        return None
    request = httpx2.Request("GET", endpoint, headers={"Authorization": f"Bearer {tokens.access_token}"})
    with anyio.move_on_after(NAME_TIMEOUT_S, shield=True):
        try:
            response = await network.send(request, follow_redirects=False)
        except (SignInError, ValueError, TypeError, httpx2.InvalidURL):
            return None
        return name_in(json_object(response)) if response.status_code == _OK else None
    return None

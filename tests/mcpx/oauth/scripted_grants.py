"""What a scripted issuer gives out: clients, codes, families of tokens; by the rules of OAuth 2.1."""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

from tests.mcpx.oauth.scripted_http import Answer, Seen

if TYPE_CHECKING:
    from tests.mcpx.oauth.scripted_issuer import ScriptedIssuer
    from tests.mcpx.oauth.scripted_options import Options

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
NO_STORE = {"cache-control": "no-store"}


class Refused(Exception):
    """A request is refused, as OAuth has it."""

    def __init__(self, status: int, error: str, text: str = "") -> None:
        super().__init__(error)
        self.answer = Answer(status, {"error": error, "error_description": text or error}, NO_STORE)


@dataclass
class Client:
    """A registered client. Without `redirect_uris` any is right; `dynamic`: it registered itself."""

    client_id: str
    secret: str | None = None
    redirect_uris: tuple[str, ...] = ()
    public_key: Any = None
    token_auth: str | None = None
    dynamic: bool = False


@dataclass
class Family:
    """All tokens of one sign-in."""

    client_id: str
    person: str
    scope: str
    resource: str | None
    refresh_token: str | None = None
    used: set[str] = field(default_factory=set)
    revoked: bool = False


@dataclass
class Access:
    """What an access token allows."""

    token: str
    person: str
    scope: str
    resource: str | None
    expires_at: float | None
    client_id: str
    family: Family | None = None


@dataclass
class _Code:
    family: Family
    redirect_uri: str
    challenge: str


class Grants:
    """The state of a scripted authorization server, and its endpoints."""

    def __init__(self, issuer: ScriptedIssuer) -> None:
        self._issuer = issuer
        self._numbers = itertools.count(1)
        self.clients: dict[str, Client] = {}
        self.families: dict[int, Family] = {}
        self.access: dict[str, Access] = {}
        self.secrets: set[str] = set()
        self.reuses = 0
        self._codes: dict[str, _Code] = {}

    @property
    def _options(self) -> Options:
        return self._issuer.options

    def _secret(self, kind: str) -> str:
        made = f"{kind}-{next(self._numbers)}-{secrets.token_urlsafe(24)}"
        self.secrets.add(made)
        return made

    def access_of(self, token: str) -> Access | None:
        """What a token allows; None for one that counts no more."""
        access = self.access.get(token)
        if access is None or (access.family is not None and access.family.revoked):
            return None
        if access.expires_at is not None and access.expires_at <= time.time():
            return None
        return access

    # --- endpoints

    def register(self, seen: Seen) -> Answer:
        asked = seen.json
        method = asked.get("token_endpoint_auth_method", "client_secret_basic")
        secret = (
            self._secret("client")
            if method.startswith("client_secret") and self._gives_secrets(method)
            else None
        )
        client = Client(
            f"c{next(self._numbers)}", secret, tuple(asked["redirect_uris"]), token_auth=method, dynamic=True
        )
        self.clients[client.client_id] = client
        more = {} if secret is None else {"client_secret": secret, "client_secret_expires_at": 0}
        said = {
            **asked,
            "client_id": client.client_id,
            **more,
            "token_endpoint_auth_method": method if secret else "none",
        }
        return Answer(201, {**said, **self._issuer.registration}, NO_STORE)

    def _gives_secrets(self, method: str) -> bool:
        return self._options.secret_clients or "none" not in self._options.token_auth

    def authorize(self, seen: Seen) -> Answer:
        query = seen.query
        client = self._client(query.get("client_id", ""))
        if client is None:
            return Answer(400, "<p>unknown client</p>", {"content-type": "text/html"})
        back = query.get("redirect_uri", "")
        if client.redirect_uris and back not in client.redirect_uris:
            return Answer(400, "<p>unknown redirect_uri</p>", {"content-type": "text/html"})
        person = dict(pair.partition("=")[::2] for pair in seen.headers.get("cookie", "").split("; ")).get(
            "person"
        )
        if person is None or self._options.consent == "page":
            return Answer(200, "<p>Log in</p>", {"content-type": "text/html"})
        said = {**self._decided(query, client, person), "state": query.get("state")}
        if self._options.sends_iss:
            said["iss"] = self._issuer.issuer
        said = {key: value for key, value in {**said, **self._issuer.callback}.items() if value is not None}
        return Answer(302, b"", {"location": f"{back}{'&' if '?' in back else '?'}{urlencode(said)}"})

    def _decided(self, query: dict[str, str], client: Client, person: str) -> dict[str, Any]:
        if self._options.consent == "deny":
            return {"error": "access_denied", "error_description": "The person said no."}
        if query.get("response_type") != "code" or query.get("code_challenge_method") != "S256":
            return {"error": "invalid_request", "error_description": "PKCE with S256 is needed."}
        if "resource" in query and not self._options.takes_resource:
            return {"error": "invalid_target", "error_description": "resource is not supported"}
        scope = self._options.grants_at_most or query.get("scope") or self._options.default_scope
        family = Family(client.client_id, person, scope, query.get("resource"))
        code = self._secret("code")
        self._codes[code] = _Code(family, query.get("redirect_uri", ""), query["code_challenge"])
        return {"code": code}

    def token(self, seen: Seen) -> Answer:
        form = seen.form
        if "resource" in form and not self._options.takes_resource:
            raise Refused(400, "invalid_target", "resource is not supported")
        client = self._authenticated(seen, form)
        match form.get("grant_type"):
            case "authorization_code":
                family = self._exchanged(form, client)
            case "refresh_token":
                family = self._refreshed(form, client)
            case "client_credentials" if client.secret is not None or client.public_key is not None:
                scope = form.get("scope") or self._options.default_scope
                family = Family(client.client_id, client.client_id, scope, form.get("resource"))
                return self._given(family, refresh=False)
            case _:
                raise Refused(400, "unsupported_grant_type")
        return self._given(family, refresh=self._options.refresh_tokens)

    def revoke(self, seen: Seen) -> Answer:
        form = seen.form
        self._authenticated(seen, form)
        token = form.get("token", "")
        for family in self.families.values():
            if token == family.refresh_token:
                family.revoked = True
        self.access.pop(token, None)
        return Answer(200, b"")

    # --- rules

    def _client(self, client_id: str) -> Client | None:
        if self._options.takes_documents and client_id.startswith("https://"):
            return self.clients.setdefault(client_id, Client(client_id, token_auth="none"))
        return self.clients.get(client_id)

    def _authenticated(self, seen: Seen, form: dict[str, str]) -> Client:
        client_id, secret = form.get("client_id", ""), form.get("client_secret")
        scheme, _, value = seen.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                client_id, _, secret = base64.b64decode(value).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError) as error:
                raise Refused(401, "invalid_client") from error
            client_id, secret = unquote(client_id), unquote(secret)
        if form.get("client_assertion_type") == ASSERTION:
            return self._asserted(form["client_assertion"])
        client = self._client(client_id)
        if client is None or client.secret != secret:
            raise Refused(401, "invalid_client", "unknown client, or another secret")
        return client

    def _asserted(self, assertion: str) -> Client:
        import jwt  # noqa: PLC0415 - 50 ms, for whoever signs

        try:
            client = self.clients[jwt.decode(assertion, options={"verify_signature": False})["sub"]]
            audience = [self._issuer.issuer, f"{self._issuer.issuer}/token"]
            jwt.decode(
                assertion, client.public_key, ["RS256", "ES256"], audience=audience, issuer=client.client_id
            )
        except (KeyError, jwt.PyJWTError) as error:
            raise Refused(401, "invalid_client", f"the assertion is refused: {error}") from error
        return client

    def _exchanged(self, form: dict[str, str], client: Client) -> Family:
        code = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if (
            code is None
            or code.family.client_id != client.client_id
            or code.redirect_uri != form.get("redirect_uri")
            or base64.urlsafe_b64encode(digest).decode().rstrip("=") != code.challenge
        ):
            raise Refused(400, "invalid_grant", "the code is unknown, used, or of another client")
        self.families[next(self._numbers)] = code.family
        return code.family

    def _refreshed(self, form: dict[str, str], client: Client) -> Family:
        token = form.get("refresh_token", "")
        for family in self.families.values():
            if family.client_id != client.client_id:
                continue
            if token in family.used:
                family.revoked = True
                self.reuses += 1
            elif token == family.refresh_token and not family.revoked:
                return family
        raise Refused(400, "invalid_grant", "the refresh token is unknown, used, or revoked")

    def _given(self, family: Family, *, refresh: bool) -> Answer:
        lifetime = self._options.lifetime_s
        token = self._secret("access")
        until = None if lifetime is None else time.time() + lifetime
        self.access[token] = Access(
            token, family.person, family.scope, family.resource, until, family.client_id, family
        )
        said: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "scope": family.scope}
        if lifetime is not None:
            said["expires_in"] = int(lifetime)
        if refresh and (family.refresh_token is None or self._options.rotates):
            family.used |= {family.refresh_token} - {None}
            family.refresh_token = self._secret("refresh")
            said["refresh_token"] = family.refresh_token
        answer = {
            key: value for key, value in {**said, **self._issuer.token_answer}.items() if value is not None
        }
        return Answer(200, answer, NO_STORE)

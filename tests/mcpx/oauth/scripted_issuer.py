"""An authorization server and an MCP server that wants its tokens, both doing what a test tells them.

    with scripted_issuer(lifetime_s=60) as issuer:
        entry = {"url": issuer.mcp_url}            # answers 401 and says where to sign in
        back = issuer.consent(authorize_url)        # what the person's browser does: where it is sent back to
        issuer.faults["token:refresh_token"] = Fault(status=503, times=2)
        assert issuer.asked == 1                    # how often a person was asked
        assert not issuer.leaked_to("elsewhere")    # secrets that came to another origin

Three origins of 127.0.0.1, each with a port: `resource` (the MCP server), `issuer` (the authorization server;
with `discovery="origin"` it is on the resource's origin) and `elsewhere`, whom nobody has a reason to tell
anything. They run in a thread of this process, over real sockets: other processes reach them too.

Steps, for `faults`, `seen`, `wait_for` and `reached`: `mcp:METHOD` (`mcp:tools/call`, `mcp:GET`, ...),
`resource_metadata`, `metadata` (`:oauth-authorization-server` or `:openid-configuration`), `register`,
`authorize`, `token` (`:authorization_code`, `:refresh_token`, `:client_credentials`), `revoke`, `other`.
`Fault` has what can happen there; with `works=True` it happens after the work is done, so that a refresh
token is rotated and the answer is lost. `hold=True` waits for `issuer.release()`: kill a process meanwhile.
`go_down("issuer")` and `come_up("issuer")` refuse connections and take them again.

Lies: `metadata`, `resource_metadata`, `registration`, `token_answer` and `callback` are laid over the right
answers (a value of None takes the key away); `challenge` replaces the WWW-Authenticate header ("": none).

The authorize endpoint shows a page (200) to whoever has no cookie `person`, and sends a browser that has one
back at once, as an issuer does where that person is logged in. `browser_command` is for BROWSER. Refresh
tokens rotate; one that is used again ends the whole family (`reuses` counts), as RFC 9700 has it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.mcpx.oauth import scripted_browser
from tests.mcpx.oauth.scripted_grants import Access, Client, Grants, Refused
from tests.mcpx.oauth.scripted_http import Answer, Fault, ScriptedHttp, Seen
from tests.mcpx.oauth.scripted_options import Options
from tests.mcpx.oauth.scripted_resource import Resource

__all__ = ["Access", "Client", "Fault", "ScriptedIssuer", "Seen", "scripted_issuer"]
BROWSER = Path(scripted_browser.__file__)
PROTECTED = "/.well-known/oauth-protected-resource"
SERVER_METADATA = {
    "/.well-known/oauth-authorization-server": "oauth-authorization-server",
    "/.well-known/openid-configuration": "openid-configuration",
}


class ScriptedIssuer(ScriptedHttp):
    """The three origins. Options may be changed at any time: `issuer.options.lifetime_s = 5`."""

    origins = ("resource", "issuer", "elsewhere")

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.resource = Resource(self)
        self.grants = Grants(self)
        self.metadata: dict[str, Any] = {}
        self.resource_metadata: dict[str, Any] = {}
        self.registration: dict[str, Any] = {}
        self.token_answer: dict[str, Any] = {}
        self.callback: dict[str, Any] = {}
        self.challenge: str | None = None

    # --- for tests: where it is, and what was asked of it

    @property
    def mcp_url(self) -> str:
        """The address of the MCP server."""
        return self.url("resource", self.options.path)

    @property
    def issuer(self) -> str:
        """The issuer's identifier."""
        origin = "resource" if self.options.discovery == "origin" else "issuer"
        return self.url(origin, self.options.issuer_path)

    @property
    def asked(self) -> int:
        """How often a person was asked: their browser came to the authorize endpoint."""
        return sum("person" in _cookies(each) for each in self.seen("authorize"))

    @property
    def refreshes(self) -> int:
        """How many requests for a refresh came."""
        return len(self.seen("token:refresh_token"))

    @property
    def calls(self) -> list[str]:
        """What ran, in order: the `key` of a call's arguments, or its tool."""
        return self.resource.calls

    @property
    def reuses(self) -> int:
        """How often a refresh token came that had been used before."""
        return self.grants.reuses

    @property
    def secrets(self) -> set[str]:
        """All that nobody else may see: tokens, codes, client secrets that were given out so far."""
        return set(self.grants.secrets)

    def leaked_to(self, origin: str, *more: str) -> list[Seen]:
        """The requests to an origin that hold a secret, or one of `more`."""
        secrets = self.secrets | set(more)
        return [
            each for each in self.seen(origin=origin) if any(each_in in _text(each) for each_in in secrets)
        ]

    def leaked_in(self, folder: Path) -> list[Path]:
        """The files under a folder that hold a secret, and may be read by others than their owner."""
        return [file for file in self.holding(folder) if file.stat().st_mode & 0o077]

    def holding(self, folder: Path) -> list[Path]:
        """The files under a folder that hold a secret."""
        secrets = [each.encode() for each in self.secrets]
        files = [file for file in folder.rglob("*") if file.is_file()]
        return [file for file in files if any(secret in file.read_bytes() for secret in secrets)]

    # --- for tests: what people and operators do

    def consent(self, authorize_url: str, *, person: str = "alice") -> str:
        """Agree in a browser, without following it back; the address that it is sent back to."""
        return scripted_browser.consent(authorize_url, person)

    def browse(self, authorize_url: str, *, person: str = "alice") -> tuple[int, str]:
        """Agree in a browser, and follow it back; the status and text of the page that it ends at."""
        return scripted_browser.fetch(scripted_browser.consent(authorize_url, person))

    def browser_command(self, *, person: str = "alice") -> str:
        """A value of BROWSER: a program that agrees as this person and follows the way back."""
        return f"{sys.executable} -S -E {BROWSER} {person} %s"

    def add_client(self, client_id: str, secret: str | None = None, **more: Any) -> Client:
        """Register a client by hand; `public_key` is for assertions."""
        client = Client(client_id, secret, **more)
        self.grants.clients[client_id] = client
        self.grants.secrets.update({secret} - {None})
        return client

    def forget_clients(self) -> None:
        """Know none of the clients any more that have registered themselves."""
        self.grants.clients = {key: each for key, each in self.grants.clients.items() if not each.dynamic}

    def expire(self) -> None:
        """Let the access tokens expire that were given out so far; the clients are not told."""
        for access in list(self.grants.access.values()):
            access.expires_at = 0.0

    def revoke_all(self) -> None:
        """Take back all tokens, refresh tokens too."""
        for family in list(self.grants.families.values()):
            family.revoked = True

    # --- routes

    def step(self, seen: Seen) -> str:
        if seen.origin == "elsewhere":
            return "other"
        path = seen.path
        if seen.origin == "resource" and path == self.options.path:
            return f"mcp:{self.resource.method(seen)}"
        if seen.origin == "resource" and path.startswith(PROTECTED):
            return "resource_metadata"
        if self.url(seen.origin) != _origin(self.issuer):
            return "other"
        for known, name in SERVER_METADATA.items():
            if path in {known + self.options.issuer_path, self.options.issuer_path + known}:
                return f"metadata:{name}"
        step = path.removeprefix(self.options.issuer_path).removeprefix("/")
        if step == "token":
            return f"token:{seen.form.get('grant_type', '')}"
        return step if step in {"register", "authorize", "revoke", "jwks"} else "other"

    def answer(self, seen: Seen) -> Answer:
        try:
            return self._answer(seen)
        except Refused as refused:
            return refused.answer

    def _answer(self, seen: Seen) -> Answer:
        match seen.step.partition(":")[0]:
            case "mcp":
                return self.resource.answer(seen)
            case "resource_metadata" if self.options.discovery in {"header", "well-known"}:
                return self._resource_metadata(seen)
            case "metadata" if self.options.discovery != "none":
                return self._server_metadata(seen.step.partition(":")[2])
            case "register" if self.options.registers:
                return self.grants.register(seen)
            case "authorize":
                return self.grants.authorize(seen)
            case "token":
                return self.grants.token(seen)
            case "revoke":
                return self.grants.revoke(seen)
            case "jwks":
                return Answer(200, {"keys": []})
        return Answer(200 if seen.origin == "elsewhere" else 404, {})

    def _resource_metadata(self, seen: Seen) -> Answer:
        if seen.path not in {PROTECTED, PROTECTED + self.options.path}:
            return Answer(404)
        said = {
            "resource": self.mcp_url,
            "authorization_servers": [self.issuer],
            "scopes_supported": list(self.options.scopes),
            "bearer_methods_supported": ["header"],
        }
        return Answer(200, overlaid(said, self.resource_metadata))

    def _server_metadata(self, kind: str) -> Answer:
        if (kind == "openid-configuration") != self.options.openid:
            return Answer(404)
        said = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported": list(self.options.token_auth),
            "token_endpoint_auth_signing_alg_values_supported": ["RS256", "ES256"],
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": [*self.options.scopes, *self.options.more_scopes],
            "authorization_response_iss_parameter_supported": self.options.sends_iss,
            "client_id_metadata_document_supported": self.options.takes_documents,
        }
        if self.options.registers:
            said["registration_endpoint"] = f"{self.issuer}/register"
        if self.options.openid:
            said |= {
                "jwks_uri": f"{self.issuer}/jwks",
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        return Answer(200, overlaid(said, self.metadata))


def overlaid(said: dict[str, Any], lies: dict[str, Any]) -> dict[str, Any]:
    """An answer with lies over it; a value of None takes a key away."""
    return {key: value for key, value in {**said, **lies}.items() if value is not None}


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _cookies(seen: Seen) -> dict[str, str]:
    pairs: Iterable[str] = seen.headers.get("cookie", "").split("; ")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs) if name}


def _text(seen: Seen) -> str:
    return " ".join([seen.path, *seen.query.values(), *seen.headers.values(), seen.body.decode("latin-1")])


@contextmanager
def scripted_issuer(**options: Any) -> Iterator[ScriptedIssuer]:
    """Both servers, running until the end of the context; the options are those of `Options`."""
    with ScriptedIssuer(Options(**options)).running() as issuer:
        yield issuer

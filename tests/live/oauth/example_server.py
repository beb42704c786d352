"""The SDK's example of signing in, `simple-auth`, in both of its forms: `example_server.py [LIFETIME]`.

`combined` is an authorization server and an MCP server at one origin, as MCP had it in 2025-03-26: the
resource has no metadata. `split` is an MCP server that names an authorization server elsewhere. Both are the
SDK's own parts around a provider that does what the example's does: one user, one page with a button, tokens
that live LIFETIME seconds (3600) and cannot be refreshed or revoked. Says `serving COMBINED and SPLIT` on
standard error, two URLs, once both accept connections.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

SCOPE = "user"
REGISTRATION = ClientRegistrationOptions(enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE])
PAGE = """<!doctype html><title>MCP Demo Authentication</title>
<form action="/login/callback" method="post"><input type="hidden" name="state" value="{state}">
<input name="username" value="demo_user"><button type="submit">Sign In</button></form>"""


class DemoProvider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Signs in whoever pushes the button."""

    def __init__(self, url: str, lifetime_s: int) -> None:
        self._url = url
        self._lifetime_s = lifetime_s
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._pending: dict[str, tuple[str, AuthorizationParams]] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        state = params.state or secrets.token_hex(16)
        self._pending[state] = (client.client_id, params)
        return f"{self._url}/login?{urlencode({'state': state, 'client_id': client.client_id})}"

    async def page(self, request: Request) -> Response:
        return HTMLResponse(PAGE.format(state=request.query_params["state"]))

    async def pushed(self, request: Request) -> Response:
        form = await request.form()
        state = str(form["state"])
        client_id, params = self._pending.pop(state)
        code = secrets.token_hex(20)
        self._codes[code] = AuthorizationCode(
            code=code,
            client_id=client_id,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            expires_at=time.time() + 300,
            scopes=[SCOPE],
            code_challenge=params.code_challenge,
            resource=params.resource,
            subject=str(form["username"]),
        )
        target = construct_redirect_uri(str(params.redirect_uri), code=code, state=state)
        return RedirectResponse(target, status_code=302)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._codes[authorization_code.code]
        token = f"mcp_{secrets.token_hex(32)}"
        self._tokens[token] = AccessToken(
            token=token,
            client_id=client.client_id,
            scopes=authorization_code.scopes,
            expires_at=int(time.time()) + self._lifetime_s,
            resource=authorization_code.resource,
            subject=authorization_code.subject,
        )
        return OAuthToken(access_token=token, expires_in=self._lifetime_s, scope=SCOPE)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._tokens.get(token)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        raise NotImplementedError

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise NotImplementedError

    def routes(self) -> list[Route]:
        """The pages for people."""
        return [
            Route("/login", self.page, methods=["GET"]),
            Route("/login/callback", self.pushed, methods=["POST"]),
        ]


def add_tools(server: MCPServer) -> None:
    @server.tool()
    def whoami() -> str:
        """Say who has signed in."""
        token = get_access_token()
        assert token is not None
        return str(token.subject)


def combined(url: str, lifetime_s: int) -> Starlette:
    provider = DemoProvider(url, lifetime_s)
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(url),  # with a slash at its end, as in the example
        client_registration_options=REGISTRATION,
        required_scopes=[SCOPE],
        resource_server_url=None,
    )
    server = MCPServer("combined", auth_server_provider=provider, auth=settings)
    add_tools(server)
    app = server.streamable_http_app()
    app.routes.extend(provider.routes())
    return app


def split(url: str, issuer: str, provider: DemoProvider) -> Starlette:
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(issuer),
        required_scopes=[SCOPE],
        resource_server_url=f"{url}/mcp",
        validate_token_resource=True,
    )
    server = MCPServer("split", token_verifier=ProviderTokenVerifier(provider), auth=settings)
    add_tools(server)
    return server.streamable_http_app()


class Server(uvicorn.Server):
    """One of several: a signal ends all of them at once."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def main(lifetime_s: int) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    one, issuer, two = (f"http://localhost:{each.getsockname()[1]}" for each in listeners)
    provider = DemoProvider(issuer, lifetime_s)
    authorization = Starlette(
        routes=[
            *create_auth_routes(provider, AnyHttpUrl(issuer), client_registration_options=REGISTRATION),
            *provider.routes(),
        ]
    )
    apps = [combined(one, lifetime_s), authorization, split(two, issuer, provider)]
    print(f"serving {one}/mcp and {two}/mcp", file=sys.stderr, flush=True)
    running = [Server(uvicorn.Config(app, log_config=None)) for app in apps]
    await asyncio.gather(
        *(each.serve(sockets=[listener]) for each, listener in zip(running, listeners, strict=True))
    )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3600))

"""`/mcp`, `/mcp/PROFILE` and `/mcp/peers/NAME`: an ASGI application for all but transparent endpoints.

The query may choose how tools are shown (`?expose=all`) and name the servers that are shown
(`?only=git,linear`, also more than once). An endpoint's sessions are kept while the frontend runs. Of the
endpoints that do not show all servers, of which there may be any number, `MAX_ENDPOINTS` are kept: the
sessions of the one that was used longest ago end for another one, and those of a profile that is not
configured any more. A token with a name has endpoints and sessions of its own, and if it is for a profile,
for its clients there is no other. Another MCPX gets a server at `/mcp/peers/NAME`, NAME percent-encoded
(`mcpx.core.gateway.peer`); those endpoints are kept for as long as there is the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from mcpx.core.config import Config
from mcpx.core.gateway.clients.bearer import Bearer, bearer_in
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http_managers import SessionManagers
from mcpx.core.gateway.frontends.http_sessions import resumed
from mcpx.core.gateway.transparent.endpoint import not_found
from mcpx.core.servers.fleet.profiles import EndpointError, by_own_names, check_endpoint
from mcpx.core.system.endpoint import EXPOSURES, Endpoint, only_of

PATH: Final = "/mcp"
PROFILE_PATH: Final = "/mcp/{profile}"
PEERS_PATH: Final = "/mcp/peers/{peer:path}"
MAX_ENDPOINTS: Final = 64  # that do not show all servers

Guard = Callable[[Request], Awaitable[Response | None]]
"""Gives the response that refuses a request because of where it comes from; None for one that is let in."""


class HttpEndpoints:
    """Serves while `running`. `make_manager` makes the session manager for a server of the SDK.

    `guard` is asked before an endpoint that there is not is refused; of any other the manager asks it.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        make_manager: Callable[[Server[Any]], StreamableHTTPSessionManager],
        guard: Guard,
    ) -> None:
        def make(own: tuple[Endpoint, Bearer | None], _tasks: object) -> StreamableHTTPSessionManager:
            endpoint = own[0]
            return make_manager(
                endpoints.gateway(endpoint) if endpoint.peer is None else endpoints.peer(endpoint)
            )

        self._hub = endpoints.hub
        self._guard = guard
        self._managers = SessionManagers(make)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep the sessions."""
        return self._managers.running()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if "peer" in scope["path_params"]:
            await self._serve(Endpoint(peer=scope["path_params"]["peer"]), scope, receive, send)
            return
        query = QueryParams(scope["query_string"])
        expose = next((each for each in EXPOSURES if each == query.get("expose")), None)
        if expose is None and "expose" in query:
            text = f"expose must be {', '.join(EXPOSURES[:-1])} or {EXPOSURES[-1]}"
            await PlainTextResponse(text, status_code=400)(scope, receive, send)
            return
        only = only_of(query.getlist("only")) if "only" in query else None
        endpoint = Endpoint(expose, only=only, profile=scope["path_params"].get("profile") or None)
        await self._serve(endpoint, scope, receive, send)

    async def _serve(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request at an endpoint; it is that of the bearer's profile, where it names none."""
        bearer = bearer_in(scope)
        if endpoint.profile is None and bearer is not None:
            endpoint = replace(endpoint, profile=bearer.token.profile)
        endpoint = by_own_names(endpoint, self._hub.config)
        try:
            check_endpoint(endpoint, _visible_to(bearer, self._hub.config))
        except EndpointError as error:
            self._managers.end((endpoint, bearer))
            response = await self._guard(Request(scope)) or not_found(str(error))
            await response(scope, receive, send)
            return
        manager = await self._managers.get((endpoint, bearer))
        if endpoint.peer is not None:
            receive, taken = await self._take_call(manager.app, scope, receive, send)
            if taken:
                return
        else:  # of peers there are only so many servers
            self._managers.end_oldest(
                lambda each: each[1] is bearer and each[0].peer is None and not each[0].shows_all,
                MAX_ENDPOINTS,
            )
        await manager.handle_request(scope, receive, send)

    async def _take_call(
        self, server: Any, scope: Scope, receive: Receive, send: Send
    ) -> tuple[Receive, bool]:
        """Serve a plain call of a peer; what is to be received then, and whether it was served."""
        from mcpx.core.gateway.peer.posted_calls import may_be_plain  # noqa: PLC0415 - for those who have peers

        headers = may_be_plain(scope)
        if headers is None or await self._guard(Request(scope)) is not None:
            return receive, False
        begun = await receive()
        receive = resumed([begun], receive)
        if begun.get("more_body") or not begun.get("body"):
            return receive, False
        body = begun["body"]
        return receive, await server.posted_calls.take(headers, body, scope, receive, send)

    def end_all(self, bearer: Bearer) -> None:
        """End the sessions of a token."""
        self._managers.end_all(lambda each: each[1] is bearer)


def _visible_to(bearer: Bearer | None, config: Config) -> Config:
    """The configuration with the profiles that there are for a bearer: if its token has one, that alone."""
    if bearer is None or bearer.token.profile is None:
        return config
    own = {name: each for name, each in config.profiles.items() if name == bearer.token.profile}
    return replace(config, profiles=own)

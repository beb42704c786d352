"""`/mcp` and what is below it: an ASGI application that takes each request to the sessions of its endpoint.

- `/mcp` and `/mcp/PROFILE`: the query may choose how tools are shown (`?expose=all`) and name the servers
that
  are shown (`?only=git,linear`, also more than once).
- `/mcp/servers/NAME`: one server as it is (`mcpx.core.gateway.transparent`).
- `/mcp/peers/NAME`: one server for another MCPX (`mcpx.core.gateway.peer`).

NAME is percent-encoded. A token with a name has sessions of its own at each endpoint, and if it is for a
profile, for its clients there is nothing else. Sessions last while the frontend runs and there is what the
endpoint names; of the endpoints that choose among the servers, of which there may be any number,
`MAX_ENDPOINTS` are kept, and the sessions of the one that was used longest ago end for another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio.abc
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST
from msgspec.structs import replace
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpx.core.config import Config
from mcpx.core.gateway.clients.identity import Bearer, bearer_in
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.posted_calls import PostedCalls, may_be_plain
from mcpx.core.gateway.frontends.http.sessions import SessionManagers, resumed
from mcpx.core.gateway.transparent.clients import TransparentServer
from mcpx.core.policy.profiles import EndpointError, by_own_names, check_endpoint, select
from mcpx.core.system.endpoint import EXPOSURES, Endpoint, only_of
from mcpx.core.text import cut, shown_name
from mcpx.core.text.nearest import nearest
from mcpx.core.wire import envelope
from mcpx.core.wire.enclosed import restore

PATH: Final = "/mcp"
PROFILE_PATH: Final = "/mcp/{profile}"
SERVERS_PATH: Final = "/mcp/servers/{server:path}"
PEERS_PATH: Final = "/mcp/peers/{peer:path}"
MAX_ENDPOINTS: Final = 64  # that show a choice of the servers
MAX_NAME_CHARS: Final = 256
_LENGTH: Final = "content-length"

Guard = Callable[[Request], Awaitable[Response | None]]
"""Gives the response that refuses a request because of where it comes from; None for one that is let in."""
MakeManager = Callable[[Server[Any]], StreamableHTTPSessionManager]
"""Makes the session manager for a server of the SDK."""


class HttpEndpoints:
    """Serves while `running`.

    `guard` is asked before an endpoint that does not exist is refused; of any other the manager asks it.
    """

    def __init__(self, endpoints: Endpoints, make_manager: MakeManager, guard: Guard) -> None:
        def make(
            own: tuple[Endpoint, Bearer | None], tasks: anyio.abc.TaskGroup
        ) -> StreamableHTTPSessionManager:
            endpoint, bearer = own
            if endpoint.server is not None:
                outbox = endpoints.clients.outbox
                return make_manager(TransparentServer(self._hub, endpoint.server, outbox, tasks, bearer))
            if endpoint.peer is None:
                return make_manager(endpoints.gateway(endpoint))
            server = endpoints.peer(endpoint)
            manager = make_manager(server)
            self._posted_calls[manager] = PostedCalls(server)
            return manager

        self._hub = endpoints.hub
        self._guard = guard
        self._managers = SessionManagers(make)
        self._posted_calls: WeakKeyDictionary[object, PostedCalls] = WeakKeyDictionary()  # by their managers

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep the sessions."""
        return self._managers.running()

    def end_all(self, bearer: Bearer) -> None:
        """End the sessions of a token."""
        self._managers.end_all(lambda each: each[1] is bearer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, at the endpoint of the bearer's profile where it names none."""
        try:
            named = _endpoint_in(scope)
        except ValueError as error:
            await PlainTextResponse(str(error), status_code=400)(scope, receive, send)
            return
        bearer = bearer_in(scope)
        if named.profile is None and bearer is not None:
            named = replace(named, profile=bearer.token.profile)
        endpoint = by_own_names(named, self._hub.config)
        try:
            self._check(endpoint, bearer)
        except EndpointError as error:
            self._managers.end((endpoint, bearer))
            response = await self._guard(Request(scope)) or _not_found(str(error))
            await response(scope, receive, send)
            return
        manager = await self._managers.get((endpoint, bearer))
        if endpoint.peer is not None:
            calls = self._posted_calls[manager]
            receive, taken = await self._take_call(calls, scope, receive, send)
            if taken:
                return
        if endpoint.alone is None:  # of the others there are only so many servers
            self._managers.end_oldest(
                lambda each: each[1] is bearer and each[0].alone is None and not each[0].shows_all,
                MAX_ENDPOINTS,
            )
        await manager.handle_request(scope, receive, send)

    def _check(self, endpoint: Endpoint, bearer: Bearer | None) -> None:
        """Check that an endpoint is there for a bearer.

        Raises:
            EndpointError: It is not.
        """
        config = _visible_to(bearer, self._hub.config)
        if (name := endpoint.server) is None:
            check_endpoint(endpoint, config)
            return
        shown = select(Endpoint(profile=endpoint.profile), config).config.servers
        names = [each for each in self._hub.upstreams if each in shown]
        if name not in names:
            near = nearest(name, names)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise EndpointError(f"No server {shown_name(cut(name, MAX_NAME_CHARS))}{hint}")

    async def _take_call(
        self, calls: PostedCalls, scope: Scope, receive: Receive, send: Send
    ) -> tuple[Receive, bool]:
        """Serve a plain call of a peer. Returns what is to be received then, and True if it was served."""
        headers = may_be_plain(scope)
        if headers is None or await self._guard(Request(scope)) is not None:
            return receive, False
        begun = await receive()
        receive = resumed([begun], receive)
        if begun.get("more_body") or not begun.get("body"):
            return receive, False
        return receive, await calls.take(headers, begun["body"], scope, receive, send)


def _endpoint_in(scope: Scope) -> Endpoint:
    """The endpoint that the URL names; raises `ValueError` with what is wrong with its query."""
    named = scope["path_params"]
    if "server" in named or "peer" in named:
        return Endpoint(server=named.get("server"), peer=named.get("peer"))
    query = QueryParams(scope["query_string"])
    expose = next((each for each in EXPOSURES if each == query.get("expose")), None)
    if expose is None and "expose" in query:
        raise ValueError(f"expose must be {', '.join(EXPOSURES[:-1])} or {EXPOSURES[-1]}")
    only = only_of(query.getlist("only")) if "only" in query else None
    return Endpoint(expose, only=only, profile=named.get("profile") or None)


def _visible_to(bearer: Bearer | None, config: Config) -> Config:
    """The configuration with the profiles that a bearer may use: if its token has one, that alone."""
    if bearer is None or bearer.token.profile is None:
        return config
    own = {name: each for name, each in config.profiles.items() if name == bearer.token.profile}
    return replace(config, profiles=own)


def _not_found(problem: str) -> Response:
    error = {"code": INVALID_REQUEST, "message": problem}
    body = envelope.encode({"jsonrpc": "2.0", "id": None, "error": error})
    return Response(body, status_code=404, media_type="application/json")


class EncodedResults:
    """An ASGI application around another one: puts encoded results into the responses that carry them.

    The SDK's transports write every message as one compact JSON text, in a response of its own or in one
    event of a stream. Where a handler has enclosed encoded JSON (`mcpx.core.wire.enclosed`), the client gets
    that JSON, byte for byte as a client of a stream does. Stored events pass here when they are sent, too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; the head of a response with a length waits for the body, whose length changes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        waiting: list[Message] = []

        async def send_restored(message: Message) -> None:
            if message["type"] == "http.response.start" and _LENGTH in Headers(raw=message["headers"]):
                waiting.append(message)
                return
            if body := message.get("body"):
                message["body"] = restored = restore(body)
                if waiting and len(restored) != len(body):
                    headers = MutableHeaders(raw=list(waiting[0]["headers"]))
                    headers[_LENGTH] = str(len(restored))
                    waiting[0]["headers"] = headers.raw
            while waiting:
                await send(waiting.pop())
            await send(message)

        await self._app(scope, receive, send_restored)

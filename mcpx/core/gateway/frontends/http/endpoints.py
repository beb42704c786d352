"""`/mcp` and what is below it: each request is taken to the sessions of its endpoint.

- `/mcp` and `/mcp/PROFILE`: the query may choose how tools are shown (`?expose=all`) and name the servers
  that are shown (`?only=git,linear`, also more than once).
- `/mcp/servers/NAME`: one server as it is (`mcpx.core.gateway.transparent`).
- `/mcp/peers/NAME`: one server for another MCPX (`mcpx.core.gateway.peer`).

NAME is percent-encoded. A token with a name has sessions of its own at each endpoint, and if it is for a
profile, for its clients there is nothing else. Sessions last while the frontend runs and there is what the
endpoint names; of the endpoints that choose among the servers, of which there may be any number,
`MAX_ENDPOINTS` are kept, and the sessions of the one that was used longest ago end for another one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

import anyio
from msgspec.structs import replace

from mcpx.core.config import Config
from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.bodies import refuse
from mcpx.core.gateway.frontends.http.exchange import PEERS, TEXT
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.gateway.frontends.http.posted import Common
from mcpx.core.gateway.frontends.http.sessions import IDLE_S, Service, Sessions
from mcpx.core.gateway.over_http import EndpointService, gateway_service
from mcpx.core.gateway.transparent.clients import TransparentService
from mcpx.core.policy.profiles import EndpointError, by_own_names, check_endpoint, select
from mcpx.core.protocol.context import ClientId
from mcpx.core.system.endpoint import EXPOSURES, Endpoint, only_of
from mcpx.core.text import cut, shown_name
from mcpx.core.text.nearest import nearest

PATH: Final = "/mcp"
MAX_ENDPOINTS: Final = 64  # that show a choice of the servers
MAX_NAME_CHARS: Final = 256
MAX_KNOWN: Final = 256  # URLs whose endpoint is remembered
IDLE_LOOK_S: Final = 60.0

_SERVERS: Final = "/mcp/servers/"
Key = tuple[Endpoint, Bearer | None]


class HttpEndpoints:
    """Serves while `running`. `limit` is the most bytes of a message, and of the answer to a batch."""

    def __init__(self, endpoints: Endpoints, limit: int) -> None:
        self._endpoints = endpoints
        self._hub = endpoints.hub
        self._common = Common(limit)
        self._sessions: dict[Key, Sessions] = {}  # the one that was used longest ago is the first
        self._known: dict[tuple[str, bytes, Bearer | None], tuple[Config, Key]] = {}

    def __len__(self) -> int:
        """The number of open sessions."""
        return sum(map(len, self._sessions.values()))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sessions."""
        async with anyio.create_task_group() as self._common.tasks:
            self._common.tasks.start_soon(self._end_idle)
            yield
            self.end_all(lambda _key: True)
            self._common.tasks.cancel_scope.cancel()
        self._common.tasks = None

    async def _end_idle(self) -> None:
        while True:
            await anyio.sleep(IDLE_LOOK_S)
            for sessions in list(self._sessions.values()):
                sessions.end_idle(IDLE_S / IDLE_LOOK_S)

    def end_of(self, bearer: Bearer) -> None:
        """End the sessions of a token."""
        self.end_all(lambda key: key[1] is bearer)

    def end_all(self, belongs: Callable[[Key], bool]) -> None:
        """End the sessions of those endpoints."""
        for key in [key for key in self._sessions if belongs(key)]:
            self._sessions.pop(key).end_all()
        self._known = {url: known for url, known in self._known.items() if known[1] in self._sessions}

    def serve(self, exchange: HttpExchange) -> None:
        """Serve one HTTP request, at the endpoint of the bearer's profile where it names none."""
        url = exchange.path, exchange.head.query, exchange.bearer
        known = self._known.get(url)
        if known is not None and known[0] is self._hub.config:
            sessions = self._sessions.get(known[1])
            if sessions is None or sessions.is_choice:
                sessions = self._sessions_of(known[1])
            sessions.serve(exchange)
        elif (key := self._found(exchange)) is not None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            if key[0].server is None:  # of the others, only a change of the configuration can take one away
                self._known[url] = self._hub.config, key
            self._sessions_of(key).serve(exchange)

    def _found(self, exchange: HttpExchange) -> Key | None:
        """Return the endpoint of a request; None where there is none, which is the response."""
        bearer = exchange.bearer
        try:
            named = _endpoint_in(exchange.path, exchange.head.query)
        except ValueError as error:
            exchange.respond(400, TEXT, [str(error).encode()])
            return None
        if named is None:
            exchange.respond(404, TEXT, [b"Not Found"])
            return None
        if named.profile is None and bearer is not None:
            named = replace(named, profile=bearer.token.profile)
        endpoint = by_own_names(named, self._hub.config)
        try:
            self._check(endpoint, bearer)
        except EndpointError as error:
            self.end_all(lambda key: key == (endpoint, bearer))
            refuse(exchange, 404, str(error))
            return None
        return endpoint, bearer

    def _sessions_of(self, key: Key) -> Sessions:
        """The sessions of an endpoint, the latest that are used."""
        endpoint, bearer = key
        if (sessions := self._sessions.get(key)) is None:
            sessions = Sessions(self._common, bearer, self._service(endpoint, bearer))
            sessions.is_choice = endpoint.alone is None and not endpoint.shows_all
        self._sessions.pop(key, None)
        self._sessions[key] = sessions
        chosen = [key for key, each in self._sessions.items() if key[1] is bearer and each.is_choice]
        for old in chosen[: max(0, len(chosen) - MAX_ENDPOINTS)]:
            self._sessions.pop(old).end_all()
        return sessions

    def _service(self, endpoint: Endpoint, bearer: Bearer | None) -> Service:
        if endpoint.server is not None:
            return TransparentService(self._hub, endpoint.server, bearer)
        if endpoint.peer is not None:
            from mcpx.core.gateway.peer.fast_path import PeerFastPath  # noqa: PLC0415 - for those who are peers

            server = self._endpoints.peer(endpoint)
            return EndpointService(server, bearer, lambda client: PeerFastPath(server, client).take)
        return HttpPlaces(self._endpoints, endpoint, bearer).service

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


class HttpPlaces:
    """One endpoint, and beside it those with the servers of its clients' projects."""

    def __init__(self, endpoints: Endpoints, endpoint: Endpoint, bearer: Bearer | None) -> None:
        self.hub = endpoints.hub
        self._endpoints = endpoints
        self._endpoint = endpoint
        self._bearer = bearer
        self._of_projects: WeakValueDictionary[Endpoint, EndpointService] = WeakValueDictionary()
        self.service = self._make(endpoint)

    def service_for(self, client: ClientId) -> EndpointService:
        """Return what serves a client at the endpoint where it belongs now."""
        endpoint = self.hub.projects.endpoint_for(self._endpoint, client)
        if endpoint == self._endpoint:
            return self.service
        found = self._of_projects.get(endpoint)
        if found is None:
            found = self._of_projects[endpoint] = self._make(endpoint)
        return found

    def _make(self, endpoint: Endpoint) -> EndpointService:
        return gateway_service(self._endpoints.gateway(endpoint), self._bearer, self)


def _endpoint_in(path: str, query: bytes) -> Endpoint | None:
    """The endpoint that a URL names; None for none.

    Raises:
        ValueError: What is wrong with its query.
    """
    if path.startswith(_SERVERS):
        return Endpoint(server=path.removeprefix(_SERVERS))
    if path.startswith(PEERS):
        return Endpoint(peer=path.removeprefix(PEERS))
    profile = path.removeprefix(PATH).removeprefix("/")
    if "/" in profile or path not in {PATH, f"{PATH}/{profile}"}:
        return None
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    chosen = [value for name, value in given if name == "expose"]
    expose = next((each for each in EXPOSURES if each == chosen[-1]), None) if chosen else None
    if expose is None and chosen:
        raise ValueError(f"expose must be {', '.join(EXPOSURES[:-1])} or {EXPOSURES[-1]}")
    only = [value for name, value in given if name == "only"]
    return Endpoint(expose, only=only_of(only) if only else None, profile=profile or None)


def _visible_to(bearer: Bearer | None, config: Config) -> Config:
    """The configuration with the profiles that a bearer may use: if its token has one, that alone."""
    if bearer is None or bearer.token.profile is None:
        return config
    own = {name: each for name, each in config.profiles.items() if name == bearer.token.profile}
    return replace(config, profiles=own)

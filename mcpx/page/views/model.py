"""The view `model`: what each client's model is shown, and what a search of its finds.

    GET /model                       {"clients": [CLIENT], "others": [{id, title}]}
    GET /model/{client}              {"client": CLIENT, "limits": [text], "source", "instructions": SIZED,
                                     "tools": [{name, title, server, description: SIZED, parameters:
                                     [{name, description: SIZED}], tokens}], "left_out": n}
    GET /model/{client}/tools/{tool} {"text", "left_out", "bytes"}: the definition as it is sent
    GET /search?q=&client=&server=   what `mcpx.page.views.ranking.found` gives

`others` are clients that are not attached: those that MCPX knows, each as it would be at the default
endpoint. SIZED is as `mcpx.page.views.sights.measured` gives it. The topic `model` yields what `GET /model`
answers, again whenever that has changed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.routing import Route

from mcpx.core.catalog.model import JSON
from mcpx.core.events.costs import cost_of_menus
from mcpx.core.gateway.clients.attached import AttachedClient
from mcpx.core.gateway.clients.known_clients import KNOWN_CLIENTS, known_client
from mcpx.core.gateway.clients.tool_lists import ToolList
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.errors import MCPXError
from mcpx.page.answers import BadRequestError, get
from mcpx.page.cards import OpenPage
from mcpx.page.events import Topic
from mcpx.page.views.ranking import found
from mcpx.page.views.sights import limits, look, seen_through, written

LOOK_S: Final = 1.0  # between two looks at who is attached, while somebody follows
MAX_CLIENTS: Final = 100
MAX_KEPT: Final = 200  # figures
_AS: Final = "as-"
_NOT_KNOWN: Final = "any other client"


def routes(page: OpenPage) -> list[Route]:
    """Its requests."""
    return [
        get("/model", _clients, page),
        get("/model/{client}", _client, page),
        get("/model/{client}/tools/{tool}", _tool, page),
        get("/search", _search, page),
    ]


async def _clients(page: OpenPage, _request: Request) -> JSON:
    return _of(page).look()


async def _client(page: OpenPage, request: Request) -> JSON:
    client = _named(page, request.path_params["client"])
    sight = look(page.clients, client.endpoint, client.name)
    sizes = await anyio.to_thread.run_sync(sight.measured)
    source = None if sight.known is None else sight.known.source
    about = _of(page).about(client)
    return {"client": about, "limits": limits(sight.known), "source": source, **sizes}


async def _tool(page: OpenPage, request: Request) -> JSON:
    client = _named(page, request.path_params["client"])
    tool = look(page.clients, client.endpoint, client.name).definition(request.path_params["tool"])
    if tool is None:
        raise MCPXError("this client is not shown a tool of that name")
    return await anyio.to_thread.run_sync(written, tool)


async def _search(page: OpenPage, request: Request) -> JSON:
    query, given = request.query_params.get("q", "").strip(), request.query_params.get("client")
    endpoint = DEFAULT_ENDPOINT if not given else _named(page, given).endpoint
    if not query:
        raise BadRequestError("q is missing: what is to be searched for")
    if endpoint.alone is not None:
        raise BadRequestError("this client is given one server as it is, and has no inspect to search with")
    registry = page.clients.tool_list(endpoint).hub.registry
    only = request.query_params.get("server")
    only = registry.upstream(only).name if only else None
    return {"query": query, **found(registry.list_servers(), query, only)}


async def _follow(page: OpenPage, _argument: str) -> AsyncGenerator[Any, None]:
    clients, before = _of(page), None
    while True:
        now = clients.look()
        if now != before:
            before = now
            yield now
        await anyio.sleep(LOOK_S)


TOPICS: Final[Mapping[str, Topic]] = {"model": _follow}


class _Figures(NamedTuple):
    """The size of what a client is given, and the settings and catalogues that it was made of."""

    made_of: Sequence[object]
    own_tools: int
    native_tools: int
    tokens: int
    direct: int


class _Clients:
    """The attached clients, and what that costs each; a figure is kept while it cannot have changed."""

    def __init__(self, page: OpenPage) -> None:
        self._page = page
        self._figures: dict[tuple[Endpoint, str], _Figures] = {}
        self._since: dict[str, int] = {}
        self._lists: list[ToolList] = []  # of those who are attached, so that they are not made anew

    def look(self) -> JSON:
        """Make the answer to `GET /model`."""
        attached = self._page.clients.attached.all()
        self._since = {each.id: self._since.get(each.id, _since(each)) for each in attached}
        self._lists = [self._list(each) for each in attached[:MAX_CLIENTS]]
        shown = [self.about(each) for each in attached[:MAX_CLIENTS]]
        others = [{"id": each.id, "title": each.title} for each in _others()]
        return {"clients": shown, "others": others, "left_out": len(attached) - len(shown)}

    def about(self, client: AttachedClient) -> JSON:
        """A client, and what it costs: `tokens` as it is, `direct` without MCPX."""
        row, figures = known_client(client.name), self._figures_of(client)
        return {
            "id": client.id,
            "name": client.name,
            "version": client.version,
            "title": client.title or (row.title if row is not None else ""),
            "revision": client.revision,
            "transport": client.transport,
            "endpoint": {
                "expose": client.endpoint.expose,
                "server": client.endpoint.alone,
                "only": client.endpoint.only,
                "profile": client.endpoint.profile,
            },
            "token": client.token,
            "since": self._since.get(client.id),
            "is_known": row is not None,
            "own_tools": figures.own_tools,
            "native_tools": figures.native_tools,
            "tokens": figures.tokens,
            "direct": figures.direct,
        }

    def _figures_of(self, client: AttachedClient) -> _Figures:
        endpoint, row = client.endpoint, known_client(client.name)
        view = self._list(client).hub
        upstreams = {name: each for name, each in view.upstreams.items() if endpoint.alone in (None, name)}
        made_of = [view.config, *(each.catalogue for each in upstreams.values())]
        key = endpoint, "" if row is None else row.prefix
        kept = self._figures.get(key)
        if kept is None or not _are_same(kept.made_of, made_of):
            sight = look(self._page.clients, endpoint, client.name)
            direct = sum(cost_of_menus(upstreams).values())
            kept = _Figures(made_of, len(sight.own), len(sight.native), sight.cost(), direct)
            if len(self._figures) >= MAX_KEPT:
                self._figures.clear()
            self._figures[key] = kept
        return kept

    def _list(self, client: AttachedClient) -> ToolList:
        return self._page.clients.tool_list(seen_through(client.endpoint))


_clients_of: Final[WeakKeyDictionary[OpenPage, _Clients]] = WeakKeyDictionary()


def _of(page: OpenPage) -> _Clients:
    return _clients_of.setdefault(page, _Clients(page))


def _are_same(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _since(client: AttachedClient) -> int:
    return round((time.time() - client.since_s) * 1000)


def _named(page: OpenPage, client_id: str) -> AttachedClient:
    """Find the client of that id, attached or not, or raise MCPXError."""
    among = _others() if client_id.startswith(_AS) else page.clients.attached.all()
    client = next((each for each in among if each.id == client_id), None)
    if client is None:
        raise MCPXError("this client is not attached any more")
    return client


def _others() -> list[AttachedClient]:
    """The clients that MCPX knows, as each would be at the default endpoint; and an unknown one."""
    rows = [(row.prefix, row.title) for row in KNOWN_CLIENTS]
    return [
        AttachedClient(
            id=f"{_AS}{name or 'other'}",
            name=name,
            version="",
            title=title,
            revision="",
            transport="socket",
            endpoint=DEFAULT_ENDPOINT,
            token=None,
            since_s=0.0,
        )
        for name, title in [("", _NOT_KNOWN), *rows]
    ]

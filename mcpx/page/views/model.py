"""The view `model`: what each client's model is shown, and what a search of its finds.

    GET /model                       {"clients": [CLIENT], "others": [{id, title}]}
    GET /model/{client}              {"client": CLIENT, "limits": [text], "source", "instructions": SIZED,
                                     "tools": [{name, title, server, description: SIZED, parameters:
                                     [{name, description: SIZED}], tokens}], "left_out": n}
    GET /model/{client}/tools/{tool} {"text", "left_out", "bytes"}: the definition as it is sent
    GET /search?q=&client=&server=   what `found` gives

`others` are clients that are not attached: those that MCPX knows, each as it would be at the default
endpoint. SIZED is as `mcpx.page.views.sights.measured` gives it. The topic `model` yields what `GET /model`
answers, again whenever that has changed. A search is that of `inspect(query)` at the endpoint of a client,
without its one effect: no server that is asleep is started. Its `reasons` are the words of the question that
an entry was found by, their places in it, and their weights.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.routing import Route

from mcpx.core.catalog.model import JSON, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.catalog.search import MAX_QUERY_LEN, MAX_QUERY_WORDS, Hit, ServerHits, search
from mcpx.core.catalog.search_index import Entry, Field, fields_of
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.words import MAX_WORD_LEN, groups_of, words
from mcpx.core.events.costs import cost_of_menus
from mcpx.core.gateway.clients.attached import AttachedClient
from mcpx.core.gateway.clients.known_clients import KNOWN_CLIENTS, known_client
from mcpx.core.gateway.clients.tool_lists import ToolList
from mcpx.core.rendering.search_answer import MAX_OTHERS, MAX_SERVERS, search_answer
from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.core.text import one_line, shown_name, shown_uri
from mcpx.errors import MCPXError
from mcpx.page.answers import BadRequestError, get
from mcpx.page.cards import OpenPage
from mcpx.page.events import Topic
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


_TOKEN: Final = re.compile(r"[^\W_]+")
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
"""A word within an identifier."""
MAX_HITS: Final = 8  # of one server
MAX_OF_OTHERS: Final = 2  # of one that has no lines of its own in the answer
MAX_QUERY_CHARS: Final = 1000
_SUMMARY_CHARS: Final = 160


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """A word of the question that was found.

    `word` is as it was typed. `found` is the word of the entry that stands for it, where that is another one.
    `parts` are where it is: name, server, description, parameters, address. `score` compares with other words
    of the same question.
    """

    word: str
    parts: tuple[str, ...]
    score: float
    found: str | None = None


def reasons(query: str, server: ServerHits, hit: Hit) -> list[Reason]:
    """Return why `query` has found this entry, what counts most first."""
    fields = [Field("server", 0.0, server.server.name), *fields_of(hit.entry)]
    read = [(field, words(field.text)) for field in fields]
    found: dict[str, Reason] = {}
    for typed, word in _asked(query):
        score = server.worth(hit, word)
        if score > 0 and word not in found:
            very = [field for field, its in read if word in its]
            other = None if very else _synonym(word, read)
            where = very if other is None else [field for field, its in read if other in its]
            parts = tuple(dict.fromkeys(field.part for field in where))
            shown = None if other is None else _as_written(other, where)
            found[word] = Reason(word=typed, parts=parts, score=round(score, 2), found=shown)
    return sorted(found.values(), key=lambda each: -each.score)


def _asked(query: str) -> Iterator[tuple[str, str]]:
    """The words of a question as they were typed, each with what is looked for; pairs of neighbours last."""
    typed = [(token, word) for token in _TOKEN.findall(query[:MAX_QUERY_LEN]) for word in words(token)]
    typed = [(token[:MAX_WORD_LEN], word) for token, word in typed[:MAX_QUERY_WORDS]]
    yield from typed
    for (one, first), (two, second) in pairwise(typed):
        for word in words(first + second):
            yield f"{one} {two}", word


def _synonym(word: str, read: list[tuple[Field, list[str]]]) -> str | None:
    """A word of the entry that means the same."""
    groups = set(groups_of(word))
    return next((each for _, its in read for each in its if groups.intersection(groups_of(each))), None)


def _as_written(word: str, fields: list[Field]) -> str:
    """A word as the entry writes it."""
    pieces = (piece for field in fields for piece in _PIECE.findall(field.text))
    return next((piece[:MAX_WORD_LEN] for piece in pieces if word in words(piece)), word)


def found(servers: Sequence[ServerInfo], query: str, only: str | None = None) -> JSON:
    """`{servers: [{server, score, total, hits: [{kind, name, text, score, exact, shown, why}]}], answer}`.

    `shown` says how the answer has it: "whole", "name" or null. `answer` has its text and its size.
    """
    query = query[:MAX_QUERY_CHARS]
    ranked = search(servers, query, only)
    text, plain = search_answer(servers, query, only=only)
    shown = _shown(plain)
    listed = [
        _server(server, query, MAX_HITS if place < MAX_SERVERS else MAX_OF_OTHERS, shown)
        for place, server in enumerate(ranked[: MAX_SERVERS + MAX_OTHERS])
    ]
    size = {"chars": len(text), "bytes": len(text.encode()), "tokens": estimate_result(text)}
    return {"servers": listed, "matching": len(ranked), "answer": {"text": text, **size}}


def _server(server: ServerHits, query: str, most: int, shown: dict[tuple[str, str, str], str]) -> JSON:
    return {
        "server": server.server.name,
        "score": round(server.score, 2),
        "total": server.total,
        "hits": [_hit(server, hit, query, shown) for hit in server.best(most)],
    }


def _hit(server: ServerHits, hit: Hit, query: str, shown: dict[tuple[str, str, str], str]) -> JSON:
    kind, key, name = _sort_and_name(hit.entry)
    return {
        "kind": kind,
        "name": name,
        "text": one_line(hit.entry.description or hit.entry.title or "", _SUMMARY_CHARS),
        "score": round(hit.score, 2),
        "exact": hit.named,
        "shown": shown.get((server.server.name, kind, key)),
        "why": msgspec.to_builtins(reasons(query, server, hit)),
    }


def _sort_and_name(entry: Entry) -> tuple[str, str, str]:
    """The kind of an entry, what tells it from others, and what it is shown as."""
    match entry:
        case ToolInfo():
            return "tool", entry.name, shown_name(entry.name)
        case PromptInfo():
            return "prompt", entry.name, shown_name(entry.name)
        case ResourceInfo():
            return "resource", entry.uri, shown_uri(entry.uri)
        case TemplateInfo():
            return "template", entry.uri_template, shown_uri(entry.uri_template)
    raise TypeError(type(entry).__name__)


def _shown(answer: JSON) -> dict[tuple[str, str, str], str]:
    """Return the form of each entry in the answer, by server, kind and key."""
    kinds = {"tools": "name", "resources": "uri", "templates": "uri_template", "prompts": "name"}
    return {
        (each["server"], kind[:-1], entry[key]): "whole" if entry.keys() - {key, "name"} else "name"
        for each in answer["servers"]
        for kind, key in kinds.items()
        for entry in each.get(kind, ())
    }

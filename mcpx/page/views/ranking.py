"""The ranking of a search, for people: places, scores, reasons, and the answer itself.

The search is that of `inspect(query)` at the endpoint of a client, without its one effect: no server that is
asleep is started. Pure over snapshots of the servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mcpx.core.catalog.model import JSON, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.catalog.search import Hit, ServerHits, search
from mcpx.core.catalog.search_index import Entry
from mcpx.core.catalog.search_reasons import reasons
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.search_answer import MAX_OTHERS, MAX_SERVERS, search_answer
from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.text import one_line, shown_name, shown_uri

MAX_HITS: Final = 8  # of one server
MAX_OF_OTHERS: Final = 2  # of one that has no lines of its own in the answer
MAX_QUERY_CHARS: Final = 1000
_SUMMARY_CHARS: Final = 160


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
    kind, key, name = _named(hit.entry)
    return {
        "kind": kind,
        "name": name,
        "text": one_line(hit.entry.description or hit.entry.title or "", _SUMMARY_CHARS),
        "score": round(hit.score, 2),
        "exact": hit.named,
        "shown": shown.get((server.server.name, kind, key)),
        "why": msgspec.to_builtins(reasons(query, server, hit)),
    }


def _named(entry: Entry) -> tuple[str, str, str]:
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

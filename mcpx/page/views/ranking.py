"""The ranking of a search, for people: places, scores, reasons, and the answer itself.

The search is that of `inspect(query)` at the endpoint of a client, without its one effect: no server that is
asleep is started. `reasons` are the words of the question that an entry was found by, their places in it, and
their weights. Pure over snapshots of the servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from mcpx.core.catalog.model import JSON, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.catalog.search import MAX_QUERY_LEN, MAX_QUERY_WORDS, Hit, ServerHits, search
from mcpx.core.catalog.search_index import Entry, Field, fields_of
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.words import MAX_WORD_LEN, groups_of, words
from mcpx.core.rendering.search_answer import MAX_OTHERS, MAX_SERVERS, search_answer
from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.text import one_line, shown_name, shown_uri

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

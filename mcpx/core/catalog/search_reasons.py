"""The reasons why a search found an entry: words of the question, their places in the entry, and their
weights.

For people who look at a ranking; `mcpx.core.catalog.search` does not need it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import msgspec

from mcpx.core.catalog.search import MAX_QUERY_LEN, MAX_QUERY_WORDS, Hit, ServerHits
from mcpx.core.catalog.search_index import Field, fields_of
from mcpx.core.catalog.words import MAX_WORD_LEN, groups_of, words

_TOKEN: Final = re.compile(r"[^\W_]+")
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
"""A word within an identifier."""


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

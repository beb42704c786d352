"""Search over everything that the servers offer: tools, resources, resource templates and prompts.

Owns the ranking. `inspect` asks it with a model's own words (`mcpx.rendering.search_answer`), and so do the
answers to unknown names. Pure: it reads the catalogues that it is given, and their indices
(`mcpx.catalog.search_index`).

Ranking, tuned on the even half of LiveMCPBench's recorded searches, reported on the other (scripts/context):

* Entries by BM25 (Robertson and Zaragoza 2009) with a weight for each field: a word in the name counts three
  times one in the description. The statistics are those of the servers that are searched.
* Servers by their best entry, and by BM25 over what their entries are about, which finds the server whose
  every tool is a little about the question.
* An entry that has another word for the same thing (`mcpx.catalog.synonyms`) counts less than one that has
  the very word.
* A question often names several things ("news or finance: fetch articles, get a feed"). What answers one
  part of it best should not lose to what half answers all, so the best part counts as much as the whole.
* An exact name comes first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import accumulate
from typing import Final, NamedTuple

from mcpx.catalog.model import ServerInfo
from mcpx.catalog.search_index import Entry, ServerIndex, index_of
from mcpx.catalog.synonyms import groups_of
from mcpx.catalog.words import words

MAX_QUERY_LEN: Final = 1000  # characters of a question that are looked at
MAX_QUERY_WORDS: Final = 40
MAX_PARTS: Final = 12  # of a question

_TOPIC_K1, _TOPIC_B = 3.0, 0.3  # of servers: twenty tools about news say more than two
_TOPIC: Final = 2.0  # what the server as a whole counts beside its best entry
_SYNONYM: Final = 0.7  # what another word for the same thing counts in an entry
_TOPIC_SYNONYM: Final = 0.5
_NAMED_IN_PART: Final = 1e3  # more than any question can score
_NAMED: Final = 1e6
_PARTS: Final = re.compile(r"[\n,;+]|\b(?:or|and)\b")
_IDENTIFIER: Final = re.compile(r"\w+(?:[-_./:]+\w+)+|[a-z]+(?:[A-Z][a-z]+)+")

Scores = dict[int, float]


class Hit(NamedTuple):
    """An entry that matches, and how well; scores compare within one search only."""

    entry: Entry
    score: float

    @property
    def named(self) -> bool:
        """Whether the whole question is the name of this entry, in several words."""
        return self.score >= _NAMED


class ServerHits:
    """A server with its entries that match: `total` of them."""

    def __init__(self, server: ServerInfo, score: float, index: ServerIndex, scores: Scores) -> None:
        self.server = server
        self.score = score
        self.total = len(scores)
        self._index = index
        self._scores = scores

    def best(self, limit: int) -> list[Hit]:
        """The entries that match, best first, at most `limit`."""
        chosen = nsmallest(limit, self._scores.items(), key=lambda pair: (-pair[1], pair[0]))
        return [Hit(self._index.entries[number], score) for number, score in chosen]


def search(servers: Sequence[ServerInfo], query: str, server_name: str | None = None) -> list[ServerHits]:
    """The servers that match `query`, best first, each with its entries that match; empty where none does.

    With `server_name` only that server is searched. Catalogues that have not been read yet are read now.
    """
    searched = [server for server in servers if server_name in (None, server.name)]
    indexed = [(server, index) for server in searched if (index := index_of(server)) is not None]
    indices = [index for _, index in indexed]
    for index in indices:
        if not index.whole:
            index.read()
    parts = _parts(query)
    wanted = list(dict.fromkeys(word for part in parts for word in part))[:MAX_QUERY_WORDS]
    entries = _by_server(indices, _combined({word: _entry_scores(indices, word) for word in wanted}, parts))
    topics = _combined(_topic_scores(indices, wanted), parts)
    _put_exact_first(indices, entries, _names(query, parts))
    found = [
        ServerHits(server, max(scores.values()) + _TOPIC * topics.get(place, 0.0), index, scores)
        for place, ((server, index), scores) in enumerate(zip(indexed, entries, strict=True))
        if scores
    ]
    return sorted(found, key=lambda one: -one.score)


def _parts(query: str) -> list[list[str]]:
    """The words of each part of a question, of the whole in order."""
    parts = [words(part) for part in _PARTS.split(query[:MAX_QUERY_LEN])]
    return [part for part in parts if part][:MAX_PARTS]


def _rarity(documents: int, having: int) -> float:
    """The inverse document frequency of BM25, which never falls below zero."""
    return math.log(1 + (documents - having + 0.5) / (having + 0.5))


def _terms(word: str, synonym: float) -> Iterator[tuple[str, float]]:
    """What is looked for, for a word of the question, and what it counts."""
    for group in groups_of(word):
        yield group, synonym
    yield word, 1.0


def _entry_scores(indices: Sequence[ServerIndex], word: str) -> Scores:
    """What a word is worth in each entry that has it or a synonym; numbered through all indices."""
    documents = sum(len(index.entries) for index in indices)
    scores: Scores = {}
    for term, weight in _terms(word, _SYNONYM):
        found = [index.postings.get(term, ()) for index in indices]
        rarity = weight * _rarity(documents, sum(map(len, found)) // 2)
        first = 0
        for index, postings in zip(indices, found, strict=True):
            pairs = iter(postings)
            for number, worth in zip(pairs, pairs, strict=True):
                place, value = first + int(number), rarity * worth
                if value > scores.get(place, 0.0):
                    scores[place] = value
            first += len(index.entries)
    return scores


def _topic_scores(indices: Sequence[ServerIndex], wanted: Iterable[str]) -> dict[str, Scores]:
    """What each word is worth in each server as a whole, by its place."""
    lengths = [index.topic.total() for index in indices]
    mean = sum(lengths) / max(1, len(indices)) or 1.0
    held_back = [_TOPIC_K1 * (1 - _TOPIC_B + _TOPIC_B * length / mean) for length in lengths]
    scores: dict[str, Scores] = {}
    for word in wanted:
        scores[word] = {}
        for term, weight in _terms(word, _TOPIC_SYNONYM):
            counts = [
                (place, index.topic[term]) for place, index in enumerate(indices) if term in index.topic
            ]
            rarity = weight * _rarity(len(indices), len(counts)) * (_TOPIC_K1 + 1)
            for place, count in counts:
                value = rarity * count / (count + held_back[place])
                scores[word][place] = max(value, scores[word].get(place, 0.0))
    return scores


def _combined(by_word: Mapping[str, Scores], parts: Sequence[Sequence[str]]) -> Scores:
    """The score of the whole question and that of its best part, on the scale of the best for the whole."""
    whole = _sum(by_word.values())
    if len(parts) < 2:  # noqa: PLR2004 -- it is the whole
        return whole
    top = max(whole.values(), default=0.0)
    best: Scores = {}
    for part in parts:
        scores = _sum(by_word[word] for word in dict.fromkeys(part) if word in by_word)
        scale = top / max(scores.values(), default=1.0)
        for number, score in scores.items():
            if score * scale > best.get(number, 0.0):
                best[number] = score * scale
    return {number: score + best.get(number, 0.0) for number, score in whole.items()}


def _sum(several: Iterable[Scores]) -> Scores:
    total: Scores = {}
    for scores in several:
        for number, value in scores.items():
            total[number] = total.get(number, 0.0) + value
    return total


def _by_server(indices: Sequence[ServerIndex], scores: Scores) -> list[Scores]:
    """The scores of each index's entries, by their number in it."""
    found: list[Scores] = [{} for _ in indices]
    owners = [place for place, index in enumerate(indices) for _ in index.entries]
    firsts = list(accumulate((len(index.entries) for index in indices), initial=0))
    for number, score in scores.items():
        place = owners[number]
        found[place][number - firsts[place]] = score
    return found


def _names(query: str, parts: Sequence[Sequence[str]]) -> dict[str, float]:
    """What in a question may be the name of an entry, as the words of that name, and what that counts."""
    identifiers = map(words, _IDENTIFIER.findall(query[:MAX_QUERY_LEN]))
    names = {" ".join(part): _NAMED_IN_PART for part in (*parts, *identifiers) if len(part) > 1}
    whole = [word for part in parts for word in part]
    return names | {" ".join(whole): _NAMED if len(whole) > 1 else _NAMED_IN_PART}


def _put_exact_first(
    indices: Sequence[ServerIndex], entries: Sequence[Scores], names: Mapping[str, float]
) -> None:
    """Where the question is a name, of an entry or of the server with it, that entry beats all others."""
    for index, scores in zip(indices, entries, strict=True):
        own = " ".join(index.name) + " "
        for name, worth in names.items():
            for number in index.names.get(name, index.names.get(name.removeprefix(own), ())) if name else ():
                scores[number] = scores.get(number, 0.0) + worth

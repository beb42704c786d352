"""Search over everything that the servers offer: tools, resources, resource templates and prompts.

Owns the ranking. `inspect` asks it with a model's own words (`mcpx.rendering.search_answer`), and so do the
answers to unknown names. Pure: it reads the catalogues that it is given, and their indices
(`mcpx.catalog.search_index`).

Ranking, tuned on the even half of LiveMCPBench's recorded searches, reported on the other (scripts/context):

* Entries by BM25 (Robertson and Zaragoza 2009) with a weight for each field: a word in the name counts three
  times one in the description. The statistics are those of the servers that are searched.
* A question often names several things ("news or finance: fetch articles, get a feed"). An entry that
  answers one part of it best should not lose to one that half answers all, so the best part counts as much
  as the whole.
* Servers by their best entry and by BM25 over all that they offer, which finds the server whose every tool
  is a little about it.
* An exact name comes first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from mcpx.catalog.model import ServerInfo
from mcpx.catalog.search_index import Entry, ServerIndex, index_of
from mcpx.catalog.words import words

MAX_QUERY_LEN: Final = 1000  # characters of a question that are looked at
MAX_QUERY_WORDS: Final = 40
MAX_PARTS: Final = 12  # of a question

_TOPIC_K1, _TOPIC_B = (
    3.0,
    0.3,
)  # of servers: one with twenty tools about news is more about it than one with two
_TOPIC_WEIGHT: Final = 2.0  # of the server's own score beside that of its best entry
_EXACT: Final = 1000.0  # more than any question can score
_PARTS: Final = re.compile(r"[\n,;+]|\b(?:or|and)\b")
_IDENTIFIER: Final = re.compile(r"\w+(?:[-_./:]+\w+)+|[a-z]+(?:[A-Z][a-z]+)+")

Scores = dict[int, float]


class Hit(NamedTuple):
    """An entry that matches, and how well; scores compare within one search only."""

    entry: Entry
    score: float


class ServerHits:
    """A server with its entries that match."""

    def __init__(self, server: ServerInfo, score: float, index: ServerIndex, scores: Scores) -> None:
        self.server = server
        self.score = score
        self.total = len(scores)
        """Entries that match."""
        self._index = index
        self._scores = scores

    @property
    def hits(self) -> list[Hit]:
        """The entries that match, best first."""
        best = sorted(self._scores.items(), key=lambda pair: (-pair[1], pair[0]))
        return [Hit(self._index.entries[number], score) for number, score in best]


def search(servers: Sequence[ServerInfo], query: str, server_name: str | None = None) -> list[ServerHits]:
    """The servers that match `query`, best first, each with its entries that match; empty where none does.

    With `server_name` only that server is searched.
    """
    searched = [server for server in servers if server_name in (None, server.name)]
    indexed = [(server, index) for server in searched if (index := index_of(server)) is not None]
    indices = [index for _, index in indexed]
    parts = _parts(query)
    wanted = list(dict.fromkeys(word for part in parts for word in part))[:MAX_QUERY_WORDS]
    entries = _entry_scores(indices, wanted, parts)
    topics = _topic_scores(indices, wanted)
    _put_exact_first(indices, entries, _exact_names(query, parts))
    found = [
        ServerHits(server, max(scores.values()) + _TOPIC_WEIGHT * topic, index, scores)
        for (server, index), scores, topic in zip(indexed, entries, topics, strict=True)
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


def _entry_scores(
    indices: Sequence[ServerIndex], wanted: Sequence[str], parts: list[list[str]]
) -> list[Scores]:
    """For each index its entries that match, by number."""
    documents = sum(len(index.entries) for index in indices)
    impacts = {word: [index.impacts.get(word) for index in indices] for word in wanted}
    rarity = {
        word: _rarity(documents, sum(len(each) for each in found if each)) for word, found in impacts.items()
    }

    def score(part: Sequence[str]) -> list[Scores]:
        scores: list[Scores] = [{} for _ in indices]
        for word in part:
            weight = rarity[word]
            for place, having in zip(scores, impacts[word], strict=True):
                for number, impact in having.items() if having else ():
                    place[number] = place.get(number, 0.0) + weight * impact
        return scores

    whole = score(wanted)
    if len(parts) > 1:
        known = set(wanted)
        _add_best_part(
            whole, [score([word for word in dict.fromkeys(part) if word in known]) for part in parts]
        )
    return whole


def _add_best_part(whole: list[Scores], by_part: list[list[Scores]]) -> None:
    """Add to each entry what its best part is worth, on the scale of the best entry as a whole."""
    top = _top(whole)
    best: list[Scores] = [{} for _ in whole]
    for scores in by_part:
        scale = top / (_top(scores) or 1.0)
        for place, each in zip(best, scores, strict=True):
            for number, value in each.items():
                if value * scale > place.get(number, 0.0):
                    place[number] = value * scale
    for place, each in zip(whole, best, strict=True):
        for number, value in each.items():
            place[number] += value


def _top(scores: Sequence[Scores]) -> float:
    return max((max(each.values()) for each in scores if each), default=0.0)


def _topic_scores(indices: Sequence[ServerIndex], wanted: Sequence[str]) -> list[float]:
    """BM25 with a server as the document: its name, and one count for each entry that has the word."""
    mean = sum(index.topic_len for index in indices) / max(1, len(indices)) or 1.0
    held_back = [_TOPIC_K1 * (1 - _TOPIC_B + _TOPIC_B * index.topic_len / mean) for index in indices]
    scores = [0.0] * len(indices)
    for word in wanted:
        counts = [index.topic.get(word, 0) for index in indices]
        rarity = _rarity(len(indices), sum(map(bool, counts)))
        for place, count in enumerate(counts):
            if count:
                scores[place] += rarity * count * (_TOPIC_K1 + 1) / (count + held_back[place])
    return scores


def _exact_names(query: str, parts: list[list[str]]) -> set[str]:
    """What in a question may be the name of an entry, as the words of that name."""
    identifiers = map(words, _IDENTIFIER.findall(query[:MAX_QUERY_LEN]))
    telling = {" ".join(part) for part in (*parts, *identifiers) if len(part) > 1}
    return telling | {" ".join(word for part in parts for word in part)} - {""}


def _put_exact_first(indices: Sequence[ServerIndex], entries: list[Scores], names: set[str]) -> None:
    """Where the question is a name, of an entry or of the server with it, that entry beats all others."""
    for index, scores in zip(indices, entries, strict=True):
        own = " ".join(index.name) + " "
        for name in names:
            for number in index.names.get(name, index.names.get(name.removeprefix(own), ())):
                scores[number] = scores.get(number, 0.0) + _EXACT

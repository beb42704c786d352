"""The indices of several servers searched as one: what a word is worth in each entry, and in each server.

Used by `mcpx.core.catalog.search`. What was found of a word is kept for the next question, as long as the
same catalogues are searched; a bounded number of scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from mcpx.core.catalog.search_index import Entry, ServerIndex
from mcpx.core.catalog.synonyms import groups_of
from mcpx.core.catalog.words import words

Scores = dict[int, float]
"""By number of the entry, or of the server."""

MAX_KEPT: Final = 100_000  # scores of words, at 100 bytes
_SYNONYM: Final = 0.7  # what another word for the same thing counts in an entry
_TOPIC_SYNONYM: Final = 0.5
_TOPIC_K1, _TOPIC_B = 3.0, 0.3  # of servers: twenty tools about news say more than two


class Corpus:
    """Servers and their entries, numbered through."""

    def __init__(self, indices: Sequence[ServerIndex]) -> None:
        self.indices = indices
        self._firsts = list(accumulate((len(index.entries) for index in indices), initial=0))
        self._owners = [place for place, index in enumerate(indices) for _ in index.entries]
        lengths = [index.topic.total() for index in indices]
        mean = sum(lengths) / max(1, len(indices)) or 1.0
        self._held_back = [_TOPIC_K1 * (1 - _TOPIC_B + _TOPIC_B * length / mean) for length in lengths]
        self._known: dict[str, tuple[Scores, Scores]] = {}
        self._kept = 0

    def number(self, server: int, entry: int) -> int:
        """The number of an entry that has this one among its server's."""
        return self._firsts[server] + entry

    def entry(self, number: int) -> Entry:
        """The entry of that number."""
        server = self._owners[number]
        return self.indices[server].entries[number - self._firsts[server]]

    def by_server(self, scores: Scores) -> dict[int, Scores]:
        """The scores of each server that has any."""
        found: dict[int, Scores] = {}
        for number, score in scores.items():
            found.setdefault(self._owners[number], {})[number] = score
        return found

    def compounds(self, part: Sequence[str]) -> list[str]:
        """The words that two neighbours make and that some entry has: `file system` is `filesystem`."""
        joined = (word for one, two in pairwise(part) for word in words(one + two))
        return [word for word in joined if any(word in index.postings for index in self.indices)]

    def scores(self, word: str) -> tuple[Scores, Scores]:
        """What a word is worth in each entry that has it or a synonym, and in each server as a whole."""
        scores = self._known.get(word)
        if scores is None:
            scores = self._score_entries(word), self._score_topics(word)
            self._kept += len(scores[0])
            if self._kept > MAX_KEPT:
                self._known.clear()
                self._kept = len(scores[0])
            self._known[word] = scores
        return scores

    def _score_entries(self, word: str) -> Scores:
        scores: Scores = {}
        for term, weight in _terms(word, _SYNONYM):
            found = [index.postings.get(term, ()) for index in self.indices]
            rarity = weight * _rarity(len(self._owners), sum(map(len, found)) // 2)
            for first, postings in zip(self._firsts, found, strict=False):
                pairs = iter(postings)
                for number, worth in zip(pairs, pairs, strict=True):
                    place, value = first + int(number), rarity * worth
                    if value > scores.get(place, 0.0):
                        scores[place] = value
        return scores

    def _score_topics(self, word: str) -> Scores:
        scores: Scores = {}
        for term, weight in _terms(word, _TOPIC_SYNONYM):
            counts = [(at, index.topic[term]) for at, index in enumerate(self.indices) if term in index.topic]
            rarity = weight * _rarity(len(self.indices), len(counts)) * (_TOPIC_K1 + 1)
            for server, count in counts:
                value = rarity * count / (count + self._held_back[server])
                if value > scores.get(server, 0.0):
                    scores[server] = value
        return scores


@lru_cache(maxsize=2)
def corpus_of(indices: tuple[ServerIndex, ...]) -> Corpus:
    """The corpus of these indices, which have been read."""
    return Corpus(indices)


def _terms(word: str, synonym: float) -> Iterator[tuple[str, float]]:
    """What is looked for, for a word of the question, and what it counts."""
    for group in groups_of(word):
        yield group, synonym
    yield word, 1.0


def _rarity(documents: int, having: int) -> float:
    """The inverse document frequency of BM25, which never falls below zero."""
    return math.log(1 + (documents - having + 0.5) / (having + 0.5))

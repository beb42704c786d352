"""Search over everything that the servers offer: tools, resources, resource templates and prompts.

Owns the ranking. `inspect` asks it with a model's own words (`mcpx.core.rendering.search_answer`), and so do
the answers to unknown names. Pure: it reads the catalogues that it is given, and their indices
(`mcpx.core.catalog.search_index`).

Ranking, tuned on the even half of LiveMCPBench's recorded searches, reported on the other (scripts/context):

* Entries by BM25 (Robertson and Zaragoza 2009) with a weight for each field: a word in the name counts three
  times one in the description. The statistics are those of the servers that are searched.
* Servers by their best entry, and by BM25 over what their entries are about, which finds the server whose
  every tool is a little about the question.
* An entry that has another word for the same thing (`mcpx.core.catalog.words`) counts less than one that has
  the very word.
* A question often names several things ("news or finance: fetch articles, get a feed"). What answers one
  part of it best should not lose to what half answers all, so the best part counts as much as the whole.
* An exact name comes first.

Tried on the even half and on questions for other tools, and no better: WordNet's synonyms and hypernyms, less
weight for words that many questions have (platform, service, information), other weights of fields, more or
less of the best part, names in the order of their scores and lengths in the answer, and the nearest words of
the tools by GloVe's vectors, beside the synonyms or in their place, however near and whatever they count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from mcpx.core.catalog.alike import same_tools
from mcpx.core.catalog.search_index import Entry, ServerIndex, read_index
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.words import groups_of, words

Scores = dict[int, float]
"""By number of the entry, or of the server."""

MAX_KEPT: Final = 100_000  # scores of words, at 100 bytes, kept while the same catalogues are searched
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
        alike = same_tools({index.server: index.tools for index in indices})
        self.alike = alike.keys() | {each.leader for each in alike.values()}
        """The servers that have the tools of another one."""

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
        """Return what a word is worth in each entry that has it or a synonym, and in each server as a
        whole.
        """
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
    """Return what is looked for, for a word of the question, and what it counts."""
    for group in groups_of(word):
        yield group, synonym
    yield word, 1.0


def _rarity(documents: int, having: int) -> float:
    """The inverse document frequency of BM25, which never falls below zero."""
    return math.log(1 + (documents - having + 0.5) / (having + 0.5))


MAX_QUERY_LEN: Final = 1000  # characters of a question that are looked at
MAX_QUERY_WORDS: Final = 40
MAX_PARTS: Final = 12  # of a question
MAX_SCORED: Final = 1000  # entries that are found by common words

_TOPIC: Final = 2.0  # what the server as a whole counts beside its best entry
_NAMED_IN_PART: Final = 1e3  # more than any question can score
_NAMED: Final = 1e6
_PARTS: Final = re.compile(r"[\n,;+]|\b(?:or|and)\b")
_IDENTIFIER: Final = re.compile(r"[^\W_]+(?:[-_./:]+[^\W_]+)+|[a-z]+(?:[A-Z][a-z]+)+")


class Hit(NamedTuple):
    """An entry that matches, and how well; scores compare within one search only."""

    entry: Entry
    score: float
    number: int = -1
    """Of the entry, among those that were searched."""

    @property
    def named(self) -> bool:
        """True if the whole question is the name of this entry, written as a name of several words."""
        return self.score >= _NAMED


class ServerHits:
    """A server with its entries that match: `total` of them, one at least."""

    def __init__(self, server: ServerInfo, topic: float, corpus: Corpus, scores: Scores) -> None:
        self.server = server
        self.total = len(scores)
        self.best_score = max(scores.values())
        self.score = self.best_score + topic
        self.alike = server.name in corpus.alike
        """Whether another server has the same tools."""
        self._corpus = corpus
        self._scores = scores

    @property
    def named(self) -> bool:
        """True if the whole question is the name of an entry."""
        return self.best_score >= _NAMED

    @property
    def usual(self) -> bool:
        """True if the scores are those of words, and not of a name in the question."""
        return self.best_score < _NAMED_IN_PART

    def best(self, limit: int) -> list[Hit]:
        """The entries that match, best first, at most `limit`."""
        chosen = nsmallest(limit, [(-score, number) for number, score in self._scores.items()])
        return [Hit(self._corpus.entry(number), -score, number) for score, number in chosen]

    def worth(self, hit: Hit, word: str) -> float:
        """Return what a word, as `mcpx.core.catalog.words` has it, is worth in one of its entries."""
        return self._corpus.scores(word)[0].get(hit.number, 0.0)


def search(servers: Sequence[ServerInfo], query: str, server_name: str | None = None) -> list[ServerHits]:
    """The servers that match `query`, best first, each with its entries that match; empty where none does.

    With `server_name` only that server is searched. Catalogues that have not been read yet are read now.
    """
    listed = [one for one in servers if server_name in (None, one.name) and one.catalogue is not None]
    corpus = corpus_of(tuple(read_index(server) for server in listed))
    said = _parts(query)
    parts = [[*part, *corpus.compounds(part)] for part in said]
    wanted = list(dict.fromkeys(word for part in parts for word in part))[:MAX_QUERY_WORDS]
    scores = {word: corpus.scores(word) for word in wanted}
    entries = _combined({word: found for word, (found, _) in scores.items()}, parts)
    topics = _combined({word: found for word, (_, found) in scores.items()}, parts)
    _put_exact_first(corpus, entries, query, _names(query, said))
    found = [
        ServerHits(listed[at], _TOPIC * topics.get(at, 0.0), corpus, own)
        for at, own in sorted(corpus.by_server(entries).items())
    ]
    return sorted(found, key=lambda one: -one.score)


def known_words(servers: Sequence[ServerInfo], query: str) -> list[str]:
    """The words of `query` that some entry has or that have synonyms, each once; no numbers, nothing else."""
    indices = [read_index(server) for server in servers if server.catalogue is not None]
    said = (word for word in dict.fromkeys(words(query[:MAX_QUERY_LEN])) if not word.isdigit())
    return [word for word in said if groups_of(word) or any(word in index.postings for index in indices)]


def _parts(query: str) -> list[list[str]]:
    """The words of each part of a question, of the whole in order."""
    parts = [words(part) for part in _PARTS.split(query[:MAX_QUERY_LEN])]
    return [part for part in parts if part][:MAX_PARTS]


def _combined(by_word: Mapping[str, Scores], parts: Sequence[Sequence[str]]) -> Scores:
    """The score of the whole question and that of its best part, on the scale of the best for the whole."""
    whole = _sum(by_word.values())
    if len(parts) <= 1:  # it is the whole
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
    """The sums by number. Where rare words have found enough, common ones add to that, and find no more."""
    first, *others = sorted(several, key=len) or [{}]
    total = dict(first)
    for scores in others:
        if len(total) < MAX_SCORED:
            for number, value in scores.items():
                total[number] = total.get(number, 0.0) + value
        else:
            for number in total.keys() & scores.keys():
                total[number] += scores[number]
    return total


def _names(query: str, parts: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return what in a question may be the name of an entry, as the words of that name, and what that
    counts.
    """
    query = query[:MAX_QUERY_LEN].strip()
    identifiers = map(words, _IDENTIFIER.findall(query))
    names = {" ".join(part): _NAMED_IN_PART for part in (*parts, *identifiers) if len(part) > 1}
    whole = " ".join(word for part in parts for word in part)
    return names | {whole: _NAMED if _IDENTIFIER.fullmatch(query) else _NAMED_IN_PART}


def _put_exact_first(corpus: Corpus, scores: Scores, query: str, names: Mapping[str, float]) -> None:
    """Put the entry first whose name, with or without its server's, the question is.

    The very name counts twice what one of the same words does.
    """
    asked = query[:MAX_QUERY_LEN].strip().casefold()
    for server, index in enumerate(corpus.indices):
        own = f"{index.name} "
        known = {name: names[name] for name in names.keys() & index.names.keys()}
        known |= {name.removeprefix(own): names[name] for name in names if name.startswith(own)}
        for name, worth in known.items():
            for entry in index.names.get(name, ()):
                very = asked.endswith(index.entries[entry].name.casefold())
                if name or very:  # a name may consist of words that are not looked for
                    number = corpus.number(server, entry)
                    scores[number] = scores.get(number, 0.0) + worth * (1 + very)

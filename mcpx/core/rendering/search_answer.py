"""The answer to a search: text for the model within a budget of tokens, and plain JSON for programs.

Owns `search_answer`, which `inspect(query)` calls, and `best_tools` for the errors about unknown names. Pure.
The text is grouped by server, best first:

    ## github (26 tools)
    create_issue(owner: string, repo: string, title: string, ...): Create a new issue in a repository
    list_issues(owner: string, repo: string, ...): List issues of a repository
    get_issue update_issue add_issue_comment +21
    ## linear (12 tools)
    ...
    Other servers: jira: create_issue get_issue; notion: create_page; 31 more

The best servers have lines of their own. Each gets its best entry whole, the first one its best three; the
rest of the budget goes to names in the order of `_ORDER`, and what is left then to more entries whole.
Where the score falls off the answer ends, with budget left: what fits badly leads a model astray.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from mcpx.core.catalog.model import JSON, ToolInfo, present
from mcpx.core.catalog.search import MAX_QUERY_LEN, Hit, ServerHits, search
from mcpx.core.catalog.search_index import indexed
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.words import words
from mcpx.core.rendering.search_block import MAX_ENTRIES, Block
from mcpx.core.rendering.tokens import estimate
from mcpx.core.text import cut, one_line, quoted, shown_server

ANSWER_TOKENS: Final = 408  # by the estimate, which is on the high side: 400 of a real tokenizer
MAX_SERVERS: Final = 4  # with lines of their own
MAX_OTHERS: Final = 12  # servers of which only names are shown
_WHOLE: Final = (3, 1, 1, 1)  # entries of each server that are shown whole, before any name
_MAX_WHOLE: Final = 6  # entries of one server that are shown whole, where there is room
_SERVER_SHARE: Final = 0.15  # of the best server's score, from which on another is shown
_ENTRY_SHARE: Final = 0.3  # of the best entry's, likewise; tuned so that no labelled tool is lost
_NO_TOOL_SHARE: Final = 0.5  # of the best entry's, from which on a resource or a prompt is shown
_MAX_NO_TOOLS: Final = 3  # of one server
MAX_HINTS: Final = 3  # tools that an error names
HINT_READ_CHARS: Final = 40_000  # of catalogues, about 15 ms
_HINT_SHARE: Final = 0.4  # of the best tool's score
_MAX_OTHER_NAMES: Final = 20  # of one server
_MIN_LINE_TOKENS: Final = 8
_MAX_REFUSED: Final = 10  # entries that do not fit, until no more are tried
_QUERY_LEN: Final = 80
_MAX_AWAY: Final = 3  # servers of which is said why they have nothing to show
_AWAY_LEN: Final = 200
_MIN_WORD_LEN: Final = 4  # of a question, to be looked for in names
_TAIL_TOKENS: Final = 12  # of the line of other servers, without them

_ORDER: Final = sorted(
    [(place, number) for place in range(MAX_SERVERS) for number in range(MAX_ENTRIES)]
    + [(place, n) for place in range(MAX_SERVERS, MAX_SERVERS + MAX_OTHERS) for n in range(_MAX_OTHER_NAMES)],
    key=lambda one: (1 + one[0]) ** 1.2 * (1 + one[1]) ** (0.4 if one[0] < MAX_SERVERS else 1.5),
)
"""Places of servers, and numbers of their entries: the likeliest to be wanted first. Tuned as the ranking."""


def search_answer(
    servers: Sequence[ServerInfo], query: str, *, only: str | None = None, budget: int = ANSWER_TOKENS
) -> tuple[str, JSON]:
    """Return what `query` finds on all servers, or on the one named `only`: text for the model, and plain
    JSON.

    The text takes at most `budget` tokens by `mcpx.core.rendering.tokens.estimate`. The JSON holds what the
    text shows: `{query, servers: [{server, state?, tools: [{name, signature?, description?}], resources?,
    templates?, prompts?, left_out?}], left_out?, unavailable?: [{server, state, cause?, ...}]}`. `left_out`
    is the number of tools of a server, and of servers, that are not shown. `unavailable` are servers that
    would fit and have nothing to show, with the reason.
    """
    searched = [server for server in servers if only in (None, server.name)]
    found, away = search(searched, query), _away(searched, query)
    notes = [_why_away(server) for server in away]
    budget -= sum(map(estimate, notes))
    said = present(unavailable=[{"server": each.name, **each.why()} for each in away] or None)
    if not found:
        text = "\n".join([_nothing(searched, query, only, budget), *notes])
        return text, {"query": query, "servers": [], **said}
    blocks = _blocks(found)
    _Filling(blocks, budget - _TAIL_TOKENS).fill()
    best = [block for block in blocks if block.lines]
    others = [block for block in blocks if block.names and not block.lines]
    left_out = len(searched) - len(best) - len(others) - len(away)
    text = "\n".join([*(block.text() for block in best), *notes, *_tail(others, left_out)])
    plain = [block.to_dict() for block in (*best, *others)]
    return text, present(query=query, servers=plain, left_out=left_out or None, **said)


def _away(servers: Sequence[ServerInfo], query: str) -> list[ServerInfo]:
    """The servers that fit by their names or by what they say of themselves, and have nothing to show."""
    asked = {word for word in words(query[:MAX_QUERY_LEN]) if len(word) >= _MIN_WORD_LEN}
    silent = (server for server in servers if not server.tools and not server.available)
    return [server for server in silent if asked and _fits(server, asked)][:_MAX_AWAY]


def _fits(server: ServerInfo, asked: set[str]) -> bool:
    """Return True if a word that is asked for is in a server's name, or in its instructions."""
    name, about = server.name.casefold(), (server.instructions or "")[:MAX_QUERY_LEN]
    return any(word in name for word in asked) or not asked.isdisjoint(words(about))


def _why_away(server: ServerInfo) -> str:
    """`weather may have it, but is not available: needs setup: ...`, and what helps."""
    text = one_line(server.describe_state(), _AWAY_LEN)
    helps = f"; what helps, by the user: {one_line(server.remedy, _AWAY_LEN)}" if server.remedy else ""
    return f"{shown_server(server.name)} may have it, but is not available: {text}{helps}"


def best_tools(servers: Sequence[ServerInfo], query: str) -> list[str]:
    """The tools that `query` finds best, for an error: `git.git_log(repo_path: string, ...): Shows ...` each.

    At most MAX_HINTS, and fewer where the best are much better than the rest. Servers whose catalogues are
    long and have not been read yet are not searched.
    """
    found = search(indexed(servers, HINT_READ_CHARS), query[:_QUERY_LEN])
    hits = [(one.server, hit) for one in found[:MAX_HINTS] for hit in one.best(MAX_HINTS)]
    hits = [pair for pair in hits if isinstance(pair[1].entry, ToolInfo)]
    hits.sort(key=lambda pair: -pair[1].score)
    least = hits[0][1].score * _HINT_SHARE if hits else 0
    return [
        f"{shown_server(server.name)}.{Block(server, [hit], 1).line(0)}"
        for server, hit in hits[:MAX_HINTS]
        if hit.score >= least
    ]


def _blocks(found: Sequence[ServerHits]) -> list[Block]:
    """The servers that match nearly as well as the best, in order; for a name, only those that have it."""
    most = MAX_SERVERS + MAX_OTHERS
    usual = [(one.score, hit.score) for one in found if (hit := one.best(1)[0]).usual]
    top = max((score for score, _ in usual), default=0.0) * _SERVER_SHARE
    best = max((score for _, score in usual), default=0.0)
    least = best * _ENTRY_SHARE
    kept = [one for one in found if one.score >= top and one.best(1)[0].score >= least]
    hits = [(one.server, one.best(MAX_ENTRIES)) for one in kept[:MAX_SERVERS]]
    hits += [(one.server, one.best(_MAX_OTHER_NAMES)) for one in kept[MAX_SERVERS:most]]
    named = [one for one in hits if one[1][0].named]
    return [
        Block(server, list(_fitting(own, best)), place, whole_from=least)
        for place, (server, own) in enumerate((named or hits)[:most])
    ]


def _fitting(hits: Sequence[Hit], best: float) -> Iterator[Hit]:
    """The entries of a server; of what is no tool only what fits well, for there may be very many of it."""
    others = 0
    for hit in hits:
        if not isinstance(hit.entry, ToolInfo):
            others += 1
            if others > _MAX_NO_TOOLS or hit.score < best * _NO_TOOL_SHARE:
                continue
        yield hit


class _Filling:
    """Chooses what is shown of each server, as long as the budget lasts."""

    def __init__(self, blocks: Sequence[Block], budget: float) -> None:
        self._blocks = blocks
        self._left = budget
        self._refused = 0

    def fill(self) -> None:
        """Show the best entries whole, then names, then more entries whole."""
        for block, most in zip(self._blocks, _WHOLE, strict=False):
            for number in range(min(most, block.matches)):
                head = 0 if block.lines else estimate(block.head()) + 1
                if self._pays(head + estimate(block.line(number)) + 1):
                    block.lines.append(number)
        for place, number in _ORDER:
            if self._refused >= _MAX_REFUSED:
                break
            if place < len(self._blocks) and number < len(self._blocks[place].entries):
                self._name(self._blocks[place], number)
        for number in range(1, _MAX_WHOLE):
            for block in self._blocks[:MAX_SERVERS]:
                if self._left >= _MIN_LINE_TOKENS:
                    self._promote(block, number)

    def _name(self, block: Block, number: int) -> None:
        """Show an entry by name that is not shown yet."""
        if number in block.lines:
            return
        cost = _cost(f" {block.name(number)}")
        if not block.lines and not block.names:
            cost += _cost(f" {shown_server(block.server.name)}:;")
        if self._pays(cost):
            block.names.append(number)

    def _promote(self, block: Block, number: int) -> None:
        """Show an entry whole that is shown by name."""
        if number >= block.worthy or not block.lines or number not in block.names:
            return
        if self._pays(estimate(block.line(number)) + 1 - _cost(f" {block.name(number)}")):
            block.names.remove(number)
            block.lines.append(number)

    def _pays(self, cost: float) -> bool:
        if cost > self._left:
            self._refused += 1
            return False
        self._left -= cost
        return True


@lru_cache(maxsize=16384)
def _cost(text: str) -> float:
    """Tokens of a word among others, to a fraction: `estimate` rounds up, and there are many."""
    return estimate(text * 16) / 16


def _tail(others: Sequence[Block], left_out: int) -> list[str]:
    """The line that names the other servers, if there are any."""
    shown = [*(block.brief() for block in others), *([f"{left_out} more"] if left_out else [])]
    return [f"Other servers: {'; '.join(shown)}"] if shown else []


def _nothing(servers: Sequence[ServerInfo], query: str, only: str | None, budget: int) -> str:
    """Return what is said where nothing matches: which servers there are, as many as the budget takes."""
    said = quoted(cut(query, _QUERY_LEN))
    if only is not None:
        return f"Nothing on {shown_server(only)} matches {said}. inspect({quoted(only)}) lists its tools."
    if not servers:
        return f"Nothing matches {said}: no servers are configured."
    text = f"Nothing matches {said}. Servers: "
    blocks = [Block(server, [], 0) for server in servers if server.tools][: MAX_SERVERS + MAX_OTHERS]
    for block in blocks:
        block.names = list(range(len(block.entries)))
    whole = "; ".join(block.brief() for block in blocks)
    if len(blocks) == len(servers) and estimate(text + whole) <= budget:
        return text + whole
    names: list[str] = []
    left = budget - estimate(text) - _TAIL_TOKENS
    for server in servers:
        is_away = not server.tools and not server.available
        shown = f"{shown_server(server.name)} ({server.state if is_away else len(server.tools)})"
        left -= estimate(f", {shown}")
        if left < 0:
            break
        names.append(shown)
    more = f" and {len(servers) - len(names):,} more" if len(names) < len(servers) else ""
    return f"{text}{', '.join(names)}{more}. The number is that of tools."

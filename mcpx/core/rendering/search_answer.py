"""The answer to a search: text for the model within a budget of tokens, and plain JSON for programs.

Owns `search_answer`, which `inspect(query)` calls, and `best_tools` for the errors about unknown names. Pure.
The text is grouped by server, best first:

    ## github (26 tools) create_issue(owner: string, repo: string, title: string, ...): Create a new issue in
    a repository list_issues(owner: string, repo: string, ...): List issues of a repository get_issue
    update_issue add_issue_comment +21 same tools as github: github-work ## linear (12 tools) ... Other
    servers: jira: create_issue get_issue; notion: create_page; 31 more

Tools that several servers have (`mcpx.core.catalog.alike`) are shown of the one that matches best, and the
others named. The best servers have lines of their own. Each gets its best entry whole, the first one its best
two; the rest of the budget goes to names in the order of `_ORDER`, and what is left then to more entries
whole. Where the score falls off the answer ends, with budget left: what fits badly leads a model astray.

Nearly any task may need the time or a sum, and models do not search for them: a third of what they missed in
the even half of LiveMCPBench. So an answer about all servers also names the tools for these, by ten tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from mcpx.core.catalog.alike import Alike, Same, grouped, same_tools
from mcpx.core.catalog.model import JSON, TemplateInfo, ToolInfo, present
from mcpx.core.catalog.search import MAX_QUERY_LEN, Hit, ServerHits, search
from mcpx.core.catalog.search_index import Entry, indexed, read_index
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.words import words
from mcpx.core.rendering.search_block import MAX_ENTRIES, MAX_SAME, Block, same_briefly
from mcpx.core.rendering.tokens import estimate
from mcpx.core.text import cut, one_line, quoted, shown_server

ANSWER_TOKENS: Final = 400  # by the estimate, and in nearly all answers by a real tokenizer
MAX_SERVERS: Final = 4  # with lines of their own
MAX_OTHERS: Final = 12  # servers of which only names are shown
_WHOLE: Final = (2, 1, 1, 1)  # entries of each server that are shown whole, before any name
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
_AWAY_SHARE: Final = 0.9  # of its score, where a server that is not available stands for others
MAX_LIKELY: Final = 8  # tools that are named because they are likely
_MAX_AWAY: Final = 3  # servers of which is said why they have nothing to show
_AWAY_LEN: Final = 200
_MIN_WORD_LEN: Final = 4  # of a question, to be looked for in names
_EVERYDAY: Final = (
    "get_current_time get_current_datetime get_current_date current_time get_datetime get_time",
    "calculate calculator evaluate_expression calc",
)
"""Names of tools for what nobody searches for, by need, the likeliest first."""
_TAIL_TOKENS: Final = 12  # of the line of other servers, without them

_ORDER: Final = sorted(
    [(place, number) for place in range(MAX_SERVERS) for number in range(MAX_ENTRIES)]
    + [(place, n) for place in range(MAX_SERVERS, MAX_SERVERS + MAX_OTHERS) for n in range(_MAX_OTHER_NAMES)],
    key=lambda one: (1 + one[0]) ** 1.2 * (1 + one[1]) ** (0.4 if one[0] < MAX_SERVERS else 1.5),
)
"""Places of servers, and numbers of their entries: the likeliest to be wanted first. Tuned as the ranking."""


def search_answer(
    servers: Sequence[ServerInfo],
    query: str,
    *,
    only: str | None = None,
    budget: int = ANSWER_TOKENS,
    likely: Iterable[tuple[str, str]] = (),
) -> tuple[str, JSON]:
    """Return what `query` finds on all servers, or on the one named `only`: text for the model, and plain
    JSON.

    `likely` names tools (server, tool) that are shown by name before others, whether or not they match.

    The text takes at most `budget` tokens by `mcpx.core.rendering.tokens.estimate`. The JSON holds what it
    shows: `{query, servers: [{server, state?, tools: [{name, signature?, description?}], resources?,
    templates?, prompts?, skills?, left_out?, same_tools?: [{server, state?, without?, besides?}]}],
    left_out?, unavailable?: [{server, state, cause?, ...}]}`. `left_out` is the number of tools of a server,
    and of servers, that are not shown. `same_tools` are servers that have the tools of this one.
    `unavailable` are servers that would fit and have nothing to show, with the reason.
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
    likely = [*likely, *([] if only else _everyday(searched))]
    first = [] if blocks[0].is_asked_for else _placed(blocks, searched, likely)
    _Filling(blocks, budget - _TAIL_TOKENS).fill(first)
    best = [block for block in blocks if block.lines]
    others = [block for block in blocks if block.names and not block.lines]
    told = {name for block in (*best, *others) for name in block.servers}
    left_out = len(searched) - len(told) - len(away)
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
    found = _said_once(search(indexed(servers, HINT_READ_CHARS), query[:_QUERY_LEN]))
    hits = [(one, hit) for one in found[: MAX_HINTS + MAX_SAME] for hit in one.entries(MAX_HINTS, 0)]
    hits = [pair for pair in hits if isinstance(pair[1].entry, ToolInfo)]
    hits.sort(key=lambda pair: -pair[1].score)
    least = hits[0][1].score * _HINT_SHARE if hits else 0
    return [_hint(one, hit) for one, hit in hits[:MAX_HINTS] if hit.score >= least]


def _hint(one: _Said, hit: Hit) -> str:
    """`git.git_log(repo_path: string, ...): Shows ...`, and which servers have the same."""
    name = hit.entry.name
    same = [(other, Alike(alike.leader)) for other, alike in one.same if name not in alike.lacks + alike.own]
    line = Block(one.found.server, [hit], 1).line(0)
    return f"{shown_server(one.found.server.name)}.{line}" + (f" ({same_briefly(same)})" if same else "")


def _blocks(found: Sequence[ServerHits]) -> list[Block]:
    """The servers that match nearly as well as the best, in order; for a name, only those that have it."""
    most = MAX_SERVERS + MAX_OTHERS
    usual = [one for one in found if one.usual]
    top = max((one.score for one in usual), default=0.0) * _SERVER_SHARE
    best = max((one.best_score for one in usual), default=0.0)
    least = best * _ENTRY_SHARE
    kept = [one for one in found if one.score >= top and one.best_score >= least]
    named = [one for one in kept if one.named]
    blocks: list[Block] = []
    for one in _said_once(named or kept):
        place = len(blocks)
        if place == most:
            break
        own = one.entries(MAX_ENTRIES if place < MAX_SERVERS else _MAX_OTHER_NAMES, least)
        if own:
            shown = list(_fitting(own, best))
            blocks.append(
                Block(one.found.server, shown, place, whole_from=least, alike=one.alike, same=one.same)
            )
    return blocks


def _placed(
    blocks: list[Block], servers: Sequence[ServerInfo], likely: Iterable[tuple[str, str]]
) -> list[tuple[int, int]]:
    """Return where likely tools stand in the blocks, to which those of other servers are added."""
    known = {server.name: server for server in servers}
    said = {name: block for block in blocks for name in block.servers}
    found = [(known[name], tool) for name, tool in likely if name in known and tool in known[name].tools]
    beside: dict[str, list[ToolInfo]] = {}
    for server, tool in found[:MAX_LIKELY]:
        if server.name not in said:
            beside.setdefault(server.name, []).append(server.tools[tool])
    for name, tools in beside.items():
        said[name] = Block(known[name], [], len(blocks), likely=tools)
        blocks.append(said[name])
    likeliest = [(said[server.name], tool) for server, tool in found[:MAX_LIKELY]]
    return [(block.place, number) for block, tool in likeliest if (number := block.number(tool)) is not None]


def _everyday(servers: Sequence[ServerInfo]) -> Iterator[tuple[str, str]]:
    """The tools for everyday needs, one of each, on a server that is available."""
    known = [(each.name, read_index(each)) for each in servers if each.available and each.tools]
    for needed in _EVERYDAY:
        names = [" ".join(words(name)) for name in needed.split()]
        having = ((server, index.tool_named(name)) for name in names for server, index in known)
        yield from islice(((server, tool) for server, tool in having if tool is not None), 1)


class _Said(NamedTuple):
    """A server that matches. Its tools stand for those of `same`, or are said of another one, `leader`."""

    found: ServerHits
    same: Sequence[Same] = ()
    alike: Alike | None = None
    leader: ServerInfo | None = None

    def entries(self, limit: int, least: float) -> list[Hit]:
        """The entries that match; where its tools are said elsewhere, those that it has alone."""
        hits = self.found.best(limit)
        return hits if self.alike is None else [hit for hit in hits if hit.score >= least and self._has(hit)]

    def _has(self, hit: Hit) -> bool:
        """Return True if it has that entry, and the leader none of that name."""
        if self.alike is None or self.leader is None:
            return True
        if isinstance(hit.entry, ToolInfo):
            return hit.entry.name in self.alike.own
        return _key(hit.entry) not in map(_key, read_index(self.leader).entries)


def _key(entry: Entry) -> tuple[type[Entry], str]:
    """The kind of an entry, and the name or URI that it is told apart by."""
    own = entry.uri_template if isinstance(entry, TemplateInfo) else getattr(entry, "uri", entry.name)
    return type(entry), own


def _said_once(found: Sequence[ServerHits]) -> list[_Said]:
    """The servers in their order; of those with the same tools, the best that is available stands for all."""
    several = [one for one in found if one.alike]
    if len(several) <= 1:
        return [_Said(one) for one in found]
    several.sort(key=lambda one: -one.score * (1 if one.server.available else _AWAY_SHARE))
    servers = {one.server.name: one.server for one in several}
    alike = same_tools({name: server.tools for name, server in servers.items()})
    same: dict[str, list[Same]] = {}
    for name, known in alike.items():
        same.setdefault(known.leader, []).append((servers[name], known))
    said = []
    for one in found:
        its = alike.get(one.server.name)
        said.append(_Said(one, same.get(one.server.name, ()), its, servers[its.leader] if its else None))
    return said


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

    def fill(self, first: Sequence[tuple[int, int]] = ()) -> None:
        """Show the best entries whole, then names, those of `first` first, then more entries whole."""
        for block, most in zip(self._blocks, _WHOLE, strict=False):
            for number in range(min(most, block.matches)):
                head = 0 if block.lines else block.frame()
                if self._pays(head + estimate(block.line(number)) + 1):
                    block.lines.append(number)
        for place, number in (*first, *_ORDER):
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
        if number in block.lines or number in block.names:
            return
        cost = _cost(f" {block.name(number)}")
        if not block.lines and not block.names:
            cost += _cost(f" {block.brief_head()}:;")
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
    groups = [group for group in grouped(servers) if group[0].tools][: MAX_SERVERS + MAX_OTHERS]
    blocks = [Block(server, [], 0, same=same) for server, same in groups]
    for block in blocks:
        block.names = list(range(len(block.entries)))
    whole = "; ".join(block.brief() for block in blocks)
    if sum(len(block.servers) for block in blocks) == len(servers) and estimate(text + whole) <= budget:
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

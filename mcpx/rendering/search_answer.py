"""The answer to a search: text for the model within a budget of tokens, and plain JSON for programs.

Owns `search_answer`, which `inspect(query)` calls. Pure. The text is grouped by server, best first:

    ## github (26 tools)
    create_issue(owner: string, repo: string, title: string, ...): Create a new issue in a repository
    list_issues, get_issue, update_issue, add_issue_comment, +21
    ## linear (12 tools)
    ...
    More matches on 4 other servers: jira, notion, gitlab, asana

Every server that is shown has its best entry as a signature with its first sentence. The rest of the budget
goes to the names of its other tools, those that match first, and then to more signatures. Resources and
prompts are shown where they match, marked as such: `resource URI (name)`, `prompt name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from mcpx.catalog.model import JSON, ResourceInfo, ServerInfo, TemplateInfo, ToolInfo, present
from mcpx.catalog.search import ServerHits, search
from mcpx.catalog.search_index import Entry
from mcpx.rendering.descriptions.ladder import counted
from mcpx.rendering.signatures import first_sentence, signature
from mcpx.rendering.tokens import estimate
from mcpx.text import cut, one_line, quoted, shown_name, shown_server, shown_uri, visible

ANSWER_TOKENS: Final = 430  # by the estimate, which is on the high side: 400 of a real tokenizer
MAX_SERVERS: Final = 5  # that are shown
MAX_SIGNATURES: Final = 3  # of one server
_MAX_NAMES: Final = 60  # tools of one server that do not match
_MAX_LEFT_OUT: Final = 5  # names of servers that match and are not shown
_SIGNATURE_LEN: Final = 60
_SUMMARY_LEN: Final = 60
_NAME_LEN: Final = 80
_QUERY_LEN: Final = 80
_LEFT_OUT_TOKENS: Final = 30  # of the line that says what is left out

_HIDDEN, _NAMED, _WHOLE = 0, 1, 2


class _Block:
    """One server of the answer, and how much of each of its entries is shown."""

    def __init__(self, found: ServerHits) -> None:
        self.server = found.server
        hits = found.hits
        self.matches = len(hits)
        matching = {id(hit.entry) for hit in hits}
        others = (tool for tool in found.server.tools.values() if id(tool) not in matching)
        self.entries: list[Entry] = [*(hit.entry for hit in hits), *islice(others, _MAX_NAMES)]
        self.scores = [hit.score for hit in hits]
        self.forms = [_HIDDEN] * len(self.entries)

    def head(self) -> str:
        """`## name (3 tools)`, with the state of a server that is not ready."""
        state = "" if self.server.ready else f", {self.server.state}"
        return f"## {shown_server(self.server.name)} ({counted(len(self.server.tools), 'tool')}{state})"

    def text(self) -> str:
        """The lines of this server."""
        names = [*map(_name, self._shown(_NAMED)), *([f"+{self.left_out()}"] if self.left_out() else [])]
        lines = [self.head(), *map(_line, self._shown(_WHOLE))]
        return "\n".join([*lines, ", ".join(names)] if names else lines)

    def left_out(self) -> int:
        """Tools of this server that are not shown."""
        shown = (entry for entry, form in zip(self.entries, self.forms, strict=True) if form)
        return len(self.server.tools) - sum(isinstance(entry, ToolInfo) for entry in shown)

    def to_dict(self) -> JSON:
        """`{server, state?, tools, resources?, templates?, prompts?, left_out?}` of what is shown."""
        shown: dict[str, list[JSON]] = {"tools": []}
        for form in (_WHOLE, _NAMED):
            for entry in self._shown(form):
                shown.setdefault(_kind(entry), []).append(_to_dict(entry, whole=form == _WHOLE))
        state = None if self.server.ready else str(self.server.state)
        return present(server=self.server.name, state=state, **shown, left_out=self.left_out() or None)

    def _shown(self, form: int) -> Iterable[Entry]:
        return (entry for entry, each in zip(self.entries, self.forms, strict=True) if each == form)


def search_answer(
    servers: Sequence[ServerInfo], query: str, *, only: str | None = None, budget: int = ANSWER_TOKENS
) -> tuple[str, JSON]:
    """What `query` finds on all servers, or on the one named `only`: text for the model, and plain JSON.

    The text takes at most `budget` tokens by `mcpx.rendering.tokens.estimate`. The JSON holds what the text
    shows: `{query, servers: [{server, state?, tools: [{name, signature?, description?}], resources?,
    templates?, prompts?, left_out?}], left_out: {servers: n, matches: n}}`; `left_out` of a server is the
    number of its tools that are not shown.
    """
    found = search(servers, query, only)
    if not found:
        left_out: JSON = {"servers": 0, "matches": 0}
        return _nothing(servers, query, only, budget), {"query": query, "servers": [], "left_out": left_out}
    blocks = _fill([_Block(one) for one in found[:MAX_SERVERS]], budget - _LEFT_OUT_TOKENS)
    others = found[len(blocks) :]
    left_out = {"servers": len(others), "matches": sum(one.total for one in others)}
    text = "\n".join([*(block.text() for block in blocks), *_others(others)])
    return text, {
        "query": query,
        "servers": [block.to_dict() for block in blocks],
        "left_out": left_out,
    }


def _fill(blocks: Sequence[_Block], budget: int) -> list[_Block]:
    """Choose what is shown of each server; returns those of which anything is."""
    left = budget

    def show(block: _Block, number: int, form: int, cost: int) -> None:
        nonlocal left
        if cost <= left:
            left -= cost
            block.forms[number] = form

    for block in blocks:
        show(block, 0, _WHOLE, estimate(f"{block.head()}\n{_line(block.entries[0])}") + 1)
    shown = [block for block in blocks if block.forms[0]] or list(blocks[:1])
    for block, number in _by_worth(shown):
        show(block, number, _NAMED, estimate(f", {_name(block.entries[number])}"))
    for number in range(1, MAX_SIGNATURES):
        for block in shown:
            if number < block.matches and block.forms[number] == _NAMED:
                entry = block.entries[number]
                show(block, number, _WHOLE, estimate(_line(entry)) + 1 - estimate(f", {_name(entry)}"))
    return shown


def _by_worth(blocks: Sequence[_Block]) -> list[tuple[_Block, int]]:
    """The entries behind the first of each server: those that match by score, then the others by server."""
    matching = [
        (block.scores[number], block, number) for block in blocks for number in range(1, block.matches)
    ]
    matching.sort(key=lambda one: -one[0])
    others = [(block, number) for block in blocks for number in range(block.matches, len(block.entries))]
    return [*((block, number) for _, block, number in matching), *others]


def _line(entry: Entry) -> str:
    text = first_sentence(entry.description or entry.title or "", _SUMMARY_LEN)
    if isinstance(entry, ToolInfo):
        shown = signature(entry, typed=True, limit=_SIGNATURE_LEN)
    else:
        shown = _name(entry)
    return f"{shown}: {text}" if text else shown


def _name(entry: Entry) -> str:
    match entry:
        case ToolInfo():
            return cut(shown_name(entry.name), _NAME_LEN)
        case ResourceInfo():
            return f"resource {cut(shown_uri(entry.uri), _NAME_LEN)} ({one_line(entry.name, _NAME_LEN)})"
        case TemplateInfo():
            uri = cut(shown_uri(entry.uri_template), _NAME_LEN)
            return f"resource {uri} ({one_line(entry.name, _NAME_LEN)})"
        case _:
            return f"prompt {cut(shown_name(entry.name), _NAME_LEN)}"


def _kind(entry: Entry) -> str:
    match entry:
        case ToolInfo():
            return "tools"
        case ResourceInfo():
            return "resources"
        case TemplateInfo():
            return "templates"
        case _:
            return "prompts"


def _to_dict(entry: Entry, *, whole: bool) -> JSON:
    fields: dict[str, Any] = {"name": visible(entry.name)}
    if isinstance(entry, ResourceInfo):
        fields["uri"] = entry.uri
    elif isinstance(entry, TemplateInfo):
        fields["uri_template"] = entry.uri_template
    if whole and isinstance(entry, ToolInfo):
        fields["signature"] = signature(entry, typed=True)
    text = first_sentence(entry.description or entry.title or "", _SUMMARY_LEN) if whole else ""
    return fields | ({"description": text} if text else {})


def _others(found: Sequence[ServerHits]) -> list[str]:
    """The line that says on which servers more was found, if any."""
    if not found:
        return []
    names = _first_names([one.server for one in found], lambda server: shown_server(server.name))
    return [f"More matches on {counted(len(found), 'other server')}: {names}"]


def _nothing(servers: Sequence[ServerInfo], query: str, only: str | None, budget: int) -> str:
    """What is said where nothing matches: which servers there are, as many as the budget takes."""
    said = quoted(cut(query, _QUERY_LEN))
    if only is not None:
        return f"Nothing on {shown_server(only)} matches {said}. inspect({quoted(only)}) lists its tools."
    if not servers:
        return f"Nothing matches {said}: no servers are configured."
    text = f"Nothing matches {said}. Servers (tools): "
    left = budget - estimate(text) - _LEFT_OUT_TOKENS
    names: list[str] = []
    for server in servers:
        name = f"{shown_server(server.name)} ({len(server.tools)})"
        left -= estimate(f", {name}")
        if left < 0:
            break
        names.append(name)
    more = f" and {len(servers) - len(names):,} more" if len(names) < len(servers) else ""
    return f"{text}{', '.join(names)}{more}"


def _first_names(servers: Sequence[ServerInfo], shown: Callable[[ServerInfo], str]) -> str:
    names = ", ".join(cut(shown(server), _NAME_LEN) for server in servers[:_MAX_LEFT_OUT])
    return names if len(servers) <= _MAX_LEFT_OUT else f"{names}, ..."

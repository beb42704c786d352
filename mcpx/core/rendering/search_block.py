"""One server in the answer to a search: what is shown of it, as text and as plain JSON.

Used by `mcpx.core.rendering.search_answer`, which decides what is shown: an entry whole, as a line with its
typed signature and first sentence, or by its name alone. Pure; names and texts of servers are shown clean.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from mcpx.core.catalog.alike import Alike, Same, named, same_lines, same_on
from mcpx.core.catalog.model import JSON, PromptInfo, ResourceInfo, SkillInfo, ToolInfo, present
from mcpx.core.catalog.search import Hit
from mcpx.core.catalog.search_index import Entry
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.descriptions.ladder import counted
from mcpx.core.rendering.signatures import first_sentence, is_deprecated, signature
from mcpx.core.rendering.tokens import estimate
from mcpx.core.text import cut, one_line, shown_name, shown_uri, visible

MAX_ENTRIES: Final = 60  # of one server
MAX_SAME: Final = 12  # servers that are named because they have the same tools
_MAX_SAME_BRIEF: Final = 3  # of a server that is shown by names alone
SUMMARY_LEN: Final = 60  # characters of a first sentence
_SUMMARY_SEARCH_CHARS: Final = 1000
_NAME_LEN: Final = 80
_WHOLE_LEN: Final = 400  # characters of a signature for programs, and of the one that was asked for by name
_SIGNATURE_LEN: Final = (80, 60)  # of the first server, of the others


class Block:
    """A server with its entries, best first: those that match, then its other tools."""

    def __init__(
        self,
        server: ServerInfo,
        hits: Sequence[Hit],
        place: int,
        *,
        whole_from: float = 0.0,
        alike: Alike | None = None,
        same: Sequence[Same] = (),
        likely: Sequence[ToolInfo] = (),
    ) -> None:
        self.server = server
        self.place = place
        self.alike = alike
        """The server that the tools are shown of that this one shares; the entries are its others."""
        self.same = same
        """The servers that have the same tools."""
        hits = sorted(hits, key=_rank)
        matching = {id(hit.entry) for hit in hits}
        own = server.tools.values() if alike is None else map(server.tools.__getitem__, alike.own)
        others = [tool for tool in own if id(tool) not in matching]
        others.sort(key=is_deprecated)
        self.matches = len(hits)
        self.worthy = sum(hit.score >= whole_from for hit in hits)
        """How many of them match well enough to be shown whole where there is room."""
        self.entries: list[Entry] = [*(hit.entry for hit in hits), *likely]
        if not likely:
            self.entries += others[: max(0, MAX_ENTRIES - len(hits))]
        self._whole = {id(hit.entry) for hit in hits if hit.named}
        self._made: dict[int, str] = {}
        self.lines: list[int] = []
        """The numbers of the entries that are shown whole."""
        self.names: list[int] = []
        """The numbers of the entries that are shown by name."""

    def head(self) -> str:
        """`## name (3 tools)`, with the state of a server that takes no calls now."""
        tools = counted(len(self.server.tools), "tool")
        shared = self.alike and f"{self.alike.shared}, and these"
        return f"## {named(self.server.name, tools, self.server.away, shared)}"

    @property
    def is_asked_for(self) -> bool:
        """True if an entry was asked for by its name."""
        return bool(self._whole)

    def number(self, tool: str) -> int | None:
        """The number of the tool of that name, if it is among the entries."""
        tools = ((number, each) for number, each in enumerate(self.entries) if isinstance(each, ToolInfo))
        return next((number for number, each in tools if each.name == tool), None)

    @property
    def servers(self) -> list[str]:
        """The names of the servers that this block tells of."""
        return [self.server.name, *(other.name for other, _ in self.same)]

    def frame(self) -> int:
        """Tokens of the lines that stand around the entries."""
        return sum(estimate(line) + 1 for line in (self.head(), *self.same_lines()))

    def same_lines(self) -> list[str]:
        """`same tools as name: other, another (parked), +3`; nothing where no server has the same."""
        told = [(named(other.name, other.away), alike.differences) for other, alike in self.same[:MAX_SAME]]
        lines = same_lines(self.server.name, told)
        return (
            [*lines[:-1], f"{lines[-1]}, +{len(self.same) - MAX_SAME}"]
            if len(self.same) > MAX_SAME
            else lines
        )

    def line(self, number: int) -> str:
        """An entry whole: `git_log(repo_path: string, ...): Shows the commit logs`."""
        if number not in self._made:
            entry, shown = self.entries[number], self.name(number)
            text = _summary(entry)
            if isinstance(entry, ToolInfo):
                limit = _WHOLE_LEN if id(entry) in self._whole else _SIGNATURE_LEN[min(1, self.place)]
                shown = signature(entry, typed=True, limit=limit)
            self._made[number] = f"{shown}: {text}" if text else shown
        return self._made[number]

    def name(self, number: int) -> str:
        """An entry by its name: a tool's `git_log`, `resource URI (name)`, `skill URI`, `prompt name`."""
        entry = self.entries[number]
        if isinstance(entry, ToolInfo):
            return _shown(entry.name)
        if isinstance(entry, PromptInfo):
            return f"prompt {_shown(entry.name)}"
        if isinstance(entry, SkillInfo):
            return f"skill {cut(shown_uri(entry.uri), _NAME_LEN)}"
        uri = entry.uri if isinstance(entry, ResourceInfo) else entry.uri_template
        return f"resource {cut(shown_uri(uri), _NAME_LEN)} ({one_line(entry.name, _NAME_LEN)})"

    def text(self) -> str:
        """The lines of this server."""
        names = " ".join([*map(self.name, self.names), *([f"+{self.left_out}"] if self.left_out else [])])
        parts = (self.head(), *map(self.line, self.lines), names, *self.same_lines())
        return "\n".join(filter(None, parts))

    def brief_head(self) -> str:
        """`name`, of a server that has no lines, with the state of one that takes no calls now."""
        return named(self.server.name, self.server.away, same_briefly(self.same))

    def brief(self) -> str:
        """`name: tool tool`."""
        return f"{self.brief_head()}: {' '.join(map(self.name, self.names))}"

    @property
    def left_out(self) -> int:
        """Number of tools of the server that are not shown, neither of it nor of another one."""
        shown = (self.entries[number] for number in (*self.lines, *self.names))
        own = len(self.server.tools) if self.alike is None else len(self.alike.own)
        return own - sum(isinstance(entry, ToolInfo) for entry in shown)

    def to_dict(self) -> JSON:
        """Return what is shown, as `search_answer` says."""
        shown: dict[str, list[JSON]] = {"tools": []}
        for entry in map(self.entries.__getitem__, self.lines):
            kind, fields = _fields(entry)
            text = _summary(entry)
            typed = signature(entry, typed=True, limit=_WHOLE_LEN) if isinstance(entry, ToolInfo) else None
            shown.setdefault(kind, []).append(fields | present(signature=typed, description=text or None))
        for entry in map(self.entries.__getitem__, self.names):
            kind, fields = _fields(entry)
            shown.setdefault(kind, []).append(fields)
        same = [present(server=other.name, state=other.away) | alike.to_dict() for other, alike in self.same]
        head = present(server=self.server.name, state=self.server.away)
        return head | shown | present(left_out=self.left_out or None, same_tools=same or None)


def same_briefly(same: Sequence[Same]) -> str:
    """`same on prom-eu, prom-ap (parked), +4`; nothing where no server has the same."""
    return f"same on {same_on(same, _MAX_SAME_BRIEF)}" if same else ""


@lru_cache(maxsize=16384)
def _shown(name: str) -> str:
    return cut(shown_name(name), _NAME_LEN)


def _summary(entry: Entry) -> str:
    return _first_sentence((entry.description or entry.title or "")[:_SUMMARY_SEARCH_CHARS])


@lru_cache(maxsize=4096)
def _first_sentence(text: str) -> str:
    return first_sentence(text, SUMMARY_LEN)


def _rank(hit: Hit) -> tuple[bool, float]:
    """Best first, and last what is deprecated, unless it was asked for by its name."""
    deprecated = isinstance(hit.entry, ToolInfo) and not hit.named and is_deprecated(hit.entry)
    return deprecated, -hit.score


def _fields(entry: Entry) -> tuple[str, dict[str, Any]]:
    """The list that an entry is in, and what programs need to use it."""
    match entry:
        case ToolInfo():
            return "tools", {"name": visible(entry.name)}
        case PromptInfo():
            return "prompts", {"name": visible(entry.name)}
        case ResourceInfo():
            return "resources", {"uri": entry.uri, "name": visible(entry.name)}
        case SkillInfo():
            return "skills", {"uri": entry.uri, "name": visible(entry.name)}
        case _:
            return "templates", {"uri_template": entry.uri_template, "name": visible(entry.name)}

"""Lists of servers and their tools in inspect's description.

Owns the shape of a server's block on each rung of the ladder:

    ## github: the server's instructions ...
    create_issue(owner: string, repo: string, body?: string): Create a new issue in a repository

then without the types, then without the summaries, then the bare names on one line, with commas only where a
name holds a space (`create_issue get_issue list_issues`), then with the instructions cut shorter, then
without them, and at last `## github: 26 tools`, or nothing where the server is named above the list. Servers
with the same tools (`mcpx.core.catalog.alike`) share the block of the first:

    ## prom-us query_range(query: string, start: string, end: string): Query metrics over a range of time same
    tools as prom-us: prom-eu, prom-ap same tools as prom-us, without delete_series: prom-sa ## prom-cn (same
    tools as prom-us): those instructions of its that are not those of prom-us

and one that has some of its own has a block for these. Tools stand in the order of their names, deprecated
ones last. Of a server's state only that is shown which lasts until a person does something (`needs setup`):
every other passes, and a server that is not ready is listed from its last known catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from mcpx.core.catalog.alike import Alike, Same, grouped, named, same_lines, without_own_words
from mcpx.core.catalog.model import ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.descriptions.ladder import Ladder, counted, fit
from mcpx.core.rendering.signatures import in_order, is_deprecated, line_parts, sentences, signature
from mcpx.core.text import one_line, shown_name

Marked = Callable[[ToolInfo], bool]
READ_ONLY_MARK: Final = "*"

_SUMMARY_LEN: Final = 100
_TYPED_LEN: Final = 300  # of a signature with types
_INSTRUCTIONS_LEN: Final = 300
_SHORT_INSTRUCTIONS_LEN: Final = 100
_HINT: Final = "Shortened to fit: inspect(server_name) shows all tools of a server with their parameters."

_HEADING: Final = re.compile(r"^ {0,3}(?:#{1,6}\s.*|(?:```|~~~).*|[-=*_]{3,}\s*|<!--.*)$", re.MULTILINE)
_MARKDOWN: Final = re.compile(rf"{_HEADING.pattern}|^\s*(?:[-*+]|\d+\.)\s", re.MULTILINE)
_MARKDOWN_SEARCH_CHARS: Final = 8000


class _Beside(NamedTuple):
    """The note in a server's block on others: on one that it shares its tools with, or on several."""

    alike: Alike | None = None
    others: tuple[tuple[str, str, Alike, str], ...] = ()
    """By name, with a state that lasts, and instructions if they are different."""


_ALONE: Final = _Beside()


def describe_tools(
    servers: Sequence[ServerInfo],
    *,
    budget: int,
    max_description_len: int = 300,
    marked: Marked | None = None,
    named: bool = False,
) -> str:
    """The list of servers and tools, within `budget` tokens.

    `max_description_len` is the most characters shown of a server's instructions. Tools that are `marked`
    have `READ_ONLY_MARK` before their names. With `named` a text before it names the servers, and it is empty
    where most of them do not fit.
    """
    if not servers and not named:
        return "No servers are configured."
    shown: list[ServerInfo] = []
    besides: dict[str, _Beside] = {}
    for server, same in grouped(sorted(servers, key=lambda server: server.name)):
        shown.append(server)
        if others := [_told(server, each) for each in same if not each[1].own]:
            besides[server.name] = _Beside(others=tuple(others))
        for other, alike in same:
            if alike.own:
                shown.append(other)
                besides[other.name] = _Beside(alike)
    shown.sort(key=lambda server: server.name)
    return fit(shown, _ladder(max_description_len, besides, named=named, marked=marked), budget)


def _told(server: ServerInfo, same: Same) -> tuple[str, str, Alike, str]:
    other, alike = same
    said, its = ((each.instructions or "")[:_MARKDOWN_SEARCH_CHARS] for each in (server, other))
    is_said = without_own_words(other.name, its) == without_own_words(server.name, said)
    return other.name, other.lasting or "", alike, "" if is_said or its == said else its


def _ladder(
    instructions: int, besides: Mapping[str, _Beside], *, named: bool, marked: Marked | None
) -> Ladder:
    most = min(instructions, _INSTRUCTIONS_LEN)
    short = min(instructions, _SHORT_INSTRUCTIONS_LEN)
    summary = min(instructions, _SUMMARY_LEN)
    blocks = _Blocks(besides, marked)
    rungs = (
        partial(blocks.with_summaries, instructions=most, summary=summary, typed=True),
        partial(blocks.with_summaries, instructions=most, summary=summary, typed=False),
        partial(blocks.with_parameters, instructions=most),
        partial(blocks.with_names, instructions=most),
        partial(blocks.with_names, instructions=short),
        partial(blocks.with_names, instructions=0),
        _without if named else blocks.with_count,
    )
    return Ladder(
        name=(("named" if named else "tools") + ("" if marked is None else " marked"), instructions),
        rungs=rungs,
        listing=len(rungs) - 1,
        entries=lambda server: len(blocks.tools(server)),
        hint=_HINT,
        left_out=_left_out,
        beside=lambda server: besides.get(server.name),
        servers=lambda server: 1 + len(besides[server.name].others) if server.name in besides else 1,
    )


def _left_out(number: int) -> str:
    return (
        f"and {counted(number, 'more server')}: inspect(server_name) with part of a name finds the nearest."
    )


def _brief(instructions: str, limit: int) -> str:
    """A server's instructions on one line, cut; of Markdown, whole sentences without its headings."""
    beginning = instructions[:_MARKDOWN_SEARCH_CHARS]
    if _MARKDOWN.search(beginning):
        text = one_line(_HEADING.sub("", beginning))
        if text:
            return sentences(text, limit)
    return one_line(instructions, limit)


def _nothing(server: ServerInfo) -> list[str]:
    """The line in place of the tools of a server that has none to show."""
    if server.catalogue is not None:
        return ["(no tools)"]
    return [] if server.lasting else ["(tools not listed yet) inspect again in a moment, or to see why"]


class _Blocks:
    """Makes the blocks of servers. Tools that are `marked` have the mark before their names."""

    def __init__(self, besides: Mapping[str, _Beside], marked: Marked | None) -> None:
        self._besides = besides
        self._marked = marked

    def tools(self, server: ServerInfo) -> list[ToolInfo]:
        """The tools of a server that its own block shows."""
        alike = self._beside(server).alike
        return [*server.tools.values()] if alike is None else [server.tools[name] for name in alike.own]

    def with_summaries(self, server: ServerInfo, *, instructions: int, summary: int, typed: bool) -> str:
        limit = _TYPED_LEN if typed else None
        lines = [self._mark(tool) + _line(tool, summary, typed, limit) for tool in self._in_order(server)]
        return self._block(server, lines, instructions)

    def with_parameters(self, server: ServerInfo, *, instructions: int) -> str:
        lines = [self._mark(tool) + signature(tool) for tool in self._in_order(server)]
        return self._block(server, lines, instructions)

    def with_names(self, server: ServerInfo, *, instructions: int) -> str:
        names = [self._mark(tool) + _name(tool) for tool in self._in_order(server)]
        between = ", " if any(" " in name for name in names) else " "  # a comma costs a model a token
        return self._block(server, [between.join(names)] if names else [], instructions)

    def with_count(self, server: ServerInfo) -> str:
        count = "" if server.catalogue is None else f": {counted(len(server.tools), 'tool')}"
        return "\n".join([self._head(server, 0) + count, *self._others(server, 0)])

    def _block(self, server: ServerInfo, lines: list[str], instructions: int) -> str:
        shown = lines or _nothing(server)
        return "\n".join([self._head(server, instructions), *shown, *self._others(server, instructions)])

    def _head(self, server: ServerInfo, instructions: int) -> str:
        """`## name: instructions`, or `## name (needs setup)`."""
        alike = self._beside(server).alike
        shared = () if alike is None else (alike.shared, alike.without, "and these")
        return _heading(named(server.name, server.lasting, *shared), server.instructions or "", instructions)

    def _others(self, server: ServerInfo, instructions: int) -> list[str]:
        """The servers with the same tools; each whose instructions are different has a line for them."""
        brief: list[tuple[str, str]] = []
        lines: list[str] = []
        for name, state, alike, said in self._beside(server).others:
            if said and instructions:
                shown = named(name, state, alike.shared, alike.differences)
                lines.append(_heading(shown, said, instructions))
            else:
                brief.append((named(name, state), alike.differences))
        return same_lines(server.name, brief) + lines

    def _beside(self, server: ServerInfo) -> _Beside:
        return self._besides.get(server.name, _ALONE)

    def _in_order(self, server: ServerInfo) -> list[ToolInfo]:
        return in_order(self.tools(server))

    def _mark(self, tool: ToolInfo) -> str:
        """Return what stands before the name of a tool."""
        return READ_ONLY_MARK if self._marked is not None and self._marked(tool) else ""


def _heading(name: str, instructions: str, limit: int) -> str:
    text = _brief(instructions, limit) if limit else ""
    return f"## {name}: {text}" if text else f"## {name}"


def _line(tool: ToolInfo, summary: int, typed: bool, limit: int | None) -> str:  # noqa: FBT001
    """`name(params): summary`."""
    shown, text = line_parts(tool, summary, typed=typed, limit=limit)
    return f"{shown}: {text}" if text else shown


def _name(tool: ToolInfo) -> str:
    return shown_name(tool.name) + " (deprecated)" * is_deprecated(tool)


def _without(_server: ServerInfo) -> str:
    return ""

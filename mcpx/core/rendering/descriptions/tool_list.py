"""Lists of servers and their tools in inspect's description.

Owns the shape of a server's block on each rung of the ladder:

    ## github: the server's instructions ...
    create_issue(owner: string, repo: string, body?: string): Create a new issue in a repository

then without the types, then without the summaries, then the bare names on one line, with commas only where a
name holds a space (`create_issue get_issue list_issues`), then with the instructions cut shorter, then
without them, and at last `## github: 26 tools`, or nothing where the server is named above the list. Tools
stand in the order of their names, deprecated ones last. Of a server's state only that is shown which lasts
until a person does something (`needs setup`): every other passes, and a server that is not ready is listed
from its last known catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.descriptions.ladder import Ladder, counted, fit
from mcpx.core.rendering.signatures import in_order, is_deprecated, line_parts, sentences, signature
from mcpx.core.text import one_line, shown_name, shown_server

Marked = Callable[[ToolInfo], bool]
Mark = Callable[[ToolInfo], str]
READ_ONLY_MARK: Final = "*"

_SUMMARY_LEN: Final = 100
_TYPED_LEN: Final = 300  # of a signature with types
_INSTRUCTIONS_LEN: Final = 300
_SHORT_INSTRUCTIONS_LEN: Final = 100
_HINT: Final = "Shortened to fit: inspect(server_name) shows all tools of a server with their parameters."

_HEADING: Final = re.compile(r"^ {0,3}(?:#{1,6}\s.*|(?:```|~~~).*|[-=*_]{3,}\s*|<!--.*)$", re.MULTILINE)
_MARKDOWN: Final = re.compile(rf"{_HEADING.pattern}|^\s*(?:[-*+]|\d+\.)\s", re.MULTILINE)
_MARKDOWN_SEARCH_CHARS: Final = 8000


def describe_tools(
    servers: Sequence[ServerInfo],
    *,
    budget: int,
    max_description_len: int = 300,
    marked: Marked | None = None,
) -> str:
    """The list of servers and tools alone, within `budget` tokens.

    `max_description_len` is the most characters shown of a server's instructions. Tools that are `marked`
    have `READ_ONLY_MARK` before their names.
    """
    if not servers:
        return "No servers are configured."
    return fit(_in_order(servers), _ladder(max_description_len, named=False, marked=marked), budget)


def list_tools(
    servers: Sequence[ServerInfo],
    *,
    budget: int,
    max_description_len: int = 300,
    marked: Marked | None = None,
) -> str:
    """The list of tools for a text that names the servers; empty where most servers do not fit."""
    return fit(_in_order(servers), _ladder(max_description_len, named=True, marked=marked), budget)


def _in_order(servers: Sequence[ServerInfo]) -> list[ServerInfo]:
    return sorted(servers, key=lambda server: server.name)


def _ladder(instructions: int, *, named: bool, marked: Marked | None) -> Ladder:
    most = min(instructions, _INSTRUCTIONS_LEN)
    short = min(instructions, _SHORT_INSTRUCTIONS_LEN)
    summary = min(instructions, _SUMMARY_LEN)
    mark = _unmarked if marked is None else partial(_mark, marked)
    rungs = (
        partial(_with_summaries, mark, instructions=most, summary=summary, typed=True),
        partial(_with_summaries, mark, instructions=most, summary=summary, typed=False),
        partial(_with_parameters, mark, instructions=most),
        partial(_with_names, mark, instructions=most),
        partial(_with_names, mark, instructions=short),
        partial(_with_names, mark, instructions=0),
        _without if named else _with_count,
    )
    return Ladder(
        name=(("named" if named else "tools") + ("" if marked is None else " marked"), instructions),
        rungs=rungs,
        listing=len(rungs) - 1,
        entries=lambda server: len(server.tools),
        hint=_HINT,
        left_out=_left_out,
    )


def _left_out(number: int) -> str:
    return (
        f"and {counted(number, 'more server')}: inspect(server_name) with part of a name finds the nearest."
    )


def _head(server: ServerInfo, instructions: int) -> str:
    """`## name: instructions`, or `## name (needs setup)`."""
    head = f"## {shown_server(server.name)}" + (f" ({server.lasting})" if server.lasting else "")
    text = _brief(server.instructions or "", instructions) if instructions else ""
    return f"{head}: {text}" if text else head


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


def _unmarked(_tool: ToolInfo) -> str:
    return ""


def _mark(marked: Marked, tool: ToolInfo) -> str:
    """Return what stands before the name of a tool."""
    return READ_ONLY_MARK if marked(tool) else ""


def _with_summaries(mark: Mark, server: ServerInfo, *, instructions: int, summary: int, typed: bool) -> str:
    limit = _TYPED_LEN if typed else None
    tools = [mark(tool) + _line(tool, summary, typed, limit) for tool in in_order(server.tools.values())]
    return "\n".join([_head(server, instructions), *(tools or _nothing(server))])


def _line(tool: ToolInfo, summary: int, typed: bool, limit: int | None) -> str:  # noqa: FBT001
    """`name(params): summary`."""
    shown, text = line_parts(tool, summary, typed=typed, limit=limit)
    return f"{shown}: {text}" if text else shown


def _with_parameters(mark: Mark, server: ServerInfo, *, instructions: int) -> str:
    tools = [mark(tool) + signature(tool) for tool in in_order(server.tools.values())]
    return "\n".join([_head(server, instructions), *(tools or _nothing(server))])


def _with_names(mark: Mark, server: ServerInfo, *, instructions: int) -> str:
    names = [mark(tool) + _name(tool) for tool in in_order(server.tools.values())]
    between = ", " if any(" " in name for name in names) else " "  # a comma costs a model a token
    return "\n".join([_head(server, instructions), *([between.join(names)] if names else _nothing(server))])


def _name(tool: ToolInfo) -> str:
    return shown_name(tool.name) + " (deprecated)" * is_deprecated(tool)


def _with_count(server: ServerInfo) -> str:
    count = "" if server.catalogue is None else f": {counted(len(server.tools), 'tool')}"
    return _head(server, 0) + count


def _without(_server: ServerInfo) -> str:
    return ""

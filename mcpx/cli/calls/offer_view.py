"""Offers of servers as a person reads them: tools as `name(parameters)  what it does`, and one tool whole.

Pure: made of what inspect has for programs, for the width of a terminal; in a pipe every tool is one line.
Names and texts of servers are never read as markup, and what would harm a terminal is left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcpx.cli.printing import console
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.rendering.signatures import described_parameters, first_sentence, signature
from mcpx.core.text import one_line, paragraphs, shown_name

INDENT = 4
_MAX_SUMMARY = 400  # characters of the line about a tool


def server_table(servers: list[JSON]) -> Table:
    """A row for each server."""
    table = Table("server", "state", "tools", "resources", "title", box=None, pad_edge=False)
    for each in servers:
        table.add_row(*_cells(each))
    return table


def _cells(server: JSON) -> list[Text]:
    """Name, state, counts, and what takes room: why it is not ready, or its title."""
    state, _, cause = server["described"].partition(": ")
    texts = (
        server["name"],
        state,
        str(server["tools"]),
        str(server["resources"]),
        cause or server.get("title"),
    )
    cells = [Text(one_line(text or "")) for text in texts]
    if cause:
        cells[1].stylize("yellow")
    return cells


class ServerRows:
    """The same on a terminal where the rows come one after the other."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    @property
    def has_header(self) -> bool:
        """True once a row was printed."""
        return bool(self._widths)

    def report(self, step: JSON) -> None:
        """Print the row of a server that a step is about: `{"server": ENTRY, "of": NAMES}`."""
        if "server" not in step:
            return
        if not self._widths:
            widest = max(map(cell_len, ["server", *map(one_line, step["of"])]))
            self._widths = [widest + 2, len("disabled") + 2, len("tools") + 2, len("resources") + 2, 0]
            names = ("server", "state", "tools", "resources", "title")
            self._print([Text(name, style="bold") for name in names])
        self._print(_cells(step["server"]))

    def _print(self, cells: list[Text]) -> None:
        row = Text()
        for cell, width in zip(cells, self._widths, strict=True):
            cell.pad_right(max(0, width - cell.cell_len))
            row.append_text(cell)
        console().print(row)


def render(plain: JSON) -> RenderableType:
    """The answer of inspect: a server with its tools, one tool whole, or several."""
    if "name" in plain:
        return Group(*_whole(plain))
    if "server" in plain:
        return Group(*_server(plain))
    parts = [part for tool in plain.get("tools", ()) for part in (*_whole(tool), Text())]
    return Group(*parts, *[Text(f"not found: {each}", style="red") for each in plain.get("not_found", ())])


def _server(plain: JSON) -> Iterator[RenderableType]:
    yield Text(one_line(plain["server"]), style="bold").append(f"  {one_line(plain['state'])}", "not bold")
    if listed := plain.get("listed_at"):
        yield Text(f"as it was listed at {one_line(str(listed))}", style="dim")
    if text := plain.get("instructions"):
        yield Padding.indent(Text(paragraphs(text), style="dim"), INDENT)
    yield Text()
    tools = plain.get("tools", ())
    yield from (ToolLine(tool) for tool in tools)
    if not tools:
        yield Text("no tools")
    hidden = plain.get("not_shown", 0)
    if hidden:
        yield Text(f"and {hidden} more")
    yield from _changes(plain)
    for each in plain.get("left_out", ()):
        what = " ".join(one_line(str(each[key])) for key in ("kind", "name", "reason") if each.get(key))
        yield Text(f"left out: {what}", style="yellow")


def _changes(plain: JSON) -> Iterator[RenderableType]:
    """Changes that wait for approval."""
    for each in plain.get("changes", ()):
        what = shown_name(each["tool"]) if each.get("tool") else "the server"
        said = {"new": "is new", "pins": "was pinned, but that is lost"}.get(each["kind"], "has changed")
        blocked = ", and waits for approval" if each["blocked"] else ""
        yield Text(f"{what} {said}{blocked}:", style="yellow")
        yield from (
            Padding.indent(Text(one_line(line), style="yellow"), INDENT) for line in each["difference"]
        )
    if plain.get("changes"):
        yield Text(f"approve that with: mcpx approve {shlex.quote(plain['server'])}", style="dim")


class ToolLine:
    """A tool in a line, or in two where that is too long for the window."""

    def __init__(self, tool: JSON) -> None:
        self._signature = (
            signature(_tool(tool), typed=True) if "input_schema" in tool else shown_name(tool["name"])
        )
        self._text = first_sentence(tool.get("description") or tool.get("title") or "", _MAX_SUMMARY)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        name, bracket, rest = self._signature.partition("(")
        line = Text(name, style="bold").append(bracket + rest, "not bold")
        if line.cell_len + 2 + len(self._text) <= options.max_width:
            yield line.append(f"  {self._text}" if self._text else "", "not bold dim")
            return
        yield line
        if self._text:
            yield Padding.indent(Text(self._text, style="dim"), INDENT)


def _whole(plain: JSON) -> Iterator[RenderableType]:
    """A tool with everything that a person needs to call it."""
    if "input_schema" not in plain:
        yield Text(shown_name(plain["name"]), style="bold")
        return
    tool = _tool(plain)
    yield Text(signature(tool, typed=True), style="bold")
    if state := plain.get("state"):
        yield Text(one_line(state), style="yellow")
    if tool.description:
        yield Padding.indent(Text(paragraphs(tool.description)), INDENT)
    if hints := _hints(tool.annotations or {}):
        yield Padding.indent(Text(hints, style="dim"), INDENT)
    parameters = described_parameters(tool)
    if parameters:
        yield Text()
    for parameter, text in parameters:
        yield Text("  " + parameter)
        if text:
            yield Padding.indent(Text(text, style="dim"), INDENT + 2)
    if why := plain.get("unchecked"):
        yield Text(f"its arguments are sent unchecked: {one_line(str(why))}", style="yellow")
    yield from _changes(plain)
    yield Text()
    yield Text(_command(tool, plain.get("server", "")), style="dim")


def _command(tool: ToolInfo, server: str) -> str:
    """The command line that calls the tool."""
    required = tool.input_schema.get("required")
    named = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    words = [f"{shown_name(name)}=..." for name in named]
    return " ".join(["mcpx exec", one_line(server), shown_name(tool.name), *words])


def _hints(annotations: dict[str, Any]) -> str:
    said = {"readOnlyHint": "read-only", "destructiveHint": "destructive", "idempotentHint": "idempotent"}
    return ", ".join(text for name, text in said.items() if annotations.get(name) is True)


def _tool(plain: JSON) -> ToolInfo:
    schema = plain.get("input_schema")
    return ToolInfo(
        server_name=plain.get("server", ""),
        name=plain["name"],
        title=plain.get("title"),
        description=plain.get("description"),
        input_schema=schema if isinstance(schema, dict) else {},
        annotations=plain.get("annotations"),
    )

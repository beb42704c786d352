"""How the servers and their tools are listed in inspect's description.

Owns the shape of a server's block on each rung of the ladder:

    ## github (waiting, retry in 4 s): the server's instructions ...
    create_issue(owner, repo, title, body?): Create a new issue in a repository

then without the summaries, then the bare names on one line, then with the instructions cut shorter, then
without them, and at last `## github (waiting): 26 tools`. A server that is not ready is listed from its last
known catalogue. Why it is not ready is for `inspect` to say: a cause may quote the server's last words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from mcpx.catalog.model import ServerInfo, State, ToolInfo
from mcpx.rendering.descriptions.ladder import Ladder, counted, fit
from mcpx.rendering.signatures import line_parts, signature
from mcpx.text import one_line, shown_name, shown_server

_SUMMARY_LEN: Final = 100
_SHORT_INSTRUCTIONS_LEN: Final = 100
_HINT: Final = "Shortened to fit: inspect(server_name) shows all tools of a server with their parameters."


def describe_tools(servers: Sequence[ServerInfo], *, budget: int, max_description_len: int = 300) -> str:
    """The list of servers and tools alone, within `budget` tokens.

    `max_description_len` is the most characters shown of a server's instructions.
    """
    if not servers:
        return "No servers are configured."
    return fit(servers, _ladder(max_description_len), budget)


def _ladder(instructions: int) -> Ladder:
    short = min(instructions, _SHORT_INSTRUCTIONS_LEN)
    rungs = (
        partial(_with_summaries, instructions=instructions, summary=min(instructions, _SUMMARY_LEN)),
        partial(_with_parameters, instructions=instructions),
        partial(_with_names, instructions=instructions),
        partial(_with_names, instructions=short),
        partial(_with_names, instructions=0),
        _with_count,
    )
    return Ladder(
        name=("tools", instructions),
        rungs=rungs,
        listing=5,
        entries=lambda server: len(server.tools),
        hint=_HINT,
        left_out=_left_out,
    )


def _left_out(number: int) -> str:
    return (
        f"and {counted(number, 'more server')}: inspect(server_name) with part of a name finds the nearest."
    )


def _head(server: ServerInfo, instructions: int) -> str:
    """`## name (state): instructions`, the state only when not ready."""
    head = f"## {shown_server(server.name)}"
    if not server.ready:
        head += f" ({server.describe_state(cause=False)})"
    text = one_line(server.instructions or "", instructions) if instructions else ""
    return f"{head}: {text}" if text else head


def _nothing(server: ServerInfo) -> list[str]:
    """The line in place of the tools of a server that has none to show."""
    if server.catalogue is not None:
        return ["(no tools)"]
    return [] if server.state is State.DISABLED else ["(tools not listed yet)"]


def _with_summaries(server: ServerInfo, *, instructions: int, summary: int) -> str:
    tools = [_line(tool, summary) for tool in server.tools.values()]
    return "\n".join([_head(server, instructions), *(tools or _nothing(server))])


def _with_parameters(server: ServerInfo, *, instructions: int) -> str:
    tools = [signature(tool) for tool in server.tools.values()]
    return "\n".join([_head(server, instructions), *(tools or _nothing(server))])


def _with_names(server: ServerInfo, *, instructions: int) -> str:
    names = ", ".join(map(shown_name, server.tools))
    return "\n".join([_head(server, instructions), *([names] if names else _nothing(server))])


def _with_count(server: ServerInfo) -> str:
    state = "" if server.ready else f" ({server.state})"
    count = "" if server.catalogue is None else f": {counted(len(server.tools), 'tool')}"
    return f"## {shown_server(server.name)}{state}{count}"


def _line(tool: ToolInfo, summary: int) -> str:
    """`name(params): summary`."""
    shown, text = line_parts(tool, summary)
    return f"{shown}: {text}" if text else shown

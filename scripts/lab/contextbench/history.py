"""Searches that remember: the recorded ones in order, each with what was used in the sessions before it.

The search and its memory are called in this process. Nothing of a session itself or of a later one is known
to its searches. A session's tools are those that the model ran with success, or as if the person had used
those that are named as needed.
"""

from __future__ import annotations

from typing import Literal

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.catalog.search import known_words
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.events.search_history import SearchHistory
from mcpx.core.protocol.context import Origin
from mcpx.core.rendering.search_answer import search_answer
from scripts.lab.contextbench.counting import tokens
from scripts.lab.contextbench.recorded import JSON, Call, Recorded

Used = Literal["the model's calls", "the named tools"]


def replayed(recorded: Recorded, used: Used) -> tuple[list[set[str]], list[list[int]]]:
    """The tools that the searches of each session showed, and the tokens of every answer."""
    servers = [_server(name, tools) for name, tools in recorded.servers.items()]
    owners = {tool: name for name, tools in reversed(recorded.servers.items()) for tool in _names(tools)}
    history = SearchHistory()
    found: list[set[str]] = []
    sizes: list[list[int]] = []
    for number, session in enumerate(recorded.sessions):
        person = Origin(transport="stdio", client=f"session {number}")
        shown: set[str] = set()
        answers = []
        calls: list[tuple[str, str]] = []
        for step in session.steps:
            if isinstance(step, Call):
                if step.result is not None and not step.result["isError"]:
                    calls.append((step.server, step.tool))
            else:
                said = known_words(servers, step)
                text, plain = search_answer(servers, step, likely=history.likely(person, said))
                history.searched(person, said)
                shown |= {tool["name"] for server in plain["servers"] for tool in server["tools"]}
                answers.append(tokens(text))
        named = [(owners[label], label) for label in recorded.labels[number] if label in owners]
        for tool in calls if used == "the model's calls" else named:
            history.used(person, tool)
        found.append(shown)
        sizes.append(answers)
    return found, sizes


def _names(tools: list[JSON]) -> list[str]:
    return [tool["name"] for tool in tools]


def _server(name: str, tools: list[JSON]) -> ServerInfo:
    infos = [
        ToolInfo(
            server_name=name,
            name=tool["name"],
            description=tool["description"],
            input_schema=tool["inputSchema"] or {},
        )
        for tool in tools
    ]
    catalogue = Catalogue(generation=1, tools={info.name: info for info in infos})
    return ServerInfo(name=name, state=State.READY, transport="stdio", catalogue=catalogue)

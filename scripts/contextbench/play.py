"""Plays the recorded sessions on a surface: the tokens of each, part by part, and what the searches showed.

A session is the instructions and the menu, then in order: each recorded search with its answer; before the
first call of a tool a look-up, unless a signature that was shown has every argument that the session gives
the tool; and each call with its result, unless the recording has lost that. The calls that the model writes
are counted apart, in `written`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from scripts.contextbench.client import Exchange
from scripts.contextbench.counting import compact, menu_tokens, tokens
from scripts.contextbench.recorded import JSON, Call, Recorded, Session
from scripts.contextbench.surfaces import Surface

PARTS = ("instructions", "menu", "searches", "lookups", "results")


@dataclass
class Cost:
    """The tokens of one session. `all_lookups`: had every tool been looked up that was used."""

    instructions: int
    menu: int
    searches: int = 0
    lookups: int = 0
    results: int = 0
    all_lookups: int = 0
    written: int = 0
    looked_up: int = 0
    used: int = 0

    @property
    def total(self) -> int:
        """All that the model reads."""
        return sum(getattr(self, part) for part in PARTS)


@dataclass
class Played:
    """All sessions on one surface. `answers`: the tokens of every search's answer; `found`: the tool names
    that the searches of each session showed; `listed`: the number of tools that the menu names."""

    listed: int = 0
    costs: list[Cost] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)
    found: list[set[str]] = field(default_factory=list)


def play(surface: Surface, recorded: Recorded, *, searching: bool) -> Played:
    """Every session, one after the other; `searching`: the model searches as it did when recorded."""
    listed = "\n".join(_texts(surface.tools))
    played = Played(len(_Signatures(recorded.servers).add(listed)))
    instructions, menu = tokens(surface.instructions), menu_tokens(surface.tools)
    for session in recorded.sessions:
        cost = Cost(instructions, menu)
        answers, found = [], set()
        shown = _Signatures(recorded.servers)
        shown.add(listed)
        for step in session.steps:
            if isinstance(step, Call):
                _call(surface, session, step, shown, cost)
            elif searching and (answer := surface.search(step)) is not None:
                answers.append(tokens(answer.read))
                found |= {tool for _, tool in shown.add(answer.read)}
                cost.written += _written(answer)
        cost.searches = sum(answers)
        played.costs.append(cost)
        played.answers.append(answers)
        played.found.append(found)
    return played


def _call(surface: Surface, session: Session, call: Call, shown: _Signatures, cost: Cost) -> None:
    key = (call.server, call.tool)
    if key not in shown.used:
        shown.used.add(key)
        if (answer := surface.look_up(*key)) is not None:
            cost.used += 1
            cost.all_lookups += tokens(answer.read)
            given = {
                name for each in session.calls if (each.server, each.tool) == key for name in each.arguments
            }
            if not shown.has(key, given):
                cost.looked_up += 1
                cost.lookups += tokens(answer.read)
                cost.written += _written(answer)
    if call.result is not None:
        made = surface.call(call, call.result)
        cost.results += tokens(made.read)
        cost.written += _written(made)


def _written(exchange: Exchange) -> int:
    return tokens(compact(exchange.written))


class _Signatures:
    """The typed signatures that a session has been shown, by server."""

    def __init__(self, servers: dict[str, list[JSON]]) -> None:
        self._servers = servers
        self._shown: dict[tuple[str, str], str] = defaultdict(str)
        self.used: set[tuple[str, str]] = set()

    def add(self, text: str) -> set[tuple[str, str]]:
        """Take in a listing or the answer to a search; returns the tools that it shows, with their servers.

        Both are grouped by server, `## server (3 tools)`, with a signature on a line, or names with commas.
        """
        names: set[tuple[str, str]] = set()
        for block in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
            head = block.partition("\n")[0]
            server = max((name for name in self._servers if head.startswith(name)), key=len, default=None)
            for tool in self._servers.get(server or "", ()):
                found = re.search(_shown_as(tool["name"]), block, re.MULTILINE)
                if server and found:
                    names.add((server, tool["name"]))
                    self._shown[server, tool["name"]] += found["signature"] or ""
        return names

    def has(self, key: tuple[str, str], arguments: set[str]) -> bool:
        """Whether a signature with the types of these arguments was shown."""
        text = self._shown.get(key, "")
        required = next(
            tool["inputSchema"].get("required", [])
            for tool in self._servers[key[0]]
            if tool["name"] == key[1]
        )
        wanted = arguments | set(required)
        return bool(text) and all(re.search(rf"[(,] ?{re.escape(name)}\??: ", text) for name in wanted)


def _shown_as(name: str) -> str:
    """A name at the start of a line or behind a comma, with its signature if it has one."""
    return rf"(?:^(?:- )?|, ){re.escape(name)}(?P<signature>\(.*?\))?(?=$|[,:+ ]|\()"


def _texts(tools: list[JSON]) -> list[str]:
    """The descriptions of the tools and of their parameters."""
    found = [tool.get("description", "") for tool in tools]
    for tool in tools:
        found += [each.get("description", "") for each in tool["inputSchema"].get("properties", {}).values()]
    return found

"""Plays the recorded sessions on a surface: the tokens of each, part by part, and what the searches showed.

A session is the instructions and the menu, then in order: each recorded search with its answer; before the
first call of a tool a look-up, unless a signature that was shown has every argument that the session gives
the tool; and each call with its result, unless the recording has lost that. The calls that the model writes
are counted apart, in `written`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from scripts.lab.contextbench.client import Exchange
from scripts.lab.contextbench.counting import compact, menu_tokens, tokens
from scripts.lab.contextbench.recorded import JSON, Call, Recorded, Session
from scripts.lab.contextbench.surfaces import Surface

OTHERS = "Other servers: "
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
        self._tools = {server: {tool["name"]: tool for tool in tools} for server, tools in servers.items()}
        self._shown: dict[tuple[str, str], str] = defaultdict(str)
        self.used: set[tuple[str, str]] = set()

    def add(self, text: str) -> set[tuple[str, str]]:
        """Take in a listing or the answer to a search; returns the tools that it shows, with their servers.

        Both are grouped by server, `## server (3 tools)`; a line there is a signature, or names alone. An
        answer may end with `Other servers: server: name name; server: name`.
        """
        found: set[tuple[str, str]] = set()
        server = None
        for line in text.replace(" (deprecated)", "").splitlines():
            if line.startswith("#"):
                server = self._server(line.lstrip("# "))
            elif line.startswith(OTHERS):
                for part in line.removeprefix(OTHERS).split("; "):
                    name, _, names = part.partition(": ")
                    found |= {(name, tool) for tool in _names(names, self._tools.get(name, ()))}
            elif server:
                found |= {(server, tool) for tool in self._line(server, line)}
        return found

    def _server(self, head: str) -> str | None:
        return max((name for name in self._tools if head.startswith(name)), key=len, default=None)

    def _line(self, server: str, line: str) -> set[str]:
        name = re.split(r"[(:]", line, maxsplit=1)[0].strip()
        if name in self._tools[server]:
            signature = re.match(r"\(.*?\)", line.partition(name)[2])
            self._shown[server, name] += signature[0] if signature else ""
            return {name}
        return _names(line, self._tools[server])

    def has(self, key: tuple[str, str], arguments: set[str]) -> bool:
        """Whether a signature with the types of these arguments was shown."""
        text = self._shown.get(key, "")
        required = self._tools[key[0]][key[1]]["inputSchema"].get("required", [])
        wanted = arguments | set(required)
        return bool(text) and all(re.search(rf"[(,] ?{re.escape(name)}\??: ", text) for name in wanted)


def _names(line: str, known: Collection[str]) -> set[str]:
    """The names of a line that holds nothing but names, and a number of others: `a b, c +3`."""
    words = {word for word in re.split(r"[,\s]+", line) if word and not re.fullmatch(r"\+\d+", word)}
    return words if words <= set(known) else set()


def _texts(tools: list[JSON]) -> list[str]:
    """The descriptions of the tools and of their parameters."""
    found = [tool.get("description", "") for tool in tools]
    for tool in tools:
        found += [each.get("description", "") for each in tool["inputSchema"].get("properties", {}).values()]
    return found

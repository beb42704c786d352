"""The recorded data: 70 servers with 527 tools, 95 tasks with their labels, and one model's sessions.

`load` reads them from `tests/data`, whose README files say where they come from. A call of a tool that is not
in the catalogue is left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
DATA = Path(__file__).resolve().parents[3] / "tests" / "data"


@dataclass(frozen=True)
class Call:
    """A call with its recorded result, as `tools/call` gives it; None where the recording lost it."""

    server: str
    tool: str
    arguments: JSON
    result: JSON | None


@dataclass(frozen=True)
class Session:
    """What the model did for one task: searches (a string) and calls, in order."""

    steps: list[str | Call]

    @property
    def searches(self) -> list[str]:
        """The searches, in order."""
        return [step for step in self.steps if isinstance(step, str)]

    @property
    def calls(self) -> list[Call]:
        """The calls, in order."""
        return [step for step in self.steps if isinstance(step, Call)]


@dataclass(frozen=True)
class Answer:
    """What the recorded router showed for one search: tool names, and the tokens of its answer."""

    tools: set[str]
    tokens: int


@dataclass(frozen=True)
class Recorded:
    """Everything, session by session: `labels` and `router` are parallel to `sessions`."""

    servers: dict[str, list[JSON]]
    sessions: list[Session]
    labels: list[list[str]]
    router: list[list[Answer]]


def load(folder: Path = DATA) -> Recorded:
    """Read the data sets.

    Raises:
        OSError: A file is not there.
    """
    servers: dict[str, list[JSON]] = defaultdict(list)
    for row in _read(folder / "livemcptool" / "tools.json")["tools"]:
        shown = {"name": row["tool"], "description": row["description"], "inputSchema": row["inputSchema"]}
        servers[row["server"]].append(shown)
    offered = {(server, tool["name"]) for server, tools in servers.items() for tool in tools}
    bench = folder / "livemcpbench"
    tasks = {task["id"]: task["tools"] for task in _read(bench / "tasks.json")["tasks"]}
    router = {one["id"]: one["answers"] for one in _read(bench / "router.json")["sessions"]}
    sessions = _read(bench / "sessions.json")["sessions"]
    return Recorded(
        servers=dict(servers),
        sessions=[Session(list(_steps(session["steps"], offered))) for session in sessions],
        labels=[[label["tool"] for label in tasks[session["id"]]] for session in sessions],
        router=[
            [
                Answer({tool["tool"] for tool in each["tools"]}, each["tokens"])
                for each in router[session["id"]]
            ]
            for session in sessions
        ],
    )


def _steps(steps: list[JSON], offered: set[tuple[str, str]]) -> list[str | Call]:
    found: list[str | Call] = []
    for step in steps:
        if "find" in step:
            found.append(step["find"])
        elif (step["server"], step["tool"]) in offered:
            lost = "content" not in step
            result = None if lost else {"content": step["content"], "isError": step["is_error"]}
            found.append(Call(step["server"], step["tool"], step["arguments"], result))
    return found


def _read(path: Path) -> JSON:
    return json.loads(path.read_text("utf-8"))

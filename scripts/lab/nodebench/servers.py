"""The servers whose sessions are measured: two small ones made here, and real ones of npm and PyPI.

The small ones show what MCPX itself and the language cost; the real ones, which scripts/test --all installs
for the live tests, what a session takes that does something. Each is called with a tool that does little.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIVE = HERE.parents[2] / "tests" / "live"
NPM = LIVE / "node_modules" / "@modelcontextprotocol"
PYPI = LIVE / ".venv-servers" / "bin"


@dataclass(frozen=True)
class Kind:
    """A kind of server: how it is started, and one call of it.

    `program` must exist. `many`: it is small enough for a thousand sessions.
    """

    name: str
    command: list[str]
    program: str | Path
    tool: str = "echo"
    arguments: dict[str, Any] = field(default_factory=lambda: {"text": "x"})
    many: bool = False

    @property
    def installed(self) -> bool:
        """Whether it can be started here."""
        return shutil.which(str(self.program)) is not None or Path(self.program).exists()

    def entry(self) -> dict[str, Any]:
        """Its entry under `mcpServers`."""
        return {"command": self.command[0], "args": self.command[1:], "sessions": "per_client"}


KINDS = (
    Kind("small, Python", [sys.executable, "-I", str(HERE / "small_server.py")], sys.executable, many=True),
    Kind("small, Node", ["node", str(HERE / "small_server.mjs")], "node"),
    Kind(
        "mcp-server-time (PyPI)",
        [str(PYPI / "mcp-server-time"), "--local-timezone", "UTC"],
        PYPI / "mcp-server-time",
        "get_current_time",
        {"timezone": "UTC"},
    ),
    Kind(
        "server-everything (npm)",
        ["node", str(NPM / "server-everything" / "dist" / "index.js"), "stdio"],
        NPM / "server-everything" / "dist" / "index.js",
        "echo",
        {"message": "x"},
    ),
)

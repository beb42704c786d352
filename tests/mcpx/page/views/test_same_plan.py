"""The Install tab plans what `mcpx install` plans, however the daemon was started and MCPX was installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.serving import PATIENCE_S

BESIDE = Path(sys.executable).with_name("mcpx")
CLIENTS = {
    ".cursor/mcp.json": {"mcpServers": {"notes": {"command": "notes-server"}}},
    ".codeium/windsurf/mcp_config.json": {"mcpServers": {}},
    ".claude.json": {"projects": {}},
    ".gemini/settings.json": {"theme": "dark"},
    ".config/zed/settings.json": {},
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


class Home(House):
    """A home folder with clients in it, and MCPX's configuration at its usual place."""

    @property
    def config(self) -> str:
        return str(self.folder / ".config/mcpx/config.json")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name, content in CLIENTS.items():
            self.put(name, json.dumps(content))
        self.put(".config/mcpx/config.json", '{"mcpServers": {}}')
        kept = {name: each for name, each in os.environ.items() if not name.startswith(("MCPX_", "XDG_"))}
        self.environ = kept | {
            "HOME": str(folder),
            "MCPX_STATE_DIR": str(folder / "state"),
            "PATH": "/usr/bin:/bin",
        }

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(self, name: str) -> list[str]:
        """A command that leads to this MCPX, as pipx makes it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(BESIDE)
        return [str(path)]

    def said(self, command: Sequence[str], *arguments: str) -> Any:
        done = subprocess.run(
            [*command, *arguments, "--json"],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return json.loads(done.stdout)

    @contextmanager
    def daemon(self, command: Sequence[str], *, attached: bool) -> Iterator[None]:
        """A daemon that was started by that command, or for a client whose entry has it."""
        line = [*command, "attach"] if attached else [*command, "daemon", "start"]
        with subprocess.Popen(
            line, env=self.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as started:
            assert started.stdin is not None
            assert started.stdout is not None
            try:
                if attached:
                    started.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
                    started.stdin.flush()
                    assert b'"id":1' in started.stdout.readline()
                else:
                    assert started.wait(PATIENCE_S) == 0
                yield
            finally:
                started.stdin.close()
                self.close()

    @contextmanager
    def page(self, command: Sequence[str]) -> Iterator[httpx2.Client]:
        """A browser that is signed in."""
        done = subprocess.run(
            [*command, "ui", "--print"], env=self.environ, capture_output=True, text=True, check=True
        )
        link = urlsplit(done.stdout.strip())
        origin = f"{link.scheme}://{link.netloc}"
        headers = {"origin": origin}
        with httpx2.Client(base_url=origin, headers=headers, timeout=PATIENCE_S, trust_env=False) as page:
            assert page.get(f"{link.path}?{link.query}").status_code == 200
            yield page


@pytest.mark.parametrize(
    ("link", "started_by", "attached", "typed"),
    [
        (".local/bin/mcpx", "venv", True, "link"),  # pipx; a client has an entry from before
        (".local/bin/mcpx", "link", False, "venv"),
        ("tools/mcpx", "link", True, "link"),  # somewhere, and on no PATH
        (None, "python", False, "venv"),
    ],
)
def test_the_page_plans_what_the_command_plans(
    tmp_path: Path, link: str | None, started_by: str, attached: bool, typed: str
) -> None:
    home = Home(tmp_path)
    commands = {"venv": [str(BESIDE)], "python": [sys.executable, "-m", "mcpx"]}
    if link is not None:
        commands["link"] = home.link(link)
    lasting = str(BESIDE) if link is None else commands["link"][0]
    terminal = commands[typed]
    with home.daemon(commands[started_by], attached=attached), home.page(terminal) as page:

        def on_page(**options: Any) -> Any:
            plan = page.post("/ui/api/setup/install", json=options).json()
            return {key: each for key, each in plan.items() if key != "seen"}

        adopt = attached  # both ways, without another start
        before = home.said(terminal, "install", "--dry-run", *(["--adopt"] if adopt else []))
        assert on_page(adopt=adopt) == before
        entries = [entry for client in before["clients"] for entry in client["entries"].values()]
        assert len(entries) >= len(CLIENTS)
        assert {str(entry["command"]) for entry in entries} == {lasting}
        assert "--config" not in json.dumps(before)

        home.said(terminal, "install", "--yes")
        after = home.said(terminal, "install", "--dry-run")
        assert on_page() == after
        assert {client["outcome"] for client in after["clients"]} == {"present"}
        other = next(each for each in commands.values() if each != terminal)
        again = home.said(other, "install", "--dry-run")  # another path to the same program renews nothing
        assert {client["outcome"] for client in again["clients"]} == {"present"}

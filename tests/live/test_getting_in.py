"""From five real servers in the files of two clients to five behind MCPX in a real client: two commands.

What a person does on the first day, with the official client in the place of the desktop program: it starts
what stands in the client's file, with the environment of a program that was started from a desktop, where the
servers' commands are not on the PATH. docs/getting-in.md shows the same, recorded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.live import servers

pytestmark = [pytest.mark.live, pytest.mark.anyio]

CALLS = {
    "everything": ("echo", {"message": "hello"}, "hello"),
    "filesystem": ("list_allowed_directories", {}, "files"),
    "memory": ("read_graph", {}, "entities"),
    "git": ("git_log", {"repo_path": "repository"}, "Author"),
    "time": ("get_current_time", {"timezone": "UTC"}, "UTC"),
}
DESKTOP_PATH = "/usr/bin:/bin"


class Home:
    """A home folder with the files of Claude Desktop and VS Code, and the environments to use it in."""

    def __init__(self, folder: Path, five: dict[str, servers.LiveServer]) -> None:
        self.home = folder / "home"
        self.programs = folder / "programs"
        self.claude = self.home / ".config/Claude/claude_desktop_config.json"
        self.vscode = self.home / ".config/Code/User/mcp.json"
        for made in (self.claude.parent, self.vscode.parent, self.programs, folder / "run"):
            made.mkdir(parents=True, mode=0o700)
        for name, server in five.items():  # found by the login shell alone
            program = shutil.which(server.command)
            (self.programs / f"server-{name}").write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
            (self.programs / f"server-{name}").chmod(0o755)
        (self.home / ".bash_profile").write_text(f'PATH="{self.programs}:$PATH"\n')
        entries = {name: {**five[name].entry(), "command": f"server-{name}"} for name in servers.NAMES}
        inner = ",\n".join(f'    "{name}": {json.dumps(entries[name])}' for name in servers.NAMES[:3])
        self.claude.write_text('{\n  "globalShortcut": "",\n  "mcpServers": {\n' + inner + "\n  }\n}\n")
        inner = "".join(
            f'\t\t"{name}": {json.dumps(entries[name])}, // {name}\r\n' for name in servers.NAMES[3:]
        )
        self.vscode.write_bytes(b'{\r\n\t// mine\r\n\t"servers": {\r\n' + inner.encode() + b"\t}\r\n}\r\n")
        self.desktop = {
            "HOME": str(self.home),
            "PATH": DESKTOP_PATH,
            "SHELL": shutil.which("bash") or "/bin/sh",
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }

    def mcpx(self, *words: str) -> str:
        """What a command prints, in the person's terminal; it succeeds."""
        environ = self.desktop | {
            "PATH": f"{self.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        }
        command = [str(Path(sys.executable).parent / "mcpx"), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environ, stdin=subprocess.DEVNULL, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def at_home(tmp_path, five):
    for name in servers.NAMES:
        servers.require(servers.live_server(name, tmp_path))
    kept = Home(tmp_path, five)
    yield kept
    kept.mcpx("daemon", "stop")


async def test_two_commands_put_five_servers_behind_mcpx_and_two_take_it_back(at_home, scratch):
    files = (at_home.claude, at_home.vscode)
    before = [file.read_bytes() for file in files]
    shown = at_home.mcpx("import", "--yes")
    assert all(name in shown for name in servers.NAMES)
    at_home.mcpx("install", "--adopt", "--yes", "claude-desktop", "vscode")
    assert [*json.loads(at_home.claude.read_bytes())["mcpServers"]] == ["mcpx"]
    assert b"// mine\r\n" in at_home.vscode.read_bytes()

    entry = json.loads(at_home.claude.read_bytes())["mcpServers"]["mcpx"]
    start = StdioServerParameters(
        command=entry["command"], args=entry["args"], env=at_home.desktop | entry.get("env", {})
    )
    async with Client(start, read_timeout_seconds=50) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"inspect", "exec", "resources"}
        for name, (tool, arguments, answer) in CALLS.items():
            given = {
                key: str(scratch / value) if key == "repo_path" else value for key, value in arguments.items()
            }
            call = {"server_name": name, "tool_name": tool, "arguments": given}
            result = await client.call_tool("exec", call)
            assert not result.is_error, result
            assert answer in result.content[0].text

    at_home.mcpx("uninstall", "--yes")
    assert [file.read_bytes() for file in files] == before

"""A home folder on the first day: five real servers in the files of Claude Desktop and VS Code.

`python -m tests.live.getting_in` plays the day there, and prints it for docs/README.md:

    .venv/bin/python -m tests.live.getting_in | scripts/docs --insert first-day
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from tests.live import servers

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
        entries = {name: self._installed(server) for name, server in five.items()}
        (self.home / ".bash_profile").write_text(f'PATH="{self.programs}:$PATH"\n')
        inner = ",\n".join(f'    "{name}": {json.dumps(entries[name])}' for name in servers.NAMES[:3])
        self.claude.write_text('{\n  "globalShortcut": "",\n  "mcpServers": {\n' + inner + "\n  }\n}\n")
        inner = "".join(
            f'\t\t"{name}": {json.dumps(entries[name])}, // {name}\r\n' for name in servers.NAMES[3:]
        )
        self.claude.chmod(0o600)
        self.vscode.write_bytes(b'{\r\n\t// mine\r\n\t"servers": {\r\n' + inner.encode() + b"\t}\r\n}\r\n")
        self.desktop = {
            "HOME": str(self.home),
            "PATH": DESKTOP_PATH,
            "SHELL": shutil.which("bash") or "/bin/sh",
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }

    def _installed(self, server: servers.LiveServer) -> dict[str, Any]:
        """Its entry, with a command that the login shell alone finds."""
        program, command = shutil.which(server.command), self.programs / f"mcp-server-{server.name}"
        own = [each for each in server.args if each == str(server.program)]
        words = shlex.join([program or server.command, *own])
        command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        command.chmod(0o755)
        args = [each for each in server.args if each not in own]
        return {"command": command.name, "args": args} | ({"env": server.env} if server.env else {})

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

    async def call_each(self, scratch: Path) -> list[tuple[str, float]]:
        """Have the official client start what is in Claude Desktop's file, and call a tool of each server.

        Returns what was done, and the seconds since the client began, each.
        """
        began = time.monotonic()
        entry = json.loads(self.claude.read_bytes())["mcpServers"]["mcpx"]
        start = StdioServerParameters(
            command=entry["command"], args=entry["args"], env=self.desktop | entry.get("env", {})
        )
        done: list[tuple[str, float]] = []
        async with Client(start, read_timeout_seconds=50) as client:
            tools = ", ".join(tool.name for tool in (await client.list_tools()).tools)
            done.append((f"tools: {tools}", time.monotonic() - began))
            for server, (tool, arguments, answer) in CALLS.items():
                given = dict(arguments)
                if "repo_path" in given:
                    given["repo_path"] = str(scratch / given["repo_path"])
                call = {"server_name": server, "tool_name": tool, "arguments": given}
                result: Any = await client.call_tool("exec", call)
                assert not result.is_error, result
                assert answer in result.content[0].text, result
                done.append((f"exec {server} {tool}: answered", time.monotonic() - began))
        return done


def play(folder: Path) -> list[str]:
    """The lines of the recording."""
    five = {name: servers.live_server(name, folder) for name in servers.NAMES}
    at_home = Home(folder, five)
    lines, began = [], time.monotonic()
    try:
        for words in (("import", "--yes"), ("install", "--adopt", "--yes")):
            shown = at_home.mcpx(*words)
            lines += [f"$ mcpx {' '.join(words)}", *shown.rstrip().splitlines(), ""]
            lines.append(f"# {time.monotonic() - began:.1f} s after the first command began\n")
        lines.append("# a client starts what stands in Claude Desktop's file, with PATH=" + DESKTOP_PATH)
        done = anyio.run(at_home.call_each, folder)
        lines += [f"# {seconds:5.1f} s  {what}" for what, seconds in done]
        lines.append(f"\n# {time.monotonic() - began:.1f} s in all\n")
        lines += ["$ mcpx uninstall --yes", *at_home.mcpx("uninstall", "--yes").rstrip().splitlines()]
    finally:
        at_home.mcpx("daemon", "stop")
    mcpx = str(Path(sys.executable).parent / "mcpx")
    return [line.replace(str(folder), "").replace(mcpx, "/home/.local/bin/mcpx") for line in lines]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        recorded = play(Path(made))
    sys.stdout.write("```text\n" + "\n".join(recorded) + "\n```\n")

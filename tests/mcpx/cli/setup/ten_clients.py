"""A home folder with the files of clients as people have them, and the commands played in it."""

from __future__ import annotations

import os
from pathlib import Path

import click.testing

from mcpx.cli.main import cli
from tests.mcpx.setup.changes.scenes import snapshot

STATE = ".local/state/mcpx"
CLAUDE_DESKTOP = """{
  "globalShortcut": "",
  "mcpServers": {
    "git": {
      "command": "uvx",
      "args": ["mcp-server-git"]
    }
  }
}
"""
CLAUDE_CODE = """{
  "numStartups": 41,
  "mcpServers": {
    "linear": {"type": "http", "url": "https://linear.example", "headers": {"Authorization": "Bearer s3cret"}}
  },
  "projects": {"/gone/shop": {"mcpServers": {"local": {"command": "x"}}, "history": ["é", "\\u0000"]}}
}
"""
CURSOR = """// cursor
{
\t"mcpServers": {
\t\t/* mine */
\t\t"git": { "command": "uvx", "args": ["mcp-server-git",], },
\t\t"memory": {"command": "npx", "args": ["-y", "memory"]}, // the graph
\t},
}
"""
VSCODE = """{
  // VS Code
  "inputs": [{"id": "key", "type": "promptString", "password": true}],
  "servers": {
    "asks": {"type": "stdio", "command": "a", "env": {"K": "${input:key}"}},
    "reads": {"type": "stdio", "command": "b", "envFile": "/x/.env"}
  }
}"""
WINDSURF = """{"mcpServers":{"git":{"command":"git-mcp"},"far":{"serverUrl":"https://example.com/mcp"}}}"""
CODEX = """# my Codex
model = "gpt"

[mcp_servers.docs] # the docs
command = "docs"
env = { KEY = "s3cret" }

[mcp_servers.time]
command = 'uvx'
args = [
  'time', # which
]

[tui]
theme = 'x'
"""
GEMINI = """{"theme": "Ayu", "mcpServers": {"f": {"httpUrl": "https://f.example/mcp"}}}
"""
ZED = """// Zed
{
  "vim_mode": true, // yes
  "context_servers": {
    "z": {"source": "custom", "command": "z"},
    "ext": {"source": "extension", "settings": {}},
  },
}
"""
GOOSE = """# goose
GOOSE_MODEL: x
extensions:
  developer: # built in
    type: builtin
    name: developer
    enabled: true
  fetch:
    type: stdio
    name: fetch
    cmd: uvx
    args: [fetch]
    enabled: true
"""
CONTINUE = """name: Mine
version: 1.0.0
schema: v1
mcpServers:
  # databases
  - name: sq
    command: uvx
    args:
      - sqlite

  - name: pg
    command: pg
rules: []
"""
FILES: dict[str, tuple[int, bytes]] = {
    # a byte order mark and CRLF
    ".config/Claude/claude_desktop_config.json": (
        0o644,
        b"\xef\xbb\xbf" + CLAUDE_DESKTOP.replace("\n", "\r\n").encode(),
    ),
    ".claude.json": (0o600, CLAUDE_CODE.encode()),
    # in a folder of dotfiles, with a link to it; comments, trailing commas; a server that is in another, too
    "dotfiles/cursor.json": (0o640, CURSOR.encode()),
    # what the editor asks for, a file of variables, and no line end
    ".config/Code/User/mcp.json": (0o644, VSCODE.encode()),
    # one line, and another server of the same name
    ".codeium/windsurf/mcp_config.json": (0o600, WINDSURF.encode()),
    # everybody may read and write it
    ".codex/config.toml": (0o666, CODEX.encode()),
    ".gemini/settings.json": (0o600, GEMINI.encode()),
    # in a folder that a link leads to
    "dotfiles/zed/settings.json": (0o600, ZED.encode()),
    ".config/goose/config.yaml": (0o600, GOOSE.encode()),
    ".continue/config.yaml": (0o600, CONTINUE.encode()),
    ".lmstudio/mcp.json": (0o600, b'{"mcpServers": {"broken": {"command": '),
    ".kiro/settings/mcp.json": (0o600, b""),
}
LINKS = {
    ".cursor/mcp.json": "../dotfiles/cursor.json",
    ".config/zed": "../dotfiles/zed",
}
FOLDERS = (".copilot",)  # a client that is installed and has no file yet
SERVERS = {
    *("git", "linear", "memory", "asks", "reads", "far", "docs", "time"),
    *("f", "z", "ext", "fetch", "developer", "sq", "pg", "broken"),
}


def make_home(home: Path) -> None:
    """Write the files of all clients."""
    for name, (mode, content) in FILES.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    for name, target in LINKS.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(target)
    for name in FOLDERS:
        (home / name).mkdir()


def look(home: Path) -> dict[str, tuple[int, object]]:
    """Everything in the home folder but what MCPX keeps, and the folders that lead there."""
    found = snapshot(home)
    return {name: held for name, held in found.items() if not name.startswith(".local")}


def environment(home: Path) -> dict[str, str | None]:
    """The variables of a person with that home, for `CliRunner`: None takes one away."""
    ours = {
        name: None
        for name in os.environ
        if name.startswith(("MCPX_", "XDG_", "CLAUDE_", "CODEX_", "COPILOT_"))
    }
    return {**ours, "HOME": str(home), "PATH": f"{home}/bin:/usr/bin:/bin"}


def mcpx(home: Path, *arguments: str) -> click.testing.Result:
    """Run a command in that home."""
    result = click.testing.CliRunner().invoke(cli, arguments, env=environment(home))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result

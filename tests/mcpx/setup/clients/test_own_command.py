"""The clients' own commands that add a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpx.setup.clients import client_named
from mcpx.setup.clients.launching import Launch
from mcpx.setup.clients.own_command import add_command

LAUNCH = Launch(command="/b/mcpx", config="/c.json", env={"MCPX_STATE_DIR": "/s"})
ATTACH = "attach --config /c.json"
LINES = {
    "claude-code": f"claude mcp add --scope user mcpx --env MCPX_STATE_DIR=/s -- /b/mcpx {ATTACH}",
    "codex": f"codex mcp add mcpx --env MCPX_STATE_DIR=/s -- /b/mcpx {ATTACH}",
    "gemini": f"gemini mcp add --scope user --env MCPX_STATE_DIR=/s mcpx /b/mcpx -- {ATTACH}",
    "vscode": 'code --add-mcp {"name": "mcpx", "type": "stdio", "command": "/b/mcpx", "args": ["attach", '
    '"--config", "/c.json"], "env": {"MCPX_STATE_DIR": "/s"}}',
}


def program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


@pytest.mark.parametrize("name", LINES)
def test_the_command_line(tmp_path: Path, name: str) -> None:
    client = client_named(name)
    assert client.command is not None
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}
    assert add_command(client, LAUNCH, environ) is None
    program(tmp_path / "bin" / client.command.program)
    line = add_command(client, LAUNCH, environ)
    assert line is not None
    assert " ".join(line) == f"{tmp_path}/bin/{LINES[name]}"


def test_a_command_behind_an_alias_of_the_shell_is_found(tmp_path: Path) -> None:
    program(tmp_path / ".claude/local/claude")
    line = add_command(client_named("claude-code"), LAUNCH, {"HOME": str(tmp_path), "PATH": ""})
    assert line is not None
    assert line[0] == f"{tmp_path}/.claude/local/claude"


def test_a_client_without_a_command_has_none(tmp_path: Path) -> None:
    assert add_command(client_named("cursor"), LAUNCH, {"HOME": str(tmp_path), "PATH": ""}) is None

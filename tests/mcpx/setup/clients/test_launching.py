"""The command line with which clients start MCPX, and their own commands that add it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpx.core.system.environment import for_daemon
from mcpx.setup.clients import client_named
from mcpx.setup.clients.launching import Launch, add_command, own_launch

BESIDE = Path(sys.executable).with_name("mcpx")


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_command_that_was_typed_is_named_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = program(tmp_path / "bin" / "mcpx")
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}
    assert own_launch(None, environ, [typed]).command == typed
    assert own_launch(None, environ, ["mcpx"]).command == typed
    monkeypatch.chdir(tmp_path)
    assert own_launch(None, environ, ["bin/mcpx"]).command == typed


def test_else_it_is_the_command_beside_this_python(tmp_path: Path) -> None:
    launch = own_launch(None, {"HOME": str(tmp_path), "PATH": ""}, ["/x/mcpx/__main__.py"])
    assert launch.command == str(BESIDE)
    assert launch.args() == ["attach"]


def test_a_link_on_the_path_that_leads_there_is_preferred(tmp_path: Path) -> None:
    link = tmp_path / "bin" / "mcpx"
    link.parent.mkdir()
    link.symlink_to(BESIDE)
    assert own_launch(None, {"HOME": "/h", "PATH": str(link.parent)}, ["x"]).command == str(link)


@pytest.mark.parametrize("typed", [str(BESIDE), "x"])
def test_the_link_of_pipx_and_uv_is_taken_also_where_no_path_leads_to_it(tmp_path: Path, typed: str) -> None:
    link = tmp_path / ".local/bin/mcpx"
    link.parent.mkdir(parents=True)
    environ = {"HOME": str(tmp_path), "PATH": ""}
    link.symlink_to("/bin/sh")  # another MCPX
    assert own_launch(None, environ, [typed]).command == str(BESIDE)
    link.unlink()
    link.symlink_to(BESIDE)
    assert own_launch(None, environ, [typed]).command == str(link)


def test_a_process_of_the_daemon_takes_the_command_that_started_it(tmp_path: Path) -> None:
    link = tmp_path / "mcpx"
    link.symlink_to(BESIDE)
    daemon = {"HOME": "/h", "PATH": ""} | for_daemon({}, [str(link), "attach"])
    assert own_launch(None, daemon, ["x"]).command == str(link)
    link.unlink()  # gone since
    assert own_launch(None, daemon, ["x"]).command == str(BESIDE)
    assert "MCPX_COMMAND" not in for_daemon({}, ["/somewhere/__main__.py"])


def test_without_a_command_it_is_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    launch = own_launch(None, {"HOME": "/h", "PATH": ""}, ["x"])
    assert (launch.command, launch.args()) == (str(tmp_path / "python"), ["-P", "-m", "mcpx", "attach"])


@pytest.mark.parametrize(
    ("given", "environ", "named"),
    [
        (None, {}, None),
        ("/c.json", {}, "/c.json"),
        ("~/c.json", {}, "/h/c.json"),
        (None, {"MCPX_CONFIG": "/v.json"}, "/v.json"),
        ("/c.json", {"MCPX_CONFIG": "/v.json"}, "/c.json"),
        (None, {"XDG_CONFIG_HOME": "/h/.config"}, None),
    ],
)
def test_the_configuration_is_named_where_a_client_would_not_find_it(
    given: str | None, environ: dict[str, str], named: str | None
) -> None:
    assert own_launch(given, {"HOME": "/h", **environ}, ["x"]).config == named


def test_another_state_folder_is_handed_on() -> None:
    assert own_launch(None, {"HOME": "/h", "MCPX_STATE_DIR": "/s"}, ["x"]).env == {"MCPX_STATE_DIR": "/s"}


def test_a_command_that_may_vanish_is_a_note(tmp_path: Path) -> None:
    typed = program(tmp_path / ".cache/uv/archive-v0/abc/bin/mcpx")
    [note] = own_launch(None, {"HOME": "/h"}, [typed]).notes
    assert "may vanish" in note


LAUNCH = Launch(command="/b/mcpx", config="/c.json", env={"MCPX_STATE_DIR": "/s"})
ATTACH = "attach --config /c.json"
LINES = {
    "claude-code": f"claude mcp add --scope user mcpx --env MCPX_STATE_DIR=/s -- /b/mcpx {ATTACH}",
    "codex": f"codex mcp add mcpx --env MCPX_STATE_DIR=/s -- /b/mcpx {ATTACH}",
    "gemini": f"gemini mcp add --scope user --env MCPX_STATE_DIR=/s mcpx /b/mcpx -- {ATTACH}",
    "vscode": 'code --add-mcp {"name": "mcpx", "type": "stdio", "command": "/b/mcpx", "args": ["attach", '
    '"--config", "/c.json"], "env": {"MCPX_STATE_DIR": "/s"}}',
}


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

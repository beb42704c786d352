"""`mcpx install` inside WSL: clients of the Windows side, played by a folder that stands for its drive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpx.setup.clients import launching
from tests.mcpx.cli.setup.ten_clients import look, mcpx

CURSOR = '{\r\n\t"mcpServers": {"git": {"command": "git-mcp.exe"}} // mine\r\n}\r\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Linux; beside it the drive C, with a user who has two clients, and a `cmd.exe`."""
    made, user = tmp_path / "home", tmp_path / "drives/c/Users/Ann B"
    programs = tmp_path / "drives/c/Windows/System32"
    for each in (made, user / ".cursor", user / "AppData/Roaming/Claude", programs):
        each.mkdir(parents=True)
    (user / ".cursor/mcp.json").write_bytes(CURSOR.encode())
    (tmp_path / "wsl.conf").write_text(f"[automount]\nroot = {tmp_path}/drives\n")
    asked = "/d /c echo %USERPROFILE%"
    (programs / "cmd.exe").write_text(f"#!/bin/sh\n[ \"$*\" = '{asked}' ] && cat '{programs}/said'\n")
    (programs / "cmd.exe").chmod(0o755)
    says(made, "C:\\Users\\Ann B")
    monkeypatch.setattr(launching, "_WSL_CONF", str(tmp_path / "wsl.conf"))
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu 24")
    return made


def says(home: Path, said: str) -> None:
    """Have Windows answer that."""
    (home.parent / "drives/c/Windows/System32/said").write_text(f"{said}\r\n")


def windows(home: Path) -> Path:
    return home.parent / "drives/c/Users/Ann B"


def test_clients_of_windows_are_offered_and_taken_back(home: Path) -> None:
    before = look(windows(home))
    shown = mcpx(home, "install", "--dry-run").output
    assert "Cursor (Windows)" in shown
    assert "Claude Desktop (Windows)" in shown
    assert look(windows(home)) == before

    result = mcpx(home, "install", "--yes")
    assert result.exit_code == 0, result.output
    written = (windows(home) / ".cursor/mcp.json").read_bytes()
    assert b'"git": {"command": "git-mcp.exe"}' in written
    assert b"// mine" in written
    entry = json.loads((windows(home) / "AppData/Roaming/Claude/claude_desktop_config.json").read_bytes())
    own = entry["mcpServers"]["mcpx"]
    assert own["command"] == "wsl.exe"
    assert own["args"][:3] == ["-d", "Ubuntu 24", "--exec"]
    assert own["args"][-1] == "attach"
    assert own["args"][3].startswith("/")
    after = look(windows(home))
    assert mcpx(home, "install", "--yes").exit_code == 0
    assert look(windows(home)) == after

    assert mcpx(home, "uninstall", "--yes").exit_code == 0
    assert (windows(home) / ".cursor/mcp.json").read_bytes() == CURSOR.encode()
    assert mcpx(home, "undo", "--yes").exit_code == 0
    assert mcpx(home, "undo", "--yes").exit_code == 0
    assert look(windows(home)) == before


def test_servers_of_windows_are_not_adopted(home: Path) -> None:
    assert mcpx(home, "install", "--adopt", "--yes", "cursor-windows").exit_code == 0
    assert b"git-mcp.exe" in (windows(home) / ".cursor/mcp.json").read_bytes()


@pytest.mark.parametrize(
    "said", ["", "%USERPROFILE%", "C:\\\\Users\\\\Nobody"], ids=["nothing", "itself", "no-folder"]
)
def test_where_windows_does_not_say_there_are_no_such_clients(home: Path, said: str) -> None:
    says(home, said)
    result = mcpx(home, "install", "--dry-run")
    assert "Windows" not in result.output
    assert "no AI client was found here" in result.output


def test_outside_wsl_windows_is_not_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WSL_DISTRO_NAME")
    assert launching.windows_clients() == ()


def test_variables_of_the_entry_go_through_env() -> None:
    side = launching.WindowsSide("D", {})
    launch = launching.Launch(command="/m", prefix=("-P",), env={"A": "b"}).through_wsl(side)
    assert [launch.command, *launch.args()] == [
        "wsl.exe", "-d", "D", "--exec", "/usr/bin/env", "A=b", "/m", "-P", "attach"
    ]  # fmt: skip

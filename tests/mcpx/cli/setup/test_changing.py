"""`mcpx undo`: what the last command changed is taken back, and an interrupted change first of all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpx.setup.changes import carrying_out
from tests.mcpx.cli.setup.ten_clients import look, mcpx


@pytest.fixture
def interrupted(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which an install was interrupted when the file was changed and the journal not."""

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(carrying_out.Journal, "mark", killed)
        patched.setattr(carrying_out, "_abandon", killed)
        with pytest.raises(KilledError):
            mcpx(home, "install", "cursor", "--yes")
    assert "mcpx" in (home / ".cursor/mcp.json").read_text()
    return home


@pytest.mark.parametrize("options", [(), ("--json",), ("--dry-run",), ("--dry-run", "--yes")])
def test_nothing_is_taken_back_unless_it_is_agreed_to(home: Path, options: tuple[str, ...]) -> None:
    mcpx(home, "install", "cursor", "--yes")
    before = look(home)
    result = mcpx(home, "undo", *options)
    assert result.exit_code == (0 if "--dry-run" in options else 1)
    assert "nothing was changed" in result.stderr
    assert look(home) == before


def test_it_says_what_it_takes_back(home: Path) -> None:
    mcpx(home, "install", "cursor", "copilot", "--yes")
    shown = mcpx(home, "undo").stdout
    assert shown.startswith("install cursor copilot, 20")
    assert "~/.cursor/mcp.json: as before" in shown
    assert "~/.copilot/mcp-config.json: removed, as it was not there" in shown
    report = json.loads(mcpx(home, "undo", "--yes", "--json").stdout)
    assert report["changed"] is True
    assert report["command"] == "install cursor copilot"


def test_the_list_has_every_change_and_its_copies(home: Path) -> None:
    assert mcpx(home, "undo", "--list").stdout == "nothing was changed yet\n"
    mcpx(home, "install", "cursor", "--yes")
    mcpx(home, "undo", "--yes")
    rows = json.loads(mcpx(home, "undo", "--list", "--json").stdout)["changes"]
    assert [(row["command"], row["state"]) for row in rows] == [
        ("install cursor", "undone"),
        ("undo install cursor", "done"),
    ]
    assert Path(rows[0]["copies"]).is_dir()
    lines = mcpx(home, "undo", "--list").stdout.splitlines()
    assert len(lines) == len(rows)
    assert lines[1].endswith("install cursor  (undone)  1 file")
    assert "copies: " in mcpx(home, "undo", "--list", "--files").stdout


def test_a_file_that_was_changed_since_keeps_that(home: Path) -> None:
    original = (home / "dotfiles/cursor.json").read_bytes()
    mcpx(home, "install", "cursor", "--yes")
    with (home / ".cursor/mcp.json").open("ab") as file:
        file.write(b"// since\n")
    result = mcpx(home, "undo", "--yes")
    assert "was changed since, and the rest of it stays as it is" in result.stdout
    assert (home / "dotfiles/cursor.json").read_bytes() == original + b"// since\n"


def test_a_file_that_cannot_be_merged_is_refused_and_forced(home: Path) -> None:
    original = (home / "dotfiles/cursor.json").read_bytes()
    mcpx(home, "install", "cursor", "--yes")
    (home / "dotfiles/cursor.json").write_bytes(b"{now broken")
    result = mcpx(home, "undo", "--yes")
    assert result.exit_code == 1
    assert "was changed since; what it was before is in" in result.stdout
    assert (home / "dotfiles/cursor.json").read_bytes() == b"{now broken"
    assert mcpx(home, "undo", "--yes", "--force").exit_code == 0
    assert (home / "dotfiles/cursor.json").read_bytes() == original
    assert any(path.read_bytes() == b"{now broken" for path in home.rglob("*-before-*"))


def test_an_interrupted_change_is_taken_back_by_the_next_command(interrupted: Path) -> None:
    changed = look(interrupted)
    result = mcpx(interrupted, "install", "kiro")
    assert "install cursor was interrupted" in result.stderr
    assert result.exit_code == 1
    assert look(interrupted) == changed

    result = mcpx(interrupted, "install", "kiro", "--yes")
    assert "had been interrupted and was taken back" in result.stderr
    assert "mcpx" not in (interrupted / ".cursor/mcp.json").read_text()
    assert "mcpx" in (interrupted / ".kiro/settings/mcp.json").read_text()


def test_undo_takes_back_an_interrupted_change_and_no_other(interrupted: Path) -> None:
    result = mcpx(interrupted, "undo", "--yes")
    assert result.exit_code == 0
    assert "had been interrupted and was taken back" in result.stderr
    assert "mcpx" not in (interrupted / ".cursor/mcp.json").read_text()
    assert mcpx(interrupted, "undo", "--yes").stdout == "nothing to take back\n"


def test_ctrl_c_changes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = look(home)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(carrying_out, "put_in_place", interrupt)
    assert mcpx(home, "install", "cursor", "kiro", "--yes").exit_code != 0
    monkeypatch.undo()
    assert look(home) == before

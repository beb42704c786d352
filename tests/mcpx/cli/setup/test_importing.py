"""`mcpx import`: from the files of several clients to one configuration, with the question before."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mcpx.cli.main import cli
from mcpx.core.config import load
from mcpx.core.config.project_entries import ClaudeProjects, read_project
from mcpx.core.policy.agreements import Agreements
from mcpx.errors import MCPXError
from tests.mcpx.cli.setup.ten_clients import SERVERS, make_home, mcpx
from tests.mcpx.scripted import SERVER
from tests.mcpx.setup.clients.homes import placed
from tests.mcpx.terminal import Terminal

SECRET = "hunter2hunter2"
GITHUB = {"command": "npx", "args": ["-y", "github"], "env": {"GITHUB_TOKEN": SECRET}}
GIT = {"command": "uvx", "args": ["mcp-server-git"]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    for name in ("MCPX_CONFIG", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("mcpx.setup.clients.reading.this_system", lambda: "linux")
    return tmp_path


@pytest.fixture
def clients(home: Path) -> Path:
    placed(home, "claude-desktop", json.dumps({"mcpServers": {"github": GITHUB, "git": GIT}}))
    placed(
        home,
        "vscode",
        f'{{// mine\n"servers": {{"git": {{"command": "npx"}}, "gh": {json.dumps(GITHUB)},}}}}',
    )
    placed(home, "codex", '[mcp_servers.docs]\nurl = "https://h/mcp?key=' + SECRET + '"\n')
    placed(home, "cursor", '{"mcpServers": {"a" 1}}')
    return home


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["import", *arguments])
    assert SECRET not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_everything_that_is_found_is_written_in_one_step(clients: Path) -> None:
    result = run("--yes")
    assert result.exit_code == 0
    path = clients / ".config/mcpx/config.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(load(path).servers) == ["gh", "git", "git-vscode", "docs"]
    assert load(path).servers["gh"].transport.env == {"GITHUB_TOKEN": SECRET}
    for line in (
        "Claude Desktop  ~/.config/Claude/claude_desktop_config.json",
        "  github: npx -y github (env: GITHUB_TOKEN): becomes gh, and is found by either name",
        "  cannot be used: line 1, column 20: a colon is missing between the key and its value",
        "  git: npx: becomes git-vscode, as the name is taken",
        "  gh: npx -y github (env: GITHUB_TOKEN): the same as github of claude-desktop",
        "  docs: https://h/mcp?key=***",
    ):
        assert line in result.stdout.splitlines()
    end = "to ~/.config/mcpx/config.json; github is now gh; mcpx undo takes it back"
    assert result.stdout.splitlines()[-1] == f"wrote 4 servers from 5 entries {end}"


def test_what_changes_in_the_file_is_shown_where_it_is_asked_for(clients: Path) -> None:
    assert "+++" not in run("--dry-run").stdout
    assert '+        "GITHUB_TOKEN": "***"' in run("--dry-run", "--diff").stdout


def test_the_plan_for_ten_clients_and_the_question_fit_one_screen(home: Path) -> None:
    make_home(home)
    for command in (("import",), ("install", "--adopt")):
        lines = mcpx(home, *command, "--dry-run").stdout.splitlines()
        assert len(lines) <= 23, lines
        assert len(mcpx(home, *command, "--dry-run", "--diff").stdout.splitlines()) > 40
        for name in SERVERS - {"broken", "developer", "local"}:
            assert any(re.search(rf"\b{name}\b", line) for line in lines), name


def test_a_second_import_has_nothing_to_do(clients: Path) -> None:
    run("--yes")
    path = clients / ".config/mcpx/config.json"
    before = path.read_bytes(), path.stat().st_mtime_ns
    result = run("--yes")
    assert result.exit_code == 0
    assert "nothing to do: ~/.config/mcpx/config.json has all of them" in result.stdout
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize(("arguments", "code"), [((), 1), (("--dry-run",), 0), (("--dry-run", "--yes"), 0)])
def test_without_yes_nothing_is_changed(clients: Path, arguments: tuple[str, ...], code: int) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert "  git: npx: becomes git-vscode, as the name is taken" in result.stdout.splitlines()
    assert "nothing was changed" in result.stderr
    assert not (clients / ".config/mcpx").exists()


def test_a_client_that_is_named_must_be_usable(clients: Path) -> None:
    assert run("vscode", "--yes").exit_code == 0
    assert list(load(clients / ".config/mcpx/config.json").servers) == ["git", "gh"]
    assert run("cursor", "--yes").exit_code == 1
    result = run("zed", "codex", "--yes")
    assert result.exit_code == 1
    assert "zed: no such file: ~/.config/zed/settings.json" in result.stdout
    assert "docs" in load(clients / ".config/mcpx/config.json").servers


def test_a_client_that_is_not_known_is_wrong_usage(clients: Path) -> None:
    result = run("vscod", "--yes")
    assert result.exit_code == 2
    assert "did you mean vscode" in result.stderr
    result = run("vscod", "--yes", "--json")
    assert result.exit_code == 2
    assert "did you mean vscode" in json.loads(result.stdout)["error"]


def test_json_is_one_object(clients: Path) -> None:
    result = run("--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert not report["changed"]
    assert [server["name"] for server in report["servers"]] == ["gh", "git", "git-vscode", "docs"]
    assert [server["state"] for server in report["servers"]] == ["new"] * 4
    assert report["servers"][0]["entry"]["env"] == {"GITHUB_TOKEN": "***"}
    assert [origin["client"] for origin in report["servers"][0]["from"]] == ["claude-desktop", "vscode"]
    assert {each["client"]: each.get("problem", "")[:6] for each in report["clients"]} == {
        "claude-desktop": "",
        "cursor": "line 1",
        "vscode": "",
        "codex": "",
    }
    report = json.loads(run("--json", "--yes").stdout)
    assert report["changed"]
    assert {server["state"] for server in report["servers"]} == {"added"}


def test_comments_of_the_configuration_stay_and_its_file_may_be_named(clients: Path) -> None:
    path = clients / "my.jsonc"
    path.write_text('{\n  // keep\n  "mcpServers": {\n    "own": {"command": "x"} // this too\n  }\n}\n')
    path.chmod(0o644)
    result = run("codex", "--config", str(path), "--yes")
    assert result.exit_code == 0
    text = path.read_text()
    assert "// keep\n" in text
    assert "// this too\n" in text
    assert '"docs"' in text
    assert f"others can read ~/my.jsonc, and it may hold secrets: chmod 600 {path}" in result.stdout


@pytest.mark.parametrize("content", ["{", '{"mcpServers": []}'])
def test_a_configuration_that_is_broken_is_not_touched(clients: Path, content: str) -> None:
    path = clients / "my.json"
    path.write_text(content)
    assert run("codex", "--config", str(path), "--yes").exit_code == 2
    result = run("codex", "--config", str(path), "--yes", "--json")
    assert json.loads(result.stdout)["error"].startswith(f"{path}:1:")
    assert path.read_text() == content


def test_where_nothing_is_found_it_says_where_it_looked(home: Path) -> None:
    result = run("--yes")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    assert line.startswith("no file of a client was found, of ")
    assert "mcpx add NAME -- COMMAND" in line
    result = run("claude-code", "--yes")
    assert "claude-code: no such file: ~/.claude.json" in result.stdout


def test_a_file_that_others_can_read_is_named_where_it_holds_secrets(clients: Path) -> None:
    path = clients / ".config/Claude/claude_desktop_config.json"
    warning = f"  others can read this file, and it may hold secrets: chmod 600 {path}"
    path.chmod(0o644)
    assert warning in run("--dry-run").stdout.splitlines()
    path.chmod(0o600)
    assert warning not in run("--dry-run").stdout.splitlines()


def test_a_daemon_that_runs_takes_the_servers_in(clients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def request(paths, message, **_):
        asked.append((paths.config, message))
        return {}

    monkeypatch.setattr("mcpx.cli.setup.changing.request", request)
    assert "the daemon uses it now" in run("codex", "--yes").stdout.splitlines()
    assert asked == [(str(clients / ".config/mcpx/config.json"), {"mcpx": "reload"})]

    def refuse(*_, **__):
        raise MCPXError("it is ending")

    monkeypatch.setattr("mcpx.cli.setup.changing.request", refuse)
    result = run("claude-desktop", "--yes")
    assert result.exit_code == 0
    assert "the daemon does not use it yet: it is ending" in result.stdout.splitlines()


def test_clients_are_completed_by_a_shell(home: Path) -> None:
    environ = {"_MCPX_COMPLETE": "bash_complete", "COMP_WORDS": "mcpx import vsc", "COMP_CWORD": "2"}
    result = CliRunner().invoke(cli, prog_name="mcpx", env=environ)
    assert [line.partition(",")[2] for line in result.stdout.splitlines()] == [
        "vscode",
        "vscode-insiders",
        "vscodium",
    ]


def test_a_command_in_advice_runs_as_it_stands_whatever_the_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "Application Support"))
    entry = {"command": "x", "args": ["${workspaceFolder:other}"], "env": {"TOKEN": SECRET}}
    path = home / "Application Support/Code/User/mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"servers": {"my server": entry}}))
    path.chmod(0o644)
    said = run("--yes").stdout
    assert f"chmod 600 '{path}'" in said
    assert "  then: mcpx enable 'my server'" in said.splitlines()


def test_the_command_that_is_agreed_to_is_shown_whole_in_a_narrow_window(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpx.cli.setup.importing.width", lambda: 60)
    args = ["-y", "@someone/a-server-with-a-long-name", "--folder", "/srv/work", "--then", "rm-everything"]
    entries = {str(number): {"command": f"c{number}"} for number in range(30)}
    entries["long"] = {"command": "npx", "args": args}
    placed(home, "cursor", json.dumps({"mcpServers": entries}))
    assert f"+ long: npx {' '.join(args)}  [Cursor]" in run("--dry-run").stdout.splitlines()


@pytest.mark.parametrize(("typed", "starts"), [("\r", True), ("n\r", False)])
def test_on_a_terminal_it_offers_to_start_what_downloads_itself(home: Path, typed: str, starts: bool) -> None:
    program = home / "bin" / "uvx"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho Downloading >&2\nexec {sys.executable} -S -E {SERVER} '{{}}'\n")
    program.chmod(0o755)
    placed(home, "claude-desktop", json.dumps({"mcpServers": {"git": GIT, "other": {"command": "true"}}}))
    environment = {**os.environ, "PATH": f"{program.parent}:/usr/bin:/bin", "SHELL": "/bin/false"}
    with Terminal("-m", "mcpx", "import", env=environment) as terminal:
        terminal.wait_for("Write 2 servers to")
        terminal.type("y\r")
        terminal.wait_for("Start git once now? The first start is a download: git [Y/n]")
        terminal.type(typed)
        if starts:
            terminal.wait_for("[.] 1 of 1: git")
            terminal.wait_for("git works: ")
        assert terminal.end() == 0


@pytest.fixture
def shop(home: Path) -> Path:
    """A folder with a server of its own in Claude Code's file, and one in a file that it brings."""
    shop = home / "work" / "shop"
    shop.mkdir(parents=True)
    of_folder = {str(shop): {"mcpServers": {"db": {"command": "./db"}}, "history": []}, "/gone": {}}
    servers = {"git": GIT}
    placed(home, "claude-code", json.dumps({"mcpServers": servers, "projects": of_folder}, indent=1))
    (shop / ".mcp.json").write_text('{"mcpServers": {"lint": {"command": "npx", "args": ["lint"]}}}')
    return shop


def test_what_a_client_has_for_one_folder_becomes_a_layer_of_that_project(home: Path, shop: Path) -> None:
    result = run("--yes")
    assert result.exit_code == 0
    written = json.loads((home / ".config/mcpx/config.json").read_bytes())["mcpServers"]
    assert written == {"git": GIT, "shop/db": {"command": "./db", "project": str(shop)}}
    found = load(home / ".config/mcpx/config.json").servers["shop/db"]
    assert (found.project, found.transport.cwd, found.idle_stop) == (str(shop), str(shop), 900.0)
    shown = [line.strip() for line in result.stdout.splitlines()]
    at = shown.index("~/work/shop: its files name 1 server, for clients there alone")
    asks = f"to have MCPX offer that there: mcpx approve --project {shop}"
    assert shown[at + 1 : at + 4] == ["lint (.mcp.json)", "starts: npx lint", asks]
    assert not (home / "state" / "projects.json").exists()  # a yes to the import is none to that
    assert "has all of them" in run().stdout


def test_adopting_takes_it_out_of_the_client_and_undo_puts_it_back(home: Path, shop: Path) -> None:
    before = (home / ".claude.json").read_bytes()
    result = mcpx(home, "install", "--adopt", "claude-code", "--yes")
    assert (result.exit_code, "shop/db" in result.stdout) == (0, True)
    after = json.loads((home / ".claude.json").read_bytes())
    assert [*after["mcpServers"]] == ["mcpx"]
    assert after["projects"] == {str(shop): {"mcpServers": {}, "history": []}, "/gone": {}}
    assert json.loads((shop / ".mcp.json").read_bytes())["mcpServers"].keys() == {"lint"}
    assert "nothing to do" in mcpx(home, "install", "--adopt", "claude-code").stdout
    assert mcpx(home, "undo", "--yes").exit_code == 0
    assert (home / ".claude.json").read_bytes() == before


@pytest.mark.parametrize(("typed", "agreed"), [("y\r", True), ("n\r", False)])
def test_on_a_terminal_what_the_files_of_a_folder_name_is_a_question_of_its_own(
    home: Path, shop: Path, typed: str, agreed: bool
) -> None:
    environment = {**os.environ, "SHELL": "/bin/false"}
    for first in (True, False):
        with Terminal("-m", "mcpx", "import", env=environment) as terminal:
            if first:
                terminal.wait_for("Write 2 servers to")
                terminal.type("y\r")
                terminal.wait_for("Start git once now?")
                terminal.type("n\r")
            if first or not agreed:  # it is not asked again once it was agreed to
                terminal.wait_for("Let clients in ~/work/shop start lint? [y/N]")
                terminal.type(typed)
            assert terminal.end() == 0
    found = read_project(str(shop), ClaudeProjects())
    said = Agreements(home / "state").said(str(shop), found.entries["lint"])
    assert said == ("yes" if agreed else None)

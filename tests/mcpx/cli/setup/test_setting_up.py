"""`mcpx setup` in homes of many clients: one screen, one question, one change, and the lines that matter."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from tests.mcpx.cli.setup.ten_clients import environment, look, mcpx
from tests.mcpx.scripted import SERVER
from tests.mcpx.terminal import Terminal


def crowded(home: Path) -> None:
    """Have seventy servers with long names in two clients."""
    entries = {f"a-rather-long-name-{number}": {"command": f"c{number}"} for number in range(70)}
    for name in (".config/Claude/claude_desktop_config.json", ".gemini/settings.json"):
        (home / name).write_text(json.dumps({"mcpServers": entries}))


def on_terminal(home: Path, *arguments: str) -> Terminal:
    env = {name: value for name, value in environment(home).items() if value is not None}
    return Terminal("-m", "mcpx", "setup", *arguments, env={**env, "SHELL": "/bin/false", "LANG": "C.UTF-8"})


def test_one_yes_moves_the_servers_and_one_undo_brings_them_back(home: Path) -> None:
    original = look(home)
    done = mcpx(home, "setup", "--yes", "--no-start")
    assert done.exit_code == 1, done.output  # the file of LM Studio is broken
    assert "done: 14 servers in ~/.config/mcpx/config.json, MCPX in 12 clients; mcpx undo" in done.stdout
    assert "next: restart Claude Desktop, Claude Code, " in done.stdout
    written = json.loads((home / ".config/mcpx/config.json").read_text())["mcpServers"]
    assert {"git", "linear", "memory", "docs"} <= {*written}
    assert [*json.loads((home / ".gemini/settings.json").read_text())["mcpServers"]] == ["mcpx"]
    assert "nothing to do" in mcpx(home, "setup", "gemini", "--yes").stdout
    taken_back = mcpx(home, "undo", "--yes")
    assert taken_back.exit_code == 0, taken_back.output
    assert look(home) == original


def test_the_plan_of_many_servers_fits_a_screen_with_its_question(home: Path) -> None:
    crowded(home)
    before = look(home)
    with on_terminal(home) as terminal:
        terminal.wait_for("? [y/N]: ")
        assert "Set up 83 servers and 12 clients?" in terminal.written
        assert terminal.written.count("\n") <= 22
        terminal.type("n\r")
        assert terminal.end() == 1
    assert look(home) == before


def test_a_client_without_servers_has_none_that_mcpx_replaces(home: Path) -> None:
    assert "MCPX into 1 client\n" in mcpx(home, "setup", "trae", "--dry-run").stdout
    with on_terminal(home, "trae") as terminal:
        terminal.wait_for("Set up 1 client? [y/N]: ")


def test_at_a_terminal_one_yes_is_enough_and_what_does_not_work_is_said(home: Path) -> None:
    works = {"command": sys.executable, "args": ["-S", "-E", str(SERVER), "{}"]}
    entries = {"works": works, "broken": {"command": "there-is-no-such-command"}}
    (home / ".gemini/settings.json").write_text(json.dumps({"mcpServers": entries}))
    with on_terminal(home, "gemini") as terminal:
        terminal.wait_for("Set up 2 servers and 1 client? [y/N]: ")
        terminal.type("y\r")
        assert terminal.end() == 0
        said = terminal.written
    assert "1 server started, MCPX answers in 1 client" in said
    assert "broken: command not found: there-is-no-such-command" in said
    assert "to look again: mcpx doctor" in said
    assert "next: restart Gemini CLI" in said


def test_in_a_pipe_it_says_what_to_type(home: Path) -> None:
    before = look(home)
    done = mcpx(home, "setup", "cursor", "--config", str(home / "my file.json"))
    assert done.exit_code == 1
    last = done.stderr.splitlines()[-1]
    assert last == f"nothing was changed; to do it: mcpx setup --yes cursor --config '{home}/my file.json'"
    assert look(home) == before
    typed = shlex.split(last.partition(": ")[2])
    agreed = mcpx(home, *typed[1:], "--no-start")
    assert agreed.exit_code == 0, agreed.output
    assert (home / "my file.json").exists()


def test_programs_get_one_object_with_what_doctor_finds(home: Path) -> None:
    planned = json.loads(mcpx(home, "setup", "cursor", "--dry-run", "--json").stdout)
    assert (planned["changed"], "doctor" in planned) == (False, False)
    done = json.loads(mcpx(home, "setup", "cursor", "--yes", "--json", "--no-start").stdout)
    assert (done["changed"], done["servers_added"]) == (True, ["git", "memory"])
    assert done["doctor"]["findings"]

"""The clients' own rules by which reading tools run unasked: offered with install, and taken out with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpx.setup.clients.rows import CLIENTS
from mcpx.setup.documents.editing import read
from tests.mcpx.cli.setup.ten_clients import look, mcpx

TOOLS = ("query", "inspect", "resources")
GEMINI_RULE = {"mcpName": "mcpx", "decision": "allow", "priority": 100}
PLACES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/permissions.json",
    "gemini": ".gemini/policies/mcpx.toml",
}
CODEX_COMMAND = """#!/bin/sh
printf '\\n[mcp_servers.mcpx]\\ncommand = "%s"\\nargs = ["attach"]\\n' "$5" >>"$HOME/.codex/config.toml"
"""


def rules(home: Path, client: str) -> object:
    """What a client has of MCPX in the place for rules."""
    path = home / PLACES[client]
    if not path.exists():
        return None
    value = read(path.read_bytes(), "toml" if path.suffix == ".toml" else "json")
    match client:
        case "claude-code":
            return value["permissions"]["allow"]
        case "codex":
            tools = value["mcp_servers"].get("mcpx", {}).get("tools", {})
            return {name: each["approval_mode"] for name, each in tools.items()}
        case "cursor":
            return value["mcpAllowlist"]
    return value["rule"]


WRITTEN = {
    "claude-code": [f"mcp__mcpx__{tool}" for tool in TOOLS],
    "codex": dict.fromkeys(TOOLS, "approve"),
    "cursor": [f"mcpx:{tool}" for tool in TOOLS],
    "gemini": [GEMINI_RULE | {"toolName": tool} for tool in TOOLS],
}


def test_the_clients_with_a_place_for_rules_are_these() -> None:
    assert {client.name for client in CLIENTS if client.approvals is not None} == {*PLACES}


@pytest.mark.parametrize("client", PLACES)
def test_the_rules_are_shown_written_with_the_entry_and_taken_out_with_it(home: Path, client: str) -> None:
    original = look(home)
    shown = mcpx(home, "install", client, "--diff", "--rules")
    assert PLACES[client] in shown.stdout
    assert all(tool in shown.stdout for tool in TOOLS)
    assert "exec" not in shown.stdout
    assert look(home) == original
    assert mcpx(home, "install", client, "--yes", "--rules").exit_code == 0
    assert rules(home, client) == WRITTEN[client]
    written = look(home)
    assert mcpx(home, "install", client, "--yes", "--rules").stdout.endswith("nothing to do\n")
    assert look(home) == written
    assert mcpx(home, "uninstall", client, "--yes").exit_code == 0
    assert look(home) == original
    assert mcpx(home, "undo", "--yes").exit_code == 0
    assert look(home) == written
    assert mcpx(home, "undo", "--yes").exit_code == 0
    assert look(home) == original


@pytest.mark.parametrize("more", [(), ("--no-rules",)])
@pytest.mark.parametrize("client", PLACES)
def test_unless_they_are_agreed_to_the_entry_alone_is_written_and_they_can_follow(
    home: Path, client: str, more: tuple[str, ...]
) -> None:
    offers = "with --rules, query, inspect and resources run without asking in"
    assert (offers in mcpx(home, "install", client, *more).stdout) is (not more)
    assert mcpx(home, "install", client, "--yes", *more).exit_code == 0
    assert not rules(home, client)
    result = mcpx(home, "install", client, "--yes", "--rules")
    assert result.exit_code == 0
    assert "MCPX is there" in result.stdout
    assert rules(home, client) == WRITTEN[client]


def test_what_people_have_there_stays(home: Path) -> None:
    settings = home / ".claude/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(
        '{\n  // mine\n  "permissions": {"allow": ["Bash(ls)"], "deny": ["mcp__mcpx__exec"]}\n}\n'
    )
    (home / ".cursor/permissions.json").write_text('{"mcpAllowlist": ["github:list_issues"]}')
    before = settings.read_bytes()
    result = mcpx(home, "install", "claude-code", "cursor", "--yes", "--rules")
    assert "in place of the one in its settings" not in result.stdout
    assert rules(home, "claude-code") == ["Bash(ls)", *WRITTEN["claude-code"]]
    assert b"// mine" in settings.read_bytes()
    settings.write_bytes(settings.read_bytes().replace(b"Bash(ls)", b"Bash(cat:*)"))  # meanwhile
    assert mcpx(home, "uninstall", "--yes").exit_code == 0
    assert settings.read_bytes() == before.replace(b"Bash(ls)", b"Bash(cat:*)")
    assert rules(home, "cursor") == ["github:list_issues"]


def test_a_new_list_of_cursor_takes_the_place_of_its_settings_and_is_said_to(home: Path) -> None:
    assert "Cursor then takes this list in place" in mcpx(home, "install", "cursor", "--rules").stdout


def test_a_rule_that_a_person_has_set_is_not_changed(home: Path) -> None:
    assert mcpx(home, "install", "codex", "--yes").exit_code == 0
    path = home / ".codex/config.toml"
    path.write_text(path.read_text() + '\n[mcp_servers.mcpx.tools.query]\napproval_mode = "prompt"\n')
    assert mcpx(home, "install", "codex", "--yes", "--rules").exit_code == 0
    assert rules(home, "codex") == WRITTEN["codex"] | {"query": "prompt"}  # type: ignore[operator]
    assert mcpx(home, "uninstall", "codex", "--yes").exit_code == 0
    assert "mcpx" not in path.read_text()


def test_rules_that_cannot_be_written_are_named_and_the_entry_is(home: Path) -> None:
    settings = home / ".claude/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("{")
    result = mcpx(home, "install", "claude-code", "--yes", "--rules")
    assert result.exit_code == 0
    assert "no rules in ~/.claude/settings.json" in result.stdout
    assert settings.read_text() == "{"
    assert "mcpx" in (home / ".claude.json").read_text()


def test_a_client_that_adds_mcpx_by_itself_gets_the_rules_too(home: Path) -> None:
    own = home / "bin" / "codex"
    own.parent.mkdir(exist_ok=True)
    own.write_text(CODEX_COMMAND)
    own.chmod(0o755)
    original = look(home)
    assert "runs:" in mcpx(home, "install", "codex", "--diff").stdout
    assert mcpx(home, "install", "codex", "--yes", "--rules").exit_code == 0
    assert rules(home, "codex") == WRITTEN["codex"]
    assert mcpx(home, "uninstall", "codex", "--yes").exit_code == 0
    assert look(home) == original


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_the_rules_are_a_question_of_their_own(
    home: Path, answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []

    def asked(question: str) -> bool:
        questions.append(question)
        return answer or len(questions) == 1

    monkeypatch.setattr("mcpx.cli.options.Manner.on_terminal", property(lambda _: True))
    monkeypatch.setattr("mcpx.cli.options.asked", asked)
    monkeypatch.setattr("mcpx.cli.setup.install.asked", asked)
    assert mcpx(home, "install", "claude-code").exit_code == 0
    assert [question.split()[0] for question in questions] == ["Put", "Write"]
    assert "mcpx" in (home / ".claude.json").read_text()
    assert rules(home, "claude-code") == (WRITTEN["claude-code"] if answer else None)

from __future__ import annotations

import pytest

from mcpx.core.gateway.clients.known_clients import KNOWN_CLIENTS, known_client, wants_structured_content


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("claude-code", "claude-code"),
        ("Claude Code", "claude-code"),
        ("cursor-vscode", "cursor"),
        ("GitHub Copilot CLI", "github-copilot"),
        ("codex-mcp-client", "codex"),
        ("Visual Studio Code - Insiders", "visual-studio-code"),
        ("gemini-cli-mcp-client", "gemini-cli"),
        ("qwen-cli-mcp-client-mcpx", "qwen"),
        ("mcp", "mcp"),
    ],
)
def test_a_client_is_known_by_the_beginning_of_its_name(name, prefix):
    assert known_client(name).prefix == prefix


@pytest.mark.parametrize("name", ["claude-ai", "", None, "my-claude-code", "mcp-inspector"])
def test_any_other_client_is_taken_to_show_all_and_to_keep_structured_content_from_the_model(name):
    known = known_client(name)
    assert known is None or (known.description_chars is None and known.instructions_chars is None)
    assert wants_structured_content("auto", name)


@pytest.mark.parametrize("name", ["claude-code", "codex-mcp-client", None])
def test_a_policy_that_is_not_auto_goes_for_every_client(name):
    assert wants_structured_content("always", name)
    assert not wants_structured_content("never", name)


def test_structured_content_is_for_clients_that_do_not_show_it():
    assert not wants_structured_content("auto", "Claude Code")
    assert not wants_structured_content("auto", "codex-mcp-client")
    assert wants_structured_content("auto", "Visual Studio Code")
    assert wants_structured_content("auto", "gemini-cli-mcp-client")


def test_every_row_has_a_source_and_is_reached():
    assert all(client.source for client in KNOWN_CLIENTS)
    assert [known_client(client.prefix) for client in KNOWN_CLIENTS] == list(KNOWN_CLIENTS)

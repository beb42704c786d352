"""What may be shown of servers: never a secret, and all that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpx.setup.clients.masking import (
    command_line,
    masked_arguments,
    masked_diff,
    masked_entry,
    masked_text,
    unmasked_entry,
)

ARGUMENTS = [
    (["--token", "hunter2"], ["--token", "***"]),
    (["--api-key=hunter2", "-y"], ["--api-key=***", "-y"]),
    (["--api_key", "${KEY}", "--auth"], ["--api_key", "${KEY}", "--auth"]),
    (["-e", "GITHUB=hunter2", "-e", "GITHUB"], ["-e", "GITHUB=***", "-e", "GITHUB"]),
    (["-H", "Authorization: Bearer hunter2"], ["-H", "Authorization: ***"]),
    (["--header", "X-Any:hunter2"], ["--header", "X-Any:***"]),
    (["DB_PASSWORD=hunter2"], ["DB_PASSWORD=***"]),
    (["postgres://me:hunter2@db:5432/x?sslmode=hunter2"], ["postgres://***@db:5432/x?sslmode=***"]),
    (["https://h/mcp?hunter2#hunter2"], ["https://h/mcp?***#***"]),
    (["ghp_hunter2hunter2x", "sk-ant-hunter2hunter2"], ["***", "***"]),
    (["https://h/s/NDk4ZmE2YjQtMTIzNC00NTY3ODkwYWJjZA/mcp"], ["https://h/s/***/mcp"]),
    (["-y", "@modelcontextprotocol/server-filesystem", "/home/me/a b", "--port", "8080", "C:\\x"],
     ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/a b", "--port", "8080", "C:\\x"]),
    (["--mode=fast", "name:tag", "docker.io/mcp/github:latest", "https://h:8/mcp"],
     ["--mode=fast", "name:tag", "docker.io/mcp/github:latest", "https://h:8/mcp"]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "shown"), ARGUMENTS)
def test_arguments_are_shown_without_their_secrets(given: list[str], shown: list[str]) -> None:
    assert masked_arguments(given) == shown


def test_an_entry_is_shown_without_values() -> None:
    entry: dict[str, Any] = {
        "command": "npx",
        "args": ["--token", "hunter2"],
        "env": {"A": "hunter2", "B": "${B}", "C": "${keychain:C}", "D": None, "E": "", "F": "${F:-hunter2}"},
        "headers": {"Authorization": "Bearer ${T}", "X": "Bearer hunter2"},
        "disabled": True,
    }
    assert masked_entry(entry) == {
        "command": "npx",
        "args": ["--token", "***"],
        "env": {"A": "***", "B": "${B}", "C": "${keychain:C}", "D": None, "E": "", "F": "***"},
        "headers": {"Authorization": "Bearer ${T}", "X": "***"},
        "disabled": True,
    }
    assert unmasked_entry(masked_entry(entry), entry) == entry
    assert command_line(entry) == "npx --token ***"
    assert command_line({"url": "https://u:hunter2@h/mcp?k=hunter2"}) == "https://***@h/mcp?k=***"
    assert command_line({"command": "a", "args": ["b c", ""]}) == 'a "b c" ""'
    assert command_line({"command": "a --token hunter2"}) == "a --token ***"


def test_an_entry_that_was_edited_keeps_what_was_not_shown_of_it_and_nothing_else() -> None:
    entry = {
        "command": "npx",
        "args": ["--token", "hunter2", "--password", "hunter3", "postgres://me:hunter4@db/x"],
        "env": {"A": "hunter5", "B": 5},
        "auth": {"client_id": "c", "client_secret": "hunter6"},
    }
    shown = masked_entry(entry)
    edited = shown | {"args": ["-v", *shown["args"][-1:]], "env": {"A": "***", "N": "new"}, "cwd": "/x"}
    assert unmasked_entry(edited, entry) == {
        "command": "npx",
        "args": ["-v", "postgres://me:hunter4@db/x"],
        "env": {"A": "hunter5", "N": "new"},
        "auth": {"client_id": "c", "client_secret": "hunter6"},
        "cwd": "/x",
    }
    swapped = shown | {"args": ["--password", "***", "--token", "***"]}
    assert unmasked_entry(swapped, entry)["args"] == ["--password", "hunter3", "--token", "hunter2"]
    for wrong, where in (
        ({"env": {"C": "***"}}, r"env\.C"),
        ({"args": ["-v", "--other", "***"]}, r"args\[2\]"),  # which of the two is not known
        ({"url": "https://***@h/"}, "url"),
    ):
        with pytest.raises(ValueError, match=rf"^{where} has \*\*\*"):
            unmasked_entry(shown | wrong, entry)


def test_a_sign_in_is_shown_without_its_secret() -> None:
    own = {"client_id": "i", "client_secret": "hunter2", "private_key": "hunter2", "token_auth": "none"}
    entry = {"url": "https://h", "auth": own, "oauth": {"CLIENT_SECRET": "${S}", "clientSecret": "hunter2"}}
    assert masked_entry(entry) == {
        "url": "https://h",
        "auth": {"client_id": "i", "client_secret": "***", "private_key": "***", "token_auth": "none"},
        "oauth": {"CLIENT_SECRET": "${S}", "clientSecret": "***"},
    }
    after = json.dumps({"token_store": "file", "mcpServers": {"s": entry, "t": {"auth": "oauth"}}}, indent=1)
    diff = masked_diff(None, after.encode(), "c.json")
    assert "hunter2" not in diff
    assert [word for word in ('"file"', '"none"', '"oauth"', '"${S}"') if word not in diff] == []


def test_a_diff_shows_no_secret_neither_of_what_is_new_nor_of_what_was_there() -> None:
    before = b"""\xef\xbb\xbf{
  // old token: ghp_hunter2hunter2x, or https://me:hunter2@h/?key=hunter2
  "mcpServers": {
    "old": {"command": "a", "env": {"K": "hunter2", "N": 5}, "args": ["--password", "hunter2"]},
    "web": {"url": "https://h/?key=hunter2", "headers": {"A": "hunter2"}}
  }
}
"""
    after = before.replace(b'"old"', b'"new": {"command": "b", "env": {"K": "hunter2"}},\n    "old"')
    diff = masked_diff(before, after, "c.json")
    assert "hunter2" not in diff
    assert '+    "new": {"command": "b", "env": {"K": "***"}},' in diff.splitlines()
    assert '"args": ["--password", "***"]' in diff
    assert "5" not in diff.partition("@@\n")[2]
    assert masked_diff(before, before, "c.json") == ""


def test_a_diff_of_a_new_file_and_of_utf16() -> None:
    after = json.dumps({"mcpServers": {"a": {"command": "a"}}}, indent=1)
    added = [line[1:] for line in masked_diff(None, after.encode(), "c").splitlines()[3:]]
    assert added == after.splitlines()
    assert masked_diff(None, after.encode("utf-16"), "c") == masked_diff(None, after.encode(), "c")


def test_text_without_secrets_is_as_it_was() -> None:
    for text in ("a plain sentence, 12 words", "https://example.com/a/b.html", "uvx mcp-server-git@1.2.3"):
        assert masked_text(text) == text

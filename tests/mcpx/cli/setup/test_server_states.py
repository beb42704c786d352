"""What `mcpx list` says beneath its rows."""

from __future__ import annotations

import pytest
from rich.console import Console

from mcpx.cli.setup.server_states import _state, show_servers


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"state": "ready", "last_error": "it died"}, None),
        ({"state": "parked", "last_error": "it died"}, "it died"),
        (
            {"state": "needs sign-in", "last_error": "x", "sign_in": {"command": "mcpx login s"}},
            "sign in with: mcpx login s",
        ),
        ({"state": "needs sign-in", "last_error": "x"}, "sign in with: mcpx login"),
    ],
)
def test_a_server_that_is_not_ready_says_why(server, why):
    assert _state(server).get("why") == why


def test_a_narrow_window_breaks_no_word(monkeypatch, capsys):
    why = "the server process exited with code 1 during the handshake; its last words: KEY is required"
    row = {"name": "sequential-thinking", "state": "needs setup", "why": why, "transport": "stdio"}
    command = "npx -y @modelcontextprotocol/server-sequential-thinking --with many --words behind"
    monkeypatch.setattr("mcpx.cli.printing.console", lambda: Console(width=60))
    show_servers({"servers": [{**row, "command": command}], "daemon": True})
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 60 for line in lines)
    said = " ".join(" ".join(lines).split())
    assert f"sequential-thinking: {why}" in said
    for word in ("npx", "--with", "many", "--words", "behind"):
        assert f" {word}" in said

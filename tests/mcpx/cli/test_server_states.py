"""What `mcpx status` says of servers without a daemon."""

from __future__ import annotations

from rich.console import Console

from mcpx.cli.server_states import show_servers


def test_a_narrow_window_breaks_no_word(monkeypatch, capsys):
    why = "the server process exited with code 1 during the handshake; its last words: KEY is required"
    row = {"name": "sequential-thinking", "state": "needs setup", "why": why, "transport": "stdio"}
    command = "npx -y @modelcontextprotocol/server-sequential-thinking --with many --words behind"
    monkeypatch.setattr("mcpx.cli.printing.console", lambda: Console(width=60))
    show_servers({"file": "x.json", "servers": [{**row, "command": command}], "daemon": None})
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 60 for line in lines)
    said = " ".join(" ".join(lines).split())
    assert f"sequential-thinking: {why}" in said
    for word in ("npx", "--with", "many", "--words", "behind"):
        assert f" {word}" in said

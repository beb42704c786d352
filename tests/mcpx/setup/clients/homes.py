"""A home folder with clients' files in it, and what is read from them."""

from __future__ import annotations

from pathlib import Path

from mcpx.setup.clients import ClientFile, ClientServers, client_named, find, read_client_file, read_servers


def placed(home: Path, client: str, content: str | bytes) -> Path:
    """The client's file with this content, where the client has it on Linux."""
    path = find(client_named(client), {"HOME": str(home)}, "linux").path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_at(home: Path, client: str, content: str | bytes) -> ClientServers:
    """What is read from the client's file with this content."""
    placed(home, client, content)
    return read_client_file(find(client_named(client), {"HOME": str(home)}, "linux"))


def given(client: str, content: str | bytes) -> ClientServers:
    """The same without a file."""
    file = ClientFile(client_named(client), Path(f"/home/u/{client}"), exists=True, installed=True)
    return read_servers(file, content.encode() if isinstance(content, str) else content)

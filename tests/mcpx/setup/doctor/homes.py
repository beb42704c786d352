"""A home to examine: everything in it is sound, until a test breaks something.

The daemon is a thread that holds the lock and answers every request with one status. What the client starts
is a script that answers as `mcpx attach` does. Servers are scripted ones.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.paths import DaemonPaths, daemon_paths, sign_lock, take_lock
from mcpx.setup.doctor.examination import Section, examine
from mcpx.setup.doctor.installation import Finding, Installation
from mcpx.version import __version__
from tests.mcpx.scripted import entry

ATTACH = """
    import json, sys
    description = "d" * {length}
    for line in sys.stdin:
        request = json.loads(line)
        if request["method"] == "initialize":
            result = {{"protocolVersion": "2025-06-18", "capabilities": {{}}, "instructions": "i"}}
        else:
            result = {{"tools": [{{"name": "inspect", "description": description, "inputSchema": {{}}}}]}}
        if "id" in request:
            print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}), flush=True)
"""


class Home:
    """A user's home in `folder`, which is `HOME` while the test runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / ".config" / "mcpx" / "config.json"
        self.command = folder / "bin" / "mcpx"
        self.cursor = folder / ".cursor" / "mcp.json"

    def furnish(self) -> None:
        """Put a configuration, a client and its command there."""
        self.write({"s": entry()})
        self.write_command()
        self.write_client(self.cursor, {"mcpx": self.own_entry()})

    def write(self, servers: dict[str, Any], **settings: Any) -> None:
        self.write_text(json.dumps({**settings, "shutdown_grace": 0.2, "mcpServers": servers}))

    def write_text(self, text: str) -> None:
        ensure_folder(self.config.parent)
        self.config.write_text(text)
        self.config.chmod(0o600)

    def write_command(self, *, length: int = 100, code: str = ATTACH) -> None:
        ensure_folder(self.command.parent)
        text = textwrap.dedent(code.format(length=length))
        self.command.write_text(f"#!{sys.executable} -S\n{text}")
        self.command.chmod(0o700)

    def own_entry(self, **more: Any) -> dict[str, Any]:
        return {"command": str(self.command), "args": ["attach", "--config", str(self.config)], **more}

    def write_client(self, file: Path, servers: dict[str, Any]) -> None:
        ensure_folder(file.parent)
        file.write_text(json.dumps({"mcpServers": servers}))
        file.chmod(0o600)

    @property
    def paths(self) -> DaemonPaths:
        return daemon_paths(self.config)

    # --- the daemon

    @contextmanager
    def daemon(
        self, *, version: str = __version__, servers: tuple[dict[str, Any], ...] = (), **about: Any
    ) -> Iterator[None]:
        """A daemon that answers."""
        shown = {"pid": os.getpid(), "version": version, "uptime_s": 7200.0, "clients": 1, **about}
        answer = json.dumps({"daemon": shown, "servers": servers}).encode() + b"\n"
        with self.locked(), socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.paths.socket))
            listener.listen()
            threading.Thread(target=_answer_all, args=(listener, answer), daemon=True).start()
            try:
                yield
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                self.paths.socket.unlink()

    @contextmanager
    def locked(self, config: Path | None = None) -> Iterator[None]:
        """Whoever holds the lock of a configuration is its daemon."""
        paths = daemon_paths(config or self.config)
        ensure_folder(paths.lock.parent)
        lock = take_lock(paths.lock)
        assert lock is not None
        sign_lock(lock, paths.lock, paths.config)
        try:
            yield
        finally:
            os.close(lock)

    # --- what is found

    def examine(self, **options: Any) -> Page:
        return Page(examine(Installation(None, **options)))


def _answer_all(listener: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            if connection.recv(1 << 16):
                connection.sendall(answer)


class Page:
    """What an examination has found."""

    def __init__(self, sections: list[Section]) -> None:
        self.findings = [each for section in sections for each in section.findings]

    def of(self, level: str) -> list[Finding]:
        return [each for each in self.findings if each.level == level]

    def naming(self, level: str, *words: str) -> list[Finding]:
        """The findings of that level in which all these words are."""
        return [
            each for each in self.of(level) if all(word in f"{each.subject}: {each.text}" for word in words)
        ]

    def __repr__(self) -> str:
        return "\n".join(
            f"{each.level} {each.subject}: {each.text} -> {each.advice}" for each in self.findings
        )


def server(name: str = "s", state: str = "ready", **more: Any) -> dict[str, Any]:
    """A server in a daemon's status."""
    known = {"name": name, "state": state, "pid": None, "uptime_s": 7200.0, "calls": 0, "last_error": None}
    return {**known, **more}

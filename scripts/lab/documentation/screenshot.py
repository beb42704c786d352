"""Writes the pictures of what runs: `mcpx status` and `mcpx top` as SVGs, the page as PNGs.

Started by `scripts/screenshot [terminal|page|recording]`. Everything shown is real: a daemon with a state
folder of its own, the bundled demo servers, some calls, one server killed and restarted, one whose command
does not exist, and one whose variable is not set. The page: `screenshot_page.py`; the recording of a server
that is killed: `recording.py`.
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from scripts.lab.documentation import recording, screenshot_page
from scripts.lab.documentation.regions import ROOT

IMAGES: Final = ROOT / "docs" / "images"
COLUMNS: Final = 92
READY_S: Final = 30.0  # for servers that start in about a second
SERVERS: Final[dict[str, Any]] = {
    "shop": {"command": sys.executable, "args": ["-m", "mcpx.demo.tools"]},
    "leaflets": {"command": sys.executable, "args": ["-m", "mcpx.demo.knowledge"]},
    "changing": {"command": sys.executable, "args": ["-m", "mcpx.demo.changing"]},
    "browser": {"command": "browser-mcp-server", "args": ["--headless"]},
    "tickets": {"url": "https://tickets.example.com/mcp", "headers": {"Authorization": "${TICKETS_TOKEN}"}},
}


class Daemon:
    """A daemon in a folder of its own, and the `mcpx` commands for it."""

    def __init__(self, folder: Path, servers: dict[str, Any], **settings: Any) -> None:
        config = folder / "mcpx.json"
        config.write_text(json.dumps({**settings, "mcpServers": servers}))
        self.environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",  # not that of whoever takes the picture
            "SHELL": "/bin/sh",
            "HOME": str(folder),
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "MCPX_CONFIG": str(config),
            "MCPX_STATE_DIR": str(folder / "state"),
        }

    def run(self, *words: str) -> str:
        """The standard output of a command. Raises CalledProcessError."""
        command = [sys.executable, "-m", "mcpx", *words]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, check=True).stdout

    def status(self) -> dict[str, dict[str, Any]]:
        """The servers by name, as `mcpx status --json` has them."""
        return {server["name"]: server for server in json.loads(self.run("status", "--json"))["servers"]}

    def wait(self, **states: str) -> None:
        """Wait until these servers are in these states. Raises TimeoutError."""
        deadline = time.monotonic() + READY_S
        while any(self.status()[name]["state"] != state for name, state in states.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not {states}: {self.status()}")

    def picture_of_top(self) -> str:
        """What `mcpx top` shows while a client works, as an SVG."""
        command = [sys.executable, "-m", "scripts.lab.documentation.screenshot_top"]
        done = subprocess.run(
            command, env=self.environ, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.rstrip("\n")

    def on_terminal(self, *words: str, fails: bool = False) -> str:
        """What a command that succeeds, or `fails`, prints on a terminal, with its escape sequences."""
        ours, its = pty.openpty()
        command = [sys.executable, "-m", "mcpx", *words]
        with subprocess.Popen(command, env=self.environ, stdin=its, stdout=its, stderr=its) as process:
            os.close(its)
            printed = b""
            while chunk := _read(ours):
                printed += chunk
            os.close(ours)
            if bool(process.wait()) is not fails:
                raise subprocess.CalledProcessError(process.returncode, command)
        return printed.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how a terminal ends on Linux
        return b""


def record_terminal() -> dict[str, bytes]:
    """The SVGs of a real `mcpx status` and a real `mcpx top`, by the names of their files."""
    with tempfile.TemporaryDirectory(prefix="mcpx-screenshot-") as name:
        daemon = Daemon(Path(name), SERVERS)
        daemon.run("daemon", "start")
        try:
            daemon.wait(shop="ready", leaflets="ready", changing="ready", browser="parked")
            for _ in range(5):
                daemon.run("exec", "shop", "list_orders")
            daemon.run("exec", "leaflets", "search_documents", "query=收缩压")
            os.kill(daemon.status()["shop"]["pid"], signal.SIGKILL)
            daemon.run("exec", "shop", "get_order", "id=1003")  # waits for the new process
            daemon.wait(shop="ready")
            shown = daemon.on_terminal("status")
            top = daemon.picture_of_top()
        finally:
            daemon.run("daemon", "stop")
    return {"status.svg": picture(shown).encode(), "top.svg": top.encode()}


def record_page() -> dict[str, bytes]:
    """The PNGs of the page, by the names of their files."""
    with tempfile.TemporaryDirectory(prefix="mcpx-screenshot-") as name:
        return screenshot_page.record(Daemon(Path(name), screenshot_page.SERVERS, audit="full"))


def record_killed() -> dict[str, bytes]:
    """The SVGs of a server that is killed in the middle of a call, by the names of their files."""
    with tempfile.TemporaryDirectory(prefix="mcpx-screenshot-") as name:
        folder = Path(name)
        return recording.record(Daemon(folder, {"shop": recording.entry(folder)}))


def picture(shown: str) -> str:
    """What a terminal showed, as an SVG that loads nothing from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ mcpx status", style="bold"))
    console.print(Text.from_ansi(shown.rstrip()))
    svg = console.export_svg(title="mcpx status", unique_id="status")
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    parts = {"terminal": record_terminal, "page": record_page, "recording": record_killed}
    for part in sys.argv[1:] or parts:
        for name, image in parts[part]().items():
            (IMAGES / name).write_bytes(image)
            print(f"wrote {(IMAGES / name).relative_to(ROOT)}, {len(image):,} bytes")

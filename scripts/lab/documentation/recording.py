"""Records how a call fares whose server is killed, as an animated SVG for a light and for a dark theme.

Started by `scripts/screenshot recording`. Everything shown is real, with the time it took: a daemon, a server
that is killed in the middle of a call, what the caller is told, and the next call, which the same daemon
answers by a new process of that server. Only the pauses in which a reader reads are added.
"""

from __future__ import annotations

import html
import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.text import Text

if TYPE_CHECKING:
    from scripts.lab.documentation.screenshot import Daemon

SERVER: Final = '''
import time
from mcp.server.mcpserver import MCPServer

server = MCPServer("shop")

@server.tool()
def deploy(version: str, seconds: float = 0) -> str:
    """Deploy a version."""
    time.sleep(seconds)
    return f"version {version} is live"

server.run()
'''
COLUMNS: Final = 88
LINE: Final = 20  # px, as are the next three
CHARACTER: Final = 8.4
MARGIN: Final = 20
HEAD: Final = 36
READING_S: Final = 1.6  # before each command
END_S: Final = 6.0  # the last picture stays for so long, then it begins again
THEMES: Final = {
    "light": {
        "page": "#ffffff",
        "frame": "#d0d7de",
        "text": "#1f2328",
        "dim": "#59636e",
        "typed": "#0550ae",
        "failed": "#cf222e",
    },
    "dark": {
        "page": "#0d1117",
        "frame": "#3d444d",
        "text": "#f0f6fc",
        "dim": "#9198a1",
        "typed": "#79c0ff",
        "failed": "#ff7b72",
    },
}


class Line(NamedTuple):
    """One line of the terminal: when it appears, in seconds, its kind (a colour of THEMES) and its text."""

    at: float
    kind: str
    text: str


def entry(folder: Path) -> dict[str, Any]:
    """The server of the recording, written into this folder, as an entry for a configuration."""
    (folder / "shop.py").write_text(SERVER)
    return {"command": sys.executable, "args": [str(folder / "shop.py")]}


def record(daemon: Daemon) -> dict[str, bytes]:
    """The two SVGs, by the names of their files, with a daemon whose server `shop` is that of `entry`.

    Raises CalledProcessError, TimeoutError.
    """
    daemon.run("daemon", "start")
    try:
        daemon.wait(shop="ready")
        lines = list(_session(daemon))
    finally:
        daemon.run("daemon", "stop")
    return {f"killed-{theme}.svg": draw(lines, theme).encode() for theme in THEMES}


def _session(daemon: Daemon) -> Iterator[Line]:
    now = 0.5
    interrupted = ("exec", "shop", "deploy", "version=7", "seconds=30")
    yield Line(now, "typed", _shown(interrupted))
    pid = daemon.status()["shop"]["pid"]
    killer = threading.Timer(2.0, os.kill, (pid, signal.SIGKILL))
    killer.start()
    yield Line(now + 2.0, "dim", f"# kill -9 {pid}: the server, in the middle of the call")
    began = time.monotonic()
    said = daemon.on_terminal(*interrupted, fails=True)
    killer.join()
    now += time.monotonic() - began
    yield from _printed(said, now, "failed")
    for again in (("exec", "shop", "deploy", "version=7"), ("exec", "shop", "deploy", "version=8")):
        now += READING_S
        yield Line(now, "typed", _shown(again))
        began = time.monotonic()
        said = daemon.on_terminal(*again)
        took = time.monotonic() - began
        now += took
        yield from _printed(said, now)
        yield Line(now, "dim", f"# answered {took:.1f} s after the command was given")


def _shown(words: tuple[str, ...]) -> str:
    return "$ mcpx " + " ".join(words)


def _printed(said: str, at: float, kind: str = "text") -> Iterator[Line]:
    for line in Text.from_ansi(said.rstrip()).plain.splitlines():
        yield from (Line(at, kind, part) for part in textwrap.wrap(line, COLUMNS))


def draw(lines: list[Line], theme: str) -> str:
    """The terminal as an SVG in which the lines appear one after the other, over and over.

    Who prefers no motion sees all of them at once.
    """
    colours = THEMES[theme]
    lasts = lines[-1].at + END_S
    width = round(2 * MARGIN + COLUMNS * CHARACTER)
    height = HEAD + MARGIN + LINE * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>A server is killed in the middle of a call, and the next call is answered</title>",
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}",
        "@media (prefers-reduced-motion:no-preference){",
    ]
    for number, line in enumerate(lines):
        shows = 100 * line.at / lasts
        parts.append(
            f"@keyframes l{number}{{0%,{shows:.2f}%{{opacity:0}}{shows + 0.1:.2f}%,100%{{opacity:1}}}}"
            f".l{number}{{animation:l{number} {lasts:.1f}s infinite}}"
        )
    parts.append("}</style>")
    parts.append(
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" '
        f'fill="{colours["page"]}" stroke="{colours["frame"]}"/>'
    )
    parts.extend(
        f'<circle cx="{MARGIN + 18 * dot}" cy="18" r="5" fill="{colours["frame"]}"/>' for dot in range(3)
    )
    for number, line in enumerate(lines):
        y = HEAD + LINE * (number + 0.7)
        parts.append(
            f'<text class="l{number}" x="{MARGIN}" y="{y:.0f}" fill="{colours[line.kind]}">'
            f"{html.escape(line.text, quote=False)}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])

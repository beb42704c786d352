"""`mcpx logs`: the end of a log file on standard output, and what is added to it; escaped on a terminal."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from mcpx.cli.known_names import complete_server
from mcpx.cli.operations.foreground import is_clustered
from mcpx.cli.options import with_config
from mcpx.cli.printing import RawOutput
from mcpx.core.config import load
from mcpx.core.daemon.control_client import request
from mcpx.core.daemon.lifecycle import located
from mcpx.core.store.paths import daemon_paths
from mcpx.core.text.nearest import suggestion
from mcpx.errors import MCPXError
from mcpx.paths import config_file, config_hint

PEER_TIMEOUT_S: Final = 15.0  # for lines that another MCPX has
LINES: Final = 100  # shown by default
MAX_TAIL_BYTES: Final = 1 << 20  # from the end, in which the lines are looked for
POLL_INTERVAL_S: Final = 0.2
ASK_INTERVAL_S: Final = 1.0  # of a daemon, which asks another machine
MOST_ASKED: Final = 1000  # lines


@click.command(short_help="What a server says on standard error.")
@click.argument("server", shell_complete=complete_server)
@with_config
@click.option("-f", "--follow", is_flag=True, help="Keep printing as it is written.")
@click.option("-n", "--lines", type=click.IntRange(1), default=LINES, show_default=True, help="How many.")
def logs(*, server: str, config_path: str | None, follow: bool, lines: int) -> None:
    """Print the end of what a SERVER has said on standard error."""
    from mcpx.core.telemetry.log_files import server_log_path  # structlog, which only this needs

    paths = daemon_paths(config_path)
    config = load(config_path, resolve=False)
    server = config.server_named(server)
    path = server_log_path(server, located(paths).folder)
    if (server not in config.servers and config.peers) or is_clustered(config):

        def ask(number: int) -> dict[str, Any] | None:
            return request(paths, {"mcpx": "logs", "server": server, "lines": number}, within=PEER_TIMEOUT_S)

        answer = ask(lines)
        is_elsewhere = answer is not None and bool(answer.get("elsewhere"))
        if (
            answer is not None
            and answer.get("code") != "unknown_server"
            and (is_elsewhere or not path.exists())
        ):
            show_lines(answer)
            if follow and "lines" in answer:
                follow_lines(ask, answer["lines"])
            return
    if not path.exists():
        names = [*config.servers, *config.peers]
        if server in names:
            state = f"mcpx status {shlex.quote(server)}{config_hint(config_file(config_path))}"
            raise MCPXError(f"{server} has said nothing on standard error yet ({path}); its state: {state}")
        raise MCPXError(f"no server {server!r}; {suggestion(server, names)}")
    show_end(path, lines=lines, follow=follow)


def show_end(path: Path, *, lines: int, follow: bool) -> None:
    """Print the last lines; with `follow`, go on until interrupted, across a rotation of the file.

    Raises:
        MCPXError: It cannot be read.
    """
    try:
        with path.open("rb") as log:
            output = RawOutput()
            _last(log, lines, output)
            identity = _identity(path)
            while follow:
                _rest(log, output)
                time.sleep(POLL_INTERVAL_S)
                if _identity(path) not in {identity, None}:
                    break
            else:
                return
    except OSError as error:
        raise MCPXError(f"{path}: {error.strerror}") from None
    show_end(path, lines=sys.maxsize, follow=True)


def show_lines(answer: dict[str, Any]) -> None:
    """Print the lines that a daemon has answered with.

    Raises:
        MCPXError: It has answered with an error.
    """
    if "error" in answer:
        raise MCPXError(str(answer["error"]))
    RawOutput().write("".join(f"{line}\n" for line in answer["lines"]).encode(errors="replace"))


def follow_lines(ask: Callable[[int], dict[str, Any] | None], lines: list[str]) -> None:
    """Print what is added to lines that are elsewhere, until interrupted: `ask` gives the last so many.

    Where more are added between two questions than one answer holds, the oldest of them are left out.

    Raises:
        MCPXError: The daemon has ended, or says that it cannot be had any more.
    """
    while True:
        time.sleep(ASK_INTERVAL_S)
        answer = ask(MOST_ASKED)
        if answer is None:
            raise MCPXError("the daemon has ended; to start it: mcpx daemon start")
        found = answer.get("lines", [])
        show_lines({**answer, "lines": added(lines, found)})
        lines = found


def added(before: list[str], now: list[str]) -> list[str]:
    """The lines that came after `before`, of which `now` may hold the end, or more of the beginning."""
    if not before:
        return now
    for end in range(len(now), 0, -1):
        start = max(0, end - len(before))
        if now[start:end] == before[len(before) - (end - start) :]:
            return now[end:]
    return now


def _last(log: BinaryIO, lines: int, output: RawOutput) -> None:
    size = os.fstat(log.fileno()).st_size
    log.seek(max(0, size - MAX_TAIL_BYTES))
    output.write(b"".join(log.readlines()[-lines:]))


def _rest(log: BinaryIO, output: RawOutput) -> None:
    if more := log.read():
        output.write(more)


def _identity(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None

"""`mcpx status`, `reload`, `restart` and `logs`: looking after the servers of a running daemon."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from mcpx.cli.asking import RELOAD_TIMEOUT_S
from mcpx.cli.known_names import complete_server
from mcpx.cli.operations.cluster import is_clustered, show_reloaded
from mcpx.cli.options import json_option, with_config
from mcpx.cli.printing import RawOutput, echo, print_json
from mcpx.core.config import load
from mcpx.core.daemon.control_client import request, request_or_fail
from mcpx.core.daemon.lifecycle import located, waiting_upgrade
from mcpx.core.system.paths import daemon_paths
from mcpx.core.telemetry.log_files import server_log_path
from mcpx.core.text.nearest import suggestion
from mcpx.errors import MCPXError
from mcpx.paths import config_file

PEER_TIMEOUT_S: Final = 15.0  # for lines that another MCPX has
LINES: Final = 100  # shown by default
MAX_TAIL_BYTES: Final = 1 << 20  # from the end, in which the lines are looked for
POLL_INTERVAL_S: Final = 0.2
ASK_INTERVAL_S: Final = 1.0  # of a daemon, which asks another machine
MOST_ASKED: Final = 1000  # lines


@click.command(short_help="The servers, a row each.")
@with_config
@json_option
@click.option("--watch", is_flag=True, help="Go on showing them, on the whole window; q or Ctrl-C ends it.")
def status(config_path: str | None, as_json: bool, watch: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Show the daemon's servers: state, pid, uptime, restarts, calls, the last error.

    Calls are the requests of clients to a server, since the daemon's start. Failed are those that were sent
    and have no good answer, refused (ref) those of which nothing was sent.
    """

    def ask() -> dict[str, Any]:
        answer = _ask(config_path, {"mcpx": "status"})
        if upgrade := waiting_upgrade(answer["daemon"], str(config_file(config_path))):
            answer["daemon"]["upgrade"] = upgrade
        return answer

    if as_json and not watch:
        print_json(ask())
        return
    # rich, which the other commands here do without
    from mcpx.cli.operations.status_table import render_json, show
    from mcpx.cli.operations.watching import watch_on_screen, watch_plainly

    if as_json:
        watch_plainly(ask, print_json)
    elif watch:
        watch_on_screen(ask, render_json)
    else:
        show(ask())


@click.command("reload", short_help="Read the configuration again.")
@with_config
@click.option("--all", "every", is_flag=True, help="All gateways of the cluster, each its own file.")
def reload_config(config_path: str | None, every: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Have the daemon read its configuration again: only what has changed is started, stopped, restarted."""
    if every:
        show_reloaded(_ask(config_path, {"mcpx": "cluster", "do": "reload"}, within=RELOAD_TIMEOUT_S))
        return
    response = _ask(config_path, {"mcpx": "reload"}, within=RELOAD_TIMEOUT_S)
    for what, names in response.items():
        if names or what in {"added", "removed", "changed", "untouched"}:
            shown = {"peers": "other MCPX"}.get(what, what.replace("_", " "))
            echo(f"{shown}: {', '.join(names) or 'none'}")
    _show_not_started(config_path, {*response.get("added", ()), *response.get("changed", ())})


def _show_not_started(config_path: str | None, names: set[str]) -> None:
    """Print which of these servers are not started by their entries, and what helps."""
    if not names:
        return
    for server in _ask(config_path, {"mcpx": "status"})["servers"]:
        if server["name"] in names and server["state"] in {"needs setup", "invalid"}:
            echo(f"{server['name']} is not started ({server['state']}: {server['last_error']})", fg="yellow")
            echo(f"  what helps: {server['remedy']}")


@click.command(short_help="Restart one server.")
@click.argument("server", shell_complete=complete_server)
@with_config
def restart(server: str, config_path: str | None) -> None:
    """End a SERVER of the daemon and start it again, whatever its state.

    Exit code 1 if it does not get ready.
    """
    response = _ask(config_path, {"mcpx": "restart", "server": server}, within=RELOAD_TIMEOUT_S)
    if response["state"].startswith(("ready", "asleep")):
        echo(f"restarted {server}: {response['state']}")
    else:
        echo(f"{server} was started again, and is {response['state']}", fg="yellow")
        if not response["state"].startswith("starting"):
            sys.exit(1)


@click.command(short_help="What a server says on standard error.")
@click.argument("server", shell_complete=complete_server)
@with_config
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written.")
@click.option("-n", "--lines", type=click.IntRange(1), default=LINES, show_default=True, help="How many.")
def logs(server: str, config_path: str | None, follow: bool, lines: int) -> None:  # noqa: FBT001 - click passes it by name
    """Print the end of what a SERVER has said on standard error."""
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
            raise MCPXError(f"{server} has said nothing on standard error yet ({path})")
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
            raise MCPXError("the daemon has ended")
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


def _ask(config_path: str | None, control_request: dict[str, Any], within: float = 10.0) -> dict[str, Any]:
    return request_or_fail(daemon_paths(config_path), control_request, within=within)

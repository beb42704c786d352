"""`mcpx status`, `reload`, `restart` and `logs`: looking after the servers of a running daemon."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from mcpx.cli.daemon import with_config
from mcpx.cli.printing import echo
from mcpx.cli.tail import LINES

WATCH_S = 1.0  # between two looks
RELOAD_S = 60.0  # servers that leave get their grace time


@click.command(short_help="The servers, a row each.")
@with_config
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--watch", is_flag=True, help="Again every second, until interrupted.")
def status(config_path: str | None, as_json: bool, watch: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Show the daemon's servers: state, pid, uptime, restarts, calls, the last error."""
    import time

    while True:
        told = _ask(config_path, {"mcpx": "status"})
        if watch and not as_json and sys.stdout.isatty():
            click.clear()
        _show(told, as_json=as_json)
        if not watch:
            return
        time.sleep(WATCH_S)


@click.command("reload", short_help="Read the configuration again.")
@with_config
def reload_config(config_path: str | None) -> None:
    """Have the daemon read its configuration again: only what has changed is started, stopped, restarted."""
    told = _ask(config_path, {"mcpx": "reload"}, within=RELOAD_S)
    for what, names in told.items():
        if names or what in {"added", "removed", "changed", "untouched"}:
            echo(f"{what.replace('_', ' ')}: {', '.join(names) or 'none'}")


@click.command(short_help="Restart one server.")
@click.argument("server")
@with_config
def restart(server: str, config_path: str | None) -> None:
    """End a SERVER of the daemon and start it again, whatever its state."""
    told = _ask(config_path, {"mcpx": "restart", "server": server}, within=RELOAD_S)
    echo(f"restarted {server}: {told['state']}")


@click.command(short_help="What a server says on standard error.")
@click.argument("server")
@with_config
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written.")
@click.option("-n", "--lines", type=click.IntRange(1), default=LINES, show_default=True, help="How many.")
def logs(server: str, config_path: str | None, follow: bool, lines: int) -> None:  # noqa: FBT001 - click passes it by name
    """Print the end of what a SERVER has said on standard error."""
    from mcpx.cli.tail import show
    from mcpx.config import load
    from mcpx.errors import MCPXError
    from mcpx.nearest import nearest
    from mcpx.observe.server_log import server_log_path

    path = server_log_path(server)
    if not path.exists():
        names = list(load(config_path).servers)
        if server in names:
            raise MCPXError(f"{server} has said nothing on standard error yet ({path})")
        near = nearest(server, names)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
        raise MCPXError(f"no server {server!r}; {hint}")
    show(path, lines=lines, follow=follow)


def _ask(config_path: str | None, asked: dict[str, Any], within: float = 10.0) -> dict[str, Any]:
    from mcpx.daemon.control_client import request_or_fail
    from mcpx.daemon.paths import daemon_paths

    return request_or_fail(daemon_paths(config_path), asked, within=within)


def _show(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    from mcpx.cli.status_table import show

    show(told)

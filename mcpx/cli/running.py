"""`mcpx status`, `reload`, `restart` and `logs`: looking after the servers of a running daemon."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from mcpx.cli.changing import RELOAD_TIMEOUT_S
from mcpx.cli.daemon import json_option, with_config
from mcpx.cli.known_names import complete_server
from mcpx.cli.printing import echo, print_json
from mcpx.cli.tail import LINES

PEER_TIMEOUT_S: Final = 15.0  # for lines that another MCPX has


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
        from mcpx.core.daemon.lifecycle import waiting_upgrade
        from mcpx.paths import config_file

        answer = _ask(config_path, {"mcpx": "status"})
        if upgrade := waiting_upgrade(answer["daemon"], str(config_file(config_path))):
            answer["daemon"]["upgrade"] = upgrade
        return answer

    if as_json and not watch:
        print_json(ask())
    elif as_json:
        from mcpx.cli.watching import watch_plainly

        watch_plainly(ask, print_json)
    elif watch:
        from mcpx.cli.status_table import render_json
        from mcpx.cli.watching import watch as show_watched

        show_watched(ask, render_json)
    else:
        from mcpx.cli.status_table import show

        show(ask())


@click.command("reload", short_help="Read the configuration again.")
@with_config
@click.option("--all", "every", is_flag=True, help="All gateways of the cluster, each its own file.")
def reload_config(config_path: str | None, every: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Have the daemon read its configuration again: only what has changed is started, stopped, restarted."""
    if every:
        from mcpx.cli.gateways import show_reloaded

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
    from mcpx.cli.clustered import is_clustered
    from mcpx.cli.tail import follow_lines, show, show_lines
    from mcpx.core.config import load
    from mcpx.core.daemon.control_client import request
    from mcpx.core.daemon.lifecycle import located
    from mcpx.core.system.paths import daemon_paths
    from mcpx.core.telemetry.log_files import server_log_path
    from mcpx.core.text.nearest import suggestion
    from mcpx.errors import MCPXError

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
    show(path, lines=lines, follow=follow)


def _ask(config_path: str | None, control_request: dict[str, Any], within: float = 10.0) -> dict[str, Any]:
    from mcpx.core.daemon.control_client import request_or_fail
    from mcpx.core.system.paths import daemon_paths

    return request_or_fail(daemon_paths(config_path), control_request, within=within)

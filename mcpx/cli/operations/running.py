"""`mcpx status`, `reload` and `restart`: looking after the servers of a running daemon."""

from __future__ import annotations

import sys
from typing import Any

import click

from mcpx.cli.asking import RELOAD_TIMEOUT_S
from mcpx.cli.known_names import complete_server
from mcpx.cli.options import json_option, with_config
from mcpx.cli.printing import echo, print_json
from mcpx.core.text import one_line


@click.command(short_help="The servers, a row each.")
@click.argument("server", required=False, shell_complete=complete_server)
@with_config
@json_option
@click.option("--watch", is_flag=True, help="Go on showing them, on the whole window; q or Ctrl-C ends it.")
def status(*, server: str | None, config_path: str | None, as_json: bool, watch: bool) -> None:
    """Show the daemon's servers: state, pid, uptime, restarts, calls, the last error.

    With a SERVER, it alone, and the variables that its process was given, each with where it came from.

    Calls are the requests of clients to a server, since the daemon's start. Failed are those that were sent
    and have no good answer, refused (ref) those of which nothing was sent.
    """
    from mcpx.core.daemon.lifecycle import waiting_upgrade  # as below: completion needs none of it
    from mcpx.paths import config_file

    def ask() -> dict[str, Any]:
        answer = _ask(config_path, {"mcpx": "status"})
        if server is not None:
            given = _ask(config_path, {"mcpx": "environment", "server": server})
            answer["variables"] = given["variables"]
            answer["servers"] = [each for each in answer["servers"] if each["name"] == given["server"]]
        if upgrade := waiting_upgrade(answer["daemon"], str(config_file(config_path))):
            answer["daemon"]["upgrade"] = upgrade
        return answer

    if as_json and not watch:
        print_json(ask())
        return
    from mcpx.cli.operations.status_table import render_json, show  # rich, for a table
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
def reload_config(*, config_path: str | None, every: bool) -> None:
    """Have the daemon read its configuration again: only what has changed is started, stopped, restarted."""
    if every:
        _show_reloaded(_ask(config_path, {"mcpx": "cluster", "do": "reload"}, within=RELOAD_TIMEOUT_S))
        return
    response = _ask(config_path, {"mcpx": "reload"}, within=RELOAD_TIMEOUT_S)
    for what, names in response.items():
        if names or what in {"added", "removed", "changed", "untouched"}:
            shown = {"peers": "other MCPX"}.get(what, what.replace("_", " "))
            echo(f"{shown}: {', '.join(names) or 'none'}")
    _show_not_started(config_path, {*response.get("added", ()), *response.get("changed", ())})


def _show_reloaded(answer: dict[str, Any]) -> None:
    """Print which gateways have read their configurations again; exits with 1 if one has not."""
    rows = answer["gateways"]
    for row in rows:
        done = "reloaded" if row["reloaded"] else gateway_problem(row) or "has not answered yet"
        differs = (
            "" if row["same_config"] else f"; its configuration differs from that of {gateway_name(rows[0])}"
        )
        echo(one_line(f"{gateway_name(row)}: {done}{differs}"), fg=None if row["reloaded"] else "red")
    if not all(row["reloaded"] for row in rows):
        sys.exit(1)


def gateway_name(row: dict[str, Any]) -> str:
    """The name of a gateway of the cluster."""
    return f"{row['host']}:{row['pid']} {row['id'][:8]}"


def gateway_problem(row: dict[str, Any]) -> str:
    """The problem that a gateway has with its configuration; empty without one."""
    return f"its configuration cannot be used: {row['problem']}" if row.get("problem") else ""


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


def _ask(config_path: str | None, control_request: dict[str, Any], within: float = 10.0) -> dict[str, Any]:
    from mcpx.core.daemon.control_client import request_or_fail  # msgspec, which completion does not need
    from mcpx.core.store.paths import daemon_paths

    return request_or_fail(daemon_paths(config_path), control_request, within=within)

"""`mcpx status`, `reload` and `restart`: looking after the servers of a running daemon."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mcpx.cli.asking import RELOAD_TIMEOUT_S
from mcpx.cli.known_names import complete_server
from mcpx.cli.options import json_option, with_config
from mcpx.cli.printing import echo, print_json
from mcpx.core.text import one_line
from mcpx.errors import MCPXError

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="The servers, a row each.")
@click.argument("server", required=False, shell_complete=complete_server)
@with_config
@json_option
@click.option("--watch", is_flag=True, help="Go on showing them, on the whole window; q or Ctrl-C ends it.")
def status(*, server: str | None, config_path: str | None, as_json: bool, watch: bool) -> None:
    """Show the servers: state, pid, uptime, restarts, calls, the last error.

    With a SERVER, it alone, how it is started, and the variables that its process was given, each with where
    it came from. Where no daemon runs, the servers are those of the configuration.

    Calls are the requests of clients to a server, since the daemon's start. Failed are those that were sent
    and have no good answer, refused (ref) those of which nothing was sent.
    """
    from mcpx.cli.operations.status_table import render_json, show  # rich, as below: completion needs none
    from mcpx.cli.operations.watching import watch_on_screen, watch_plainly

    if watch:
        ask = partial(_of_daemon, config_path, server)
        watch_plainly(ask, print_json) if as_json else watch_on_screen(ask, render_json)
        return
    found = _found(config_path, server, as_json=as_json)
    if as_json:
        print_json(found)
    elif found["daemon"] is None:
        from mcpx.cli.server_states import show_servers  # likewise

        show_servers(found)
    else:
        show(found)
        if server is not None and (command := found["servers"][0].get("command")):
            echo(f"runs: {one_line(command)}")


def _found(config_path: str | None, server: str | None, *, as_json: bool) -> dict[str, Any]:
    """The status of the daemon, or `{file, daemon: null, servers}` by the configuration where none runs.

    Raises:
        MCPXError: The daemon does not answer; the configuration cannot be used; there is no such server.
    """
    from mcpx.core.store.paths import daemon_paths, lock_owner

    if lock_owner(daemon_paths(config_path).lock) is not None:
        return _of_daemon(config_path, server, with_commands=as_json or server is not None)
    from mcpx.cli.server_states import find_servers  # the configuration, which a daemon has read
    from mcpx.core.text.nearest import suggestion

    found = find_servers(config_path)
    if server is not None:
        named = [each for each in found["servers"] if each["name"] == server]
        if not named:
            known = [each["name"] for each in found["servers"]]
            raise MCPXError(f"no server {server!r} in {found['file']}; {suggestion(server, known)}")
        found["servers"] = named
    return found


def _of_daemon(config_path: str | None, server: str | None, *, with_commands: bool = False) -> dict[str, Any]:
    """The status of the daemon, of one server or of all; `with_commands`, how each is started as well."""
    from mcpx.core.daemon.lifecycle import waiting_upgrade
    from mcpx.paths import config_file

    answer = _ask(config_path, {"mcpx": "status"})
    if server is not None:
        given = _ask(config_path, {"mcpx": "environment", "server": server})
        answer["variables"] = given["variables"]
        answer["servers"] = [each for each in answer["servers"] if each["name"] == given["server"]]
    file = config_file(config_path).absolute()
    if with_commands:
        _add_commands(answer["servers"], file)
    if upgrade := waiting_upgrade(answer["daemon"], str(file)):
        answer["daemon"]["upgrade"] = upgrade
    return {"file": str(file), **answer}


def _add_commands(servers: list[dict[str, Any]], file: Path) -> None:
    """Say of each server how it is started or reached, if the file can be read now."""
    from mcpx.cli.server_states import reached_by
    from mcpx.setup.documents import DocumentError

    with suppress(OSError, DocumentError):  # the daemon says what is wrong with it
        lines = reached_by(file)
        for each in servers:
            each["command"] = lines.get(each["name"], "")


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

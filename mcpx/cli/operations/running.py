"""`mcpx status`, `reload` and `restart`: looking after the servers of a running daemon; and `mcpx` alone.

That is, in a terminal: where things stand in five lines, and what to type next.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from mcpx.cli.asking import RELOAD_TIMEOUT_S
from mcpx.cli.known_names import complete_server
from mcpx.cli.options import json_option, with_config
from mcpx.cli.printing import counted, duration, echo, print_json, width
from mcpx.core.text import cut, one_line
from mcpx.errors import MCPXError
from mcpx.paths import config_file, short
from mcpx.version import __version__


@click.command(short_help="The servers, a row each.")
@click.argument("server", required=False, shell_complete=complete_server)
@with_config
@json_option
@click.option("--watch", is_flag=True, help="Keep showing them, on the whole window; q or Ctrl-C ends it.")
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
@json_option
def reload_config(*, config_path: str | None, every: bool, as_json: bool) -> None:
    """Have the daemon read its configuration again: only what has changed is started, stopped, restarted."""
    if every:
        answer = _ask(config_path, {"mcpx": "cluster", "do": "reload"}, within=RELOAD_TIMEOUT_S)
        _show_reloaded(answer, as_json=as_json)
        return
    response = _ask(config_path, {"mcpx": "reload"}, within=RELOAD_TIMEOUT_S)
    if as_json:
        print_json(response)
        return
    for what, names in response.items():
        if names or what in {"added", "removed", "changed", "untouched"}:
            shown = {"peers": "other MCPX"}.get(what, what.replace("_", " "))
            echo(f"{shown}: {', '.join(names) or 'none'}")
    _show_not_started(config_path, {*response.get("added", ()), *response.get("changed", ())})


def _show_reloaded(answer: dict[str, Any], *, as_json: bool) -> None:
    """Print which gateways have read their configurations again; exits with 1 if one has not."""
    rows = answer["gateways"]
    if as_json:
        print_json(answer)
    for row in () if as_json else rows:
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
@json_option
def restart(*, server: str, config_path: str | None, as_json: bool) -> None:
    """Stop a SERVER of the daemon and start it again, in any state.

    Exit code 1 if it does not become ready.
    """
    response = _ask(config_path, {"mcpx": "restart", "server": server}, within=RELOAD_TIMEOUT_S)
    is_well = response["state"].startswith(("ready", "asleep"))
    if as_json:
        print_json(response)
    elif is_well:
        echo(f"restarted {server}: {response['state']}")
    else:
        echo(f"{server} was started again, and is {response['state']}", fg="yellow")
    if not is_well and not response["state"].startswith("starting"):
        sys.exit(1)


def _ask(config_path: str | None, control_request: dict[str, Any], within: float = 10.0) -> dict[str, Any]:
    from mcpx.core.daemon.control_client import request_or_fail  # msgspec, which completion does not need
    from mcpx.core.store.paths import daemon_paths

    return request_or_fail(daemon_paths(config_path), control_request, within=within)


# --- mcpx alone

ADD: Final = "mcpx add NAME -- COMMAND"
WELL: Final = frozenset({"ready", "asleep", "starting", "disabled", "not running", "mcpx", "stopped"})
"""States of which nobody has to know more."""
MAX_NAMED: Final = 3  # servers of one state


@dataclass(frozen=True, kw_only=True)
class Standing:
    """MCPX as a person has it: `problem` says why the configuration, or the daemon, cannot be used."""

    file: str
    exists: bool
    problem: str | None = None
    daemon: dict[str, Any] | None = None
    upgrade: dict[str, str] | None = None
    servers: Sequence[dict[str, Any]] = ()
    with_mcpx: Sequence[str] = ()
    without: Sequence[str] = ()
    """The clients that are installed, as people call them."""


def look() -> Standing:
    """Find out where things stand; nothing is started."""
    from mcpx.cli.server_states import find_servers
    from mcpx.core.daemon.control_client import request
    from mcpx.core.daemon.lifecycle import waiting_upgrade
    from mcpx.core.store.paths import daemon_paths
    from mcpx.setup.clients import CLIENTS, find, find_all, read_client_file

    path = config_file().absolute()
    found = Standing(file=str(path), exists=path.exists())
    having: dict[str, bool] = {}
    for client in CLIENTS:
        for file in find_all(client) or [find(client)]:
            if file.installed:
                has = file.exists and bool(read_client_file(file).own)
                having[client.title] = having.get(client.title, False) or has
    found = replace(
        found,
        with_mcpx=[title for title, has in having.items() if has],
        without=[title for title, has in having.items() if not has],
    )
    try:
        status = request(daemon_paths(), {"mcpx": "status"})
        if status is None:
            return replace(found, servers=find_servers(None)["servers"])
    except MCPXError as error:
        return replace(found, problem=str(error))
    about = status["daemon"]
    return replace(
        found,
        problem=about.get("config_error"),
        daemon=about,
        upgrade=waiting_upgrade(about, found.file),
        servers=status["servers"],
    )


def lines(standing: Standing) -> Iterator[str]:
    """The five lines."""
    file = short(standing.file)
    if not standing.exists:
        yield f"MCPX {__version__}: not set up yet, there is no {file}"
    elif standing.problem:
        yield f"MCPX {__version__}: {one_line(standing.problem)}"
    else:
        yield f"MCPX {__version__}: {counted(len(standing.servers), 'server')} in {file}"
    yield f"servers: {_states(standing.servers)}"
    yield f"daemon: {_daemon(standing.daemon)}"
    yield f"clients with MCPX: {', '.join(standing.with_mcpx) or 'none'}"
    yield f"clients without: {', '.join(standing.without) or 'none'}"


def _states(servers: Sequence[dict[str, Any]]) -> str:
    """`9 ready, 2 asleep, 1 needs setup (perplexity)`, those with a fault first."""
    counts = Counter(each["state"] for each in servers)
    said = []
    for state, number in sorted(counts.items(), key=lambda each: (each[0] in WELL, -each[1])):
        names = [each["name"] for each in servers if each["state"] == state]
        more = ", ..." if len(names) > MAX_NAMED else ""
        named = "" if state in WELL else f" ({', '.join(names[:MAX_NAMED])}{more})"
        said.append(f"{number} {state}{named}")
    return ", ".join(said) or "none"


def _daemon(about: dict[str, Any] | None) -> str:
    if about is None:
        return "none runs; the first client starts it"
    return f"pid {about['pid']}, up {duration(about['uptime_s'])}, {counted(about['clients'], 'client')}"


def next_step(standing: Standing) -> str:
    """Name the command to type next, and the reason."""
    if not standing.exists and (standing.with_mcpx or standing.without):
        return "mcpx setup"
    if not standing.exists:
        return ADD
    if standing.problem:
        return "mcpx check (it says what is wrong, and where)"
    if not standing.servers:
        return ADD
    for server in standing.servers:
        if server["state"] == "needs sign-in":
            return f"mcpx login {shlex.quote(server['name'])}"
    if any(each["state"] not in WELL for each in standing.servers):
        return "mcpx doctor (it says why, and what to type)"
    if standing.upgrade:
        return f"{standing.upgrade['command']} (MCPX {standing.upgrade['installed']} is installed)"
    if not standing.with_mcpx:
        return "mcpx setup (it puts MCPX into your clients)"
    return "mcpx ui (all is well; it shows MCPX at work)"


@click.command()
def overview() -> None:
    """Show where things stand, and what to do next."""
    standing = look()
    most = width() - len("...")
    for number, line in enumerate(lines(standing)):
        echo(cut(line, most), bold=number == 0)
    echo(f"next: {next_step(standing)}", fg="green")
    echo("all commands: mcpx --help", err=True)

"""`mcpx daemon`: start, stop and look after the daemon of one configuration."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from mcpx.cli.group import Group
from mcpx.cli.operations import foreground
from mcpx.cli.operations.logs import LINES, show_end
from mcpx.cli.options import json_option, with_config
from mcpx.cli.printing import FOLD, NO_WRAP, RIGHT, Columns, echo, print_json, print_table, print_texts
from mcpx.core.config import load
from mcpx.core.daemon import lifecycle, service
from mcpx.core.daemon.control_client import request
from mcpx.core.daemon.lifecycle import located, running_daemons, waiting_upgrade
from mcpx.core.daemon.lifecycle import report as running_report
from mcpx.core.daemon.service import Report
from mcpx.core.store.paths import DaemonPaths, daemon_paths, lock_owner_pid
from mcpx.core.store.stale import clean_up
from mcpx.errors import MCPXError


def show_daemons(rows: list[dict[str, Any]]) -> None:
    """Print the daemons of `mcpx.core.daemon.lifecycle.report`, a row each, with their faults below."""
    numbers = ("clients", "servers", "ready", "asleep")
    headers: Columns = {
        "pid": RIGHT,
        "since": NO_WRAP,
        "version": NO_WRAP,
        **dict.fromkeys(numbers, RIGHT),
        "config": FOLD,
    }
    cells = [
        (
            str(row["pid"]),
            row["since"][:16].replace("T", " "),
            *(str(row.get(key, "-")) for key in ("version", *numbers)),
            row["config"],
        )
        for row in rows
    ]
    print_table(headers, cells, gap=1)
    print_texts((f"pid {row['pid']}: {row['error']}", "red") for row in rows if "error" in row)


@click.group(cls=Group, short_help="One process for all clients: start, stop, status.")
def daemon() -> None:
    """One MCPX for all clients of a configuration: mcpx attach joins it, and starts it where none runs."""


@daemon.command(short_help="Run it in the foreground.")
@with_config
def run(config_path: str | None) -> None:
    """Run the daemon in the foreground until a signal comes: for systemd, launchd and debugging."""
    foreground.run(config_path)


@daemon.command(short_help="Start it, unless it runs.")
@with_config
@json_option
def start(*, config_path: str | None, as_json: bool) -> None:
    """Start the daemon in the background, and wait until it answers."""
    paths = daemon_paths(config_path)
    load(paths.config, resolve=False)  # a mistake in it is reported here, not in the daemon's log
    started = lifecycle.start(paths)
    pid, log = lock_owner_pid(paths), located(paths).log
    if as_json:
        print_json({"started": started, "pid": pid, **_files(paths), "log": str(log)})
    else:
        done = "started" if started else "a daemon runs already:"
        click.echo(f"{done} pid {pid}, serving {paths.config}")
        click.echo(f"socket {paths.socket}\nlog {log}", err=True)
    _warn_of_http(paths)


def _files(paths: DaemonPaths) -> dict[str, str]:
    return {"config": str(paths.config), "socket": str(paths.socket)}


def _warn_of_http(paths: DaemonPaths) -> None:
    """Say so where the daemon cannot serve HTTP, which its other clients do not notice."""
    with suppress(MCPXError):
        http = ((request(paths, {"mcpx": "status"}) or {}).get("daemon") or {}).get("http") or {}
        if http.get("error"):
            echo(f"HTTP is not served yet, and tried again: {http['error']}", err=True)


@daemon.command(short_help="End it.")
@with_config
@click.option("--all", "every", is_flag=True, help="The daemons of all configurations.")
@json_option
def stop(*, config_path: str | None, every: bool, as_json: bool) -> None:
    """End the daemon in order. Clients that are attached start it again with their next request."""
    if every and config_path is not None:
        raise click.UsageError("--all ends the daemons of all configurations; leave --config out")
    if every:
        _stop_all(as_json=as_json)
        return
    paths = daemon_paths(config_path)
    pid = lifecycle.stop(paths, marked=True)
    if as_json:
        print_json({"config": str(paths.config), "stopped": pid})
    else:
        click.echo(f"no daemon serves {paths.config}" if pid is None else f"stopped pid {pid}")


def _stop_all(*, as_json: bool) -> None:
    def end(paths: DaemonPaths) -> dict[str, Any]:
        try:
            return {"config": str(paths.config), "stopped": lifecycle.stop(paths, marked=True)}
        except MCPXError as error:
            return {"config": str(paths.config), "error": str(error)}

    found = running_daemons()
    with ThreadPoolExecutor(max(1, len(found))) as threads:
        ended = list(threads.map(end, [each.paths for each in found]))
    if as_json:
        print_json(ended)
    elif not found:
        click.echo("no daemon runs")
    for each in () if as_json else ended:
        error, file = each.get("error"), each["config"]
        line = f"{file}: {error}" if error else f"stopped pid {each['stopped']}, serving {file}"
        echo(line, err=bool(error))
    clean_up()
    if any("error" in each for each in ended):
        sys.exit(1)


@daemon.command("list", short_help="Those of all configurations.")
@with_config
@json_option
def list_running(*, config_path: str | None, as_json: bool) -> None:
    """List your daemons, a row each, and clean up after those that were killed. --config: that one alone.

    Daemons with another MCPX_STATE_DIR are not listed.
    """
    rows = running_report(config_path)
    clean_up()
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("no daemon runs")
    else:
        show_daemons(rows)


@daemon.command(short_help="End it, and start it again.")
@with_config
@click.option("--when-idle", is_flag=True, help="Wait until no call runs.")
@json_option
def restart(*, config_path: str | None, when_idle: bool, as_json: bool) -> None:
    """End the daemon in order and start it again: after an upgrade, or a change that reload cannot make.

    Attached clients stay connected. A configuration that cannot be used is refused, and nothing is stopped.
    """
    paths = daemon_paths(config_path)
    load(paths.config, resolve=False)
    if when_idle:
        lifecycle.wait_until_idle(paths)
    with lifecycle.startup_lock(paths) as lock:
        old = lifecycle.stop(paths, marked=False)
        next_paths = daemon_paths(config_path)  # others, if it is a link that leads elsewhere now
        lifecycle.start(next_paths, lock=lock if next_paths == paths else None)
    pid, before = lock_owner_pid(next_paths), "none ran" if old is None else f"was {old}"
    if as_json:
        print_json({"pid": pid, "was": old, **_files(next_paths)})
    else:
        click.echo(f"restarted: pid {pid} ({before}), serving {paths.config}")


@daemon.command(short_help="Whether it runs, and where.")
@with_config
@json_option
def status(*, config_path: str | None, as_json: bool) -> None:
    """Say whether the daemon runs (exit code 0) or not (1), and where its files are.

    Its servers' commands are searched on PATH: your login shell's, followed by that of the program which
    started the daemon.
    """
    paths = daemon_paths(config_path)
    answer = request(paths, {"mcpx": "status"})
    upgrade = None if answer is None else waiting_upgrade(answer["daemon"], paths.config)
    if as_json:
        said = {"running": answer is not None, **_files(paths)}
        print_json(said | (answer or {}).get("daemon", {}) | ({"upgrade": upgrade} if upgrade else {}))
        sys.exit(1 if answer is None else 0)
    if answer is None:
        click.echo(f"no daemon serves {paths.config}")
    else:
        about = answer["daemon"]
        up = f"up {about['uptime_s']:.0f} s, clients: {about['clients']}"
        click.echo(f"pid {about['pid']}, MCPX {about['version']}, {up}, serving {paths.config}")
        if problem := about.get("config_error"):
            click.echo(f"that was changed, and cannot be used: {problem}")
        if upgrade:
            click.echo(
                f"MCPX {upgrade['installed']} is installed and waits for a restart: {upgrade['command']}"
            )
    about = {} if answer is None else answer["daemon"]
    log = about.get("log") or (paths.log if "folder" not in about else "on its standard error")
    click.echo(f"socket {paths.socket}\nlog {log}")
    if error := (about.get("http") or {}).get("error"):
        click.echo(f"HTTP is not served, and tried again: {error}")
    if answer is not None:
        with suppress(MCPXError):  # a daemon of an older version does not know
            environment = request(paths, {"mcpx": "environment"}) or {}
            if source := environment.get("source"):
                echo(f"environment of {source}")
            echo(f"PATH {environment.get('path', '')}")
    sys.exit(1 if answer is None else 0)


@daemon.command(short_help="What it has logged.")
@with_config
@click.option("-f", "--follow", is_flag=True, help="Keep printing as it is written.")
@click.option("-n", "--lines", type=click.IntRange(1), default=LINES, show_default=True, help="How many.")
def logs(*, config_path: str | None, follow: bool, lines: int) -> None:
    """Print the end of the daemon's log."""
    show_end(located(daemon_paths(config_path)).log, lines=lines, follow=follow)


@daemon.command(short_help="Have systemd or launchd run it.")
@with_config
def install(config_path: str | None) -> None:
    """Write a systemd user unit or a launchd agent for the daemon, and start it, now and at every login.

    Exit code 1 if it was written, but the service manager could not be reached.
    """
    paths = daemon_paths(config_path)
    load(paths.config, resolve=False)
    _show_service(service.install(Path(paths.config)))


@daemon.command(short_help="Take it from systemd or launchd.")
@with_config
def uninstall(config_path: str | None) -> None:
    """Remove what install has written, and end what it started. --config: if it runs that configuration."""
    _show_service(service.uninstall(None if config_path is None else Path(daemon_paths(config_path).config)))


def _show_service(report: Report) -> None:
    for line in report.lines:
        echo(line)
    if not report.is_complete:
        sys.exit(1)

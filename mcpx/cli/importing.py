"""`mcpx import`: the servers of the clients' files in MCPX's configuration, in a step that can be undone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcpx.cli.consent import changing_options, diff_option, exit_unchanged, may_go_on
from mcpx.cli.known_names import complete_client

if TYPE_CHECKING:
    from mcpx.setup.clients import ClientServers, ImportPlan


@click.command("import", short_help="Take over the servers of your AI clients.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=complete_client)
@diff_option
@changing_options
def import_servers(
    *,
    clients: tuple[str, ...],
    config_path: str | None,
    diff: bool,
    dry_run: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Write the servers of your AI clients into MCPX's configuration.

    Looks into the file of each CLIENT (claude-desktop, vscode, cursor, codex and so on), or of all that there
    are. Equal servers of several clients become one, which is found by all of its names; what the
    configuration has stays as it is. The clients' files are not changed: mcpx install --adopt does that. mcpx
    undo takes it back.
    """
    sys.exit(_import(clients, config_path, dry_run=dry_run, as_json=as_json, yes=yes, diff=diff))


def _import(
    clients: tuple[str, ...],
    config_path: str | None,
    *,
    dry_run: bool,
    as_json: bool,
    yes: bool,
    diff: bool,
) -> int:
    from mcpx.cli import import_report as report
    from mcpx.cli.changing import reload_daemon, take_back_interrupted
    from mcpx.cli.printing import print_json
    from mcpx.errors import ConfigError
    from mcpx.paths import config_file
    from mcpx.setup.changes import read_file
    from mcpx.setup.clients import plan_import
    from mcpx.setup.documents import DocumentError

    take_back_interrupted(yes=yes, dry_run=dry_run, as_json=as_json)
    path = config_file(config_path).absolute()
    found, missing = _look(clients)
    try:
        plan = plan_import(found, read_file(path))
    except DocumentError as error:
        raise ConfigError(f"{path}:{error.line}:{error.column}", error.problem) from None
    failed = bool(clients) and (bool(missing) or any(each.problem for each in found))
    if not as_json and not found:
        report.show_empty(path, missing, named=bool(clients))
    elif not as_json:
        report.show(found, missing if clients else {}, plan, path, diff=diff)
    changed, reloaded = False, None
    if plan.changes:
        what = report.counted(len(plan.new), "server") if plan.new else "other names of servers"
        question = f"Write {what} to {path}?"
        if may_go_on(question, yes=yes, dry_run=dry_run, as_json=as_json):
            _write(path, plan)
            changed, reloaded = True, reload_daemon(path)
    if as_json:
        print_json(report.as_json(found, missing, plan, path, changed=changed, reloaded=reloaded))
    elif changed:
        report.show_done(plan, path, reloaded)
    if plan.changes and not changed and not failed:
        exit_unchanged(dry_run=dry_run)
    return int(failed)


def _look(clients: tuple[str, ...]) -> tuple[list[ClientServers], dict[str, list[str]]]:
    """What was found in each file; and where was looked for those clients that have none."""
    import os

    from mcpx.setup.clients import CLIENTS, candidates, client_named, find_all, read_client_file, this_system

    found: list[ClientServers] = []
    missing: dict[str, list[str]] = {}
    rows = [client_named(name) for name in dict.fromkeys(clients)] if clients else CLIENTS
    for row in rows:
        files = find_all(row)
        found += [read_client_file(file) for file in files]
        if not files:
            missing[row.name] = [str(path) for path in candidates(row, os.environ, this_system())]
    return found, missing


def _write(path: Path, plan: ImportPlan) -> None:
    from mcpx.setup.changes import Edit, carry_out

    about: dict[str, Any] = {
        "servers": [server.name for server in plan.new],
        "clients": sorted({origin.client for server in plan.new for origin in server.origins}),
    }
    carry_out("import", [Edit(path, plan.before, plan.after, syntax="json")], about=about)

"""`mcpx install` and `mcpx uninstall`: MCPX in the files of the clients, and out of them again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from mcpx.cli.changing import reload_daemon, take_back_interrupted
from mcpx.cli.consent import changing_options, diff_option, exit_unchanged, may_go_on
from mcpx.cli.known_names import complete_client
from mcpx.cli.printing import echo, print_json

if TYPE_CHECKING:
    from mcpx.setup.changes import Change, Edit
    from mcpx.setup.clients import ClientFile
    from mcpx.setup.clients.installing import Removal


@click.command(short_help="Put MCPX into your AI clients.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=complete_client)
@click.option("--adopt", is_flag=True, help="Move the clients' own servers into MCPX's configuration.")
@diff_option
@changing_options
def install(
    *,
    clients: tuple[str, ...],
    adopt: bool,
    diff: bool,
    config_path: str | None,
    dry_run: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Put MCPX into each CLIENT (claude-desktop, claude-code, cursor, vscode ...), or into all that are here.

    A client's own command does it where it has one; else its file is edited, and everything else in it stays.
    Copies of the files are kept: mcpx uninstall takes MCPX out again, mcpx undo takes back the last change.
    """
    from mcpx.cli import install_report as report
    from mcpx.setup.clients.install_plan import plan_installs

    take_back_interrupted(yes=yes, dry_run=dry_run, as_json=as_json)
    plan = plan_installs(_installed(clients), config_path, adopt=adopt)
    if not as_json:
        report.show(plan, diff=diff)
    change, reloaded, edits = None, None, plan.edits()
    if edits and may_go_on(
        f"Put MCPX into {', '.join(plan.changed)}?", yes=yes, dry_run=dry_run, as_json=as_json
    ):
        command = ["install", *(["--adopt"] if adopt else []), *plan.changed]
        change = _carry_out(command, edits, plan.changed)
        reloaded = reload_daemon(plan.config) if plan.new_servers else None
    if as_json:
        print_json(report.as_json(plan, change, reloaded=reloaded))
    elif change is not None:
        report.show_done(plan, change, reloaded)
    elif not edits and not plan.is_refused:
        echo("nothing to do")
    _end(is_refused=plan.is_refused, is_open=bool(edits) and change is None, dry_run=dry_run)


@click.command(short_help="Take MCPX out of your AI clients.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=complete_client)
@changing_options
def uninstall(
    *,
    clients: tuple[str, ...],
    config_path: str | None,  # noqa: ARG001 - taken, as by all commands that change files
    dry_run: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Take MCPX out of each CLIENT, or of all that have it.

    A file that is as MCPX left it becomes what it was, byte for byte, with the servers that were adopted from
    it. Out of any other, what MCPX put in is taken, and the rest stays. MCPX's configuration is not touched.
    """
    from mcpx.cli import install_report as report

    take_back_interrupted(yes=yes, dry_run=dry_run, as_json=as_json)
    removals = _removals(clients)
    taken_out = [each for each in removals if each.outcome in {"restored", "edited"}]
    if not as_json:
        report.show_removals(removals)
    names = tuple(dict.fromkeys(each.file.client.name for each in taken_out))
    change = None
    question = f"Take MCPX out of {', '.join(names)}?"
    if names and may_go_on(question, yes=yes, dry_run=dry_run, as_json=as_json):
        change = _carry_out(["uninstall", *names], [_edit(each) for each in taken_out], names)
    if as_json:
        print_json(report.removals_json(removals, change))
    elif change is not None:
        titles = ", ".join(dict.fromkeys(each.file.client.title for each in taken_out))
        echo("done; mcpx undo takes it back. MCPX's own configuration keeps its servers")
        copies = shlex.quote(str(change.folder.parent))
        echo(f"copies of the files, secrets in them too, stay for mcpx undo; to remove them: rm -r {copies}")
        echo(f"next: restart {titles}")
    elif not taken_out:
        echo("nothing to do" if clients else "nothing to do: MCPX is in no client")
    is_refused = any(each.outcome == "refused" for each in removals)
    _end(is_refused=is_refused, is_open=bool(names) and change is None, dry_run=dry_run)


def _installed(names: Sequence[str]) -> list[ClientFile]:
    """The files of the clients that were named, or of those that are there.

    Raises:
        MCPXError: There is no such client, or none at all is there.
    """
    from mcpx.errors import MCPXError
    from mcpx.setup.clients import CLIENTS, client_named, find, find_all

    rows = [client_named(name) for name in dict.fromkeys(names)] or CLIENTS
    found = [file for row in rows for file in find_all(row) or [find(row)] if names or file.installed]
    if not found:
        raise MCPXError(f"no client is installed here; name one: {', '.join(row.name for row in CLIENTS)}")
    return found


def _removals(names: Sequence[str]) -> list[Removal]:
    """What becomes of each file out of which MCPX is to be taken."""
    from mcpx.setup.changes import history, real_path
    from mcpx.setup.clients import CLIENTS, client_named, find, find_all
    from mcpx.setup.clients.installing import plan_uninstall

    changes = history()
    rows = [client_named(name) for name in dict.fromkeys(names)] or CLIENTS
    files: dict[Path, ClientFile] = {}
    for row in rows:
        for file in find_all(row) or ([find(row)] if names else []):
            files.setdefault(real_path(file.path), file)
    planned = [plan_uninstall(file, changes) for file in files.values()]
    return [each for each in planned if names or each.outcome != "absent"]


def _edit(removal: Removal) -> Edit:
    from mcpx.setup.changes import Edit

    file = removal.file
    return Edit(file.path, removal.before, removal.after, file.client.syntax, remove_folders=removal.folders)


def _carry_out(command: list[str], edits: list[Edit], names: Sequence[str]) -> Change:
    from mcpx.setup.changes import carry_out

    return carry_out(" ".join(command), edits, about={"clients": [*names]})


def _end(*, is_refused: bool, is_open: bool, dry_run: bool) -> NoReturn:
    """End with 1 where a file was refused, or a change was not agreed to."""
    if is_refused:
        sys.exit(1)
    if is_open:
        exit_unchanged(dry_run=dry_run)
    sys.exit(0)

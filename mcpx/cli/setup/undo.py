"""`mcpx undo`: the last change of files taken back, whichever command made it."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mcpx.cli.options import Manner, changing_options
from mcpx.cli.printing import echo, print_json
from mcpx.cli.setup.changing import reload_daemon, short, take_back_interrupted
from mcpx.setup.changes import carry_out, history, plan_undo, undone

if TYPE_CHECKING:
    from mcpx.setup.changes import Change, Undo


@click.command(short_help="Take back the last change of files.")
@click.option("--list", "listed", is_flag=True, help="Show every change, a line each.")
@click.option("--files", is_flag=True, help="With --list: the files of each change, and its copies.")
@click.option("--force", is_flag=True, help="Also where a file was changed since; what it holds is kept.")
@changing_options
def undo(
    *,
    listed: bool,
    files: bool,
    force: bool,
    config_path: str | None,
    manner: Manner,
) -> None:
    """Take back what the last import, install, uninstall, add, remove, enable or disable has changed.

    Each file becomes what it was, byte for byte; said again, the change before is taken back. Where a file
    was changed since, what the command changed is taken back, and the rest stays.
    """
    if listed:
        _show_history(as_json=manner.as_json, files=files)
        return
    interrupted = take_back_interrupted(manner)
    planned = None if interrupted else plan_undo(force=force)
    if planned is None:
        _end_without(interrupted, as_json=manner.as_json)
        return
    if not manner.as_json:
        _show(planned)
    change = None
    if not planned.refused:
        question = f"Take back {planned.change.command}?"
        if manner.agrees(question):
            command = f"undo {planned.change.command}"
            change = carry_out(command, planned.edits, undoes=planned.change.id)
    reloaded = reload_daemon(config_path) if change is not None else None
    if manner.as_json:
        report = {
            "changed": change is not None,
            "undone": planned.change.id,
            "command": planned.change.command,
        }
        report |= {"files": _files(planned), "refused": planned.refused, "notes": planned.notes}
        print_json(report)
    elif change is not None:
        echo("; ".join(["taken back", *([reloaded] if reloaded else [])]))
    if planned.refused:
        sys.exit(1)
    if change is None:
        manner.exit_unchanged()


def _end_without(interrupted: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps({"changed": bool(interrupted), "undone": None, "interrupted": interrupted}))
    elif not interrupted:
        echo("nothing to take back")


def _show(planned: Undo) -> None:
    change = planned.change
    echo(f"{change.command}, {_when(change)}", bold=True)
    for file in _files(planned):
        echo(f"  {short(file['file'])}: {file['becomes']}")
    for sentence in planned.notes:
        echo(f"  note: {sentence}", fg="yellow")
    for sentence in planned.refused:
        echo(f"  {sentence}", fg="red")
    if planned.refused:
        echo("nothing was changed; --force puts the copies in their place, and keeps what is there", err=True)
        if change.command.startswith("install"):
            echo("mcpx uninstall takes MCPX out and leaves the rest", err=True)


def _files(planned: Undo) -> list[dict[str, str]]:
    return [
        {
            "file": str(edit.path),
            "becomes": "removed, as it was not there" if edit.after is None else "as before",
        }
        for edit in planned.edits
    ]


def _show_history(*, as_json: bool, files: bool) -> None:
    changes = history()
    gone = undone(changes)
    if as_json:
        rows = [_row(change, is_undone=change.id in gone) for change in changes]
        print_json({"changes": rows})
        return
    for change in reversed(changes):
        state = "undone" if change.id in gone else str(change.state)
        number = len(change.files)
        count = f"{number} file{'' if number == 1 else 's'}"
        echo(f"{_when(change)}  {change.command}  ({state})  {count}", bold=files)
        for file in change.files if files else ():
            echo(f"  {short(file.path)}")
        if files:
            echo(f"  copies: {short(change.folder)}")
    if not changes:
        echo("nothing was changed yet")
    elif not files:
        echo("--files shows the files of each, and where its copies are", err=True)


def _row(change: Change, *, is_undone: bool) -> dict[str, Any]:
    return {
        "id": change.id,
        "command": change.command,
        "at": change.at,
        "state": "undone" if is_undone else str(change.state),
        "files": [file.path for file in change.files],
        "copies": str(change.folder),
        "undoes": change.undoes,
    }


def _when(change: Change) -> str:
    return f"{datetime.fromisoformat(change.at).astimezone():%Y-%m-%d %H:%M:%S}"

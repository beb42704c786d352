"""What the commands share that change files: four options, and the question before anything is changed.

A command prints what it would change, calls `may_go_on`, and if that is False exits with `exit_unchanged`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from mcpx.cli.printing import echo
from mcpx.text import escaped

_Command = TypeVar("_Command", bound=Callable[..., Any])


def changing_options(command: _Command) -> _Command:
    """Add `--config`, `--dry-run`, `--json` and `--yes`: `config_path`, `dry_run`, `as_json` and `yes`."""
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do it without asking."),
        click.option(
            "--json", "as_json", is_flag=True, help="Print JSON, for programs; implies no question."
        ),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option("--config", "config_path", type=click.Path(), help="Configuration file."),
    ):
        command = option(command)
    return command


def may_go_on(question: str, *, yes: bool, dry_run: bool, as_json: bool) -> bool:
    """Whether the change is to be made; the person is asked on a terminal, where `yes` does not say so.

    Never with `dry_run`. Without a terminal, or with `as_json`, nothing is asked and only `yes` counts. That
    nothing was changed is said on standard error.

    Raises:
        click.Abort: Interrupted at the question.
    """
    if dry_run:
        echo("nothing was changed: --dry-run", err=True)
        return False
    if yes:
        return True
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        echo("nothing was changed: say --yes", err=True)
        return False
    if click.confirm(escaped(question), err=True):
        return True
    echo("nothing was changed", err=True)
    return False


def exit_unchanged(*, dry_run: bool) -> NoReturn:
    """End a command that has changed nothing: 0 for a dry run, 1 for a change that was not agreed to."""
    sys.exit(0 if dry_run else 1)

"""Options that commands share, and the question that is asked before files are changed.

A command prints what it would change, asks by `Manner.agrees`, and if that is False exits with
`Manner.exit_unchanged`. One that plans changes of several files makes a `FilePlan`, which does all that.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import click

from mcpx.cli.known_names import complete_profile
from mcpx.cli.printing import echo, print_json
from mcpx.core.text import escaped

if TYPE_CHECKING:
    from mcpx.setup.changes import Change

with_config = click.option("--config", "config_path", type=click.Path(), help="Configuration file.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

LONGEST: Final = timedelta(days=700_000)  # from now, and before now, there are dates
_DURATION: Final = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
ARGUMENTS: Final = "mcpx.arguments"
"""Of the context's `meta`: the words that were typed behind `mcpx`."""
_ANSWERS: Final = {"y": True, "yes": True, "n": False, "no": False}


def config_of(argument: str | None, config_path: str | None) -> str | None:
    """The configuration file that a command was given, as its argument or by --config.

    Raises:
        UsageError: Two different ones.
    """
    if argument is not None and config_path is not None and argument != config_path:
        raise click.UsageError(f"two configurations are given, {argument} and {config_path}; leave one out")
    return argument if config_path is None else config_path


def duration_of(text: str) -> timedelta | None:
    """The span of time that a text says; None where it says none, or more than `LONGEST`."""
    if (found := _DURATION.fullmatch(text)) is None:
        return None
    duration = timedelta(**{_UNITS[found[2]]: int(found[1])})
    return duration if duration <= LONGEST else None


def typed_with(option: str) -> str:
    """Return the command line that was typed, with an option behind the command.

    One that may hold secrets is cut there.
    """
    from mcpx.setup.clients.masking import masked_arguments  # where nobody can be asked

    ctx = click.get_current_context()
    arguments = ctx.meta.get(ARGUMENTS, [])
    command = ctx.command_path.split()[1:]
    if masked_arguments(arguments) != arguments or any("{" in each for each in arguments):
        return " ".join(["mcpx", *command, option, "..."])
    return shlex.join(["mcpx", *command, option, *arguments[len(command) :]])


class Manner(NamedTuple):
    """The options of a command that changes files: whether it may, and for whom it prints."""

    yes: bool
    dry_run: bool
    as_json: bool

    @property
    def on_terminal(self) -> bool:
        """True if somebody can be asked."""
        return not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()

    def agrees(self, question: str) -> bool:
        """Return True if the change is agreed to; without `yes` the person at the terminal is asked.

        Never with `dry_run`. Without a terminal, or with `as_json`, nothing is asked and only `yes` counts.
        If nothing is changed, standard error says so.

        Raises:
            click.Abort: The input has ended.
        """
        if self.dry_run:
            echo("nothing was changed: --dry-run", err=True)
            return False
        if self.yes:
            return True
        if not self.on_terminal:
            echo(f"nothing was changed; to do it: {typed_with('--yes')}", err=True)
            return False
        if asked(question):
            return True
        echo("nothing was changed", err=True)
        return False

    def exit_unchanged(self) -> NoReturn:
        """End a command that has changed nothing: 0 for a dry run, 1 for a change that was not agreed to."""
        sys.exit(0 if self.dry_run else 1)


class FilePlan(ABC):
    """The plan of a command for files, for people and for programs; `end` is how the command goes on."""

    change: Change | None = None
    daemon: str | None = None
    """What came of it there; both are known once it is carried out."""

    @abstractmethod
    def show(self) -> None:
        """Print what would be done."""

    @abstractmethod
    def carry_out(self) -> None:
        """Do it, and set `change` and `daemon`."""

    @abstractmethod
    def show_done(self, change: Change) -> None:
        """Print what was done, and what the person does next."""

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """The plan and what came of it as plain JSON."""

    def offer(self) -> None:
        """Offer more to the person at the terminal, once it is done, or nothing was to be done."""
        return

    def end(self, manner: Manner, question: str | None, *, is_failed: bool) -> NoReturn:
        """Show it, carry it out if the question is agreed to, and exit: with 1 if it failed or was declined.

        There is no question where nothing is to be done.
        """
        if not manner.as_json:
            self.show()
        if question is not None and manner.agrees(question):
            self.carry_out()
        if manner.as_json:
            print_json(self.report())
        elif self.change is not None:
            self.show_done(self.change)
        is_over = question is None or self.change is not None
        if is_over and manner.on_terminal and not (manner.yes or manner.dry_run):
            self.offer()
        if question is not None and self.change is None and not is_failed:
            manner.exit_unchanged()
        sys.exit(int(is_failed))


def changing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--config`, `--dry-run`, `--json` and `--yes`: `config_path`, and the others as `manner`."""

    @wraps(command)
    def in_manner(*arguments: Any, yes: bool, dry_run: bool, as_json: bool, **options: Any) -> Any:
        return command(*arguments, manner=Manner(yes, dry_run, as_json), **options)

    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do it without asking."),
        click.option(
            "--json", "as_json", is_flag=True, help="Print JSON, for programs; implies no question."
        ),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        with_config,
    ):
        in_manner = option(in_manner)
    return in_manner


profile_option = click.option(
    "--profile",
    metavar="NAME",
    help="As the clients of this profile see it.",
    shell_complete=complete_profile,
)
diff_option = click.option("--diff", is_flag=True, help="Show every entry, and what changes in the files.")


def asked(question: str, *, default: bool = False) -> bool:
    """Ask the person at the terminal, on standard error; return True for yes.

    `click.confirm` loses a Ctrl-C that comes while it sets up the line (CPython's `input`).

    Raises:
        click.Abort: The end of the input.
        KeyboardInterrupt: Ctrl-C.
    """
    while True:
        click.echo(f"{escaped(question)} [{'Y/n' if default else 'y/N'}]: ", nl=False, err=True)
        _wait_for_line()
        line = sys.stdin.readline()
        if not line:
            raise click.Abort
        word = line.strip().lower()
        if word in _ANSWERS or not word:
            return _ANSWERS.get(word, default)
        click.echo("answer y or n", err=True)


def _wait_for_line() -> None:
    """Block until a line has been typed; a signal ends that at once, whenever it comes."""
    from mcpx.core.system.input import readable  # for a question alone

    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        readable([sys.stdin.fileno(), woken])
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wake)

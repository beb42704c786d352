"""Changes of files: what the commands that make one share, and `mcpx undo`, which takes the last one back.

An interrupted change is taken back first, the daemon reads the configuration afterwards. `ConfigurationEdit`
owns what commands have in common that edit the configuration: the error that names the nearest server, the
question, and the report, which is lines for people or one JSON object for programs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NoReturn, TypeVar

import click

from mcpx.cli.asking import RELOAD_TIMEOUT_S
from mcpx.cli.options import FilePlan, Manner, asked, changing_options
from mcpx.cli.printing import counted, echo, print_json
from mcpx.core.config.servers import commands_in
from mcpx.core.daemon.control_client import request
from mcpx.core.store.paths import daemon_paths
from mcpx.core.text.nearest import suggestion
from mcpx.errors import ConfigError, MCPXError
from mcpx.paths import config_file, config_hint, short
from mcpx.setup.changes import (
    Change,
    Edit,
    Undo,
    carry_out,
    history,
    plan_undo,
    read_file,
    recover,
    undo_last,
    undone,
    unfinished,
)
from mcpx.setup.clients.masking import commands_shown, masked_diff
from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.configuration import entry_at, places_of
from mcpx.setup.documents.editing import read


def take_back_interrupted(manner: Manner) -> tuple[str, ...]:
    """Take back a change that was interrupted, if the person agrees, since what follows builds on it.

    A sentence for each. Without consent the command ends here; a dry run goes on with the files as they are.

    Raises:
        ChangeError: A file or the journal cannot be written.
    """
    for change in unfinished():
        echo(f"{change.command} was interrupted at {change.at}: some of its files may be changed", err=True)
        if not (manner.dry_run or manner.agrees("Take it back first?")):
            manner.exit_unchanged()
    if manner.dry_run:
        return ()
    sentences = recover()
    for sentence in sentences:
        echo(sentence, err=True)
    return sentences


def reload_daemon(config: str | os.PathLike[str] | None) -> str | None:
    """Have the daemon of a configuration read it again; what came of it, None where no daemon runs."""
    try:
        answer = request(daemon_paths(config), {"mcpx": "reload"}, within=RELOAD_TIMEOUT_S)
    except MCPXError as error:
        return f"the daemon does not use it yet: {error}"
    return None if answer is None else "the daemon uses it now"


def by_sentence(said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """`NAMES: SENTENCE` for pairs of a sentence and a name: the same of several names in one."""
    names: dict[str, list[str]] = {}
    for sentence, name in said:
        names.setdefault(sentence, []).append(name)
    yield from (f"{', '.join(of)}: {sentence}" for sentence, of in names.items())


_T = TypeVar("_T")


class ConfigurationEdit:
    """The configuration in force, and what is said of its change. A file that is not there has no servers.

    Raises:
        ConfigError: The file is not understood.
        ChangeError: It cannot be read, or an interrupted change cannot be taken back.
    """

    def __init__(self, config_path: str | None, manner: Manner) -> None:
        take_back_interrupted(manner)
        self.manner = manner
        self.path = config_file(config_path).absolute()
        self.before = read_file(self.path)
        self.document = self.edited(partial(read, self.before or b"", "json"))
        self.report: dict[str, Any] = {"changed": False, "file": str(self.path)}

    def edited(self, edit: Callable[[], _T]) -> _T:
        """Edit the file, and return the result of the edit.

        Raises:
            ConfigError: The file is not understood, at its line and column.
        """
        try:
            return edit()
        except DocumentError as error:
            where = f"{self.path}:{error.line}:{error.column}"
            raise ConfigError(where, f"{error.problem}; nothing was changed") from None

    def names(self) -> list[str]:
        """The servers of the file."""
        return list(dict.fromkeys(name for name, _ in places_of(self.document)))

    def entry(self, name: str) -> dict[str, Any]:
        """The entry of a server as it stands in the file; empty where there is none."""
        paths = (path for each, path in reversed(places_of(self.document)) if each == name)
        return entry_at(self.document, next(paths, ("",)))

    def own_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names with that of its server in the place of each alias."""
        owners: dict[str, str] = {}
        for name, path in places_of(self.document):
            aliases = entry_at(self.document, path).get("aliases")
            owners |= dict.fromkeys(map(str, aliases), name) if isinstance(aliases, list) else {}
        known = self.names()
        return tuple(dict.fromkeys(name if name in known else owners.get(name, name) for name in names))

    def require(self, names: Iterable[str]) -> None:
        """Check that there are servers of these names.

        Raises:
            MCPXError: There is none of one name; with the nearest.
        """
        known = self.names()
        for name in names:
            if name in known:
                continue
            quoted, option = json.dumps(name, ensure_ascii=False), config_hint(self.path)
            hint = suggestion(name, known) if known else f"there are none yet: mcpx setup{option}"
            raise MCPXError(f"no server {quoted} in {short(self.path)}; {hint}")

    def show_commands(self, name: str, entry: object) -> bool:
        """Print each command that MCPX would run for the entry of a server; whether there are any."""
        shown = commands_shown(entry)
        for line in shown:
            self.say(f"{name} {line}", fg="yellow")
        if shown:
            self.report.setdefault("commands", {})[name] = commands_in(entry)
        return bool(shown)

    def change(
        self,
        command: str,
        after: bytes,
        question: str,
        *,
        is_asked: bool = False,
        runs_commands: bool = False,
    ) -> bool:
        """Write the file and have a daemon that runs take it in, if that is agreed to; return True if it was.

        With `is_asked` the person at a terminal is asked. With `runs_commands` nothing is done without a yes:
        an entry that was pasted may hold a command that nobody has read.

        Raises:
            ChangeError: The file was changed meanwhile, or cannot be written.
        """
        if self.manner.dry_run:
            self.report["diff"] = masked_diff(self.before, after, str(self.path))
            self.say(self.report["diff"])
        # what was typed is meant, in a pipe as at a terminal
        yes = self.manner.yes or not (runs_commands or (is_asked and self.manner.on_terminal))
        if not self.manner._replace(yes=yes).agrees(question):
            return False
        change = carry_out(command, [Edit(self.path, self.before, after, syntax="json")])
        self.report |= {"changed": True, "change": change.id, "daemon": reload_daemon(self.path)}
        return True

    def offer_to_take_back(self, question: str) -> None:
        """Take the change back, if there is somebody to ask who does not want to keep it.

        Raises:
            FileChanged: The file was changed meanwhile.
            ChangeError: It cannot be written.
        """
        if self.manner.yes or not self.manner.on_terminal or asked(question, default=True):
            return
        undo_last()
        self.say("taken out again")
        reload_daemon(self.path)

    def say(self, text: str, **style: Any) -> None:
        """Print a line for people."""
        if not self.manner.as_json:
            echo(text, **style)

    def note(self, text: str) -> None:
        """Print a remark, and keep it for programs."""
        self.report.setdefault("notes", []).append(text)
        self.say(f"  note: {text}", fg="yellow")

    def show_daemon(self) -> None:
        """Print for people what the daemon made of the change, if one runs."""
        if daemon := self.report.get("daemon"):
            self.say(daemon)

    def end(self, *, is_changed: bool = True, is_good: bool = True) -> NoReturn:
        """Print for programs what was done, and exit: with 1 if it was declined, or has no good result."""
        if self.manner.as_json:
            print_json(self.report)
        if not is_changed:
            self.manner.exit_unchanged()
        sys.exit(int(not is_good))


# --- mcpx undo


@click.command(short_help="Take back the last change of files.")
@click.option("--list", "listed", is_flag=True, help="Show every change, a line each.")
@click.option("--files", is_flag=True, help="With --list: the files of each change, and its copies.")
@click.option("--force", is_flag=True, help="Also where a file was changed since; what it holds is kept.")
@changing_options
def undo(*, listed: bool, files: bool, force: bool, config_path: str | None, manner: Manner) -> None:
    """Take back what the last setup, import, install, uninstall, add, remove, enable, disable or approve
    --project has changed.

    Each file is restored byte for byte. Run it again to undo the change before that. If a file was changed
    since, only the command's own changes are undone.
    """
    if listed:
        _show_history(as_json=manner.as_json, files=files)
        return
    interrupted = take_back_interrupted(manner)
    planned = None if interrupted else plan_undo(force=force)
    if planned is None:
        if manner.as_json:
            echo(json.dumps({"changed": bool(interrupted), "undone": None, "interrupted": interrupted}))
        elif not interrupted:
            echo("nothing to take back")
        return
    question = None if planned.refused else f"Take back {planned.change.command}?"
    _Undoing(planned, config_path).end(manner, question, is_failed=bool(planned.refused))


@dataclass
class _Undoing(FilePlan):
    """Taking a change back."""

    undo: Undo
    config_path: str | None

    def _files(self) -> list[dict[str, str]]:
        texts = {True: "removed, as it was not there", False: "as before"}
        return [{"file": str(edit.path), "becomes": texts[edit.after is None]} for edit in self.undo.edits]

    def show(self) -> None:
        last = self.undo.change
        echo(f"{last.command}, {_when(last)}", bold=True)
        for file in self._files():
            echo(f"  {short(file['file'])}: {file['becomes']}")
        for sentence in self.undo.notes:
            echo(f"  note: {sentence}", fg="yellow")
        for sentence in self.undo.refused:
            echo(f"  {sentence}", fg="red")
        if self.undo.refused:
            text = "nothing was changed; --force puts the copies in their place, and keeps what is there"
            echo(text, err=True)
            if last.command.split()[0] in {"install", "setup"}:
                echo("mcpx uninstall takes MCPX out and leaves the rest", err=True)

    def carry_out(self) -> None:
        last = self.undo.change
        self.change = carry_out(f"undo {last.command}", self.undo.edits, undoes=last.id)
        self.daemon = reload_daemon(self.config_path)

    def show_done(self, _change: Change) -> None:
        echo("; ".join(["taken back", *([self.daemon] if self.daemon else [])]))

    def report(self) -> dict[str, Any]:
        return {
            "changed": self.change is not None,
            "undone": self.undo.change.id,
            "command": self.undo.change.command,
            "files": self._files(),
            "refused": self.undo.refused,
            "notes": self.undo.notes,
        }


def _show_history(*, as_json: bool, files: bool) -> None:
    changes = history()
    gone = undone(changes)
    states = {each.id: "undone" if each.id in gone else str(each.state) for each in changes}
    if as_json:
        rows = [
            {
                "id": change.id,
                "command": change.command,
                "at": change.at,
                "state": states[change.id],
                "files": [file.path for file in change.files],
                "copies": str(change.folder),
                "undoes": change.undoes,
            }
            for change in changes
        ]
        print_json({"changes": rows})
        return
    for change in reversed(changes):
        number = counted(len(change.files), "file")
        echo(f"{_when(change)}  {change.command}  ({states[change.id]})  {number}", bold=files)
        for file in change.files if files else ():
            echo(f"  {short(file.path)}")
        if files:
            echo(f"  copies: {short(change.folder)}")
    if not changes:
        echo("nothing was changed yet")
    elif not files:
        echo("--files shows the files of each, and where its copies are", err=True)


def _when(change: Change) -> str:
    return f"{datetime.fromisoformat(change.at).astimezone():%Y-%m-%d %H:%M:%S}"

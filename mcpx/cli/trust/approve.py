"""`mcpx approve`: see what has changed since it was approved, and agree to it.

`waiting_in`, `lines_of` and `offer` are for the commands that take servers of clients over. They ask about
the files of the folders in which clients have worked, and of the present one. Such a file is somebody else's
words, so that is never a part of another question, nor of `--yes`.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import click
from msgspec.structs import replace

from mcpx.cli.asking import Control
from mcpx.cli.known_names import complete_server, complete_tool
from mcpx.cli.options import asked, json_option, typed_with, with_config
from mcpx.cli.printing import Line, counted, echo, print_json
from mcpx.core.catalog.model import JSON
from mcpx.core.config.load import commands_of_servers, read_config
from mcpx.core.config.project_entries import ProjectServers
from mcpx.core.policy.agreements import STORE, Agreements, server_lines, shown
from mcpx.core.text import one_line, shown_name, shown_server
from mcpx.errors import MCPXError
from mcpx.paths import short, state_folder
from mcpx.setup.changes import Edit, carry_out, read_file
from mcpx.setup.clients import ClientServers, in_folders

SAYS = {
    "changed": "has changed",
    "new": "is new",
    "server": "says something else of itself",
    "always": "is to run without asking",
}


@click.command(short_help="Agree to tools that changed.")
@click.argument("server", required=False, shell_complete=complete_server)
@click.argument("tool", required=False, shell_complete=complete_tool)
@click.option("--all", "of_all", is_flag=True, help="Approve what waits of all servers.")
@click.option("--project", metavar="FOLDER", help="Servers that the files of this project name; . is here.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@with_config
@json_option
def approve(
    *,
    server: str | None,
    tool: str | None,
    of_all: bool,
    project: str | None,
    yes: bool,
    config_path: str | None,
    as_json: bool,
) -> None:
    """Show what has changed since it was approved; with a SERVER or a TOOL of it, approve that.

    A TOOL that is asked about before it runs is not asked about again, until it changes.

    With --project, show which servers .mcp.json, .vscode/mcp.json and .cursor/mcp.json of a folder would
    start, and agree to that. They are then offered to clients in that folder, until a file says something
    else.
    """
    if project is not None:
        if of_all or server is not None:
            raise click.UsageError("--project is for the servers of one folder: name no server")
        _approve_project(os.path.realpath(project), Control(config_path), yes=yes, as_json=as_json)
        return
    if of_all and server is not None:
        raise click.UsageError("--all is for all servers: name none")
    control = Control(config_path)
    request: JSON = {"mcpx": "approve", "server": server, "tool": tool}
    waiting = control.ask(request)["waiting"]
    names_something = of_all or server is not None
    if not as_json or not names_something:
        _show(waiting, config_path, as_json=as_json, hint=not names_something)
    if not names_something or not (waiting or of_all):
        if as_json and names_something:
            print_json({"approved": []})
        return
    # the words of the command are the consent; at a terminal the differences come first
    if waiting and not (yes or as_json) and sys.stdin.isatty() and not asked("Approve this?"):
        echo("nothing was approved", err=True)
        sys.exit(1)
    agreed = [
        {"server": each["server"], "kind": its["kind"], "tool": its.get("tool"), "digest": its.get("digest")}
        for each in waiting
        for its in each["changes"]
    ]
    done = control.ask({**request, "agreed": agreed, "of_all": of_all})
    if as_json:
        print_json(done)
    else:
        for each in waiting:
            echo(f"approved {shown_server(each['server'])}: {_named(each['changes'])}")


def _approve_project(folder: str, control: Control, *, yes: bool, as_json: bool) -> None:
    """Show what the files of a folder would start, and agree to it."""
    if not os.path.isdir(folder):
        raise click.UsageError(f"no such folder: {folder}")
    found = control.ask({"mcpx": "approve", "project": folder})
    if not as_json:
        _show_project(found)
    is_new = bool(found["servers"]) and not found["approved"]
    if is_new and not yes:
        if as_json or not sys.stdin.isatty():
            echo(f"nothing was approved; to do it: {typed_with('--yes')}", err=True)
            sys.exit(1)
        if not asked("Let clients in this folder start this?"):
            echo("nothing was approved", err=True)
            sys.exit(1)
    if is_new:
        agreement = {"mcpx": "approve", "project": folder, "digest": found["digest"]}
        _agree(folder, lambda: found.update(control.ask(agreement)))
    if as_json:
        print_json(found)
    elif found["servers"]:
        echo("approved" if is_new else "approved already")


def _agree(folder: str, keep: Callable[[], None]) -> None:
    """Keep an agreement to the files of a folder as a change that `mcpx undo` takes back."""
    file = state_folder() / STORE
    carry_out(
        f"approve --project {short(folder)}", [Edit(file, read_file(file), b"{}", "json", perform=keep)]
    )


def _show_project(found: JSON) -> None:
    echo(one_line(found["project"]), bold=True)
    for each in found["servers"]:
        echo(f"  {each['name']} ({each['file']}){'  approved' if each['approved'] else ''}")
        for line in server_lines(each):
            echo(f"    {line}", fg=None if each["approved"] else "yellow")
    for problem in found["problems"]:
        echo(f"  left out: {problem}", fg="yellow")
    if not found["servers"]:
        echo("  no file of it names a server")


def _named(changes: list[JSON]) -> str:
    names = dict.fromkeys(shown_name(its["tool"]) if its.get("tool") else its["kind"] for its in changes)
    return ", ".join(names)


def _show(waiting: list[JSON], config_path: str | None, *, as_json: bool, hint: bool) -> None:
    if as_json:
        print_json({"waiting": waiting})
        return
    if not waiting:
        echo("nothing waits for approval", err=True)
    commands = commands_of_servers(read_config(config_path))
    for each in waiting:
        echo(f"{shown_server(each['server'])}  {one_line(each['started_by'])}", bold=True)
        for command in commands.get(each["server"], ()):
            echo(f"  runs: /bin/sh -c {shlex.quote(command)}", fg="yellow")
        for its in each["changes"]:
            for line in _lines(its):
                echo(f"  {line}")
        if hint:
            echo(f"approve that with: mcpx approve {shlex.quote(each['server'])}", err=True)


def _lines(its: JSON) -> list[str]:
    """One change: what it is of, and its differences."""
    if its["kind"] == "pins":
        return [one_line(line) for line in its["difference"]]
    what = shown_name(its["tool"]) if its.get("tool") else "the server"
    blocked = "; not in force until it is approved" if its["blocked"] else ""
    return [f"{what} {SAYS[its['kind']]}{blocked}", *(f"  {one_line(line)}" for line in its["difference"])]


# --- along with an import


def waiting_in(found: Iterable[ClientServers]) -> list[ProjectServers]:
    """The servers of which nobody has said yes or no, by folder."""
    agreements = Agreements(state_folder())
    waiting = []
    for each in in_folders([folder for file in found for folder in file.folders], os.getcwd()):
        said = {name: agreements.said(each.project, entry) for name, entry in each.entries.items()}
        entries = {name: entry for name, entry in each.entries.items() if said[name] is None}
        waiting += [replace(each, entries=entries)] if entries else []
    return waiting


def lines_of(waiting: Iterable[ProjectServers]) -> Iterator[Line]:
    """The command line of each server, and the command that agrees to it."""
    for each in waiting:
        what = counted(len(each.entries), "server")
        yield f"{short(each.project)}: its files name {what}, for clients there alone", None
        for server in shown(each):
            yield f"  {server['name']} ({server['file']})", None
            yield from ((f"    {line}", "yellow") for line in server_lines(server))
        yield f"  to have MCPX offer that there: mcpx approve --project {shlex.quote(each.project)}", None


def offer(waiting: Sequence[ProjectServers]) -> None:
    """Ask about each folder, and keep what is agreed to.

    Raises:
        MCPXError: It cannot be kept.
    """
    for each in waiting:
        if not asked(f"Let clients in {short(each.project)} start {', '.join(each.entries)}?"):
            continue
        try:
            _agree(each.project, partial(Agreements(state_folder()).keep, each, "yes"))
        except OSError as error:
            raise MCPXError(f"what you said cannot be kept: {error}") from None
        echo(f"MCPX offers that to clients in {short(each.project)}, until a file says something else")

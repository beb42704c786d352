"""`mcpx install` and `mcpx uninstall`: MCPX in the files of the clients, and out of them again.

They print which file becomes what: never values that others have set.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from mcpx.cli.known_names import complete_client
from mcpx.cli.options import Manner, changing_options, diff_option
from mcpx.cli.printing import Line, echo, echo_plan, print_json
from mcpx.cli.setup.changing import reload_daemon, short, take_back_interrupted
from mcpx.errors import MCPXError
from mcpx.paths import config_hint
from mcpx.setup.changes import Edit, carry_out, history, real_path
from mcpx.setup.clients import CLIENTS, client_named, find, find_all
from mcpx.setup.clients.install_plan import plan_installs
from mcpx.setup.clients.installing import plan_uninstall
from mcpx.setup.clients.masking import command_line, commands_shown

if TYPE_CHECKING:
    from mcpx.setup.changes import Change
    from mcpx.setup.clients import ClientFile
    from mcpx.setup.clients.install_plan import InstallPlan
    from mcpx.setup.clients.installing import Installation, Removal


_SHOWN: Final = ("command", "cmd", "args", "type", "source", "enabled")
_ENVIRONMENTS: Final = ("env", "envs", "environment")


def show_plan(plan: InstallPlan, *, diff: bool = False) -> None:
    """Print what would become of each file: entry by entry, or in a line each where that is too long."""
    echo_plan([*_whole(plan)], lambda: [*_short(plan), ("  --diff shows every entry", None)], diff=diff)


def _whole(plan: InstallPlan) -> Iterator[Line]:
    """Every entry that is written, and every one that moves."""
    for each in plan.installations:
        client, path = each.file.client, each.file.path
        yield f"{client.title}  {short(path)}{'' if each.before is not None else ' (new)'}", None
        if each.outcome == "refused":
            yield f"  refused, and not changed: {each.problem}", "red"
            continue
        if line := plan.commands.get(str(path)):
            yield f"  runs: {shlex.join(line)}", None
        yield from _entries(plan, each)
        for name, ours in each.adopted.items():
            where = f", as {ours}" if ours != name else ""
            yield f"  - {'.'.join(each.key)}.{name}: moves to {short(plan.config)}{where}", "red"
            yield from ((f"      {note}", "yellow") for note in plan.losses(each.file, name))
        yield from _remarks(plan, each)
    if plan.adoption is not None and plan.new_servers:
        yield f"MCPX  {short(plan.config)}", None
        for server in plan.adoption.new:
            yield f"  + {server.name}: {command_line(server.entry)}", "green"
            yield from ((f"      {note}", "yellow") for note in commands_shown(server.entry))


def _short(plan: InstallPlan) -> Iterator[Line]:
    """A line for each file, and what is said of it."""
    for each in plan.installations:
        title, path = each.file.client.title, short(each.file.path)
        if each.outcome == "refused":
            yield f"{title}  {path}: refused, and not changed: {each.problem}", "red"
            continue
        words = {"added": "+ mcpx", "updated": "mcpx is brought up to date", "present": "MCPX is there"}
        moves = [name if name == ours else f"{name} as {ours}" for name, ours in each.adopted.items()]
        what = words[each.outcome] if each.replaced or each.outcome != "updated" else words["present"]
        moved = f"; to MCPX: {', '.join(moves)}" if moves else ""
        yield f"{title}  {path}: {what}{moved}", "green" if each.outcome != "present" else None
        yield from _remarks(plan, each)
    lost: dict[str, list[str]] = {}
    for each in plan.installations:
        for name in each.adopted:
            for note in plan.losses(each.file, name):
                lost.setdefault(note, []).append(f"{name} of {each.file.client.title}")
    for note, names in lost.items():
        yield f"  {', '.join(names)}: {note}", "yellow"
    if plan.adoption is not None and plan.new_servers:
        yield f"MCPX  {short(plan.config)}: + {', '.join(plan.new_servers)}", "green"
        for server in plan.adoption.new:
            yield from ((f"  {server.name} {note}", "yellow") for note in commands_shown(server.entry))


def _remarks(plan: InstallPlan, each: Installation) -> Iterator[Line]:
    for name, why in plan.staying.get(str(each.file.path), {}).items():
        yield f"  {name} stays: {why}", "yellow"
    for note in each.notes:
        yield f"  note: {note}", "yellow"


def show_done(plan: InstallPlan, change: Change, reloaded: str | None) -> None:
    """Print what was done, and what the person does next."""
    for sentence in (*plan.fallbacks, *((reloaded,) if reloaded else ())):
        echo(sentence)
    titles = [each.file.client.title for each in plan.installations if each.outcome in {"added", "updated"}]
    echo(f"done; copies are in {short(change.folder)}, and mcpx undo takes it back")
    echo(f"next: restart {', '.join(dict.fromkeys(titles))}")
    if not plan.config.exists():
        option = config_hint(plan.config)
        commands = f"mcpx import{option}, or mcpx add{option}"
        echo(f"there is no configuration yet ({short(plan.config)}): {commands}")


def plan_as_json(plan: InstallPlan, change: Change | None, *, reloaded: str | None) -> dict[str, Any]:
    """The same for programs."""
    report: dict[str, Any] = {
        "changed": change is not None,
        "change": change.id if change else None,
        "backup": str(change.folder) if change else None,
        "config": str(plan.config),
        "servers_added": list(plan.new_servers),
        "clients": [_client(plan, each, is_done=change is not None) for each in plan.installations],
        "notes": plan.fallbacks,
    }
    return report | ({"daemon": reloaded} if reloaded else {})


def show_removals(removals: Iterable[Removal]) -> None:
    """Print what would become of each file when MCPX is taken out."""
    for each in removals:
        echo(f"{each.file.client.title}  {short(each.file.path)}", bold=True)
        texts = {
            "absent": "MCPX is not in it",
            "refused": f"refused, and not changed: {each.problem}",
            "edited": "was changed since; what MCPX put in is taken out, the rest stays",
            "restored": "becomes what it was, byte for byte" if each.after is not None else "is removed",
        }
        echo(f"  {texts[each.outcome]}", fg="red" if each.outcome == "refused" else None)
        for name in each.names:
            echo(f"  - {'.'.join(each.file.client.key)}.{name}", fg="red")
        for note in each.notes:
            echo(f"  note: {note}", fg="yellow")


def removals_json(removals: Iterable[Removal], change: Change | None) -> dict[str, Any]:
    """The same for programs."""
    clients = [_removal(each) for each in removals]
    return {"changed": change is not None, "change": change.id if change else None, "clients": clients}


def _removal(each: Removal) -> dict[str, Any]:
    report: dict[str, Any] = {
        "client": each.file.client.name,
        "file": str(each.file.path),
        "outcome": each.outcome,
        "names": each.names,
        "notes": each.notes,
    }
    return report | ({"problem": each.problem} if each.problem else {})


def _entries(plan: InstallPlan, each: Installation) -> Iterator[Line]:
    where = ".".join(each.key)
    for name, entry in each.entries.items():
        if name in each.replaced:
            yield f"  - {where}.{name}: {_text(plan, each.replaced[name])}", "red"
        if name in each.replaced or each.outcome == "added":
            yield f"  + {where}.{name}: {_text(plan, entry)}", "green"
        else:
            yield f"  MCPX is there, as {name}", None


def _client(plan: InstallPlan, each: Installation, *, is_done: bool) -> dict[str, Any]:
    path = str(each.file.path)
    report: dict[str, Any] = {
        "client": each.file.client.name,
        "title": each.file.client.title,
        "file": path,
        "key": list(each.key),
        "outcome": each.outcome,
        "changed": is_done and each.outcome in {"added", "updated"},
        "entries": {name: _shown(plan, entry) for name, entry in each.entries.items()},
        "adopted": each.adopted,
        "losses": {name: losses for name in each.adopted if (losses := plan.losses(each.file, name))},
        "stays": plan.staying.get(path, {}),
        "notes": each.notes,
    }
    if line := plan.commands.get(path):
        report["runs"] = line
    return report | ({"problem": each.problem} if each.problem else {})


def _text(plan: InstallPlan, entry: Mapping[str, Any]) -> str:
    return json.dumps(_shown(plan, entry), ensure_ascii=False)


def _shown(plan: InstallPlan, entry: Mapping[str, Any]) -> dict[str, Any]:
    """MCPX's own entry, without the values of variables that others have set there."""
    shown = {key: entry[key] for key in _SHOWN if key in entry}
    for key in _ENVIRONMENTS:
        if isinstance(found := entry.get(key), Mapping) and found:
            env = plan.launch.env
            shown[key] = {name: value if env.get(name) == value else "***" for name, value in found.items()}
    return shown


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
    manner: Manner,
) -> None:
    """Put MCPX into each CLIENT (claude-desktop, claude-code, cursor, vscode ...), or into all that are here.

    A client's own command does it where it has one; else its file is edited, and everything else in it stays.
    Copies of the files are kept: mcpx uninstall takes MCPX out again, mcpx undo takes back the last change.
    """
    take_back_interrupted(manner)
    plan = plan_installs(_installed(clients), config_path, adopt=adopt)
    if not manner.as_json:
        show_plan(plan, diff=diff)
    change, reloaded, edits = None, None, plan.edits()
    if edits and manner.agrees(f"Put MCPX into {', '.join(plan.changed)}?"):
        command = ["install", *(["--adopt"] if adopt else []), *plan.changed]
        change = _carry_out(command, edits, plan.changed)
        reloaded = reload_daemon(plan.config) if plan.new_servers else None
    if manner.as_json:
        print_json(plan_as_json(plan, change, reloaded=reloaded))
    elif change is not None:
        show_done(plan, change, reloaded)
    elif not edits and not plan.is_refused:
        echo("nothing to do")
    _end(manner, is_refused=plan.is_refused, is_open=bool(edits) and change is None)


@click.command(short_help="Take MCPX out of your AI clients.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=complete_client)
@changing_options
def uninstall(
    *,
    clients: tuple[str, ...],
    config_path: str | None,  # noqa: ARG001 - taken, as by all commands that change files
    manner: Manner,
) -> None:
    """Take MCPX out of each CLIENT, or of all that have it.

    A file that is as MCPX left it becomes what it was, byte for byte, with the servers that were adopted from
    it. Out of any other, what MCPX put in is taken, and the rest stays. MCPX's configuration is not touched.
    """
    take_back_interrupted(manner)
    removals = _removals(clients)
    taken_out = [each for each in removals if each.outcome in {"restored", "edited"}]
    if not manner.as_json:
        show_removals(removals)
    names = tuple(dict.fromkeys(each.file.client.name for each in taken_out))
    change = None
    question = f"Take MCPX out of {', '.join(names)}?"
    if names and manner.agrees(question):
        change = _carry_out(["uninstall", *names], [_edit(each) for each in taken_out], names)
    if manner.as_json:
        print_json(removals_json(removals, change))
    elif change is not None:
        titles = ", ".join(dict.fromkeys(each.file.client.title for each in taken_out))
        echo("done; mcpx undo takes it back. MCPX's own configuration keeps its servers")
        copies = shlex.quote(str(change.folder.parent))
        echo(f"copies of the files, secrets in them too, stay for mcpx undo; to remove them: rm -r {copies}")
        echo(f"next: restart {titles}")
    elif not taken_out:
        echo("nothing to do" if clients else "nothing to do: MCPX is in no client")
    is_refused = any(each.outcome == "refused" for each in removals)
    _end(manner, is_refused=is_refused, is_open=bool(names) and change is None)


def _installed(names: Sequence[str]) -> list[ClientFile]:
    """The files of the clients that were named, or of those that are there."""
    rows = [client_named(name) for name in dict.fromkeys(names)] or CLIENTS
    found = [file for row in rows for file in find_all(row) or [find(row)] if names or file.installed]
    if not found:
        raise MCPXError(f"no client is installed here; name one: {', '.join(row.name for row in CLIENTS)}")
    return found


def _removals(names: Sequence[str]) -> list[Removal]:
    """Plan taking MCPX out of each file."""
    changes = history()
    rows = [client_named(name) for name in dict.fromkeys(names)] or CLIENTS
    files: dict[Path, ClientFile] = {}
    for row in rows:
        for file in find_all(row) or ([find(row)] if names else []):
            files.setdefault(real_path(file.path), file)
    planned = [plan_uninstall(file, changes) for file in files.values()]
    return [each for each in planned if names or each.outcome != "absent"]


def _edit(removal: Removal) -> Edit:
    file = removal.file
    return Edit(file.path, removal.before, removal.after, file.client.syntax, remove_folders=removal.folders)


def _carry_out(command: list[str], edits: list[Edit], names: Sequence[str]) -> Change:
    return carry_out(" ".join(command), edits, about={"clients": [*names]})


def _end(manner: Manner, *, is_refused: bool, is_open: bool) -> NoReturn:
    """End with 1 where a file was refused, or a change was not agreed to."""
    if is_refused:
        sys.exit(1)
    if is_open:
        manner.exit_unchanged()
    sys.exit(0)

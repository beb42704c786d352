"""`mcpx import`: the servers of the clients' files in MCPX's configuration, in a step that can be undone.

It prints what it found and where, what it would write, and what is left to do: never values of `env` and of
headers, passwords, or queries of URLs.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mcpx.cli.known_names import complete_client
from mcpx.cli.options import Manner, changing_options, diff_option
from mcpx.cli.printing import Line, counted, echo, echo_plan, print_json, width
from mcpx.cli.setup.changing import reload_daemon, short, take_back_interrupted
from mcpx.core.text import cut
from mcpx.errors import ConfigError
from mcpx.paths import config_file, config_hint
from mcpx.setup.changes import Edit, carry_out, read_file
from mcpx.setup.clients import (
    CLIENTS,
    ClientServers,
    ImportPlan,
    Planned,
    Server,
    candidates,
    client_named,
    find_all,
    masking,
    plan_import,
    read_client_file,
    this_system,
)
from mcpx.setup.documents import DocumentError


def show_plan(
    found: Sequence[ClientServers],
    missing: Mapping[str, Sequence[str]],
    plan: ImportPlan,
    path: Path,
    *,
    diff: bool = False,
) -> None:
    """Print what was found and would be written, client by client; server by server where that is too long.

    With `diff` it is client by client in any case, and how the configuration would change.
    """
    by_origin = {(origin.path, origin.name): server for server in plan.servers for origin in server.origins}
    lines = [line for each in found for line in _of_client(each, by_origin)]
    lines += [(_missing(name, places), "yellow") for name, places in missing.items()]
    echo_plan(lines, lambda: _by_server(found, missing, plan), diff=diff)
    if diff and plan.changes:
        echo("")
        echo(masking.masked_diff(plan.before, plan.after, short(path)))
        echo("")
    elif plan.servers and not plan.changes:
        echo(f"nothing to do: {short(path)} has all of them")
    elif not plan.changes and not any(each.problem for each in found):
        echo("nothing to do: no server that MCPX could take over")


def show_empty(path: Path, missing: Mapping[str, Sequence[str]], *, named: bool) -> None:
    """Print that no file was found, where it was looked for clients that were named, and what to do."""
    for name, places in missing.items() if named else ():
        echo(_missing(name, places), fg="yellow")
    add = f"mcpx add{config_hint(path)} NAME -- COMMAND"
    looked = "" if named else f", of {len(missing)} clients that MCPX knows"
    echo(f"no file of a client was found{looked}; to add a server by hand: {add}")


def _missing(name: str, places: Iterable[str]) -> str:
    return f"{name}: no such file: {', '.join(map(short, places))}"


def show_done(plan: ImportPlan, path: Path, reloaded: str | None) -> None:
    """Print what was done, and what the person has to do before every server works."""
    if reloaded:
        echo(reloaded)
    for server in plan.new:
        for need in server.needs:
            echo(f"to do for {server.name}: {need}", fg="yellow")
        if server.needs and server.entry.get("disabled"):
            echo(f"  then: mcpx enable {shlex.quote(server.name)}{config_hint(path)}", fg="yellow")
    if others_read(path):
        echo(_readable(path, short(path)), fg="yellow")
    echo(f"next: mcpx install{config_hint(path)} puts MCPX into your clients")
    echo(f"wrote {_counts(plan)} to {short(path)}; {_new_names(plan)}mcpx undo takes it back")


def _counts(plan: ImportPlan) -> str:
    """`12 servers from 17 entries`."""
    entries = sum(len(server.origins) for server in plan.new)
    wrote = counted(len(plan.new), "server")
    return wrote if entries == len(plan.new) else f"{wrote} from {entries} entries"


def _new_names(plan: ImportPlan) -> str:
    """`beta, gamma are now alpha; `."""
    said = ""
    for server in plan.servers:
        if names := server.aliases:
            said += f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} now {server.name}; "
    return said


def plan_as_json(
    found: Iterable[ClientServers],
    missing: Mapping[str, Sequence[str]],
    plan: ImportPlan,
    path: Path,
    *,
    changed: bool,
    reloaded: str | None,
) -> dict[str, Any]:
    """The same as plain JSON."""
    by_origin = {(origin.path, origin.name): server for server in plan.servers for origin in server.origins}
    report: dict[str, Any] = {
        "file": str(path),
        "changed": changed,
        "clients": [_client(each, by_origin) for each in found],
        "missing": missing,
        "servers": [
            {
                "name": server.name,
                "entry": masking.masked_entry(server.entry),
                "state": _state(server, changed=changed),
                "from": [
                    {"client": origin.client, "file": str(origin.path), "name": origin.name}
                    for origin in server.origins
                ],
                "aliases": server.aliases,
                "notes": server.notes,
                "needs": server.needs,
            }
            for server in plan.servers
        ],
    }
    if plan.changes:
        report["diff"] = masking.masked_diff(plan.before, plan.after, str(path))
    if reloaded:
        report["daemon"] = reloaded
    return report


def others_read(path: Path) -> bool:
    """Return True if other users can read a file."""
    try:
        return bool(path.stat().st_mode & 0o044)
    except OSError:
        return False


def _of_client(each: ClientServers, by_origin: Mapping[tuple[Path, str], Planned]) -> Iterator[Line]:
    """The lines of one file."""
    yield f"{each.file.client.title}  {short(each.file.path)}", None
    if each.problem:
        yield f"  cannot be used: {each.problem}", "red"
    for server in each.servers:
        planned = by_origin.get((each.file.path, server.name))
        yield f"  {_server_line(each, server, planned)}", None
        for note in (*masking.commands_shown(server.entry), *server.notes):
            yield f"    {note}", "yellow"
        for need in planned.needs if planned else server.needs:
            yield f"    to do: {need}", "yellow"
    for left_out in each.left_out:
        yield f"  {left_out.name}: not taken over: {left_out.reason}", "yellow"
    for name in each.own:
        yield f"  {name}: MCPX itself", None
    for note in _remarks(each):
        yield f"  {note}", "yellow"
    if not (each.problem or each.servers or each.left_out or each.own or each.notes):
        yield "  no servers", None


def _remarks(each: ClientServers) -> list[str]:
    """Remarks on a whole file."""
    holds_secrets = any(masking.holds_secrets(server.entry) for server in each.servers)
    if not (holds_secrets and others_read(each.file.path)):
        return list(each.notes)
    return [*each.notes, _readable(each.file.path, "this file")]


def _readable(path: Path, name: str) -> str:
    return f"others can read {name}, and it may hold secrets: chmod 600 {shlex.quote(str(path))}"


def _by_server(
    found: Sequence[ClientServers], missing: Mapping[str, Sequence[str]], plan: ImportPlan
) -> list[Line]:
    """A line for each server and each thing that is left out; what is lost of several in one."""
    titles = {each.file.path: each.file.client.title for each in found}
    most = width() - len("...")
    lines: list[Line] = []
    for server in plan.new:
        aliases = f" ({', '.join(server.aliases)})" if server.aliases else ""
        begin = f"+ {server.name}{aliases}: {masking.command_line(server.entry)}"
        clients = ", ".join(dict.fromkeys(titles[origin.path] for origin in server.origins))
        state = ", switched off" if server.entry.get("disabled") else ""
        lines.append((f"{begin}  [{clients}]{state}", "green"))  # whole: what runs is what is agreed to
        lines += [(f"    {note}", "yellow") for note in masking.commands_shown(server.entry)]
    present = [server.name for server in plan.servers if server.present]
    if present:
        lines.append((cut(f"  in the configuration already: {', '.join(present)}", most), None))
    lines += [(cut(f"  {text}", most), "yellow") for text in _left_over(found, plan)]
    lines += [
        (f"  {each.file.client.title} cannot be used: {each.problem}", "red")
        for each in found
        if each.problem
    ]
    lines += [(f"  {name}: no such file", "yellow") for name in missing]
    return [*lines, ("  --diff shows every entry, and the change to the file", None)]


def _left_over(found: Iterable[ClientServers], plan: ImportPlan) -> Iterator[str]:
    """Losses, things to do, and entries not taken: the same of several in one sentence."""
    said: dict[str, list[str]] = {}
    for server in plan.servers:
        for need in server.needs:
            said.setdefault(f"to do: {need}", []).append(server.name)
    for each in found:
        for server_there in each.servers:
            for note in server_there.notes:
                said.setdefault(note, []).append(f"{server_there.name} of {each.file.client.title}")
        for entry in each.left_out:
            name = f"{entry.name} of {each.file.client.title}"
            said.setdefault(f"not taken over: {entry.reason}", []).append(name)
        for remark in _remarks(each):
            said.setdefault(remark, []).append(each.file.client.title)
    for sentence, names in said.items():
        yield f"{', '.join(names)}: {sentence}"


def _server_line(each: ClientServers, server: Server, planned: Planned | None) -> str:
    names = [f"{key}: {', '.join(values)}" for key in ("env", "headers") if (values := server.entry.get(key))]
    line = f"{server.name}: {masking.command_line(server.entry)}"
    line += f" ({'; '.join(names)})" if names else ""
    line += ", disabled" if server.entry.get("disabled") else ""
    if planned is None:
        return f"{line}: MCPX itself"
    first = planned.origins[0]
    renamed = ""
    if planned.name != server.name:
        is_alias = server.name in planned.aliases
        renamed = f"becomes {planned.name}" + (
            ", and is found by either name" if is_alias else ", as the name is taken"
        )
    if planned.present:
        return f"{line}: in the configuration already" + (f", as {planned.name}" if renamed else "")
    if (first.path, first.name) != (each.file.path, server.name):
        same = f"the same as {first.name} of {first.client}"
        return f"{line}: {same}; {renamed}" if renamed else f"{line}: {same}"
    return f"{line}: {renamed}" if renamed else line


def _client(each: ClientServers, by_origin: Mapping[tuple[Path, str], Planned]) -> dict[str, Any]:
    report: dict[str, Any] = {
        "client": each.file.client.name,
        "title": each.file.client.title,
        "file": str(each.file.path),
        "servers": [
            {
                "name": server.name,
                "as": planned.name if (planned := by_origin.get((each.file.path, server.name))) else None,
                "entry": masking.masked_entry(server.entry),
                "notes": server.notes,
                "needs": server.needs,
            }
            for server in each.servers
        ],
        "left_out": [{"name": entry.name, "reason": entry.reason} for entry in each.left_out],
        "mcpx": each.own,
        "notes": each.notes,
    }
    return report | ({"problem": each.problem} if each.problem else {})


def _state(server: Planned, *, changed: bool) -> str:
    if server.present:
        return "present"
    return "added" if changed else "new"


@click.command("import", short_help="Take over the servers of your AI clients.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=complete_client)
@diff_option
@changing_options
def import_servers(
    *,
    clients: tuple[str, ...],
    config_path: str | None,
    diff: bool,
    manner: Manner,
) -> None:
    """Write the servers of your AI clients into MCPX's configuration.

    Looks into the file of each CLIENT (claude-desktop, vscode, cursor, codex and so on), or of all that there
    are. Equal servers of several clients become one, which is found by all of its names; what the
    configuration has stays as it is. The clients' files are not changed: mcpx install --adopt does that. mcpx
    undo takes it back.
    """
    take_back_interrupted(manner)
    path = config_file(config_path).absolute()
    found, missing = _look(clients)
    try:
        plan = plan_import(found, read_file(path))
    except DocumentError as error:
        raise ConfigError(f"{path}:{error.line}:{error.column}", error.problem) from None
    failed = bool(clients) and (bool(missing) or any(each.problem for each in found))
    if not manner.as_json and not found:
        show_empty(path, missing, named=bool(clients))
    elif not manner.as_json:
        show_plan(found, missing if clients else {}, plan, path, diff=diff)
    changed, reloaded = False, None
    if plan.changes:
        what = counted(len(plan.new), "server") if plan.new else "other names of servers"
        question = f"Write {what} to {path}?"
        if manner.agrees(question):
            _write(path, plan)
            changed, reloaded = True, reload_daemon(path)
    if manner.as_json:
        print_json(plan_as_json(found, missing, plan, path, changed=changed, reloaded=reloaded))
    elif changed:
        show_done(plan, path, reloaded)
    if plan.changes and not changed and not failed:
        manner.exit_unchanged()
    sys.exit(int(failed))


def _look(clients: tuple[str, ...]) -> tuple[list[ClientServers], dict[str, list[str]]]:
    """Read the clients' files; return them, and the places where a client has none."""
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
    about: dict[str, Any] = {
        "servers": [server.name for server in plan.new],
        "clients": sorted({origin.client for server in plan.new for origin in server.origins}),
    }
    carry_out("import", [Edit(path, plan.before, plan.after, syntax="json")], about=about)

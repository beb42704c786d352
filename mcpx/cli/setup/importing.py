"""`mcpx import`: the servers of the clients' files in MCPX's configuration, in a step that can be undone.

It prints what it found and where, what it would write, and what is left to do: never values of `env` and of
headers, passwords, or queries of URLs.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from mcpx.cli.known_names import complete_client
from mcpx.cli.options import FilePlan, Manner, asked, changing_options, diff_option
from mcpx.cli.printing import Line, counted, echo, echo_plan, width
from mcpx.cli.setup.changing import by_sentence, reload_daemon, take_back_interrupted
from mcpx.cli.trust.approve import lines_of, offer, waiting_in
from mcpx.core.config.project_entries import ProjectServers
from mcpx.core.policy.agreements import shown
from mcpx.core.text import cut
from mcpx.paths import config_file, config_hint, short
from mcpx.setup.changes import Change, Edit, carry_out
from mcpx.setup.clients import (
    ClientServers,
    ImportPlan,
    Planned,
    Server,
    candidates,
    clients_named,
    find_all,
    masking,
    read_client_file,
    this_system,
)
from mcpx.setup.clients.install_plan import plan_import_into

DOWNLOADS: Final = frozenset({"npx", "uvx", "uv", "bunx", "pnpm", "pipx", "deno", "docker", "podman"})
"""Commands that fetch a server at its first start."""


@dataclass
class _Importing(FilePlan):
    """The servers of the clients' files, `found`, taken over into the configuration at `path`.

    `missing` has the places that were looked at of each client without a file.
    """

    found: Sequence[ClientServers]
    missing: Mapping[str, Sequence[str]]
    plan: ImportPlan
    path: Path
    is_named: bool
    diff: bool
    folders: Sequence[ProjectServers]

    def __post_init__(self) -> None:
        servers = self.plan.servers
        self.by_origin = {(origin.path, origin.name): each for each in servers for origin in each.origins}

    def show(self) -> None:
        """Print what was found and would be written, client by client; by server where that is too long.

        With `diff` it is client by client in any case, and how the configuration would change.
        """
        plan, path = self.plan, self.path
        missing = self.missing if self.is_named else {}
        lost = [f"{name}: no such file: {', '.join(map(short, places))}" for name, places in missing.items()]
        if not self.found:
            for line in lost:
                echo(line, fg="yellow")
            add = f"mcpx add{config_hint(path)} NAME -- COMMAND"
            looked = "" if self.is_named else f", of {len(self.missing)} clients that MCPX knows"
            echo(f"no file of a client was found{looked}; to add a server by hand: {add}")
            return
        lines = [line for each in self.found for line in _of_client(each, self.by_origin)]
        lines += [(line, "yellow") for line in lost]
        echo_plan(lines, lambda: _by_server(self.found, missing, plan), diff=self.diff)
        for text, color in lines_of(self.folders):
            echo(text, fg=color)
        if self.diff and plan.changes:
            echo(f"\n{masking.masked_diff(plan.before, plan.after, short(path))}\n")
        elif plan.servers and not plan.changes:
            echo(f"nothing to do: {short(path)} has all of them")
        elif not plan.changes and not any(each.problem for each in self.found):
            echo("nothing to do: no server that MCPX could take over")

    def carry_out(self) -> None:
        plan = self.plan
        about: dict[str, Any] = {
            "servers": [server.name for server in plan.new],
            "clients": sorted({origin.client for server in plan.new for origin in server.origins}),
        }
        self.change = carry_out("import", [Edit(self.path, plan.before, plan.after, "json")], about=about)
        self.daemon = reload_daemon(self.path)

    def show_done(self, _change: Change) -> None:
        plan, path = self.plan, self.path
        if self.daemon:
            echo(self.daemon)
        for server in plan.new:
            for need in server.needs:
                echo(f"to do for {server.name}: {need}", fg="yellow")
            if server.needs and server.entry.get("disabled"):
                echo(f"  then: mcpx enable {shlex.quote(server.name)}{config_hint(path)}", fg="yellow")
        if _others_read(path):
            echo(_readable(path, short(path)), fg="yellow")
        echo(f"next: mcpx install{config_hint(path)} puts MCPX into your clients")
        entries = sum(len(server.origins) for server in plan.new)
        wrote = counted(len(plan.new), "server")
        wrote += f" from {entries} entries" if entries != len(plan.new) else ""
        renamed = "".join(
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} now {server.name}; "
            for server in plan.servers
            if (names := server.aliases)
        )
        echo(f"wrote {wrote} to {short(path)}; {renamed}mcpx undo takes it back")

    def offer(self) -> None:
        """Offer to start once what downloads itself, and what files of folders name."""
        if self.change is not None:
            self._offer_starts()
        offer(self.folders)

    def _offer_starts(self) -> None:
        """Offer to start once what downloads itself at its first start, so that the first call does not."""
        new = [each for each in self.plan.new if not each.needs and not each.entry.get("disabled")]
        names = [each.name for each in new if Path(str(each.entry.get("command", ""))).name in DOWNLOADS]
        if not names:
            return
        which = names[0] if len(names) == 1 else f"these {len(names)} servers"
        question = f"Start {which} once now? The first start is a download: {', '.join(names)}"
        if asked(question, default=True):
            from mcpx.cli.server_states import start_each  # the configuration, and what reads it

            start_each(names, self.path)

    def report(self) -> dict[str, Any]:
        plan, is_done = self.plan, self.change is not None
        report: dict[str, Any] = {
            "file": str(self.path),
            "changed": is_done,
            "clients": [_client(each, self.by_origin) for each in self.found],
            "missing": self.missing,
            "servers": [_server(server, is_done=is_done) for server in plan.servers],
            "folders": [{"folder": each.project, "servers": shown(each)} for each in self.folders],
        }
        if plan.changes:
            report["diff"] = masking.masked_diff(plan.before, plan.after, str(self.path))
        return report | ({"daemon": self.daemon} if self.daemon else {})


def _others_read(path: Path) -> bool:
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
    if not (holds_secrets and _others_read(each.file.path)):
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
    lines += [(cut(f"  {text}", most), "yellow") for text in by_sentence(_left_over(found, plan))]
    lines += [
        (f"  {each.file.client.title} cannot be used: {each.problem}", "red")
        for each in found
        if each.problem
    ]
    lines += [(f"  {name}: no such file", "yellow") for name in missing]
    return [*lines, ("  --diff shows every entry, and the change to the file", None)]


def _left_over(found: Iterable[ClientServers], plan: ImportPlan) -> Iterator[tuple[str, str]]:
    """Losses, things to do, and entries not taken, each with its name."""
    for server in plan.servers:
        yield from ((f"to do: {need}", server.name) for need in server.needs)
    for each in found:
        title = each.file.client.title
        for server_there in each.servers:
            yield from ((note, f"{server_there.name} of {title}") for note in server_there.notes)
        for entry in each.left_out:
            yield f"not taken over: {entry.reason}", f"{entry.name} of {title}"
        yield from ((remark, title) for remark in _remarks(each))


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


def _server(server: Planned, *, is_done: bool) -> dict[str, Any]:
    return {
        "name": server.name,
        "entry": masking.masked_entry(server.entry),
        "state": "present" if server.present else "added" if is_done else "new",
        "from": [
            {"client": origin.client, "file": str(origin.path), "name": origin.name}
            for origin in server.origins
        ],
        "aliases": server.aliases,
        "notes": server.notes,
        "needs": server.needs,
    }


@click.command("import", short_help="Take over the servers of your AI clients.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=complete_client)
@diff_option
@changing_options
def import_servers(*, clients: tuple[str, ...], config_path: str | None, diff: bool, manner: Manner) -> None:
    """Write the servers of your AI clients into MCPX's configuration.

    Looks into the file of each CLIENT (claude-desktop, vscode, cursor, codex and so on), or of all that there
    are. Equal servers of several clients become one, which all of its names find; the configuration's
    existing content stays unchanged. The clients' files are not changed: mcpx install --adopt does that. mcpx
    undo takes it back.
    """
    take_back_interrupted(manner)
    path = config_file(config_path).absolute()
    found: list[ClientServers] = []
    missing: dict[str, list[str]] = {}
    for row in clients_named(clients):
        files = find_all(row)
        found += [read_client_file(file) for file in files]
        if not files:
            missing[row.name] = [str(path) for path in candidates(row, os.environ, this_system())]
    plan = plan_import_into(path, found)
    what = counted(len(plan.new), "server") if plan.new else "other names of servers"
    question = f"Write {what} to {path}?" if plan.changes else None
    is_failed = bool(clients) and (bool(missing) or any(each.problem for each in found))
    folders = waiting_in(found)
    importing = _Importing(found, missing, plan, path, bool(clients), diff, folders)
    importing.end(manner, question, is_failed=is_failed)

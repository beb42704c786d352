"""`mcpx install` and `mcpx uninstall`: MCPX in the files of the clients, and out of them again.

They print which file becomes what: never values that others have set.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from mcpx.cli.known_names import complete_client
from mcpx.cli.options import FilePlan, Manner, asked, changing_options, diff_option
from mcpx.cli.printing import Line, echo, echo_plan
from mcpx.cli.setup.changing import by_sentence, reload_daemon, take_back_interrupted
from mcpx.cli.trust.approve import lines_of, offer, waiting_in
from mcpx.core.config.project_entries import ProjectServers
from mcpx.errors import MCPXError
from mcpx.paths import config_hint, short
from mcpx.setup.changes import Change, Edit, carry_out, history, real_path
from mcpx.setup.clients import (
    CLIENTS,
    ClientFile,
    clients_named,
    find,
    find_all,
    read_client_file,
    windows_clients,
)
from mcpx.setup.clients.approvals import TOOLS
from mcpx.setup.clients.install_plan import InstallPlan, plan_installs
from mcpx.setup.clients.installing import Installation, Removal, plan_uninstall, plan_withdrawal
from mcpx.setup.clients.launching import NAME
from mcpx.setup.clients.masking import command_line, commands_shown

UNASKED: Final = f"{', '.join(TOOLS[:-1])} and {TOOLS[-1]} run without asking"
_ALLOW: Final = "Write these rules too, so that what only reads runs without asking?"
_SHOWN: Final = ("command", "cmd", "args", "type", "source", "enabled")
_ENVIRONMENTS: Final = ("env", "envs", "environment")


@dataclass
class Installing(FilePlan):
    """MCPX put into the files of clients; `command` is the change's name in the journal."""

    plan: InstallPlan
    edits: Sequence[Edit]
    command: str
    diff: bool
    asks: bool
    """Whether the clients' rules are a question of their own."""
    offered: tuple[str, ...]
    """The clients that could get rules, and do not, as nobody can be asked."""
    folders: Sequence[ProjectServers] = ()
    """Servers that files of folders name, where the clients' own are adopted."""

    def show(self) -> None:
        plan = self.plan
        more = "  --diff shows every entry", None
        echo_plan([*whole_plan(plan)], lambda: [*_short(plan), more], diff=self.diff)
        for text, color in lines_of(self.folders):
            echo(text, fg=color)
        if self.offered:
            echo(f"with --rules, {UNASKED} in {', '.join(self.offered)}")
        if not self.edits and not plan.is_refused:
            echo("nothing to do")

    def carry_out(self) -> None:
        if self.asks and self.plan.approvals and not asked(_ALLOW):
            self.plan = msgspec.structs.replace(self.plan, approvals=())
            self.edits = self.plan.edits()
            if not self.edits:
                echo("nothing was changed", err=True)
                return
        changed = self.plan.changed
        command = " ".join([self.command, *changed])
        self.change = carry_out(command, self.edits, about={"clients": [*changed]})
        self.daemon = reload_daemon(self.plan.config) if self.plan.new_servers else None

    def show_done(self, change: Change) -> None:
        plan = self.plan
        for sentence in (*plan.fallbacks, *((self.daemon,) if self.daemon else ())):
            echo(sentence)
        echo(f"done; copies are in {short(change.folder)}, and mcpx undo takes it back")
        echo(f"next: restart {', '.join(titles(plan))}")
        if not plan.config.exists():
            option = config_hint(plan.config)
            commands = f"mcpx import{option}, or mcpx add{option}"
            echo(f"there is no configuration yet ({short(plan.config)}): {commands}")

    def offer(self) -> None:
        offer(self.folders)

    def report(self) -> dict[str, Any]:
        plan, change = self.plan, self.change
        report: dict[str, Any] = {
            "changed": change is not None,
            "change": change.id if change else None,
            "backup": str(change.folder) if change else None,
            "config": str(plan.config),
            "servers_added": list(plan.new_servers),
            "clients": [_client(plan, each, is_done=change is not None) for each in plan.installations],
            "notes": plan.fallbacks,
        }
        return report | ({"daemon": self.daemon} if self.daemon else {})


def titles(plan: InstallPlan) -> list[str]:
    """The clients that are changed, as people call them."""
    return list(dict.fromkeys(client.title for client in plan.changed_clients))


def whole_plan(plan: InstallPlan) -> Iterator[Line]:
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
        if (approval := plan.approval_of(each)) is not None:
            yield f"  rules in {short(approval.file.path)}: {UNASKED}", None
            yield from ((f"  + {rule}", "green") for rule in approval.added)
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
        if (approval := plan.approval_of(each)) is not None and approval.changes:
            yield f"  + rules in {short(approval.file.path)}: {UNASKED}", "green"
        yield from _remarks(plan, each)
    lost = (
        (note, f"{name} of {each.file.client.title}")
        for each in plan.installations
        for name in each.adopted
        for note in plan.losses(each.file, name)
    )
    yield from ((f"  {sentence}", "yellow") for sentence in by_sentence(lost))
    if plan.adoption is not None and plan.new_servers:
        yield f"MCPX  {short(plan.config)}: + {', '.join(plan.new_servers)}", "green"
        for server in plan.adoption.new:
            yield from ((f"  {server.name} {note}", "yellow") for note in commands_shown(server.entry))


def _remarks(plan: InstallPlan, each: Installation) -> Iterator[Line]:
    for name, why in plan.staying.get(str(each.file.path), {}).items():
        yield f"  {name} stays: {why}", "yellow"
    approval = plan.approval_of(each)
    if approval is not None and approval.problem is not None:
        yield f"  no rules in {short(approval.file.path)}: {approval.problem}", "red"
    for note in (*each.notes, *(approval.notes if approval is not None else ())):
        yield f"  note: {note}", "yellow"


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
        "changed": is_done and each.changes,
        "entries": {name: _shown(plan, entry) for name, entry in each.entries.items()},
        "adopted": each.adopted,
        "losses": {name: losses for name in each.adopted if (losses := plan.losses(each.file, name))},
        "stays": plan.staying.get(path, {}),
        "notes": each.notes,
    }
    if line := plan.commands.get(path):
        report["runs"] = line
    if (approval := plan.approval_of(each)) is not None:
        rules = {"file": str(approval.file.path), "added": approval.added, "notes": approval.notes}
        report["rules"] = rules | ({"problem": approval.problem} if approval.problem else {})
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
@click.option(
    "--rules/--no-rules",
    default=None,
    help="Write the clients' own rules by which query, inspect and resources run without asking, where"
    " they have such rules. Without either option you are asked at a terminal; elsewhere none are written.",
)
@diff_option
@changing_options
def install(
    *,
    clients: tuple[str, ...],
    adopt: bool,
    rules: bool | None,
    diff: bool,
    config_path: str | None,
    manner: Manner,
) -> None:
    """Put MCPX into each CLIENT (claude-desktop, claude-code, cursor, vscode ...), or into all that are here.

    It uses the client's own command if there is one; otherwise it edits the client's file, and keeps the
    rest.
    Copies of the files are kept: mcpx uninstall takes MCPX out again, mcpx undo takes back the last change.
    """
    take_back_interrupted(manner)
    files = installed(clients)
    plan = plan_installs(files, config_path, adopt=adopt, approve=rules is not False)
    asks = rules is None and manner.on_terminal and not manner.yes
    offered: tuple[str, ...] = ()
    if rules is None and not asks:
        offered = tuple(each.file.client.title for each in plan.approvals)
        plan = msgspec.structs.replace(plan, approvals=())
    edits = plan.edits()
    question = f"Put MCPX into {', '.join(plan.changed)}?" if edits else None
    command = "install --adopt" if adopt else "install"
    folders = waiting_in(map(read_client_file, files)) if adopt else ()
    installing = Installing(plan, edits, command, diff, asks, offered, folders)
    installing.end(manner, question, is_failed=plan.is_refused)


def installed(names: Sequence[str]) -> list[ClientFile]:
    """The files of the clients that were named, or of those that are there.

    Raises:
        MCPXError: No client is there.
    """
    rows = clients_named(names, (*CLIENTS, *windows_clients()))
    found = [file for row in rows for file in find_all(row) or [find(row)] if names or file.installed]
    if not found:
        known = ", ".join(row.name for row in CLIENTS)
        raise MCPXError(
            f"no AI client was found here, of those that MCPX knows ({known});"
            f" for one all the same: mcpx {click.get_current_context().info_name} NAME;"
            " to begin with a server: mcpx add NAME -- COMMAND"
        )
    return found


@dataclass
class _Removing(FilePlan):
    """MCPX taken out of the files of clients; `is_named` if the person has named them."""

    removals: Sequence[Removal]
    is_named: bool

    def __post_init__(self) -> None:
        self.taken_out = [each for each in self.removals if each.outcome in {"restored", "edited"}]
        self.names = tuple(dict.fromkeys(each.file.client.name for each in self.taken_out))

    def show(self) -> None:
        for each in self.removals:
            echo(f"{each.file.client.title}  {short(each.file.path)}", bold=True)
            texts = {
                "absent": "MCPX is not in it",
                "refused": f"refused, and not changed: {each.problem}",
                "edited": "was changed since; what MCPX put in is taken out, the rest stays",
                "restored": "becomes what it was, byte for byte" if each.after is not None else "is removed",
            }
            echo(f"  {texts[each.outcome]}", fg="red" if each.outcome == "refused" else None)
            for what in (*(f"{'.'.join(each.file.client.key)}.{name}" for name in each.names), *each.rules):
                echo(f"  - {what}", fg="red")
            for note in each.notes:
                echo(f"  note: {note}", fg="yellow")
        if not self.taken_out:
            echo("nothing to do" if self.is_named else "nothing to do: MCPX is in no client")

    def carry_out(self) -> None:
        command = " ".join(["uninstall", *self.names])
        edits = [
            Edit(file.path, each.before, each.after, each.syntax, remove_folders=each.folders)
            for each in self.taken_out
            for file in [each.file]
        ]
        self.change = carry_out(command, edits, about={"clients": [*self.names]})

    def show_done(self, change: Change) -> None:
        echo("done; mcpx undo takes it back. MCPX's own configuration keeps its servers")
        copies = shlex.quote(str(change.folder.parent))
        echo(f"copies of the files, secrets in them too, stay for mcpx undo; to remove them: rm -r {copies}")
        echo(f"next: restart {', '.join(dict.fromkeys(each.file.client.title for each in self.taken_out))}")

    def report(self) -> dict[str, Any]:
        clients = [
            {
                "client": each.file.client.name,
                "file": str(each.file.path),
                "outcome": each.outcome,
                "names": each.names,
                "rules": each.rules,
                "notes": each.notes,
                **({"problem": each.problem} if each.problem else {}),
            }
            for each in self.removals
        ]
        change = self.change
        return {"changed": change is not None, "change": change.id if change else None, "clients": clients}


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

    A file that is as MCPX left it is restored byte for byte, with the servers that were adopted from it. From
    any other file, only MCPX's own parts are removed. MCPX's configuration is not touched.
    """
    take_back_interrupted(manner)
    changes = history()
    files: dict[Path, ClientFile] = {}
    for row in clients_named(clients, (*CLIENTS, *windows_clients())):
        for file in find_all(row) or ([find(row)] if clients else []):
            files.setdefault(real_path(file.path), file)
    planned = [plan_uninstall(file, changes) for file in files.values()]
    rules = [plan_withdrawal(each.file, each.names or [NAME], changes) for each in planned]
    removals = [each for each in planned if clients or each.outcome != "absent"]
    removals += [each for each in rules if each is not None]
    plan = _Removing(removals, bool(clients))
    question = f"Take MCPX out of {', '.join(plan.names)}?" if plan.names else None
    plan.end(manner, question, is_failed=any(each.outcome == "refused" for each in removals))

"""`mcpx setup`: the clients' servers in MCPX, and MCPX in the clients, with one question.

It is what `mcpx install --adopt` does, as a plan of one screen and one change, which `mcpx undo` takes back
as a whole; then what `mcpx doctor` finds wrong with the servers and in the clients.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from mcpx.cli.known_names import complete_client
from mcpx.cli.options import FilePlan, Manner, changing_options, diff_option
from mcpx.cli.printing import Line, counted, echo, echo_plan, width
from mcpx.cli.setup.changing import by_sentence, take_back_interrupted
from mcpx.cli.setup.doctor import as_object, examined, show_finding
from mcpx.cli.setup.install import UNASKED, Installing, installed, titles, whole_plan
from mcpx.cli.trust.approve import lines_of, waiting_in
from mcpx.core.text import cut
from mcpx.paths import config_hint, short
from mcpx.setup.changes import Change
from mcpx.setup.clients import read_client_file
from mcpx.setup.clients.install_plan import InstallPlan, plan_installs
from mcpx.setup.clients.masking import command_line, commands_shown

if TYPE_CHECKING:
    from mcpx.setup.doctor.examination import Section
    from mcpx.setup.doctor.installation import Finding

LOOKED_AT: Final = frozenset({"configuration", "servers", "clients"})
"""The titles of doctor's checks that are made afterwards."""
MAX_NAME_LINES: Final = 4
MAX_REMARKS: Final = 5  # lines of a plan in short
MAX_FINDINGS: Final = 5
INDENT: Final = "  "
MORE: Final = "  --diff shows every entry, and what moves where"


@dataclass
class _SettingUp(FilePlan):
    """The servers of the clients taken over, and MCPX put into the clients in their place."""

    installing: Installing
    named: str | None
    """The configuration, where one was named."""
    starts: bool
    as_json: bool

    def show(self) -> None:
        """Print the plan: server by server if that leaves room for the question, else by names."""
        plan, diff = self.installing.plan, self.installing.diff
        if not self.installing.edits and not plan.is_refused:
            echo("nothing to do: MCPX has the servers of your clients, and they have MCPX")
            return
        echo_plan([*whole_plan(plan)] if diff else [*_by_line(plan)], lambda: [*_by_name(plan)], diff=diff)

    def carry_out(self) -> None:
        self.installing.carry_out()
        self.change, self.daemon = self.installing.change, self.installing.daemon

    @cached_property
    def sections(self) -> list[Section]:
        """The findings of doctor."""
        return examined(self.named, starts=self.starts, quiet=self.as_json, titles=LOOKED_AT)

    def show_done(self, _change: Change) -> None:
        plan = self.installing.plan
        servers, clients = counted(len(plan.new_servers), "server"), counted(len(titles(plan)), "client")
        echo(f"done: {servers} in {short(plan.config)}, MCPX in {clients}; mcpx undo takes it all back")
        for sentence in (*plan.fallbacks, *((self.daemon,) if self.daemon else ())):
            echo(sentence)
        self._show_findings()
        if offered := self.installing.offered:
            rules = f"mcpx install --rules{config_hint(plan.config)}"
            echo(f"in {', '.join(offered)}, {UNASKED} after: {rules}")
        echo(f"next: restart {', '.join(titles(plan))}")
        if not plan.config.exists():
            add = f"mcpx add{config_hint(plan.config)} NAME -- COMMAND"
            echo(f"there are no servers yet; to add one: {add}")

    def _show_findings(self) -> None:
        """Print how many servers and clients work, and what is wrong with the others."""
        by_title = {section.title: section.findings for section in self.sections}
        servers, clients = by_title.get("servers", ()), by_title.get("clients", ())
        ready = sum("seconds" in each.details for each in servers)
        answering = sum("seconds" in each.details for each in clients)
        if self.starts:
            text = f"{counted(ready, 'server')} started, MCPX answers in {counted(answering, 'client')}"
            echo(text, fg="green")
        wrong = [each for each in _findings(self.sections) if each.level == "wrong"]
        for finding in wrong[:MAX_FINDINGS]:
            show_finding(finding)
        doctor = f"mcpx doctor{config_hint(self.installing.plan.config)}"
        if len(wrong) > MAX_FINDINGS:
            echo(f"{len(wrong) - MAX_FINDINGS} more things are wrong: {doctor}", fg="red")
        elif wrong:
            echo(f"to look again: {doctor}")

    def offer(self) -> None:
        for text, color in lines_of(self.installing.folders):
            echo(text, fg=color)
        self.installing.offer()

    def report(self) -> dict[str, Any]:
        report = self.installing.report()
        return report | ({"doctor": as_object(self.sections, {})} if self.change is not None else {})


def _findings(sections: Iterable[Section]) -> Iterator[Finding]:
    for section in sections:
        yield from section.findings


def _by_line(plan: InstallPlan) -> Iterator[Line]:
    """A line for each server, and for each file of a client."""
    yield f"{_servers(plan)} into {short(plan.config)}", None
    for server in plan.adoption.new if plan.adoption else ():
        of = ", ".join(dict.fromkeys(origin.client for origin in server.origins))
        state = ", switched off" if server.entry.get("disabled") else ""
        yield f"{INDENT}+ {server.name}: {command_line(server.entry)}  [{of}{state}]", "green"
    yield from _commands(plan)
    yield _clients(plan), None
    for each in plan.installations:
        if each.changes:
            yield f"{INDENT}+ {each.file.client.title}  {short(each.file.path)}", "green"
    yield from _remarks(plan, len(plan.installations) + len(plan.new_servers))
    yield MORE, None


def _by_name(plan: InstallPlan) -> Iterator[Line]:
    """The names alone, and the first of what is remarked."""
    yield f"{_servers(plan)} into {short(plan.config)}", None
    yield from _paragraph(plan.new_servers)
    yield from _commands(plan)
    yield _clients(plan), None
    yield from _paragraph(titles(plan))
    yield from _remarks(plan, MAX_REMARKS)
    yield MORE, None


def _clients(plan: InstallPlan) -> str:
    adopts = any(each.adopted for each in plan.installations)
    place = ", in the place of their servers" if adopts else ""
    return f"MCPX into {counted(len(titles(plan)), 'client')}{place}"


def _servers(plan: InstallPlan) -> str:
    return counted(len(plan.new_servers), "server") if plan.new_servers else "no new server"


def _commands(plan: InstallPlan) -> Iterator[Line]:
    """The full commands of entries: a person agrees to them."""
    for server in plan.adoption.new if plan.adoption else ():
        yield from ((f"{INDENT}{server.name} {note}", "yellow") for note in commands_shown(server.entry))


def _paragraph(names: Sequence[str]) -> Iterator[Line]:
    """Names, in few lines."""
    room = min(width(), 100)
    lines = textwrap.wrap(", ".join(names), room, initial_indent=f"{INDENT}+ ", subsequent_indent=INDENT * 2)
    if len(lines) > MAX_NAME_LINES:
        lines = [*lines[: MAX_NAME_LINES - 1], f"{INDENT * 2}and more"]
    yield from ((line, "green") for line in lines)


def _remarks(plan: InstallPlan, most: int) -> Iterator[Line]:
    """Entries that are refused, stay in a client or lose something, in at most that many lines."""
    for each in plan.installations:
        if each.outcome == "refused":
            yield f"{INDENT}{each.file.client.title}: refused, and not changed: {each.problem}", "red"
    room = width() - len("...")
    lines = [cut(f"{INDENT}{text}", room) for text in by_sentence(_said(plan))]
    yield from ((line, "yellow") for line in lines[:most])
    if len(lines) > most:
        yield f"{INDENT}and {counted(len(lines) - most, 'remark')} more", "yellow"


def _said(plan: InstallPlan) -> Iterator[tuple[str, str]]:
    """Remarks, each with what it is about."""
    for each in plan.installations:
        title = each.file.client.title
        for name, why in plan.staying.get(str(each.file.path), {}).items():
            yield f"stays there: {why}", f"{name} of {title}"
        for name in each.adopted:
            yield from ((note, f"{name} of {title}") for note in plan.losses(each.file, name))
        yield from ((note, title) for note in each.notes)


@click.command(short_help="Put MCPX into your AI clients, with their servers.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=complete_client)
@click.option("--no-start", is_flag=True, help="Start no server and no client's entry afterwards.")
@diff_option
@changing_options
def setup(
    *, clients: tuple[str, ...], no_start: bool, diff: bool, config_path: str | None, manner: Manner
) -> None:
    """Move the servers of your AI clients into MCPX, put MCPX into the clients, and see whether all works.

    It is import, install --adopt and what matters of doctor, for each CLIENT or for all that are here: one
    plan, one question, one change that mcpx undo takes back. Exit code 1 if a client's file was refused.
    """
    take_back_interrupted(manner)
    files = installed(clients)
    plan = plan_installs(files, config_path, adopt=True, approve=True)
    offered = tuple(each.file.client.title for each in plan.approvals)
    plan = msgspec.structs.replace(plan, approvals=())
    edits = plan.edits()
    servers = f"{_servers(plan)} and " if plan.new_servers else ""
    question = f"Set up {servers}{counted(len(plan.changed), 'client')}?" if edits else None
    folders = waiting_in(map(read_client_file, files))
    installing = Installing(plan, edits, "setup", diff, asks=False, offered=offered, folders=folders)
    setting_up = _SettingUp(installing, config_path, not no_start, manner.as_json)
    setting_up.end(manner, question, is_failed=plan.is_refused)

"""MCPX put into several clients in one change, their servers moved into its configuration if so wanted.

`plan_installs` reads the files and says what each becomes; `InstallPlan.edits` are to be carried out, that of
the configuration first, so that a server is always in one place at least. For `mcpx install` and `doctor`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from mcpx.errors import ConfigError
from mcpx.paths import config_file
from mcpx.setup.changes import ChangeError, Edit, obstacle, read_file, real_path
from mcpx.setup.clients.approvals import Approval, plan_approval
from mcpx.setup.clients.installing import Installation, plan_install, refusal
from mcpx.setup.clients.launching import Launch, add_command, own_launch, run
from mcpx.setup.clients.planning import ImportPlan, plan_import
from mcpx.setup.clients.reading import ClientFile, ClientServers, read_servers
from mcpx.setup.clients.rows import Client
from mcpx.setup.documents import DocumentError

_OWN_CONFIGURATION = "MCPX takes its own servers from this file: name another configuration with --config"


class InstallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of the clients' files, and of the configuration if their servers are adopted."""

    installations: tuple[Installation, ...]
    launch: Launch
    config: Path
    adoption: ImportPlan | None = None
    staying: dict[str, dict[str, str]] = {}
    """Servers that are not adopted, by the path of their file: their names, and why they stay there."""
    commands: dict[str, tuple[str, ...]] = {}
    """The command lines of clients that add MCPX by themselves, by the path of their file."""
    approvals: tuple[Approval, ...] = ()
    """The clients' own rules by which what reads runs unasked, as they get them."""
    fallbacks: list[str] = []
    """Sentences on command lines that did not work, so that the file was edited: known when it is done."""

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the clients whose files change."""
        return tuple(dict.fromkeys(client.name for client in self.changed_clients))

    @property
    def changed_clients(self) -> Iterator[Client]:
        """The clients whose files change, those with two of them twice."""
        yield from (each.file.client for each in self.installations if each.changes)
        yield from (each.file.client for each in self.approvals if each.changes)

    @property
    def is_refused(self) -> bool:
        """True if there is a file that cannot be changed."""
        return any(each.outcome == "refused" for each in self.installations)

    @property
    def new_servers(self) -> tuple[str, ...]:
        """The names of the servers that the configuration gets."""
        return tuple(server.name for server in self.adoption.new) if self.adoption else ()

    def losses(self, file: ClientFile, name: str) -> tuple[str, ...]:
        """Return what is lost of a server of that file when it is adopted."""
        servers = self.adoption.servers if self.adoption else ()
        origins = (origin for server in servers for origin in server.origins)
        return next((each.notes for each in origins if (each.path, each.name) == (file.path, name)), ())

    def approval_of(self, each: Installation) -> Approval | None:
        """The rules for one of the installations."""
        of = (found for found in self.approvals if found.file.client is each.file.client)
        return next(of, None)

    def edits(self) -> list[Edit]:
        """Return what is to be carried out, in order."""
        edits = []
        if self.adoption is not None and self.adoption.after != self.adoption.before:
            edits.append(Edit(self.config, self.adoption.before, self.adoption.after, "json"))
        by_target: dict[Path, Edit] = {}
        for each in self.installations:
            if each.changes:
                target = real_path(each.file.path)
                earlier = by_target.get(target)
                by_target[target] = self._edit(each, earlier)
        for approval in self.approvals:
            if approval.changes:
                target = real_path(approval.file.path)
                by_target[target] = _approving(approval, by_target.get(target))
        return edits + list(by_target.values())

    def _edit(self, each: Installation, earlier: Edit | None) -> Edit:
        """The edit for one client; two of them may share a file."""
        before = each.before if earlier is None else earlier.before
        line = self.commands.get(str(each.file.path))
        perform = partial(_perform, line, each.file, self) if line and earlier is None else None
        return Edit(each.file.path, before, each.after, each.file.client.syntax, perform=perform)


def plan_installs(
    files: Iterable[ClientFile],
    config: str | None,
    *,
    adopt: bool = False,
    approve: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> InstallPlan:
    """Plan to have MCPX in each of these files, with the configuration that was named, if any.

    With `approve`, the clients also get rules by which what reads runs unasked.

    Raises:
        ConfigError: The configuration is not understood, so that no server can be moved into it.
        ChangeError: The configuration cannot be read.
    """
    files, launch = list(files), own_launch(config, environ)
    path = Path(os.path.abspath(config_file(config, environ=environ)))
    installations = _installations(files, path, launch, {})
    found = [
        read_servers(each.file, each.before)
        for each in installations
        if each.outcome != "refused" and each.before is not None and each.file.client.windows is None
    ]  # what a client of Windows starts is for Windows
    if not adopt:
        return InstallPlan(
            installations=_with_doubled(installations, found, path),
            launch=launch,
            config=path,
            commands=_commands(installations, launch, environ),
            approvals=_approvals(installations, environ) if approve else (),
        )
    adoption = plan_import_into(path, found)
    adopted = {file.path: adoption.adopted(file.path) for file in files}
    remarks = {each.file.path: each.notes for each in found}
    installations = _installations(files, path, launch, adopted)
    return InstallPlan(
        installations=tuple(
            msgspec.structs.replace(each, notes=(*each.notes, *remarks.get(each.file.path, ())))
            for each in installations
        ),
        launch=launch,
        config=path,
        adoption=adoption,
        staying=_staying(found, adoption),
        approvals=_approvals(installations, environ) if approve else (),
    )


def _approvals(installations: Iterable[Installation], environ: Mapping[str, str]) -> tuple[Approval, ...]:
    planned = (
        plan_approval(each.file, each.after, each.entries, environ)
        for each in installations
        if each.outcome != "refused"
    )
    return tuple(each for each in planned if each is not None)


def _approving(approval: Approval, edit: Edit | None) -> Edit:
    """The edit for the rules, or for the same file with them."""
    if edit is None:
        return Edit(approval.file.path, approval.before, approval.after, approval.approvals.syntax)
    perform = None if edit.perform is None else partial(_perform_and_approve, edit.perform, approval)
    return replace(edit, after=approval.after, perform=perform)


def _perform_and_approve(perform: Callable[[], bytes | None], approval: Approval) -> bytes:
    """Have the client add MCPX; what its file must hold then, with the rules."""
    wanted = perform()
    return approval.with_rules(read_file(approval.file.path) if wanted is None else wanted)


def plan_import_into(config: Path, found: Iterable[ClientServers]) -> ImportPlan:
    """Plan to have every server that was found in the configuration.

    Raises:
        ConfigError: It is not understood, at its line and column.
        ChangeError: It cannot be read.
    """
    try:
        return plan_import(found, read_file(config))
    except DocumentError as error:
        raise ConfigError(f"{config}:{error.line}:{error.column}", error.problem) from None


def _installations(
    files: list[ClientFile], config: Path, launch: Launch, adopted: Mapping[Path, Mapping[str, str]]
) -> tuple[Installation, ...]:
    """Plan every file; one that two clients share is changed for both."""
    contents: dict[Path, bytes | None] = {}
    configuration = real_path(config)
    planned = []
    for file in files:
        target = real_path(file.path)
        try:
            if target not in contents:
                contents[target] = read_file(file.path)
            if target == configuration:
                each = refusal(file, contents[target], _OWN_CONFIGURATION)
            else:
                each = plan_install(file, contents[target], launch, adopted.get(file.path))
            if each.changes and (problem := obstacle(target)) is not None:
                each = refusal(file, each.before, problem)
        except ChangeError as error:
            each = refusal(file, None, str(error))
        if each.outcome != "refused":
            contents[target] = each.after
        planned.append(each)
    return tuple(planned)


def _with_doubled(
    installations: tuple[Installation, ...], found: list[ClientServers], config: Path
) -> tuple[Installation, ...]:
    """Note which servers a client starts beside MCPX that could be moved."""
    try:
        adoption = plan_import(found, read_file(config))
    except (ChangeError, DocumentError):  # then nothing can
        return installations

    def noted(each: Installation) -> Installation:
        names = ", ".join(adoption.adopted(each.file.path))
        if not names or each.outcome == "refused":
            return each
        remark = f"it starts servers of its own beside MCPX: {names}; --adopt moves them"
        return msgspec.structs.replace(each, notes=(*each.notes, remark))

    return tuple(map(noted, installations))


def _commands(
    installations: tuple[Installation, ...], launch: Launch, environ: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Return the commands of clients that can do it by themselves; a file that two share is edited."""
    targets = [real_path(each.file.path) for each in installations]
    lines = {
        str(each.file.path): add_command(each.file.client, launch, environ)
        for each, target in zip(installations, targets, strict=True)
        if each.outcome == "added" and targets.count(target) == 1
    }
    return {path: line for path, line in lines.items() if line is not None}


def _staying(found: Iterable[ClientServers], adoption: ImportPlan) -> dict[str, dict[str, str]]:
    staying = {}
    for each in found:
        adopted = adoption.adopted(each.file.path)
        reasons = {
            origin.name: "; ".join(server.needs)
            for server in adoption.servers
            for origin in server.origins
            if origin.path == each.file.path
        }
        reasons |= {entry.name: entry.reason for entry in each.left_out}
        staying[str(each.file.path)] = {
            name: reason for name, reason in reasons.items() if name not in adopted
        }
    return staying


def _perform(line: tuple[str, ...], file: ClientFile, plan: InstallPlan) -> bytes | None:
    """Have the client add MCPX; what its file must hold instead, where that did not work."""
    problem = run(line)
    found = read_file(file.path)
    if found is not None and read_servers(file, found).own:
        return None
    again = plan_install(file, found, plan.launch)
    if again.outcome == "refused":
        raise ChangeError(f"{file.path}: {again.problem}")
    why = f"did not work ({problem})" if problem else "has not added it"
    plan.fallbacks.append(f"{Path(line[0]).name} {why}; {file.path} was edited instead")
    return again.after

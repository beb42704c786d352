"""The clients: is MCPX in their files, and what does it answer when it is started as each of them starts it.

A daemon that does not run is started for that, and ended again.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from mcpx.core.daemon import lifecycle
from mcpx.core.gateway.clients.known_clients import known_client
from mcpx.core.policy.agreements import Agreements
from mcpx.core.store.paths import DaemonPaths, daemon_paths
from mcpx.errors import MCPXError
from mcpx.paths import CONFIG_VARIABLE, STATE_VARIABLE, config_file, state_folder
from mcpx.setup.changes import carry_out
from mcpx.setup.clients import (
    CLIENTS,
    ClientFile,
    ClientServers,
    Server,
    client_named,
    find,
    find_all,
    in_folders,
    read_client_file,
)
from mcpx.setup.clients.install_plan import plan_installs
from mcpx.setup.clients.installing import configuration_of
from mcpx.setup.clients.translating import translate
from mcpx.setup.clients.variables import NotImportedError
from mcpx.setup.doctor.configuration import holds_secret, readable_by_others
from mcpx.setup.doctor.installation import Finding, Fix, Installation, note, ok, wrong
from mcpx.setup.doctor.probe import Answer, ask

ANSWER_TIMEOUT_S: Final = 15.0  # to shake hands and list the tools; it takes 0.1 s
AT_ONCE: Final = 4  # probes
CLAUDE_CODE: Final = "claude-code"
IN_FOLDERS: Final = {
    CLAUDE_CODE: (
        ".mcp.json",
        'write "disabledMcpjsonServers": {names} into {folder}/.claude/settings.local.json',
    ),
    "vscode": (".vscode/mcp.json", "disable it in VS Code, which keeps that (MCP: List Servers)"),
    "cursor": (".cursor/mcp.json", "turn it off in Cursor, which keeps that (Settings > MCP)"),
}
"""By client, its file in the folders of projects, and what has it leave a server there alone."""
OWN_NAMES: Final = {"vscode": "visual-studio-code", "copilot": "github-copilot-cli"}
"""What clients call themselves in the handshake, where that is not their name in the table."""


def check_clients(installation: Installation) -> Iterator[Finding]:
    """Check each client's file, then what MCPX's entries in them start."""
    probes: list[Probe] = []
    for file in _files(installation):
        try:
            yield from _check_file(file, installation, probes)
        except (MCPXError, NotImportedError) as error:  # the others are looked at all the same
            yield wrong(file.client.name, f"{file.path}: {error}", "correct it")
    yield from answers(probes, installation)


def _check_file(file: ClientFile, installation: Installation, probes: list[Probe]) -> Iterator[Finding]:
    """Check one client's file, and add what is to be started to `probes`."""
    if not file.exists:
        yield note(
            file.client.name, "is installed, and MCPX is not in it", install_advice(file, installation)
        )
        return
    found = read_client_file(file)
    if found.problem is not None:
        advice = "correct it: the client cannot read it either"
        yield wrong(file.client.name, f"{file.path}: {found.problem}", advice)
        return
    entries_of_mcpx = [translate(name, given, file.client) for name, given in found.own_entries]
    own = [Probe(file, each, _configuration(each, installation)) for each in entries_of_mcpx]
    entries = (*(probe.entry for probe in own), *found.servers)
    holding = [each.name for each in entries if holds_secret(each.entry)]
    yield from readable_by_others(file.client.name, file.path, holding, found=note)
    for probe in own:
        if (problem := _problem(probe, installation)) is not None:
            yield problem
        else:
            probes.append(probe)
    yield from _twice(file, own)
    yield from _beside(found, installation)
    yield from _in_folders(found, installation)
    for remark in found.notes:
        yield note(file.client.name, remark)


def _files(installation: Installation) -> Iterator[ClientFile]:
    for client in CLIENTS:
        if found := find_all(client, installation.environ):
            yield from found
        elif (file := find(client, installation.environ)).installed:
            yield file


def _install(file: ClientFile) -> str:
    return f"mcpx install {file.client.name}"


def _twice(file: ClientFile, own: list[Probe]) -> Iterator[Finding]:
    """Entries of MCPX that show the same servers."""
    shown = Counter((probe.config, probe.command[1:]) for probe in own if not probe.is_disabled)
    if any(number > 1 for number in shown.values()):
        names = ", ".join(f'"{probe.entry.name}"' for probe in own)
        text = f"MCPX is in it more than once, and each of its tools too: {names}"
        yield note(file.client.name, text, f"take out all but one, in {file.path}")


def _beside(found: ClientServers, installation: Installation) -> Iterator[Finding]:
    """Report what a client has in place of MCPX, or beside it."""
    name, file = found.file.client.name, found.file
    others = [each.name for each in found.servers if not each.entry.get("disabled")]
    if not found.own:
        beside = f"; it starts servers of its own: {', '.join(others)}" if others else ""
        yield note(name, f"MCPX is not in {file.path}{beside}", install_advice(file, installation))
        return
    given = next(filter(None, (configuration_of(entry) for _, entry in found.own_entries)), None)
    named = given if given and not installation.is_examined(given) else installation.named
    try:
        plan = plan_installs([file], named, adopt=True, environ=installation.environ)
    except MCPXError:  # the configuration cannot be used, which is said of it
        return
    (each,) = plan.installations
    staying = plan.staying.get(str(file.path), {})
    if moved := [other for other in others if other in each.adopted]:
        option = "" if named is None else f" --config {shlex.quote(named)}"
        text = f"starts servers of its own beside MCPX: {', '.join(moved)}"
        yield note(name, text, f"{_install(file)} --adopt{option}")
    for other in [each.name for each in found.servers if each.name in staying]:
        yield note(name, f"keeps {other}, which works in it alone: {staying[other]}")


def _in_folders(found: ClientServers, installation: Installation) -> Iterator[Finding]:
    """Report what a client has from files of folders, beside MCPX, which offers it or could."""
    client = found.file.client
    if not found.own or client.name not in IN_FOLDERS:
        return
    file, turn_off = IN_FOLDERS[client.name]
    agreements = Agreements(Path(installation.environ.get(STATE_VARIABLE) or state_folder()))
    for each in in_folders(_folders(installation), os.getcwd()):
        at = os.path.join(each.project, file)
        own = {name: entry for name, entry in each.entries.items() if entry.file == at}
        said = {name: agreements.said(each.project, entry) for name, entry in own.items()}
        off = _turned_off(each.project) if client.name == CLAUDE_CODE else set()
        if doubled := [name for name in own if said[name] == "yes" and name not in off]:
            text = f"has {', '.join(doubled)} of {at}, which MCPX offers there too: each of its tools twice"
            yield note(client.name, text, turn_off.format(folder=each.project, names=json.dumps(doubled)))
        if waiting := [name for name in own if said[name] is None]:
            text = f"has {', '.join(waiting)} of {at}; MCPX could offer that to all clients there"
            yield note(client.name, text, f"mcpx approve --project {shlex.quote(each.project)}")


def _folders(installation: Installation) -> list[str]:
    """The folders that Claude Code has worked in: other clients do not say that."""
    found = find_all(client_named(CLAUDE_CODE), installation.environ)
    return [folder for file in found for folder in read_client_file(file).folders]


def _turned_off(folder: str) -> set[str]:
    """The servers of a folder's `.mcp.json` that Claude Code is told there to leave alone."""
    off: set[str] = set()
    for name in ("settings.json", "settings.local.json"):
        with suppress(OSError, ValueError, AttributeError, TypeError):
            settings = json.loads(Path(folder, ".claude", name).read_text(encoding="utf-8"))
            off |= {str(each) for each in settings.get("disabledMcpjsonServers", ())}
    return off


def _problem(probe: Probe, installation: Installation) -> Finding | None:
    """Return what is wrong with an entry of MCPX, as far as it can be seen without starting it."""
    file, name, install = probe.file, probe.file.client.name, _install(probe.file)
    entry, command = f'"{probe.entry.name}"', probe.command
    if probe.is_disabled:
        return note(name, f"{entry} is MCPX, and is disabled there", f"enable it in {file.path}")
    if shutil.which(command[0], path=installation.environ.get("PATH")) is None:
        text = f"{entry} starts {command[0]}, which is not there any more"
        return wrong(name, text, install, fix=_reinstalling(file, installation))
    if not os.path.isabs(command[0]):
        text = f"{entry} starts {command[0]} without its folder, which a desktop program may not find"
        return note(name, text, install, fix=_reinstalling(file, installation))
    if "attach" not in command:
        text = f"{entry} runs MCPX for this client alone (serve), with all servers once more"
        return note(name, text, f"{install}, which has it join the daemon")
    if not os.path.exists(probe.config):
        here = f"{install} --config {shlex.quote(str(installation.file))}"
        return wrong(name, f"{entry} serves {probe.config}, which is not there", here)
    state = probe.environ.get(STATE_VARIABLE, installation.environ.get(STATE_VARIABLE, ""))
    if state != installation.environ.get(STATE_VARIABLE, ""):
        text = f"{entry} is started with another {STATE_VARIABLE}: it has a daemon of its own"
        own = installation.environ.get(STATE_VARIABLE)
        return note(name, text, install if own else f"export {STATE_VARIABLE}={shlex.quote(state)}")
    return None


def _configuration(entry: Server, installation: Installation) -> Path:
    """The configuration that an entry of MCPX serves."""
    environ = {**installation.environ, **entry.entry.get("env", {})}
    return config_file(configuration_of(entry.entry) or environ.get(CONFIG_VARIABLE), environ=environ)


def _reinstalling(file: ClientFile, installation: Installation) -> Fix:
    """Bring MCPX's entry in a file up to date, as `mcpx install` does; `mcpx undo` takes it back."""

    def install() -> None:
        plan = plan_installs([file], installation.named, environ=installation.environ)
        carry_out(_install(file), plan.edits(), about={"clients": [file.client.name]})

    return Fix(_install(file), install)


# --- what the entries start


class Probe(NamedTuple):
    """An entry of MCPX in a client's file, with the configuration that it serves."""

    file: ClientFile
    entry: Server
    config: Path

    @property
    def command(self) -> tuple[str, ...]:
        """The command line that the client starts."""
        return (str(self.entry.entry["command"]), *self.entry.entry.get("args", ()))

    @property
    def is_disabled(self) -> bool:
        """True if the client does not start it."""
        return bool(self.entry.entry.get("disabled"))

    @property
    def environ(self) -> dict[str, str]:
        """The variables that the client sets for it, beside its own."""
        given: dict[str, str] = self.entry.entry.get("env", {})
        return given


def answers(probes: list[Probe], installation: Installation) -> Iterator[Finding]:
    """Start what each entry starts, and say what it answers."""
    for config in dict.fromkeys(each.config for each in probes):
        yield from _answers_on(config, [each for each in probes if each.config == config], installation)


def _answers_on(config: Path, probes: list[Probe], installation: Installation) -> Iterator[Finding]:
    if (reason := _not_asked(config, installation)) is not None:
        yield from (
            ok(each.file.client.name, f"MCPX is in it; it was not asked: {reason}") for each in probes
        )
        return
    try:
        with _daemon(daemon_paths(config)):
            found = _ask_all(probes, installation)
    except MCPXError as error:
        yield wrong(
            "daemon", f"cannot be started: {error}", f"mcpx daemon run --config {shlex.quote(str(config))}"
        )
        return
    for probe, answer in zip(probes, found, strict=True):
        yield from _judged(probe, answer, installation)


def _not_asked(config: Path, installation: Installation) -> str | None:
    """Return the reason that MCPX with that configuration is not asked, or cannot answer."""
    is_examined = installation.is_examined(config)
    if is_examined and installation.config is None:
        return "the configuration cannot be used"
    if is_examined and isinstance(installation.answer, MCPXError):
        return "the daemon does not answer"
    if installation.starts or (is_examined and installation.owner):
        return None
    return "no daemon runs"


def install_advice(file: ClientFile, installation: Installation) -> str | None:
    """The command that puts MCPX into a client's file, or why that cannot be; None where it does nothing."""
    plan = plan_installs([file], installation.named, environ=installation.environ)
    (each,) = plan.installations
    if each.outcome == "refused":
        return f"correct it: {each.problem}"
    named = "" if installation.named is None else f" --config {shlex.quote(installation.named)}"
    return f"mcpx install {file.client.name}{named}" if plan.edits() else None


@contextmanager
def _daemon(paths: DaemonPaths) -> Iterator[None]:
    """Have a daemon run meanwhile. One that ran before stays; another is ended, and leaves no other mark."""
    was_stopped = paths.stopped.exists()
    started = lifecycle.start(paths)
    try:
        yield
    finally:
        if started:
            with suppress(MCPXError):
                lifecycle.stop(paths, marked=was_stopped)


def _ask_all(probes: list[Probe], installation: Installation) -> list[Answer]:
    """The answer to each probe. Clients that start the same and are shown the same share one."""
    kinds = [(each.command, tuple(each.environ.items()), known_client(_name(each.file))) for each in probes]
    first = dict(zip(reversed(kinds), reversed(probes), strict=True))

    def asked(probe: Probe) -> Answer:
        environ = {**installation.environ, **probe.environ}
        return ask(probe.command, environ, client=_name(probe.file), within_s=ANSWER_TIMEOUT_S)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = dict(zip(first, threads.map(asked, first.values()), strict=True))
    return [found[kind] for kind in kinds]


def _name(file: ClientFile) -> str:
    return OWN_NAMES.get(file.client.name, file.client.name)


def _judged(probe: Probe, answer: Answer, installation: Installation) -> Iterator[Finding]:
    name = probe.file.client.name
    again = f"mcpx install {name} --config {shlex.quote(str(installation.file))}"
    if answer.problem is not None:
        advice = install_advice(probe.file, installation)
        logs = f"mcpx daemon logs --config {shlex.quote(str(probe.config))}"
        yield wrong(name, f'"{probe.entry.name}" does not answer: {answer.problem}', advice or logs)
        return
    known = known_client(_name(probe.file))
    limit = known.description_chars if known else None
    lengths = {tool: len(text) for tool, text in answer.descriptions.items()}
    long = [f"{tool} ({length:,})" for tool, length in lengths.items() if limit and length > limit]
    if long and limit:
        text = f"{probe.file.client.title} shows its model {limit:,} characters of a description; more have: "
        yield wrong(name, text + ", ".join(long), 'show tools through the three: "expose": "three"')
    elif not installation.is_examined(probe.config):
        yield note(name, f"MCPX answers, but serves {probe.config}, and not {installation.file}", again)
    else:
        longest = max(lengths.values(), default=0)
        of_limit = f", the longest description has {longest:,} of {limit:,} characters" if limit else ""
        yield ok(
            name,
            f"MCPX answers in {answer.seconds * 1000:.0f} ms, {len(lengths)} tools{of_limit}",
            file=str(probe.file.path),
            seconds=round(answer.seconds, 3),
            tools=len(lengths),
            longest_description=longest,
            description_limit=limit,
        )

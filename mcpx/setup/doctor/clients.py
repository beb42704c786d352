"""The client files: whether MCPX is in them, and whether what they start is there and is this MCPX."""

from __future__ import annotations

import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mcpx.errors import MCPXError
from mcpx.paths import CONFIG_VARIABLE, STATE_VARIABLE, config_file
from mcpx.setup.changes import carry_out
from mcpx.setup.clients import CLIENTS, ClientFile, ClientServers, Server, find, find_all, read_client_file
from mcpx.setup.clients.install_plan import plan_installs
from mcpx.setup.clients.installing import configuration_of
from mcpx.setup.clients.translating import translate
from mcpx.setup.clients.variables import NotImportedError
from mcpx.setup.doctor.client_probes import Probe, answers, install_advice
from mcpx.setup.doctor.files import holds_secret, readable_by_others
from mcpx.setup.doctor.findings import Finding, Fix, note, wrong
from mcpx.setup.doctor.installation import Installation


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
    for remark in found.notes:  # servers of one folder, for one
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
    """What a client has in place of MCPX, or beside it."""
    name, file = found.file.client.name, found.file
    others = [each.name for each in found.servers if not each.entry.get("disabled")]
    if not found.own:
        beside = f"; it starts servers of its own: {', '.join(others)}" if others else ""
        yield note(name, f"MCPX is not in {file.path}{beside}", install_advice(file, installation))
        return
    given = next(filter(None, (configuration_of(entry) for _, entry in found.own_entries)), None)
    named = given if given and not _is_same(given, installation.file) else installation.named
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


def _is_same(one: str, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _problem(probe: Probe, installation: Installation) -> Finding | None:
    """What is wrong with an entry of MCPX, as far as it can be seen without starting it."""
    file, name, install = probe.file, probe.file.client.name, _install(probe.file)
    entry, command = f'"{probe.entry.name}"', probe.command
    if probe.is_disabled:
        return note(name, f"{entry} is MCPX, and is disabled there", f"enable it in {file.path}")
    if shutil.which(command[0], path=installation.environ.get("PATH")) is None:
        text = f"{entry} starts {command[0]}, which is not there any more"
        return wrong(name, text, install, fix=_reinstalling(file, installation))
    if not os.path.isabs(command[0]):  # noqa: PTH117 - text
        text = f"{entry} starts {command[0]} without its folder, which a desktop program may not find"
        return note(name, text, install, fix=_reinstalling(file, installation))
    if "attach" not in command:
        text = f"{entry} runs MCPX for this client alone (serve), with all servers once more"
        return note(name, text, f"{install}, which has it join the daemon")
    if not os.path.exists(probe.config):  # noqa: PTH110 - False where it cannot be seen
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

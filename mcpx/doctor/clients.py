"""The client files: whether MCPX is in them, and whether what they start is there and is this MCPX."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mcpx.clients import CLIENTS, ClientFile, find, find_all
from mcpx.doctor.client_entries import Entry, UnreadableError, entries_of
from mcpx.doctor.client_probes import Probe, answers
from mcpx.doctor.findings import Finding, note, wrong
from mcpx.doctor.installation import Installation
from mcpx.doctor.secret_files import holds_secret, readable_by_others
from mcpx.paths import STATE_VARIABLE, config_file


def check_clients(installation: Installation) -> Iterator[Finding]:
    """Check each client's file, then what MCPX's entries in them start."""
    sound: list[Probe] = []
    for file in _files(installation):
        if not file.exists:
            yield note(file.client.name, "is installed, and MCPX is not in it", _install(file))
            continue
        try:
            entries = entries_of(file.client, file.path)
        except UnreadableError as error:
            advice = "correct it: the client cannot read it either"
            yield wrong(file.client.name, f"{file.path}: {error}", advice)
            continue
        holding = [each.name for each in entries if holds_secret(each.given)]
        yield from readable_by_others(file.client.name, file.path, holding)
        for finding, entry in _looked_at(file, entries, installation):
            if finding is not None:
                yield finding
            elif entry is not None:
                sound.append(Probe(file, entry, configuration_of(entry, installation)))
    yield from answers(sound, installation)


def _files(installation: Installation) -> Iterator[ClientFile]:
    for client in CLIENTS:
        if found := find_all(client, installation.environ):
            yield from found
        elif (file := find(client, installation.environ)).installed:
            yield file


def _install(file: ClientFile) -> str:
    return f"mcpx install {file.client.name}"


def _looked_at(
    file: ClientFile, entries: list[Entry], installation: Installation
) -> Iterator[tuple[Finding | None, Entry | None]]:
    """What is found in a file, and the entries of MCPX with which nothing is wrong so far."""
    name = file.client.name
    own = [entry for entry in entries if entry.is_mcpx]
    others = [entry.name for entry in entries if not entry.is_mcpx and not entry.is_disabled]
    if not own:
        beside = f"; it starts servers of its own: {', '.join(others)}" if others else ""
        yield note(name, f"MCPX is not in {file.path}{beside}", _install(file)), None
        return
    for entry in own:
        problem = _problem(file, entry, installation)
        yield (None, entry) if problem is None else (problem, None)
    if others:
        text = f"starts servers of its own beside MCPX: {', '.join(others)}"
        yield note(name, text, f"{_install(file)} --adopt"), None


def _problem(file: ClientFile, entry: Entry, installation: Installation) -> Finding | None:
    """What is wrong with an entry of MCPX, as far as it can be seen without starting it."""
    name, command = file.client.name, entry.command
    if entry.is_disabled:
        return note(name, f'"{entry.name}" is MCPX, and is disabled there', f"enable it in {file.path}")
    if shutil.which(command[0], path=installation.environ.get("PATH")) is None:
        text = f'"{entry.name}" starts {command[0]}, which is not there any more'
        return wrong(name, text, _install(file))
    if not os.path.isabs(command[0]):  # noqa: PTH117 - text
        text = f'"{entry.name}" starts {command[0]} without its folder, which a desktop program may not find'
        return note(name, text, _install(file))
    if "serve" in command and "attach" not in command:
        text = f'"{entry.name}" runs MCPX for this client alone (serve), with all servers once more'
        return note(name, text, f"{_install(file)}, which has it join the daemon")
    config = configuration_of(entry, installation)
    if not config.exists():
        return wrong(name, f'"{entry.name}" serves {config}, which is not there', _install(file))
    state = entry.environ.get(STATE_VARIABLE, installation.environ.get(STATE_VARIABLE, ""))
    if state != installation.environ.get(STATE_VARIABLE, ""):
        text = f'"{entry.name}" is started with another {STATE_VARIABLE}: it has a daemon of its own'
        return note(name, text, f"{_install(file)}, or: export {STATE_VARIABLE}={state}")
    return None


def configuration_of(entry: Entry, installation: Installation) -> Path:
    """The configuration that an entry of MCPX serves."""
    words = iter(entry.command[entry.command.index("attach") + 1 :] if "attach" in entry.command else ())
    for word in words:
        option, equals, value = word.partition("=")
        if option.startswith("-"):
            value = value if equals else next(words, "")
        if option == "--config" or not option.startswith("-"):
            return config_file(value or word, environ=installation.environ)
    return config_file(environ={**installation.environ, **entry.environ})

"""Starting what the clients start, and looking at what each of them would see of MCPX.

A daemon that does not run is started for that, and ended again.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from mcpx.core.daemon import lifecycle
from mcpx.core.gateway.clients.known_clients import known_client
from mcpx.core.system.paths import DaemonPaths, daemon_paths
from mcpx.errors import MCPXError
from mcpx.setup.clients import ClientFile, Server
from mcpx.setup.clients.install_plan import plan_installs
from mcpx.setup.doctor.findings import Finding, note, ok, wrong
from mcpx.setup.doctor.installation import Installation
from mcpx.setup.doctor.probe import Answer, ask

ANSWER_TIMEOUT_S: Final = 15.0  # to shake hands and list the tools; it takes 0.1 s
AT_ONCE: Final = 4  # probes
OWN_NAMES: Final = {"vscode": "visual-studio-code", "copilot": "github-copilot-cli"}
"""What clients call themselves in the handshake, where that is not their name in the table."""


class Probe(NamedTuple):
    """An entry of MCPX in a client's file, with the configuration that it serves."""

    file: ClientFile
    entry: Server
    config: Path

    @property
    def command(self) -> tuple[str, ...]:
        """What the client starts."""
        return (str(self.entry.entry["command"]), *self.entry.entry.get("args", ()))

    @property
    def is_disabled(self) -> bool:
        """Whether the client does not start it."""
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
    """Why no answer can be expected of MCPX with that configuration, or is not asked for."""
    is_examined = os.path.realpath(config) == os.path.realpath(installation.file)
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
    """Have a daemon run meanwhile. One that ran before stays; another is ended, and leaves no other mark.

    Raises:
        MCPXError: It cannot be started.
    """
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
    elif os.path.realpath(probe.config) != os.path.realpath(installation.file):
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

"""`mcpx check` and `mcpx config`: the configuration itself, without starting anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from os.path import exists
from typing import Any, Final

import click
import msgspec
from msgspec.structs import replace

from mcpx.cli.options import config_of, with_config
from mcpx.cli.printing import counted, echo, print_json
from mcpx.core.catalog.model import Catalogue
from mcpx.core.config import Config, ServerConfig, json_schema
from mcpx.core.config.diagnosis import INVALID, NEEDS_SETUP, Diagnosis, diagnose
from mcpx.core.config.findings import Examination, Finding, examine
from mcpx.core.policy.catalogue_rules import NO_RULES, Rules
from mcpx.core.policy.overrides import not_applied
from mcpx.core.policy.policy import NarrowedPolicy, ServerPolicy
from mcpx.core.policy.profiles import select
from mcpx.core.rendering.mending import ALL_MENDS, mends_in
from mcpx.core.system.endpoint import Endpoint
from mcpx.paths import config_hint

MAX_MENDED: Final = 20  # tools of one server that are named
_EXIT_WRONG: Final = 2
_EXIT_NEEDS_SETUP: Final = 1
_COLOURS: Final = {"error": "red", "warning": "yellow", "note": "yellow"}


@click.command(short_help="Check a configuration.")
@click.argument("config", required=False, type=click.Path())
@with_config
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--run-commands", is_flag=True, help="Run each ${cmd:...}, too, to see whether it works.")
def check(*, config: str | None, config_path: str | None, as_json: bool, run_commands: bool) -> None:
    """Check CONFIG: list its servers, and every mistake and oddity with its place.

    Starts no server, and runs no command of the file. Exit code 2 if there is a mistake: with one in its
    entry a server is not started, elsewhere the configuration cannot be used. Exit code 1 if a server needs
    something that is not there, such as a variable or its command.
    """
    found = examine(config_of(config, config_path), commands=run_commands)
    if found.config is not None:
        found = replace(found, findings=(*found.findings, *_of_tools(found.config)))
    if as_json:
        print_json(_report(found))
    else:
        _show(found)
    sys.exit(_EXIT_WRONG if found.errors else _EXIT_NEEDS_SETUP if _needing_setup(found) else 0)


def _of_tools(config: Config) -> Iterator[Finding]:
    """Settings for tools and their effects, as far as the servers are known from last time."""
    changed = {name for name, server in config.servers.items() if server.overrides}
    changed |= {name for profile in config.profiles.values() for name in profile.overrides}
    native = {name for name, server in config.servers.items() if server.expose != "three" or server.pinned}
    native = set() if config.sanitize == "off" else native
    if not (wanted := sorted((changed | native) & config.servers.keys())):
        return
    from mcpx.core.servers.offers.catalogue_store import CatalogueStore

    store = CatalogueStore()
    for name in wanted:
        if (known := store.load(config.servers[name])) is None:
            continue
        policy = ServerPolicy(config.servers[name])
        shown = policy.shown(known.catalogue)
        if name in changed:
            for text in _not_applied(config, policy, name, known.catalogue):
                yield Finding(level="warning", text=text, server=name)
        if name in native and shown is not None and (text := _mended(config, name, shown)):
            yield Finding(level="note", text=text, server=name)


def _not_applied(config: Config, policy: ServerPolicy, name: str, known: Catalogue) -> Iterator[str]:
    """Say which overrides of a server's tools cannot be applied, and why."""
    of_entry = not_applied(policy.shown(known))
    yield from (f"{name}: {reason}" for reason in of_entry)
    for profile in config.profiles:
        rules = select(Endpoint(profile=profile), config).rules(name) or NO_RULES
        for reason in not_applied(NarrowedPolicy(policy, partial(_same, rules)).shown(known)):
            if reason not in of_entry:
                yield f"{name} in profile {profile}: {reason}"


def _mended(config: Config, name: str, known: Catalogue) -> str:
    """Say which native tools of a server are shown in other forms, in which, and to which clients."""
    from mcpx.core.calls.exposure import is_pinned
    from mcpx.core.gateway.clients.known_clients import KNOWN_CLIENTS

    server = config.servers[name]
    tools = [each for each in known.tools.values() if server.expose != "three" or is_pinned(server, each)]
    said = []
    for tool in tools:
        for mend in mends_in(tool.input_schema, sorted(ALL_MENDS - {"strict"})):
            clients = ", ".join(client.title for client in KNOWN_CLIENTS if mend in client.mends)
            said.append(f"{tool.name} ({mend}, for {'all' if config.sanitize == 'on' else clients})")
        chars = {each.title: each.description_chars for each in KNOWN_CLIENTS if "texts" in each.mends}
        size = len(tool.description or "")
        if titles := [title for title, most in chars.items() if size == 0 or size > (most or size)]:
            said.append(f"{tool.name} (texts, for {', '.join(titles)})")
    more = f" and {len(said) - MAX_MENDED} more" if len(said) > MAX_MENDED else ""
    return f"{name}: shown in another form (sanitize): {'; '.join(said[:MAX_MENDED])}{more}" if said else ""


def _same(rules: Rules) -> Rules:
    return rules


def _needing_setup(found: Examination) -> list[str]:
    """The servers that cannot be started for want of something."""
    states = {} if found.config is None else _states(found.config)
    lacking = {each.server for each in found.findings if each.keeps_from_starting}
    return [
        name for name, its in states.items() if (name in lacking if its is None else its.state == NEEDS_SETUP)
    ]


def _states(config: Config) -> dict[str, Diagnosis | None]:
    return {name: diagnose(server) for name, server in (config.servers | config.peers).items()}


def _report(found: Examination) -> dict[str, Any]:
    """The result for programs; `error` is there if something is wrong."""
    findings: list[dict[str, Any]] = [msgspec.to_builtins(each) for each in found.findings]
    config = found.config
    servers = [
        {"name": server.name, "transport": server.transport.kind, **_entry(server)}
        for server in (config.servers.values() if config else ())
    ]
    report: dict[str, Any] = {"source": found.source, "usable": config is not None}
    report |= {"error": f"{found.source}: {_verdict(found)}"} if found.errors else {}
    report |= {"servers": servers}
    if config and config.peers:
        report["peers"] = [
            {"name": peer.name, "transport": peer.transport.kind, "prefix": peer.prefix, **_entry(peer)}
            for peer in config.peers.values()
        ]
    report |= {"profiles": {name: _shown(config, name) for name in config.profiles} if config else {}}
    report |= {"notices": config.notices if config else ()}
    report |= {"problems": [each for each in findings if each["level"] == "error"]}
    return report | {"warnings": [each for each in findings if each["level"] != "error"]}


def _entry(server: ServerConfig) -> dict[str, Any]:
    """`{state, cause, missing, remedy, disabled}` by the entry of a server; null where it can be started."""
    found = diagnose(server)
    said = {name: getattr(found, name, None) for name in ("state", "cause", "remedy")}
    return {**said, "missing": [] if found is None else [*found.missing], "disabled": server.disabled}


def _verdict(found: Examination) -> str:
    """The number of mistakes, and their consequence."""
    if not found.errors:
        names = _needing_setup(found)
        return f"{', '.join(sorted(names))}: not started until what is missing is there"
    mistakes = counted(len(found.errors), "mistake")
    if found.config is None:
        option = config_hint(found.source)
        cure = f"correct it, then: mcpx check{option}" if exists(found.source) else f"mcpx setup{option}"
        return f"{mistakes}; this configuration cannot be used; {cure}"
    servers = {each.server for each in found.errors} - {None}
    return f"{mistakes}" + (f"; not started: {', '.join(sorted(map(str, servers)))}" if servers else "")


def _show(found: Examination) -> None:
    if config := found.config:
        echo(f"{found.source}: {counted(len(config.servers), 'server')}")
        _show_servers(found, config)
    for finding in found.findings:
        _show_finding(finding, found.source)
    if found.errors or _needing_setup(found):
        echo(f"mcpx: {found.source}: {_verdict(found)}", err=True, fg="red")


def _show_servers(found: Examination, config: Config) -> None:
    levels = {(finding.server, finding.level) for finding in found.findings}
    for server in config.servers.values():
        state = _state(server)
        if state.startswith("ok") and (server.name, "warning") in levels:
            state = f"warning, see below{state[2:]}"
        is_good = state.startswith("ok")
        how: str = server.transport.kind
        if how != "stdio" and server.transport.program is not None:
            how += ", started by MCPX"
        echo(f"  {server.name} ({how}): {state}", fg=None if is_good else "yellow")
    for peer in config.peers.values():
        state = _state(peer)
        named = "its servers are known once it is asked" if state.startswith("ok") else state
        names = f"{peer.prefix}/..." if peer.prefix else "under their own names"
        echo(f"  {peer.name} (another MCPX, {peer.transport.kind}): {named}; {names}")
    for name, profile in config.profiles.items():
        echo(f"  profile {name}: {', '.join(_shown(config, name)) or 'no servers'}")
        for shown, rules in profile.servers_with_rules.items():
            patterns = rules if isinstance(rules, tuple) else rules.allow
            if patterns is not None:
                echo(f"    of {shown}: {', '.join(patterns) or 'no tools'}")


def _state(server: ServerConfig) -> str:
    if found := diagnose(server):
        return "invalid: its entry holds a mistake, see below" if found.state == INVALID else str(found)
    expose = f", expose: {server.expose}" if server.expose != "three" else ""
    return f"ok{expose}" + (f", pinned: {', '.join(server.pinned)}" if server.pinned else "")


def _show_finding(finding: Finding, source: str) -> None:
    place = source if finding.line is None else f"{source}:{finding.line}:{finding.column}"
    is_told = finding.path in {None, "$"} or "(in $" in finding.text
    path = "" if is_told else f" (in {finding.path})"
    echo(f"{place}: {finding.level}: {finding.text}{path}", fg=_COLOURS[finding.level])
    if finding.excerpt and finding.level != "note":
        for line in finding.excerpt.splitlines():
            echo(f"    {line}")


def _shown(config: Config, profile: str) -> list[str]:
    """The servers that a profile shows."""
    return list(select(Endpoint(profile=profile), config).config.servers)


@click.group(short_help="About the configuration file.")
def config() -> None:
    """About the configuration file."""


@config.command()
@with_config
def schema(config_path: str | None) -> None:  # noqa: ARG001 - every command takes it; the schema is of any file
    """Print the JSON Schema of the configuration: every setting, with its default."""
    print_json(json_schema())

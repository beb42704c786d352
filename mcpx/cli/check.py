"""`mcpx check` and `mcpx config`: the configuration itself, without starting anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from mcpx.cli.printing import echo

if TYPE_CHECKING:
    from mcpx.config import Config


@click.command(short_help="Check a configuration.")
@click.argument("config", required=False, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def check(config: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Check CONFIG: say what is wrong with it and where, or which servers it has.

    Starts no server. Exit code 2 if the configuration cannot be used.
    """
    from mcpx.config import load

    loaded = load(config)
    if as_json:
        servers = [
            {"name": server.name, "transport": server.transport.kind, "disabled": server.disabled}
            for server in loaded.servers.values()
        ]
        profiles = {name: _shown(loaded, name) for name in loaded.profiles}
        report: dict[str, object] = {"source": loaded.source, "servers": servers, "profiles": profiles}
        report |= {"notices": loaded.notices}
        echo(json.dumps(report, indent=2, ensure_ascii=False))
        return
    echo(f"{loaded.source}: {len(loaded.servers)} server{'s' if len(loaded.servers) != 1 else ''}")
    for server in loaded.servers.values():
        state = f"disabled: {server.disabled}" if server.disabled else "ok"
        if not server.disabled and server.expose != "three":
            state += f", expose: {server.expose}"
        if not server.disabled and server.pinned:
            state += f", pinned: {', '.join(server.pinned)}"
        echo(f"  {server.name} ({server.transport.kind}): {state}", fg="yellow" if server.disabled else None)
    for name, profile in loaded.profiles.items():
        echo(f"  profile {name}: {', '.join(_shown(loaded, name)) or 'no servers'}")
        for shown, patterns in profile.tools.items():
            echo(f"    of {shown}: {', '.join(patterns) or 'no tools'}")
    for notice in loaded.notices:
        echo(f"  note: {notice}", fg="yellow")


def _shown(config: Config, profile: str) -> list[str]:
    """The servers that a profile shows."""
    from mcpx.core.profiles import select
    from mcpx.door import Door

    return list(select(Door(profile=profile), config).config.servers)


@click.group(short_help="About the configuration file.")
def config() -> None:
    """About the configuration file."""


@config.command()
def schema() -> None:
    """Print the JSON Schema of the configuration: every setting, with its default."""
    from mcpx.config import json_schema

    echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))

"""`mcpx check` and `mcpx config`: the configuration itself, without starting anything."""

from __future__ import annotations

import json

import click

from mcpx.cli.printing import echo


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
        report = {"source": loaded.source, "servers": servers, "notices": loaded.notices}
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
    for notice in loaded.notices:
        echo(f"  note: {notice}", fg="yellow")


@click.group(short_help="About the configuration file.")
def config() -> None:
    """About the configuration file."""


@config.command()
def schema() -> None:
    """Print the JSON Schema of the configuration: every setting, with its default."""
    from mcpx.config import json_schema

    echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))

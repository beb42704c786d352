"""`mcpx inspect`, `resources` and `prompts`: what the servers offer, from a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcpx.cli.asking import ask, config_option, json_option, profile_option
from mcpx.cli.printing import console, echo
from mcpx.cli.results import print_json, show
from mcpx.text import one_line, shown_uri

if TYPE_CHECKING:
    from mcpx.catalog.model import JSON


@click.command(short_help="What the servers offer.")
@click.argument("server", required=False)
@click.argument("tools", nargs=-1)
@click.option("--query", default="", help="Search the tools of all servers, or of SERVER.")
@profile_option
@config_option
@json_option
def inspect(
    *,
    server: str | None,
    tools: tuple[str, ...],
    query: str,
    profile: str | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """Show all servers, the tools of one SERVER, or each TOOL whole."""
    control_request: JSON = {"mcpx": "inspect", "server": server, "tool": list(tools) or None}
    control_request |= {"query": query, "profile": profile}
    response = ask(config_path, control_request)
    if "servers" in response:
        _show_servers(response["servers"], as_json=as_json)
    else:
        show(response["shaped"], as_json=as_json)


@click.command(short_help="List resources, or read one.")
@click.argument("server", required=False)
@click.argument("uri", required=False)
@profile_option
@config_option
@json_option
def resources(
    *,
    server: str | None,
    uri: str | None,
    profile: str | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """List the resources of all servers or of one SERVER, or read the one at URI."""
    response = ask(config_path, {"mcpx": "resources", "server": server, "uri": uri, "profile": profile})
    if "shaped" in response:
        show(response["shaped"], as_json=as_json)
    else:
        _show_resources(response["resources"], as_json=as_json)


def _show_servers(servers: list[JSON], *, as_json: bool) -> None:
    if as_json:
        plain = [{key: value for key, value in each.items() if key != "described"} for each in servers]
        print_json(plain)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("server", "state", "tools", "resources", "title", box=None, pad_edge=False)
    for each in servers:
        counts = str(each["tools"]), str(each["resources"])
        said = [one_line(each[field] or "") for field in ("name", "described")]
        table.add_row(*map(Text, (*said, *counts, one_line(each.get("title") or ""))))
    console().print(table)


def _show_resources(found: dict[str, list[JSON]], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for name, items in found.items():
        for item in items:
            size = item.get("size")
            details = ", ".join(str(d) for d in (item.get("mime_type"), size and f"{size} bytes") if d)
            line = f"{name}  {shown_uri(item['uri'])}  {one_line(item['name'])}"
            echo(line + (f"  ({one_line(details)})" if details else ""))
    if not any(found.values()):
        click.echo("no resources", err=True)

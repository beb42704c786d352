"""`mcpx inspect`, `resources` and `prompts`: what the servers offer, from a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mcpx.cli.asking import ask
from mcpx.cli.calls.exec import save_result, show_result, text_of
from mcpx.cli.known_names import complete_prompt, complete_server, complete_tool, complete_uri
from mcpx.cli.options import json_option, profile_option, with_config
from mcpx.cli.printing import console, echo, print_json
from mcpx.core.text import one_line, shown_uri

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON


@click.command(short_help="What the servers offer.")
@click.argument("server", required=False, shell_complete=complete_server)
@click.argument("tools", nargs=-1, shell_complete=complete_tool)
@click.option("--query", default="", help="Search the tools of all servers, or of SERVER.")
@click.option("--raw", is_flag=True, help="Print what a model gets.")
@profile_option
@with_config
@json_option
def inspect(
    *,
    server: str | None,
    tools: tuple[str, ...],
    query: str,
    raw: bool,
    profile: str | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """Show all servers, the tools of one SERVER, or each TOOL whole."""
    control_request: JSON = {"mcpx": "inspect", "server": server, "tool": list(tools) or None}
    control_request |= {"query": query, "profile": profile}
    if server is None and not query:
        _inspect_all(config_path, control_request, as_json=as_json)
        return
    shaped = ask(config_path, control_request)["shaped"]
    if as_json or raw or query or shaped["isError"] or not shaped["structuredContent"]:
        show_result(shaped, as_json=as_json)
        return
    from mcpx.cli.calls.offer_view import render  # rich, which completion does without

    console().print(render(shaped["structuredContent"]))


def _inspect_all(config_path: str | None, control_request: JSON, *, as_json: bool) -> None:
    """Show all servers; on a terminal each as it comes, where they are started for this alone."""
    from mcpx.cli.calls.offer_view import ServerRows, server_table  # likewise rich

    rows = ServerRows()
    as_they_come = sys.stdout.isatty() and not as_json
    servers = ask(config_path, control_request, rows.report if as_they_come else None)["servers"]
    if as_json:
        print_json([{key: value for key, value in each.items() if key != "described"} for each in servers])
    elif not rows.has_header:
        console().print(server_table(servers))


@click.command(short_help="List resources, or read one.")
@click.argument("server", required=False, shell_complete=complete_server)
@click.argument("uri", required=False, shell_complete=complete_uri)
@click.option("--out", metavar="FILE", help="Write what is read to FILE (or a folder, or -).")
@profile_option
@with_config
@json_option
def resources(
    *,
    server: str | None,
    uri: str | None,
    out: str | None,
    profile: str | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """List the resources of all servers or of one SERVER, or read the one at URI."""
    response = ask(config_path, {"mcpx": "resources", "server": server, "uri": uri, "profile": profile})
    if uri is None:
        _show_resources(response, as_json=as_json)
        return
    shaped = response["shaped"]
    if out is None or shaped["isError"]:
        show_result(shaped, as_json=as_json)
    else:
        save_result(shaped, out, name=uri.rstrip("/").rpartition("/")[2], as_json=as_json)


def _show_resources(response: JSON, *, as_json: bool) -> None:
    found, templates = response["resources"], response.get("templates", {})
    if as_json:
        print_json(found)
        return
    for name, items in found.items():
        for item in items:
            size = item.get("size")
            details = ", ".join(str(d) for d in (item.get("mime_type"), size and f"{size} bytes") if d)
            line = f"{name}  {shown_uri(item['uri'])}  {one_line(item['name'])}"
            echo(line + (f"  ({one_line(details)})" if details else ""))
    for name, items in templates.items():
        for item in items:
            echo(f"{name}  {shown_uri(item['uriTemplate'])}  {one_line(item['name'])}  (template)")
    if not any(found.values()) and not any(templates.values()):
        click.echo("no resources", err=True)


@click.command(short_help="List prompts, or get one.")
@click.argument("server", required=False, shell_complete=complete_server)
@click.argument("prompt", required=False, shell_complete=complete_prompt)
@click.argument("arguments", nargs=-1)
@profile_option
@with_config
@json_option
def prompts(
    *,
    server: str | None,
    prompt: str | None,
    arguments: tuple[str, ...],
    profile: str | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """List the prompts of all servers or of one SERVER, or get a PROMPT with ARGUMENTS (key=value)."""
    pairs = [word.partition("=")[::2] for word in arguments]
    if wrong := [word for word in arguments if "=" not in word]:
        raise click.BadParameter(f"{wrong[0]!r} is not key=value", param_hint="ARGUMENTS")
    control_request: JSON = {"mcpx": "prompts", "server": server, "prompt": prompt}
    response = ask(config_path, control_request | {"pairs": pairs, "profile": profile})
    if as_json:
        print_json(response["prompt" if prompt else "prompts"])
    elif prompt:
        _show_prompt(response["prompt"])
    else:
        _show_prompts(response["prompts"])


def _show_prompt(got: JSON) -> None:
    for message in got.get("messages", ()):
        echo(f"{message.get('role', '')}:", bold=True)
        echo(text_of(message.get("content") or {}))


def _show_prompts(found: dict[str, list[JSON]]) -> None:
    for name, items in found.items():
        for item in items:
            takes = [
                f"{one_line(str(each.get('name')))}{'' if each.get('required') else '?'}"
                for each in item.get("arguments") or ()
            ]
            text = one_line(item.get("description") or item.get("title") or "")
            echo(f"{name}  {one_line(item['name'])}({', '.join(takes)})" + (f"  {text}" if text else ""))
    if not any(found.values()):
        click.echo("no prompts", err=True)

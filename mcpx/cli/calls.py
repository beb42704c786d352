"""`mcpx inspect`, `exec` and `resources`: the three tools from a terminal, on a process of their own.

Only the servers that are needed are started, and ended again before the command returns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcpx.catalog.model import JSON, ServerInfo
    from mcpx.content import Shaped
    from mcpx.hub import Hub

_config = click.option("--config", "config_path", type=click.Path(), help="Configuration file.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.command(short_help="What the servers offer.")
@click.argument("server", required=False)
@click.argument("tool", required=False)
@_config
@_json
def inspect(server: str | None, tool: str | None, config_path: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Show all servers, the tools of one SERVER, or one TOOL whole."""

    async def work(hub: Hub) -> bool:
        if server is None:
            _show_servers(hub.registry.list_servers(), as_json=as_json)
        else:
            _show(await hub.router.inspect(server, tool), as_json=as_json)
        return True

    _run(config_path, server, work)


@click.command("exec", short_help="Run a tool.")
@click.argument("server")
@click.argument("tool")
@click.argument("arguments", nargs=-1)
@_config
@_json
def exec_tool(
    server: str,
    tool: str,
    arguments: tuple[str, ...],
    config_path: str | None,
    as_json: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Run a TOOL of a SERVER.

    \b
    ARGUMENTS are one JSON object, or key=value pairs; a value is JSON where it can be, else text:
      mcpx exec files read_text_file path=/tmp/a.txt head=5
      mcpx exec files read_text_file '{"path": "/tmp/a.txt", "head": 5}'
    """  # noqa: D301 - click's own mark, not an escape
    given = read_arguments(arguments)

    async def work(hub: Hub) -> bool:
        done = await hub.router.exec(server, tool, given)
        _show(done.shaped, as_json=as_json)
        return not done.is_error

    _run(config_path, server, work)


@click.command(short_help="List resources, or read one.")
@click.argument("server", required=False)
@click.argument("uri", required=False)
@_config
@_json
def resources(server: str | None, uri: str | None, config_path: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it by name
    """List the resources of all servers or of one SERVER, or read the one at URI."""

    async def work(hub: Hub) -> bool:
        if server is not None and uri is not None:
            _show(await hub.router.read(server, uri), as_json=as_json)
        else:
            if server is not None:
                hub.registry.upstream(server)  # an unknown name is an error, with the nearest ones
            _show_resources(hub, server, as_json=as_json)
        return True

    _run(config_path, server, work)


def read_arguments(words: tuple[str, ...]) -> JSON:
    """Arguments from the command line: one JSON object, or `key=value` words.

    Raises:
        click.BadParameter: They are neither.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            loaded: JSON = json.loads(words[0])
        except ValueError as error:
            raise click.BadParameter(f"not JSON: {error}", param_hint="ARGUMENTS") from None
        return loaded
    given: JSON = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{word!r} is neither JSON nor key=value", param_hint="ARGUMENTS")
        given[key] = _value(value)
    return given


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _run(config_path: str | None, server: str | None, work: Callable[[Hub], Awaitable[bool]]) -> None:
    """Start what is needed, do the work, end everything; exit code 1 where the work says no."""
    from mcpx.cli.own_process import run_with_servers

    sys.exit(0 if run_with_servers(config_path, server, work) else 1)


def _show(shaped: Shaped, *, as_json: bool) -> None:
    if as_json:
        whole = {
            "content": shaped.content,
            "structuredContent": shaped.structured_content,
            "isError": shaped.is_error,
        }
        click.echo(json.dumps(whole, indent=2, ensure_ascii=False))
        return
    for block in shaped.content:
        click.echo(block["text"] if block.get("type") == "text" else _media(block), err=shaped.is_error)


def _media(block: JSON) -> str:
    """What a terminal can say of a block that is not text."""
    inner = block.get("resource", block)
    size = len(inner.get("data") or inner.get("blob") or "") * 3 // 4
    about = [block.get("type"), inner.get("mimeType"), inner.get("uri"), f"{size} bytes" if size else None]
    return f"[{', '.join(str(part) for part in about if part)}; --json shows it]"


def _show_servers(servers: list[ServerInfo], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([info.to_dict() for info in servers], indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("server", "state", "tools", "resources", "title", box=None, pad_edge=False)
    for info in servers:
        known = info.to_dict()
        title = known.get("title") or ""
        table.add_row(info.name, info.describe_state(), str(known["tools"]), str(known["resources"]), title)
    width = None if sys.stdout.isatty() else 200  # a pipe has no width of its own
    Console(width=width).print(table)


def _show_resources(hub: Hub, server: str | None, *, as_json: bool) -> None:
    found = hub.registry.list_all_resources()
    if server is not None:
        found = {server: hub.registry.list_resources(server)}
    if as_json:
        plain = {name: [item.to_dict() for item in items] for name, items in found.items()}
        click.echo(json.dumps(plain, indent=2, ensure_ascii=False))
        return
    for name, items in found.items():
        for item in items:
            details = ", ".join(str(d) for d in (item.mime_type, item.size and f"{item.size} bytes") if d)
            click.echo(f"{name}  {item.uri}  {item.name}" + (f"  ({details})" if details else ""))
    if not any(found.values()):
        click.echo("no resources", err=True)

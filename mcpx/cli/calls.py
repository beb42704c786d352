"""`mcpx inspect`, `exec` and `resources`: the three tools from a terminal.

Through the daemon, if one runs for the configuration; else on a process of their own: then only the servers
that are needed are started, and ended again before the command returns. Both answer the same
(`mcpx.gateway.frontends.control`).
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from mcpx.cli.printing import echo
from mcpx.text import one_line, shown_uri

if TYPE_CHECKING:
    from mcpx.catalog.model import JSON

_config = click.option("--config", "config_path", type=click.Path(), help="Configuration file.")
_profile = click.option("--profile", metavar="NAME", help="As the clients of this profile see it.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.command(short_help="What the servers offer.")
@click.argument("server", required=False)
@click.argument("tools", nargs=-1)
@click.option("--query", default="", help="Search the tools of all servers, or of SERVER.")
@_profile
@_config
@_json
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
    response = _ask(config_path, control_request)
    if "servers" in response:
        _show_servers(response["servers"], as_json=as_json)
    else:
        _show(response["shaped"], as_json=as_json)


@click.command("exec", short_help="Run a tool.")
@click.argument("server")
@click.argument("tool", required=False)
@click.argument("arguments", nargs=-1)
@_profile
@_config
@_json
def exec_tool(
    *,
    server: str,
    tool: str | None,
    arguments: tuple[str, ...],
    profile: str | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """Run a TOOL of a SERVER.

    \b
    ARGUMENTS are one JSON object, or key=value pairs; a value is JSON where it can be and the tool takes
    that, else text:
      mcpx exec files read_text_file path=/tmp/a.txt head=5
      mcpx exec files read_text_file '{"path": "/tmp/a.txt", "head": 5}'
    """  # noqa: D301 - click's own mark, not an escape
    if tool and ("=" in tool or tool.lstrip().startswith("{")):  # `exec git.git_status repo_path=.`
        arguments = (tool, *arguments)
        tool = None
    control_request: JSON = {"mcpx": "exec", "server": server, "tool": tool, "profile": profile}
    control_request |= {"arguments": read_arguments(arguments), "words": read_words(arguments)}
    shaped = _ask(config_path, control_request)["shaped"]
    _show(shaped, as_json=as_json)
    sys.exit(1 if shaped["isError"] else 0)


@click.command(short_help="List resources, or read one.")
@click.argument("server", required=False)
@click.argument("uri", required=False)
@_profile
@_config
@_json
def resources(
    *,
    server: str | None,
    uri: str | None,
    profile: str | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """List the resources of all servers or of one SERVER, or read the one at URI."""
    response = _ask(config_path, {"mcpx": "resources", "server": server, "uri": uri, "profile": profile})
    if "shaped" in response:
        _show(response["shaped"], as_json=as_json)
    else:
        _show_resources(response["resources"], as_json=as_json)


def read_arguments(words: tuple[str, ...]) -> JSON:
    """Arguments from the command line: one JSON object, or `key=value` words.

    Raises:
        click.BadParameter: They are neither.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            loaded: JSON = json.loads(words[0])
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(f"not JSON that can be read: {error}", param_hint="ARGUMENTS") from None
        return _checked(loaded)
    given: JSON = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{word!r} is neither JSON nor key=value", param_hint="ARGUMENTS")
        given[key] = _value(value)
    return _checked(given)


def read_words(words: tuple[str, ...]) -> dict[str, str] | None:
    """The values of `key=value` words as text; None where there are none."""
    if not words or words[0].lstrip().startswith("{"):
        return None
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _checked(arguments: JSON) -> JSON:
    """Return arguments that JSON can say.

    Raises:
        click.BadParameter: They hold a NaN or an infinity.
    """
    from mcpx.validation.bounds import holds_nonfinite

    if holds_nonfinite(arguments):
        problem = "a number is beyond what JSON can say; write it as text, or smaller"
        raise click.BadParameter(problem, param_hint="ARGUMENTS")
    return arguments


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _ask(config_path: str | None, control_request: JSON) -> JSON:
    """The answer of the daemon, or of servers started for this alone."""
    from mcpx.daemon.control_client import request
    from mcpx.daemon.paths import daemon_paths
    from mcpx.errors import DaemonError

    with suppress(DaemonError):  # then no daemon can be there
        # a call has deadlines of its own
        answer = request(daemon_paths(config_path), control_request, within=None)
        if answer is not None:
            return answer
    from mcpx.light_imports import light_sdk

    with light_sdk():
        from mcpx.cli.own_process import perform_alone

    return perform_alone(config_path, control_request)


def _show(shaped: JSON, *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(shaped, indent=2, ensure_ascii=False))
        return
    for block in shaped["content"]:
        echo(block["text"] if block.get("type") == "text" else _media(block), err=shaped["isError"])


def _media(block: JSON) -> str:
    """Describe a block that is not text."""
    inner = block.get("resource", block)
    size = len(inner.get("data") or inner.get("blob") or "") * 3 // 4
    about = [block.get("type"), inner.get("mimeType"), inner.get("uri"), f"{size} bytes" if size else None]
    return f"[{', '.join(str(part) for part in about if part)}; --json shows it]"


def _show_servers(servers: list[JSON], *, as_json: bool) -> None:
    if as_json:
        plain = [{key: value for key, value in each.items() if key != "described"} for each in servers]
        echo(json.dumps(plain, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("server", "state", "tools", "resources", "title", box=None, pad_edge=False)
    for each in servers:
        counts = str(each["tools"]), str(each["resources"])
        said = [one_line(each[field] or "") for field in ("name", "described")]
        table.add_row(*map(Text, (*said, *counts, one_line(each.get("title") or ""))))
    width = None if sys.stdout.isatty() else 200  # a pipe has no width of its own
    Console(width=width).print(table)


def _show_resources(found: dict[str, list[JSON]], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for name, items in found.items():
        for item in items:
            size = item.get("size")
            details = ", ".join(str(d) for d in (item.get("mime_type"), size and f"{size} bytes") if d)
            line = f"{name}  {shown_uri(item['uri'])}  {one_line(item['name'])}"
            echo(line + (f"  ({one_line(details)})" if details else ""))
    if not any(found.values()):
        click.echo("no resources", err=True)

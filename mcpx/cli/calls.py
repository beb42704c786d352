"""`mcpx exec`: a tool from a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mcpx.cli.asking import ask, profile_option, progress_of
from mcpx.cli.daemon import json_option, with_config
from mcpx.cli.known_names import complete_argument, complete_server, complete_tool
from mcpx.cli.results import save, show

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON


@click.command("exec", short_help="Run a tool.")
@click.argument("server", shell_complete=complete_server)
@click.argument("tool", required=False, shell_complete=complete_tool)
@click.argument("arguments", nargs=-1, shell_complete=complete_argument)
@click.option("--out", metavar="FILE", help="Write the result to FILE (or a folder, or -): images as images.")
@profile_option
@with_config
@json_option
def exec_tool(
    *,
    server: str,
    tool: str | None,
    arguments: tuple[str, ...],
    out: str | None,
    profile: str | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """Run a TOOL of a SERVER.

    \b
    ARGUMENTS are key=value pairs, with the types that the tool wants: a key given twice is a list, a.b=1 is a
    member of a. Or JSON: one object, @FILE or - (standard input) for one:
      mcpx exec files read_text_file path=/tmp/a.txt head=5
      mcpx exec files read_text_file '{"path": "/tmp/a.txt", "head": 5}'
      mcpx exec files read_text_file - <arguments.json
    """  # noqa: D301 - click's own mark, not an escape
    from mcpx.cli.arguments import are_arguments, read_arguments

    if tool and are_arguments(tool):  # `exec git.git_status repo_path=.`
        arguments = (tool, *arguments)
        tool = None
    given = read_arguments(arguments)
    control_request: JSON = {"mcpx": "exec", "server": server, "tool": tool, "profile": profile}
    control_request |= {"arguments": given.arguments, "pairs": given.pairs, "unshaped": out is not None}
    with progress_of(f"{server} {tool or ''}".rstrip()) as progress:
        control_request["progress"] = progress is not None
        shaped = ask(config_path, control_request, progress)["shaped"]
    if out is None or shaped["isError"]:
        show(shaped, as_json=as_json)
    else:
        save(shaped, out, name=tool or server, as_json=as_json)
    sys.exit(1 if shaped["isError"] else 0)

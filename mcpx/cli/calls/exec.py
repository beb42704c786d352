"""`mcpx exec`: a tool from a terminal, with arguments as JSON, files, standard input, and `key=value`.

A word is one JSON object, `@FILE` or `-` for a file or standard input that holds one, or `key=value`. What
comes later counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mcpx.cli.asking import ask, progress_of
from mcpx.cli.calls.results import save_result, show_result
from mcpx.cli.known_names import complete_argument, complete_server, complete_tool
from mcpx.cli.options import json_option, profile_option, with_config
from mcpx.core.text.json_work import holds_nonfinite

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON


class Given(NamedTuple):
    """The arguments of a command line."""

    arguments: JSON
    """All of it; the value of a `key=value` is JSON if it can be, else text."""
    pairs: list[tuple[str, str]]
    """The `key=value` words as text, of which a schema knows better what they are."""


def are_arguments(word: str) -> bool:
    """Return True if a word is arguments, not the name of a tool."""
    return "=" in word or word == "-" or word.startswith("@") or word.lstrip().startswith("{")


def read_arguments(words: tuple[str, ...]) -> Given:
    """The arguments that the words give.

    Raises:
        click.BadParameter: They are none.
        OSError: A file cannot be read.
    """
    given: JSON = {}
    pairs: list[tuple[str, str]] = []
    for word in words:
        if word == "-" or word.startswith(("@", "{")) or word.lstrip().startswith("{"):
            given |= _object(*_source(word))
            pairs = [pair for pair in pairs if pair[0] not in given]
            continue
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise _bad(f"{word!r} is neither JSON, key=value, @FILE nor -")
        given[key] = _guessed(value)
        pairs.append((key, value))
    return Given(_checked(given), pairs)


def _source(word: str) -> tuple[str, str]:
    """A text that should be JSON, and where it comes from."""
    if word == "-":
        if sys.stdin.isatty():
            click.echo("reading a JSON object; end it with Ctrl-D", err=True)
        return sys.stdin.buffer.read().decode("utf-8-sig", "replace"), "standard input: "
    if word.startswith("@"):
        return Path(word[1:]).read_bytes().decode("utf-8-sig", "replace"), f"{word[1:]}: "
    return word, ""


def _object(text: str, source: str) -> JSON:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(f"{source}not JSON that can be read: {error}") from None
    if not isinstance(loaded, dict):
        raise _bad(f"{source}not a JSON object")
    return loaded


def _checked(arguments: JSON) -> JSON:
    """Return arguments that JSON can say."""
    if holds_nonfinite(arguments):
        raise _bad("a number is beyond what JSON can say; write it as text, or smaller")
    return arguments


def _guessed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _bad(problem: str) -> click.BadParameter:
    return click.BadParameter(problem, param_hint="ARGUMENTS")


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
    if tool and are_arguments(tool):  # `exec git.git_status repo_path=.`
        arguments = (tool, *arguments)
        tool = None
    given = read_arguments(arguments)
    control_request: JSON = {"mcpx": "exec", "server": server, "tool": tool, "profile": profile}
    control_request |= {"arguments": given.arguments, "pairs": given.pairs, "unshaped": out is not None}
    with progress_of(f"{server} {tool or ''}".rstrip()) as progress:
        control_request["progress"] = progress is not None
        shaped = ask(config_path, control_request, None if progress is None else progress.show)["shaped"]
    if out is None or shaped["isError"]:
        show_result(shaped, as_json=as_json)
    else:
        save_result(shaped, out, name=tool or server, as_json=as_json)
    sys.exit(1 if shaped["isError"] else 0)

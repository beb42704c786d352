"""`mcpx exec`: a tool from a terminal, with arguments as JSON, files, standard input, and `key=value`.

A word is one JSON object, `@FILE` or `-` for a file or standard input that holds one, or `key=value`. What
comes later counts.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mcpx.cli.asking import ask, progress_of
from mcpx.cli.known_names import complete_argument, complete_server, complete_tool
from mcpx.cli.options import json_option, profile_option, with_config
from mcpx.cli.printing import echo, print_json
from mcpx.core.text.json_work import holds_nonfinite
from mcpx.errors import MCPXError

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON


# --- results, printed for people and programs, or saved as the files that they hold


def show_result(shaped: JSON, *, as_json: bool = False) -> None:
    """Print a result: its texts, and a line for each other block; an error on standard error."""
    if as_json:
        print_json(shaped)
        return
    for block in shaped["content"]:
        echo(text_of(block), err=shaped["isError"])


def text_of(block: JSON) -> str:
    """A block as it is printed."""
    return str(block["text"]) if block.get("type") == "text" else _media(block)


def _media(block: JSON) -> str:
    """Describe a block that is not text."""
    inner = block.get("resource", block)
    size = len(inner.get("data") or inner.get("blob") or "") * 3 // 4
    about = [block.get("type"), inner.get("mimeType"), inner.get("uri"), f"{size} bytes" if size else None]
    return f"[{', '.join(str(part) for part in about if part)}; --out FILE saves it]"


class _Part(NamedTuple):
    """One file's worth of a result."""

    content: bytes
    mime_type: str


def save_result(shaped: JSON, out: str, *, name: str, as_json: bool = False) -> None:
    """Write what a result holds to a file, a folder (as `name`), or standard output (`-`).

    Images, audio and blobs are decoded. Of several, the second is written as `FILE-2`, and so on; texts
    beside them are printed.

    Raises:
        MCPXError: The result holds several and standard output takes one, or it cannot be decoded.
        OSError: It cannot be written.
    """
    blocks = shaped["content"]
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    parts = [_decoded(block) for block in blocks if block.get("type") != "text"]
    if not parts:
        text = "\n".join(texts) if texts else json.dumps(shaped.get("structuredContent") or {})
        parts, texts = [_Part(text.encode("utf-8", "backslashreplace"), "text/plain")], []
    if out == "-":
        if len(parts) > 1:
            raise MCPXError(f"the result holds {len(parts)} files; name a file or a folder with --out")
        sys.stdout.buffer.write(parts[0].content)
        sys.stdout.flush()
        return
    saved = []
    for number, part in enumerate(parts, 1):
        path = _path(out, name, part, number)
        path.write_bytes(part.content)
        saved.append({"file": str(path), "mime_type": part.mime_type, "bytes": len(part.content)})
    if as_json:
        print_json({"saved": saved, "texts": texts})
        return
    for text in texts:
        echo(text)
    for each in saved:
        echo(f"wrote {each['file']} ({each['mime_type']}, {each['bytes']} bytes)", err=True)


def _path(out: str, name: str, part: _Part, number: int) -> Path:
    """The file for a part."""
    path = Path(out)
    if out.endswith(os.sep) or path.is_dir():
        safe = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name).lstrip(".")
        path /= (safe or "result") + (mimetypes.guess_extension(part.mime_type) or "")
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


def _decoded(block: JSON) -> _Part:
    """The file in a block that is not text."""
    inner = block.get("resource", block)
    mime_type = str(inner.get("mimeType") or "application/octet-stream").partition(";")[0]
    if isinstance(inner.get("text"), str):
        return _Part(inner["text"].encode("utf-8", "backslashreplace"), mime_type)
    data = inner.get("data") or inner.get("blob")
    if data is None:  # a link
        return _Part(json.dumps(block, indent=2, ensure_ascii=False).encode(), "application/json")
    try:
        return _Part(base64.b64decode(data, validate=True), mime_type)
    except (binascii.Error, ValueError) as error:
        raise MCPXError(f"the server's {block.get('type')} is not base64: {error}") from None


# --- arguments


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


# --- mcpx exec


@click.command("exec", short_help="Run a tool.")
@click.argument("server", shell_complete=complete_server)
@click.argument("tool", required=False, shell_complete=complete_tool)
@click.argument("arguments", nargs=-1, shell_complete=complete_argument)
@click.option("--out", metavar="FILE", help="Write the result to FILE (or a folder, or -): images as images.")
@click.option("--fresh", is_flag=True, help="Ask the server, even if a result is kept (cache).")
@profile_option
@with_config
@json_option
def exec_tool(
    *,
    server: str,
    tool: str | None,
    arguments: tuple[str, ...],
    out: str | None,
    fresh: bool,
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
    control_request |= {"arguments": given.arguments, "pairs": given.pairs, "fresh": fresh}
    with progress_of(f"{server} {tool or ''}".rstrip()) as progress:
        control_request |= {"progress": progress is not None, "unshaped": out is not None}
        shaped = ask(config_path, control_request, None if progress is None else progress.show)["shaped"]
    if out is None or shaped["isError"]:
        show_result(shaped, as_json=as_json)
    else:
        save_result(shaped, out, name=tool or server, as_json=as_json)
    sys.exit(1 if shaped["isError"] else 0)

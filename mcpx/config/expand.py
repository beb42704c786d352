"""`${VAR}` in the strings of a server's entry.

Owns the small language:

* `${VAR}`, or VS Code's `${env:VAR}`: the environment variable; a problem when it is not set.
* `${VAR:-default}`: the default when VAR is unset or empty, as in a shell; it may hold references itself.
* `${userHome}`: the home folder.
* `${workspaceFolder}`, `${input:...}` and their kin are known to an editor only: a problem, unless a default
  is given.
* `$${` is a literal `${`. Anything else in braces stays as written, and is reported as `unparsed`.

What came out of a variable is not expanded again. Pure; problems name variables, never values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from mcpx.config.document import quote

_MAX_DEPTH: Final = 8
"""Defaults inside defaults; deeper ones stay as written."""

_EDITOR: Final = re.compile(
    r"((?:workspaceFolder|workspaceRoot)\w*(?::\w[^:]*)?|(?:input|command|config):.+?)(?::-(.*))?", re.DOTALL
)
_BRACE: Final = re.compile(r"\$\{|\}")
_VARIABLE: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Expansion(msgspec.Struct, frozen=True):
    """A string with its references replaced.

    `problems` name the references that have no value; `unparsed` is whether any could not be parsed.
    `used` are the variables that were used, each with its value.
    """

    text: str
    problems: tuple[str, ...] = ()
    unparsed: bool = False
    used: tuple[tuple[str, str], ...] = ()


class _Reference(msgspec.Struct, frozen=True):
    """What stands between `${` and its `}`."""

    body: str


def expand(text: str, *, environ: Mapping[str, str], home: str) -> Expansion:
    """`text` with every reference replaced; those with a problem stay as written."""
    return _expand(text, environ, home, 0)


def _expand(text: str, environ: Mapping[str, str], home: str, depth: int) -> Expansion:
    done = [
        Expansion(piece) if isinstance(piece, str) else _resolve(piece.body, environ, home, depth)
        for piece in _pieces(text)
    ]
    return Expansion(
        text="".join(each.text for each in done),
        problems=tuple(problem for each in done for problem in each.problems),
        unparsed=any(each.unparsed for each in done),
        used=tuple(variable for each in done for variable in each.used),
    )


def _resolve(body: str, environ: Mapping[str, str], home: str, depth: int) -> Expansion:
    written = f"${{{body}}}"
    if body == "userHome":
        return Expansion(home)
    if found := _EDITOR.fullmatch(body):
        value, problem = None, f"{quote(f'${{{found[1]}}}')} has no value outside an editor"
    elif found := _VARIABLE.fullmatch(body):
        value, problem = environ.get(found[1]), f"environment variable {found[1]} is not set"
    else:
        return Expansion(written, unparsed=True)
    default: str | None = found[2]
    if value or (value is not None and default is None):
        return Expansion(value, used=((found[1], value),))
    if default is None:
        return Expansion(written, (problem,))
    return (
        Expansion(written, unparsed=True)
        if depth == _MAX_DEPTH
        else _expand(default, environ, home, depth + 1)
    )


def _pieces(text: str) -> Iterator[str | _Reference]:
    """The text cut into literal strings and references."""
    start = 0
    while (found := text.find("${", start)) >= 0:
        if found > start and text[found - 1] == "$":
            yield text[start : found - 1] + "${"
            start = found + 2
            continue
        end = _closing(text, found + 2)
        if end is None:
            break
        yield text[start:found]
        yield _Reference(text[found + 2 : end])
        start = end + 1
    yield text[start:]


def _closing(text: str, start: int) -> int | None:
    """Where the brace closes that was opened before `start`; `None` if it does not."""
    depth = 1
    for found in _BRACE.finditer(text, start):
        depth += 1 if found[0] == "${" else -1
        if depth == 0:
            return found.start()
    return None

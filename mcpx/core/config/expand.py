"""`${VAR}` in the strings of a server's entry.

Owns the small language:

* `${VAR}`, or VS Code's `${env:VAR}`: the environment variable; a problem when it is not set.
* `${VAR:-default}`: the default when VAR is unset or empty, as in a shell; it may hold references itself.
* `${userHome}`: the home folder.
* `${keychain:NAME}`, `${keychain:NAME:-default}` and `${cmd:COMMAND}`, in which braces are paired: a secret.
  It stays as it is written where secrets are not fetched, and is reported as `deferred`.
* `${project}`, `${workspaceFolder}` and `${CLAUDE_PROJECT_DIR}`: the project of a client, which stays in the
  string as `mcpx.core.config.projects` has it.
* `${port}`, in an entry with a command and a URL: stays in the string until MCPX chooses the port.
* `${input:...}` and its kin are known to an editor only: a problem, unless a default is given.
* `$${` is a literal `${`. Anything else in braces stays as written, and is reported as `unparsed`.

What came out of a variable is not expanded again. Pure; problems name variables, never values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from mcpx.core.config.document import quote
from mcpx.core.config.projects import as_reference, project_reference
from mcpx.core.config.urls import PORT
from mcpx.core.running.secrets import Reference, SecretProblem

_MAX_DEPTH: Final = 8
"""Defaults inside defaults; deeper ones stay as written."""

_EDITOR: Final = re.compile(
    r"((?:workspaceFolder|workspaceRoot)\w*(?::\w[^:]*)?|(?:input|command|config):.+?)(?::-(.*))?", re.DOTALL
)
_KEYCHAIN: Final = re.compile(r"keychain:((?:(?!:-).)+)(?::-(.*))?", re.DOTALL)
_COMMAND: Final = "cmd:"
_BRACE: Final = re.compile(r"\$\{|\}")
_BRACE_OF_SHELL: Final = re.compile(r"[{}]")  # as in awk '{print $1}'
_VARIABLE: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Missing(msgspec.Struct, frozen=True):
    """A reference without a value: its name, what is wrong, and what to do, as a sentence or a command."""

    name: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        return self.problem


class Expansion(msgspec.Struct, frozen=True):
    """A string with its references replaced.

    `problems` are the references that have no value; `unparsed` is whether any could not be parsed, and
    `deferred` whether it holds secrets that nobody fetches. `used` are the variables and secrets that were
    used, each with its value; `fetched` are the values of secrets. `names_project` is whether the project of
    a client is yet to be filled in.
    """

    text: str
    problems: tuple[Missing, ...] = ()
    unparsed: bool = False
    deferred: bool = False
    used: tuple[tuple[str, str], ...] = ()
    fetched: tuple[str, ...] = ()
    names_project: bool = False


class _Braces(msgspec.Struct, frozen=True):
    """The text between `${` and its `}`."""

    body: str


class Values(msgspec.Struct, frozen=True):
    """The values of references: variables, the home folder, and secrets, which may not be fetched."""

    environ: Mapping[str, str]
    home: str
    secret: Callable[[Reference], str | None] | None = None
    """Gives None for one that nobody fetches, and raises `SecretProblem` for one that cannot be had."""
    remedy: str = "set {} where MCPX is started"
    """How a variable is set, with `{}` for its name."""
    picks_port: bool = False
    """True if `${port}` is not a variable, but a port that is chosen later."""


def expand(text: str, values: Values) -> Expansion:
    """`text` with every reference replaced; those with a problem stay as written."""
    return _expand(text, values, 0)


def secrets_in(text: str, depth: int = 0) -> Iterator[Reference]:
    """The secrets that `text` names, in defaults too, as far as those are expanded."""
    if depth > _MAX_DEPTH:
        return
    for piece in _pieces(text):
        if isinstance(piece, _Braces):
            reference, default = _secret(piece.body)
            if reference is not None:
                yield reference
            if default := default or ((found := _VARIABLE.fullmatch(piece.body)) and found[2]):
                yield from secrets_in(default, depth + 1)


def _expand(text: str, values: Values, depth: int) -> Expansion:
    done = [
        Expansion(piece) if isinstance(piece, str) else _replaced(piece.body, values, depth)
        for piece in _pieces(text)
    ]
    return Expansion(
        text="".join(each.text for each in done),
        problems=tuple(problem for each in done for problem in each.problems),
        unparsed=any(each.unparsed for each in done),
        deferred=any(each.deferred for each in done),
        used=tuple(variable for each in done for variable in each.used),
        fetched=tuple(value for each in done for value in each.fetched),
        names_project=any(each.names_project for each in done),
    )


def _replaced(body: str, values: Values, depth: int) -> Expansion:
    """The text between braces replaced; that which names the project stays, with its default, or the port."""
    if values.picks_port and f"${{{body}}}" == PORT:
        return Expansion(PORT)
    names_project, default = project_reference(body)
    if not names_project:
        return _resolve(body, values, depth)
    known = Expansion("")
    if default is not None and depth < _MAX_DEPTH:
        known = _expand(default, values, depth + 1)
        default = known.text
    return replace(known, text=as_reference(default), names_project=True)


def _resolve(body: str, values: Values, depth: int) -> Expansion:
    written = f"${{{body}}}"
    if body == "userHome":
        return Expansion(values.home)
    reference, default = _secret(body)
    if reference is not None and values.secret is None:
        return Expansion(written, deferred=True)
    if reference is not None and values.secret is not None:
        name = reference.what if reference.kind == "keychain" else reference.kind
        try:
            value, missing = values.secret(reference), Missing(name, "")
            if value is None:
                return Expansion(written, deferred=True)
        except SecretProblem as why:
            value, missing = None, Missing(name, str(why), why.remedy)
    elif found := _EDITOR.fullmatch(body):
        name, default = found[1], found[2]
        value, missing = None, _of_editor(name)
    elif found := _VARIABLE.fullmatch(body):
        name, default = found[1], found[2]
        remedy = values.remedy.format(name)
        value, missing = (
            values.environ.get(name),
            Missing(name, f"environment variable {name} is not set", remedy),
        )
    else:
        return Expansion(written, unparsed=True)
    if value or (value is not None and default is None):
        return Expansion(value, used=((name, value),), fetched=(value,) if reference is not None else ())
    if default is None:
        return Expansion(written, (missing,))
    return Expansion(written, unparsed=True) if depth == _MAX_DEPTH else _expand(default, values, depth + 1)


def _of_editor(name: str) -> Missing:
    """The problem with a reference that an editor alone can replace."""
    kind, _, asked = name.partition(":")
    instead = {
        "input": "write ${VARIABLE} or ${keychain:NAME}",
        "command": "write what the command prints",
        "config": "write the value",
    }.get(kind, "write the path of a folder")
    shown = quote(f"${{{name}}}")
    remedy = f"{instead} in place of {shown}"
    return Missing(asked or name, f"{shown} has no value outside an editor", remedy)


def _secret(body: str) -> tuple[Reference | None, str | None]:
    """The secret that is named between braces, and the default for it, if there are any."""
    if found := _KEYCHAIN.fullmatch(body):
        return Reference("keychain", found[1]), found[2]
    if body.startswith(_COMMAND) and (command := body.removeprefix(_COMMAND).strip()):
        return Reference("cmd", command), None
    return None, None


def _pieces(text: str) -> Iterator[str | _Braces]:
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
        yield _Braces(text[found + 2 : end])
        start = end + 1
    yield text[start:]


def _closing(text: str, start: int) -> int | None:
    """Return the offset of the brace that closes the one before `start`; None if there is none."""
    depth, braces = 1, _BRACE_OF_SHELL if text.startswith(_COMMAND, start) else _BRACE
    for found in braces.finditer(text, start):
        depth += -1 if found[0] == "}" else 1
        if depth == 0:
            return found.start()
    return None

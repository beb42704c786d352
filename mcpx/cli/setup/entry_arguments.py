"""The command line of `mcpx add` as a server's entry; that of `claude mcp add` and `codex mcp add` as well.

    NAME -- COMMAND ARGS        NAME COMMAND ARGS        NAME URL

Options stand before the command, or around a URL; what follows the command is the server's own. Only options
of `claude mcp add` at the very end of a command line without `--` are taken for its. Pure.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

TRANSPORTS: Final = ("stdio", "http", "sse", "streamable-http")
SCOPES: Final = ("local", "user", "project")

_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ENV: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+:.*", re.DOTALL)
_SEVERAL: Final = {"-e": _ENV, "--env": _ENV, "-H": _HEADER, "--header": _HEADER}
"""Options that may have several values, each of which looks so."""
_AT_THE_END: Final = {
    **_SEVERAL,
    **dict.fromkeys(("-s", "--scope"), re.compile("|".join(SCOPES))),
    **dict.fromkeys(("-t", "--transport"), re.compile("|".join(TRANSPORTS))),
}


def arranged(arguments: Sequence[str], with_value: Collection[str]) -> list[str]:
    """The arguments with all options in front, then `--`, NAME, and the command or URL as it is.

    `with_value` are the options that take a value.
    """
    options: list[str] = []
    words: list[str] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "--":
            return [*options, "--", *words, *arguments[index + 1 :]]
        if len(words) > 1 and not _URL.match(words[1]):
            rest = list(arguments[index:])
            ours = _options_at_the_end(rest)
            own = rest[: len(rest) - len(ours)]
            return [*options, *ours, "--", *words, *own]
        index += 1
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        options.append(word)
        if word in with_value and index < len(arguments):
            options.append(arguments[index])
            index += 1
            while index < len(arguments) and _is_value(word, arguments[index]):
                options += [word, arguments[index]]
                index += 1
    return [*options, "--", *words]


def _is_value(option: str, word: str) -> bool:
    """Return True if a word is one more value of an option: `-e A=1 B=2`."""
    return option in _SEVERAL and _SEVERAL[option].fullmatch(word) is not None


def _options_at_the_end(words: list[str]) -> list[str]:
    start = len(words)
    while start >= 2 and (value := _AT_THE_END.get(words[start - 2])) and value.fullmatch(words[start - 1]):  # noqa: PLR2004 - an option and its value
        start -= 2
    return words[start:] if "--" not in words else []


def read_entry(
    words: Sequence[str],
    *,
    env: Sequence[str] = (),
    headers: Sequence[str] = (),
    transport: str | None = None,
    cwd: str | None = None,
    bearer: str | None = None,
    auth: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The entry of a server that is started by these words, or reached at the URL that is the only one.

    `auth` are the members of its `auth`, those that are not None.

    Raises:
        click.UsageError: They are none, or do not fit together.
    """
    if not words:
        raise click.UsageError("say how it is started or reached: mcpx add NAME -- COMMAND ARGS, or NAME URL")
    given = {key: value for key, value in (auth or {}).items() if value is not None}
    if _URL.match(words[0]):
        return _remote(words, env, headers, transport, bearer) | ({"auth": given} if given else {})
    if transport not in {None, "stdio"} or _SCHEME.match(words[0]):
        wanted = f"for transport {transport}, " if transport else ""
        raise click.UsageError(f"{words[0]}: {wanted}a server has a URL that begins with http:// or https://")
    if given:
        raise click.UsageError("a sign-in is for a server with a URL; a command has --env")
    if headers or bearer:
        raise click.UsageError("headers are for a server with a URL; a command has --env")
    import shutil  # with three compressors

    command, *args = words
    if not args and shutil.which(command) is None and len(split := _split(command)) > 1:
        command, *args = split
    if "/" in command and _is_here(command):
        command = os.path.abspath(command)
    entry: dict[str, Any] = {"command": command}
    entry |= {"args": args} if args else {}
    entry |= {"env": dict(map(_variable, env))} if env else {}
    folder = os.path.abspath(cwd) if cwd else _folder(args)
    return entry | ({"cwd": folder} if folder else {})


def _is_here(word: str) -> bool:
    """Return True if a word is the path of a file or folder from the current folder."""
    relative = word in {".", ".."} or (re.search(r"[/.]", word) and not os.path.isabs(word))
    return bool(relative) and os.path.exists(word)


def _folder(args: Sequence[str]) -> str | None:
    """The current folder, if an argument names something in it: the server would be started elsewhere."""
    return str(Path.cwd()) if any(map(_is_here, args)) else None


def _remote(
    words: Sequence[str],
    env: Sequence[str],
    headers: Sequence[str],
    transport: str | None,
    bearer: str | None,
) -> dict[str, Any]:
    if len(words) > 1:
        raise click.UsageError(f"nothing can follow the URL: {words[1]}")
    if transport == "stdio":
        raise click.UsageError("a server with a URL is of transport http or sse, not stdio")
    if env:
        raise click.UsageError("--env is for a server with a command; a URL has --header")
    given = dict(map(_header, headers)) | ({"Authorization": f"Bearer ${{{bearer}}}"} if bearer else {})
    kind = {"streamable-http": "http"}.get(transport or "", transport)
    return {**({"type": kind} if kind else {}), "url": words[0], **({"headers": given} if given else {})}


def kept_secret(name: str) -> str:
    """The reference to a secret in the keychain."""
    return f"${{keychain:{name}}}"


def with_secret(entry: Mapping[str, Any], secret: str) -> dict[str, Any]:
    """An entry whose client has that secret.

    Raises:
        click.UsageError: It names no client.
    """
    from mcpx.core.config.entry_auth import AUTH_KEYS  # the configuration

    key = next((key for key in AUTH_KEYS if isinstance(entry.get(key), dict)), None)
    if key is None:
        raise click.UsageError('--client-secret is for an entry with "auth": {"client_id": ...}')
    return {**entry, key: {**entry[key], "client_secret": secret}}


def _split(command: str) -> list[str]:
    """The words of a whole command line that was given as one."""
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def _variable(given: str) -> tuple[str, str]:
    """`NAME=VALUE`, or `NAME` for the variable of that name in the environment."""
    name, equals, value = given.partition("=")
    if not name or any(character.isspace() for character in name):
        raise click.UsageError(
            "an environment variable is given as NAME=VALUE, or NAME for the one of the environment"
        )
    return name, value if equals else f"${{{name}}}"


def _header(given: str) -> tuple[str, str]:
    name, colon, value = given.partition(":")
    if not colon or not name.strip():
        raise click.UsageError('a header is given as "NAME: VALUE"')
    return name.strip(), value.strip()


def pasted_entry(text: str, name: str) -> dict[str, Any]:
    """The entry in a piece of JSON: by itself, or inside the object that a client's file is.

    Raises:
        click.UsageError: It is no JSON, or none of one server.
    """
    from mcpx.core.text.jsonc import JSONCError, line_and_column, loads  # likewise

    try:
        value = loads(text)
    except JSONCError as error:
        line, column = line_and_column(text, error.offset)
        raise click.UsageError(f"JSON:{line}:{column}: {error.problem}") from None
    for _ in range(2):
        if isinstance(value, dict) and not {"command", "url", "serverUrl", "httpUrl"} & value.keys():
            value = value.get("mcpServers") or value.get("servers") or value.get(name) or _only(value)
    if not isinstance(value, dict):
        raise click.UsageError('this is no entry of one server, such as {"command": "npx", "args": [...]}')
    return dict(value)


def _only(value: dict[str, Any]) -> Any:
    """The value of an object that has one member, if that is an object; else the object."""
    inner = next(iter(value.values()), None)
    return inner if len(value) == 1 and isinstance(inner, dict) else value

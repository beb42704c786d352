"""The servers in a client's file, as far as `doctor` has to understand them: names and commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mcpx.clients import Client, starts_mcpx
from mcpx.documents.jsonc import JSONCError, line_and_column, loads
from mcpx.errors import MCPXError


class UnreadableError(MCPXError):
    """A client's file cannot be read or understood; the text says where."""


class Entry(msgspec.Struct, frozen=True):
    """One server of a client, as the client's file has it."""

    name: str
    given: Mapping[str, Any]

    @property
    def is_mcpx(self) -> bool:
        """Whether it is MCPX itself."""
        return starts_mcpx(self.given)

    @property
    def is_disabled(self) -> bool:
        """Whether the client does not start it."""
        return self.given.get("disabled") is True or self.given.get("enabled") is False

    @property
    def command(self) -> tuple[str, ...]:
        """The command line; empty if it has none."""
        first = self.given.get("command", self.given.get("cmd"))
        args = self.given.get("args")
        if isinstance(first, Mapping):  # Zed's older form
            args = first.get("args")
            first = first.get("path")
        words = [*(first if isinstance(first, list) else [first]), *(args if isinstance(args, list) else [])]
        return tuple(word for word in words if isinstance(word, str))

    @property
    def environ(self) -> dict[str, str]:
        """The variables that it is started with, beside the client's own."""
        found: dict[str, str] = {}
        for key in ("env", "envs", "environment"):
            if isinstance(given := self.given.get(key), Mapping):
                found |= {name: value for name, value in given.items() if isinstance(value, str)}
        return found


def entries_of(client: Client, path: Path) -> list[Entry]:
    """The servers in a client's file; none if the file is empty.

    Raises:
        UnreadableError: The file cannot be read, or is not what it should be.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from None
    found = _decoded(client, data)
    for step in client.key:
        if found is None:
            return []
        if not isinstance(found, Mapping):
            raise UnreadableError(f'"{step}" is looked for in something that is no object')
        found = found.get(step)
    if found is None:
        return []
    return list(_entries(found, ".".join(client.key)))


def _decoded(client: Client, data: bytes) -> Any:
    encoding = "utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise UnreadableError("is not UTF-8") from None
    if not text.strip():
        return {}
    if client.syntax == "toml":
        return _toml(text)
    if client.syntax == "yaml":
        return _yaml(text)
    try:
        return loads(text)
    except JSONCError as error:
        line, column = line_and_column(text, error.offset)
        raise UnreadableError(f"line {line}, column {column}: {error.problem}") from None


def _toml(text: str) -> Any:
    import tomllib  # noqa: PLC0415 - for the few clients that use it

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(str(error)) from None


def _yaml(text: str) -> Any:
    from ruamel.yaml import YAML  # noqa: PLC0415 - for the few clients that use it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UnreadableError(f"{where}{getattr(error, 'problem', None) or 'is not YAML'}") from None


def _entries(found: Any, key: str) -> Iterator[Entry]:
    if isinstance(found, list):  # Continue
        found = {str(each.get("name", "")): each for each in found if isinstance(each, Mapping)}
    if not isinstance(found, Mapping):
        raise UnreadableError(f'"{key}" is no object')
    for name, given in found.items():
        if isinstance(given, Mapping):
            yield Entry(str(name), given)

"""A client's file to the servers in it, in MCPX's form, with everything that is not taken named.

A file that cannot be read, or is not understood, is a `problem`, never an exception: one broken file must
not stand in the way of the others. No text here holds a value of `env`, of a header or of a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mcpx.core.documents import DocumentError
from mcpx.core.documents.editing import read
from mcpx.core.text import kind_of
from mcpx.setup.changes import ChangeError, read_file
from mcpx.setup.clients.entries import starts_mcpx
from mcpx.setup.clients.finding import ClientFile
from mcpx.setup.clients.rows import Client
from mcpx.setup.clients.translating import Inputs, Server, translate
from mcpx.setup.clients.variables import NotImportedError

_NAMES_SHOWN: Final = 5


class LeftOut(msgspec.Struct, frozen=True):
    """An entry that is no server for MCPX, and why."""

    name: str
    reason: str


class ClientServers(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one file. `own_entries` are those of MCPX itself as they stand there, with names."""

    file: ClientFile
    servers: tuple[Server, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    own_entries: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    notes: tuple[str, ...] = ()
    problem: str | None = None
    """Why the file cannot be used, with line and column where there are any."""

    @property
    def own(self) -> tuple[str, ...]:
        """The names under which MCPX itself stands there."""
        return tuple(name for name, _ in self.own_entries)


def read_client_file(file: ClientFile) -> ClientServers:
    """What is in a client's file, which is opened for it."""
    try:
        data = read_file(file.path)
    except ChangeError as error:
        reason = str(error).removeprefix(f"{file.path}: ")
        return ClientServers(file=file, problem=f"cannot be read: {reason}")
    if data is None:
        return ClientServers(file=file, problem="cannot be read: No such file or directory")
    return read_servers(file, data)


def read_servers(file: ClientFile, data: bytes) -> ClientServers:
    """What is in a client's file with this content."""
    client = file.client
    try:
        document = read(data, client.syntax)
    except DocumentError as error:
        return ClientServers(file=file, problem=str(error))
    key = servers_key(client, document)
    value = document
    for step in key:
        if not isinstance(value, Mapping):
            break
        value = value.get(step)
    if value is None:
        return ClientServers(file=file, notes=tuple(_elsewhere(client, document)))
    if not isinstance(value, list if client.form == "continue" else Mapping):
        expected = "a list" if client.form == "continue" else "an object"
        return ClientServers(file=file, problem=f"{'.'.join(key)}: expected {expected}, got {kind_of(value)}")
    return _read_entries(file, value, document)


def servers_key(client: Client, document: Any) -> tuple[str, ...]:
    """The path at which a client's file has its servers: OpenCode 2 has them one level further down."""
    if client.form == "opencode" and isinstance(document, Mapping):
        inside = document.get("mcp")
        servers = inside.get("servers") if isinstance(inside, Mapping) else None
        if isinstance(servers, Mapping) and not {"type", "command", "url"} & {*servers}:
            return (*client.key, "servers")
    return client.key


def _read_entries(file: ClientFile, value: Any, document: Mapping[str, Any]) -> ClientServers:
    servers, left_out, own = [], [], []
    inputs, turned_off = _inputs(document), _turned_off(document)
    for name, given in _named(value):
        if starts_mcpx(given):
            own.append((name, given))
            continue
        try:
            server = translate(name, given, file.client, inputs)
            if turned_off(name):
                server = msgspec.structs.replace(server, entry={**server.entry, "disabled": True})
            servers.append(server)
        except NotImportedError as error:
            left_out.append(LeftOut(name, str(error)))
    notes = [
        f"the name {name} is given twice; the client takes the last"
        for name in getattr(value, "repeated", ())
    ]
    return ClientServers(
        file=file,
        servers=tuple(servers),
        left_out=tuple(left_out),
        own_entries=tuple(own),
        notes=(*notes, *_elsewhere(file.client, document)),
    )


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """The entries of an object by their keys, those of a list by the names in them."""
    if isinstance(value, Mapping):
        yield from ((str(name), given) for name, given in value.items())
        return
    for index, given in enumerate(value):
        name = given.get("name") if isinstance(given, Mapping) else None
        yield (name if isinstance(name, str) else f"[{index}]"), given


def _inputs(document: Mapping[str, Any]) -> Inputs:
    """What an editor asks for, by its id."""
    asked = document.get("inputs")
    given = [each for each in asked if isinstance(each, Mapping)] if isinstance(asked, list) else []
    return {str(each.get("id")): each for each in given}


def _turned_off(document: Mapping[str, Any]) -> Callable[[str], bool]:
    """Whether a server is turned off outside of its entry, as in Gemini CLI's `mcp.excluded`."""
    lists = document.get("mcp")
    given = lists if isinstance(lists, Mapping) else {}
    allowed, excluded = given.get("allowed"), given.get("excluded")
    return lambda name: (
        (isinstance(allowed, list) and bool(allowed) and name not in allowed)
        or (isinstance(excluded, list) and name in excluded)
    )


def _elsewhere(client: Client, document: Any) -> Iterator[str]:
    """Servers of the same file that are not for every folder."""
    projects = document.get("projects") if isinstance(document, Mapping) else None
    if client.name != "claude-code" or not isinstance(projects, Mapping):
        return
    for folder, project in projects.items():
        servers = project.get("mcpServers") if isinstance(project, Mapping) else None
        if isinstance(servers, Mapping) and servers:
            names = ", ".join([*servers][:_NAMES_SHOWN]) + (", ..." if len(servers) > _NAMES_SHOWN else "")
            yield f"not taken, as they are for one folder alone ({folder}): {names}"

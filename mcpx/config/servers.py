"""The servers of a configuration, in whichever of the accepted forms they are written.

Owns the forms: `mcpServers` (desktop and terminal clients), `servers` and `mcp: {servers}` (editors), the
older list `mcp_servers`; several at once are merged. Owns names: none empty, none twice. Each entry becomes
one `ServerConfig`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mcpx.config.document import Members, members
from mcpx.config.model import PerServer, ServerConfig
from mcpx.config.notices import Notices, similar
from mcpx.config.place import Place, quote
from mcpx.config.settings import FOR_EACH_SERVER, TOP_LEVEL, keys, nested_groups, read_per_server
from mcpx.config.strings import KEYS, Surroundings
from mcpx.config.transport import TYPE_KEYS, read_transport
from mcpx.config.values import Flag, Text
from mcpx.text import holds_controls

DISABLED: Final = "disabled in the configuration"

FORMS: Final = ("mcpServers", "servers", "mcp", "mcp_servers")
SWITCHES: Final = {
    "disabled": "True keeps the server listed and never starts it.",
    "enabled": "False is the same as disabled: true.",
}

ENTRY_KEYS: Final = (*KEYS, *TYPE_KEYS, *SWITCHES, *keys(FOR_EACH_SERVER))
TOP_LEVEL_KEYS: Final = (*FORMS, *keys(TOP_LEVEL))


class Entry(msgspec.Struct, frozen=True):
    """One server as it is written: its name, its object, and where that stands."""

    name: str
    given: Members
    at: Place
    known: tuple[str, ...] = ENTRY_KEYS


def find_entries(document: Members, at: Place, notices: Notices) -> tuple[Entry, ...]:
    """Every server entry of the document, in the order of the forms.

    Raises:
        ConfigError: a form is not what it should be, a name is empty or given twice, no server at all.
    """
    found: dict[str, Entry] = {}
    for entry in _all_entries(document, at, notices):
        if earlier := found.get(entry.name):
            raise entry.at.error(f"the server name {quote(entry.name)} is already used at {earlier.at.path}")
        found[entry.name] = entry
    if not found:
        raise at.error(_no_servers(document))
    return tuple(found.values())


def read_server(entry: Entry, base: PerServer, around: Surroundings, notices: Notices) -> ServerConfig:
    """The entry as a struct; a variable that is not set disables it.

    Raises:
        ConfigError: something in it is wrong as written.
    """
    notices.unused(entry.given, entry.at, known=entry.known, elsewhere=keys(TOP_LEVEL))
    for nested, at, known in nested_groups(entry.given, FOR_EACH_SERVER, entry.at):
        notices.unused(nested, at, known=known)
    transport, reasons, variables = read_transport(entry.given, entry.at, around, notices)
    own = read_per_server(entry.given, base, entry.at)
    off = Flag().read(entry.given.get("disabled", False), entry.at.key("disabled"))
    on = Flag().read(entry.given.get("enabled", True), entry.at.key("enabled"))
    return ServerConfig(
        name=entry.name,
        transport=transport,
        variables=variables,
        disabled=DISABLED if off or not on else ("; ".join(reasons) or None),
        limits=own.limits,
        health=own.health,
        restart=own.restart,
        auto_describe=own.auto_describe,
        sessions=own.sessions,
        native=own.native,
    )


def _all_entries(document: Members, at: Place, notices: Notices) -> Iterator[Entry]:
    for form in ("mcpServers", "servers"):
        if form in document:
            yield from _named(document[form], at.key(form))
    if "mcp" in document:
        editor = members(document["mcp"], at.key("mcp"))
        notices.unused(editor, at.key("mcp"), known=("servers",))
        if "servers" in editor:
            yield from _named(editor["servers"], at.key("mcp").key("servers"))
    if "mcp_servers" in document:
        yield from _listed(document["mcp_servers"], at.key("mcp_servers"))


def _named(value: Any, at: Place) -> Iterator[Entry]:
    if isinstance(value, Members) and value.twice:
        name = value.twice[0]
        raise at.key(name).error(f"the server name {quote(name)} is used twice")
    for name, given in members(value, at).items():
        _check_name(name, at.key(name))
        yield Entry(name, members(given, at.key(name)), at.key(name))


def _listed(value: Any, at: Place) -> Iterator[Entry]:
    if not isinstance(value, list):
        raise at.expected("an array of servers", value)
    for index, each in enumerate(value):
        given = members(each, at.item(index))
        if "name" not in given:
            raise at.item(index).error('this server has no "name"')
        name = Text().read(given["name"], at.item(index).key("name"))
        _check_name(name, at.item(index).key("name"))
        yield Entry(name, given, at.item(index), ("name", *ENTRY_KEYS))


def _check_name(name: str, at: Place) -> None:
    if not name.strip():
        raise at.error("the name of a server cannot be empty")
    if holds_controls(name):
        raise at.error("the name of a server cannot hold control characters or line breaks")


def _no_servers(document: Members) -> str:
    for key in document:
        if key not in TOP_LEVEL_KEYS and (meant := similar(key, FORMS)):
            return f"no servers; did you mean {quote(meant)} where it says {quote(key)}?"
    return 'no servers; give at least one under "mcpServers"'

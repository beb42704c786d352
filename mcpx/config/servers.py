"""The servers of a configuration, in whichever of the accepted forms they are written.

Owns the forms: `mcpServers` (desktop and terminal clients), `servers` and `mcp: {servers}` (editors), the
older list `mcp_servers`; several at once are merged. Owns names: none empty, none twice. Each entry becomes
one `ServerConfig`.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.config.document import JSONObject, Location, as_object, quote
from mcpx.config.model import PerServer, ServerConfig, Settings
from mcpx.config.notices import ConfigNotices, similar
from mcpx.config.settings import convert, keys, read_settings
from mcpx.config.strings import EntryKeys, ExpansionContext, read_key
from mcpx.config.transport import read_transport
from mcpx.text import holds_controls

DISABLED: Final = "disabled in the configuration"

FORMS: Final = ("mcpServers", "servers", "mcp", "mcp_servers")


class Entry(msgspec.Struct, frozen=True):
    """One server as it is written: its name, its object, and where that stands."""

    name: str
    given: JSONObject
    at: Location
    listed: bool = False
    """Whether it stands in a list and so holds its own name."""


def top_level_keys() -> tuple[str, ...]:
    """The keys that mean something at the top level of the file."""
    return (*FORMS, *keys(Settings), *keys(PerServer))


def find_entries(document: JSONObject, at: Location, notices: ConfigNotices) -> tuple[Entry, ...]:
    """Every server entry of the document, in the order of the forms.

    Raises:
        ConfigError: A form is not what it should be, a name is empty or given twice, no server at all.
    """
    found: dict[str, Entry] = {}
    for entry in _all_entries(document, at, notices):
        if earlier := found.get(entry.name):
            raise entry.at.error(f"the server name {quote(entry.name)} is already used at {earlier.at.path}")
        found[entry.name] = entry
    if not found:
        raise at.error(_no_servers(document))
    return tuple(found.values())


def read_server(
    entry: Entry, base: PerServer, context: ExpansionContext, notices: ConfigNotices
) -> ServerConfig:
    """The entry as a struct; a variable that is not set disables it.

    Raises:
        ConfigError: Something in it is wrong as written.
    """
    known = (*keys(EntryKeys), *keys(PerServer), *(("name",) if entry.listed else ()))
    notices.unused(entry.given, entry.at, known=known, elsewhere=keys(Settings))
    transport, reasons, variables = read_transport(entry.given, entry.at, context, notices)
    own = read_settings(entry.given, base, entry.at, notices)
    if "pinned" in entry.given:
        own = replace(own, pinned=tuple(_own_pattern(entry.name, pattern) for pattern in own.pinned))
    off = "disabled" in entry.given and read_key(entry.given, "disabled", entry.at)
    on = "enabled" not in entry.given or read_key(entry.given, "enabled", entry.at)
    return ServerConfig(
        name=entry.name,
        transport=transport,
        variables=variables,
        disabled=DISABLED if off or not on else ("; ".join(reasons) or None),
        **msgspec.structs.asdict(own),
    )


def _own_pattern(server: str, pattern: str) -> str:
    """A pattern of tools from a server's own entry, as one of `server.tool`."""
    names_server = pattern.startswith((f"{server}.", "*."))
    return pattern if names_server else f"{glob.escape(server)}.{pattern}"


def _all_entries(document: JSONObject, at: Location, notices: ConfigNotices) -> Iterator[Entry]:
    for form in ("mcpServers", "servers"):
        if form in document:
            yield from _named(document[form], at.key(form))
    if "mcp" in document:
        editor = as_object(document["mcp"], at.key("mcp"))
        notices.unused(editor, at.key("mcp"), known=("servers",))
        if "servers" in editor:
            yield from _named(editor["servers"], at.key("mcp").key("servers"))
    if "mcp_servers" in document:
        yield from _listed(document["mcp_servers"], at.key("mcp_servers"))


def _named(value: Any, at: Location) -> Iterator[Entry]:
    if isinstance(value, JSONObject) and value.repeated:
        name = value.repeated[0]
        raise at.key(name).error(f"the server name {quote(name)} is used twice")
    for name, given in as_object(value, at).items():
        _check_name(name, at.key(name))
        yield Entry(name, as_object(given, at.key(name)), at.key(name))


def _listed(value: Any, at: Location) -> Iterator[Entry]:
    if not isinstance(value, list):
        raise at.expected("an array of servers", value)
    for index, each in enumerate(value):
        given = as_object(each, at.item(index))
        if "name" not in given:
            raise at.item(index).error('this server has no "name"')
        name = convert(given["name"], str, at.item(index).key("name"))
        _check_name(name, at.item(index).key("name"))
        yield Entry(name, given, at.item(index), listed=True)


def _check_name(name: str, at: Location) -> None:
    if not name.strip():
        raise at.error("the name of a server cannot be empty")
    if holds_controls(name):
        raise at.error("the name of a server cannot hold control characters or line breaks")


def _no_servers(document: JSONObject) -> str:
    known = top_level_keys()
    for key in document:
        if key not in known and (meant := similar(key, FORMS)):
            return f"no servers; did you mean {quote(meant)} where it says {quote(key)}?"
    return 'no servers; give at least one under "mcpServers"'

"""The entries of servers in a configuration, in whichever of the accepted forms they are written.

Owns the forms: `mcpServers` (desktop and terminal clients), `servers`, `mcp` and `context_servers` (editors),
the list `mcp_servers`; several at once are merged. Owns names: none empty, none twice. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.config.document import ConfigNotices, Location, as_object, quote, similar
from mcpx.core.config.model import Settings
from mcpx.core.config.per_server import PerServer
from mcpx.core.config.settings import keys
from mcpx.core.text import holds_controls, kind_of
from mcpx.core.text.jsonc import JSONObject
from mcpx.paths import config_hint

FORMS: Final = ("mcpServers", "servers", "mcp", "context_servers", "amp.mcpServers", "mcp_servers")
"""Keys of the top level that hold servers, by name or as a list."""


class Entry(msgspec.Struct, frozen=True):
    """One server as it is written: its name, its value, and where that stands."""

    name: str
    given: Any
    at: Location
    listed: bool = False
    """Whether it stands in a list and so holds its own name."""
    problem: str | None = None
    """What is wrong with its name, by which alone it is disabled."""


def top_level_keys() -> tuple[str, ...]:
    """The keys that mean something at the top level of the file."""
    return (*FORMS, *keys(Settings), *keys(PerServer))


def find_entries(document: JSONObject, at: Location, notices: ConfigNotices) -> tuple[Entry, ...]:
    """Every server entry of the document, in the order of the forms.

    A form that is not what it should be is a mistake, and so is that there is none.
    """
    found: dict[str, Entry] = {}
    for entry in all_entries(document, at, notices):
        if earlier := found.get(entry.name):
            problem = f"the server name {quote(entry.name)} is already used at {earlier.at.path}"
            found[entry.name] = replace(entry, problem=problem)
        else:
            found[entry.name] = entry
    if not any(form in document for form in FORMS):
        notices.mistakes.append(at.error(_no_servers(document)))
    elif not found and not notices.mistakes:
        option = config_hint(at.source)
        notices.add(at, f"there are no servers yet; add one with: mcpx add{option} NAME -- COMMAND")
    return tuple(found.values())


def all_entries(document: JSONObject, at: Location, notices: ConfigNotices) -> Iterator[Entry]:
    """Yield what `find_entries` returns, but of a name that is given twice every entry."""
    for form in FORMS:
        if form in document and form != "mcp":
            yield from _entries(document[form], at.key(form), notices)
        elif form in document:
            yield from _of_editor(document[form], at.key(form), notices)


def _of_editor(value: Any, at: Location, notices: ConfigNotices) -> Iterator[Entry]:
    """The servers under `mcp`: under `servers` in it, or directly."""
    editor = JSONObject([])
    with notices.gathering():
        editor = as_object(value, at)
    if "servers" in editor:
        notices.unused(editor, at, known=("servers",))
        yield from _entries(editor["servers"], at.key("servers"), notices)
        return
    servers = [(name, given) for name, given in editor.items() if isinstance(given, JSONObject)]
    notices.unused([name for name in editor if name not in dict(servers)], at, known=())
    yield from _named(JSONObject(servers), at)


def _entries(value: Any, at: Location, notices: ConfigNotices) -> Iterator[Entry]:
    """The servers of an object by their names, or of a list."""
    if isinstance(value, JSONObject):
        yield from _named(value, at)
    elif isinstance(value, list):
        yield from _listed(value, at)
    else:
        notices.mistakes.append(at.expected("an object", value))


def _named(servers: JSONObject, at: Location) -> Iterator[Entry]:
    for name, given in servers.items():
        if problem := bad_name(name):
            yield _nameless(at.key(name), at.name(name), problem)
        else:
            twice = f"the server name {quote(name)} is used twice" if name in servers.repeated else None
            yield Entry(name, given, at.key(name), problem=twice)


def _listed(servers: list[Any], at: Location) -> Iterator[Entry]:
    for index, given in enumerate(servers):
        here = at.item(index)
        name = given.get("name") if isinstance(given, JSONObject) else ""
        if not isinstance(given, JSONObject):
            yield _nameless(here, here, f"expected an object, got {kind_of(given)}")
        elif "name" not in given:
            yield _nameless(here, here, 'this server has no "name"')
        elif not isinstance(name, str):
            yield _nameless(here, here.key("name"), f"expected a string, got {kind_of(name)}")
        elif problem := bad_name(name):
            yield _nameless(here, here.key("name"), problem)
        else:
            yield Entry(name, given, here, listed=True)


def _nameless(entry: Location, at: Location, problem: str) -> Entry:
    """An entry without a name that can be used: it gets its place as a name, to be shown by it."""
    return Entry(entry.path.removeprefix("$."), None, at, problem=problem)


def bad_name(name: str) -> str | None:
    """Return the reason that a server cannot have that name."""
    if not name.strip():
        return "the name of a server cannot be empty"
    if holds_controls(name):
        return "the name of a server cannot hold control characters or line breaks"
    return None


def _no_servers(document: JSONObject) -> str:
    known = top_level_keys()
    for key in document:
        if key not in known and (meant := similar(key, FORMS)):
            return f"no servers; did you mean {quote(meant)} where it says {quote(key)}?"
    return 'no servers; give at least one under "mcpServers"'


# --- MCPX itself among the servers of others


def starts_mcpx(entry: object) -> bool:
    """Return True if an entry, of whatever form, is MCPX itself: it runs `mcpx attach` or `mcpx serve`."""
    if not isinstance(entry, Mapping):
        return False
    texts = [part for word in command_words(entry) if isinstance(word, str) for part in word.split()]
    return not {"attach", "serve"}.isdisjoint(texts) and any(_base(word) == "mcpx" for word in texts)


def command_words(entry: Mapping[str, Any]) -> list[Any]:
    """Return the command of an entry, of whatever form, with its arguments."""
    command: Any = next((entry[key] for key in ("command", "cmd") if key in entry), None)
    args = entry.get("args")
    if isinstance(command, Mapping):  # Zed's older form
        command, args = command.get("path"), command.get("args")
    return [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]


def _base(word: str) -> str:
    """Return the last part of a path of either kind, without `.exe`."""
    name = PureWindowsPath(word).name if "\\" in word else PurePosixPath(word).name
    return name.lower().removesuffix(".exe")

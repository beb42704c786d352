"""The servers of a configuration, in whichever of the accepted forms they are written.

Owns the forms: `mcpServers` (desktop and terminal clients), `servers`, `mcp` and `context_servers` (editors),
the list `mcp_servers`; several at once are merged. Owns names: none empty, none twice. Each entry becomes one
`ServerConfig`, or a `PeerConfig`; one that cannot be started keeps why (`mcpx.core.config.diagnosis`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.config.auth_spellings import AUTH_KEYS
from mcpx.core.config.document import Location, as_object, quote
from mcpx.core.config.expand import secrets_in
from mcpx.core.config.model import SWITCHED_OFF, Http, Obstacle, ServerConfig, Settings, Stdio
from mcpx.core.config.notices import ConfigNotices, similar
from mcpx.core.config.peers import read_peer, with_common_rules
from mcpx.core.config.per_server import PerServer
from mcpx.core.config.profiles import owned_pattern
from mcpx.core.config.settings import keys, read_settings
from mcpx.core.config.strings import URL_KEYS, EntryKeys, ExpansionContext, read_key
from mcpx.core.config.transport import read_transport
from mcpx.core.config.trust import ProcessLimits
from mcpx.core.documents.jsonc import JSONObject
from mcpx.core.running.secrets import Reference
from mcpx.core.text import holds_controls, kind_of
from mcpx.paths import config_hint

FORMS: Final = ("mcpServers", "servers", "mcp", "context_servers", "amp.mcpServers", "mcp_servers")
"""Keys of the top level that hold servers, by name or as a list."""

_EXPANDED: Final = frozenset(
    {"command", "args", "env", "env_file", "envFile", "cwd", "headers", "tls", *URL_KEYS, *AUTH_KEYS}
)
"""Keys of an entry in whose strings references are expanded."""


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


def read_server(
    entry: Entry, base: PerServer, context: ExpansionContext, notices: ConfigNotices
) -> ServerConfig:
    """The entry as a struct; with a mistake in it, or a variable that is not set, it is not started."""
    before = len(notices.mistakes)
    unread = Stdio(command="")
    server = ServerConfig(
        name=entry.name, transport=unread, source=entry.at.source, **msgspec.structs.asdict(base)
    )
    with notices.gathering():
        if entry.problem:
            raise entry.at.error(entry.problem)
        server = _read(as_object(entry.given, entry.at), entry, server, context, notices)
    mistakes = []
    for mistake in notices.mistakes[before:]:
        mistake.server = entry.name
        mistakes.append(Obstacle(mistake.problem, mistake.at, is_mistake=True))
    if not mistakes or server.is_switched_off:
        return server
    return _with_obstacles(server, (*mistakes, *server.obstacles))


def _with_obstacles(server: ServerConfig, obstacles: tuple[Obstacle, ...]) -> ServerConfig:
    return replace(server, obstacles=obstacles, disabled="; ".join(map(str, obstacles)) or None)


def _read(
    given: JSONObject, entry: Entry, server: ServerConfig, context: ExpansionContext, notices: ConfigNotices
) -> ServerConfig:
    """The server as its entry says. Without a way to reach it, it keeps the transport that it has."""
    known = (*keys(EntryKeys), *keys(PerServer), *(("name",) if entry.listed else ()))
    notices.unused(given, entry.at, known=known, elsewhere=keys(Settings))
    if any(key in given for key in URL_KEYS):
        server = replace(server, transport=Http(url=""))
    with notices.gathering():
        if _is_off(given, entry.at, ConfigNotices()):
            context = replace(context, values=replace(context.values, secret=None))
        transport, obstacles, variables = read_transport(given, entry.at, context, notices)
        server = _with_obstacles(replace(server, transport=transport, variables=variables), obstacles)
    if "aliases" in given:
        with notices.gathering():
            server = replace(server, aliases=_aliases(given, entry.at))
    common, server = server, read_settings(given, server, entry.at, notices, of=PerServer)
    server = _with_limits(server, given, entry.at, notices)
    server = read_peer(server, common, given, entry.at, notices) or with_common_rules(server, common)
    off = _is_off(given, entry.at, notices)
    return replace(server, obstacles=(), disabled=SWITCHED_OFF) if off else server


def _aliases(given: JSONObject, at: Location) -> tuple[str, ...]:
    """The other names of a server.

    Raises:
        LocatedError: One cannot be a name.
    """
    found: tuple[str, ...] = read_key(given, "aliases", at) or ()
    for index, name in enumerate(found):
        if problem := _bad_name(name):
            raise at.key("aliases").item(index).error(problem)
    return found


def with_usable_aliases(
    servers: Mapping[str, ServerConfig],
    taken: Collection[str],
    places: Mapping[str, Location],
    notices: ConfigNotices,
) -> dict[str, ServerConfig]:
    """The servers without the aliases that are `taken` as names, or that another server has; they are noted.

    Patterns of `alias.tool` that are looked up by the server's own name are written with that.
    """
    owners = dict.fromkeys(taken, "")
    done = {}
    for name, server in servers.items():
        kept = []
        for alias in dict.fromkeys(server.aliases):
            if alias in owners:
                of = f"that of {quote(owners[alias])}" if owners[alias] else "the name of a server"
                notices.add(places[name].key("aliases"), f"{quote(alias)} has no effect: it is {of} already")
            else:
                owners[alias] = name
                kept.append(alias)
        done[name] = replace(server, aliases=tuple(kept)) if server.aliases else server
        if kept:
            pinned = tuple(owned_pattern(pattern, dict.fromkeys(kept, name)) for pattern in server.pinned)
            done[name] = replace(done[name], pinned=pinned)
    return done


def _with_limits(
    server: ServerConfig, given: JSONObject, at: Location, notices: ConfigNotices
) -> ServerConfig:
    """The server with the limits of its processes at the transport that starts them."""
    if isinstance(server.transport, Stdio):
        return replace(server, transport=replace(server.transport, limits=server.quota.of_processes))
    own = given.get("limits")
    for key in keys(ProcessLimits):
        if isinstance(own, JSONObject) and own.get(key) is not None:
            notices.add(at.key("limits").key(key), "has no effect on a server that is reached by a URL")
    return server


def secrets_of_entry(entry: Entry) -> Iterator[Reference]:
    """The secrets that an entry names; none if its server is switched off."""
    if isinstance(entry.given, JSONObject) and not _is_off(entry.given, entry.at, ConfigNotices()):
        yield from _secrets_in(_expanded_part(entry.given))


def commands_in(given: object) -> list[str]:
    """The commands that MCPX runs for the strings of an entry, wherever they stand in it, whole."""
    found = _secrets_in(_expanded_part(given)) if isinstance(given, dict) else ()
    return list(dict.fromkeys(each.what for each in found if each.kind == "cmd"))


def _expanded_part(given: dict[str, Any]) -> dict[str, Any]:
    """The members of an entry in which references are expanded; elsewhere, as in aliases, they are text."""
    return {key: value for key, value in given.items() if key in _EXPANDED}


def _secrets_in(given: object) -> Iterator[Reference]:
    if isinstance(given, str):
        yield from secrets_in(given)
    elif isinstance(given, dict | list):
        for each in given.values() if isinstance(given, dict) else given:
            yield from _secrets_in(each)


def _is_off(given: JSONObject, at: Location, notices: ConfigNotices) -> bool:
    """Whether the server is switched off."""
    for key, off in (("disabled", True), ("enabled", False)):
        with notices.gathering():
            if key in given and read_key(given, key, at) is off:
                return True
    return False


def all_entries(document: JSONObject, at: Location, notices: ConfigNotices) -> Iterator[Entry]:
    """As `find_entries`, but of a name that is given twice every entry."""
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
        if problem := _bad_name(name):
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
        elif problem := _bad_name(name):
            yield _nameless(here, here.key("name"), problem)
        else:
            yield Entry(name, given, here, listed=True)


def _nameless(entry: Location, at: Location, problem: str) -> Entry:
    """An entry without a name that can be used: it gets its place as a name, to be shown by it."""
    return Entry(entry.path.removeprefix("$."), None, at, problem=problem)


def _bad_name(name: str) -> str | None:
    """Why a server cannot have that name."""
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

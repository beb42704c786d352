"""One server of a configuration: its entry read to a `ServerConfig`, or a `PeerConfig`.

Owns the choice between stdio, Streamable HTTP and SSE, with the words that other clients use for them, and
the checks on headers. An entry with a command and a URL is a server over HTTP whose program MCPX starts. An
entry that cannot be started keeps why (`mcpx.core.config.diagnosis`).
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.config.document import ConfigNotices, LocatedError, Location, as_object, quote, similar
from mcpx.core.config.entries import Entry, bad_name
from mcpx.core.config.entry_auth import AUTH_KEYS, EntryAuth
from mcpx.core.config.expand import secrets_in
from mcpx.core.config.model import Settings
from mcpx.core.config.peers import read_peer, with_common_rules
from mcpx.core.config.per_server import PerServer, ProcessLimits
from mcpx.core.config.profiles import owned_pattern
from mcpx.core.config.projects import in_project
from mcpx.core.config.server_config import (
    SWITCHED_OFF,
    Http,
    Obstacle,
    PeerConfig,
    ServerConfig,
    Sse,
    Stdio,
    Transport,
    Variables,
)
from mcpx.core.config.settings import keys, read_settings
from mcpx.core.config.strings import (
    ENV_FILE_KEYS,
    TYPE_KEYS,
    TYPES,
    URL_KEYS,
    EntryKeys,
    ExpansionContext,
    Strings,
    read_key,
)
from mcpx.core.config.urls import PORT, bad_url, is_confidential, with_port
from mcpx.core.running.secrets import Reference
from mcpx.core.text.jsonc import JSONObject

_EXPANDED: Final = frozenset(
    {"command", "args", "env", *ENV_FILE_KEYS, "cwd", "headers", "overrides", "tls", *URL_KEYS, *AUTH_KEYS}
)
"""Keys of an entry in whose strings references are expanded."""
_STDIO_ONLY: Final = ("args", "env", "cwd")
_REMOTE_ONLY: Final = ("headers", "tls", *AUTH_KEYS)
PROJECT_IDLE_STOP_S: Final = 900.0
"""Seconds without use after which a project's process is stopped, where nothing else is set."""
_BAD_HEADER: Final = re.compile(r"[^\t\x20-\x7e]")


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
        transport, strings = _read_transport(given, entry.at, context, notices)
        if strings.names_project and server.sessions == "shared":
            server = replace(server, sessions="per_project")
        ages = bool({*ENV_FILE_KEYS} & given.keys()) or any(secrets_of_entry(entry))
        server = replace(server, transport=transport, overrides=strings.overrides(), ages=ages)
        variables = Variables(tuple(dict.fromkeys(strings.variables)), frozenset(strings.fetched))
        server = replace(server, variables=variables)
        server = _with_obstacles(server, tuple(dict.fromkeys(strings.obstacles)))
    if "aliases" in given:
        with notices.gathering():
            server = replace(server, aliases=_aliases(given, entry.at))
    common, server = server, read_settings(given, server, entry.at, notices, of=PerServer)
    server = _in_projects(server, common, given, entry.at, notices)
    server = _with_process_settings(server, given, entry.at, notices)
    server = read_peer(server, common, given, entry.at, notices) or with_common_rules(server, common)
    if "project" in given:
        with notices.gathering():
            server = in_folder(server, _project(server, given, entry.at, context))
    off = _is_off(given, entry.at, notices)
    return replace(server, obstacles=(), disabled=SWITCHED_OFF) if off else server


def _in_projects(
    server: ServerConfig, common: ServerConfig, given: JSONObject, at: Location, notices: ConfigNotices
) -> ServerConfig:
    """The server with the rest that is usual for one that runs once for each project."""
    in_one = "project" in given
    if common.sessions == "per_project" and server.sessions == "shared" and not in_one:
        with notices.gathering():
            raise at.key("sessions").error(
                '"shared", but the entry names the project, in which clients differ'
            )
    if server.sessions != "per_project" and not in_one:
        return server
    transport = server.transport
    if in_one:  # and one process
        pass
    elif isinstance(transport, Http | Sse) and transport.program is not None and not transport.names_port:
        with notices.gathering():
            hint = f"write {PORT} in its place, here and in args or env"
            raise at.key("url").error(f"each project has a process, and these cannot share one port; {hint}")
    if server.idle_stop or "idle_stop" in given:
        return server
    return replace(server, idle_stop=PROJECT_IDLE_STOP_S)


def _project(server: ServerConfig, given: JSONObject, at: Location, context: ExpansionContext) -> str:
    """The folder of the clients that a server is for, as it is written in its entry."""
    written: str = read_key(given, "project", at)
    if isinstance(server, PeerConfig):
        raise at.key("project").error("another MCPX is for all clients; give its own entries a project")
    if "${" in written:
        raise at.key("project").error("write the path of the folder; references are not expanded here")
    return os.path.realpath(context.path(written))


def in_folder(server: ServerConfig, project: str) -> ServerConfig:
    """A server for clients in a project alone, with that folder in its entry."""
    transport = in_project(server.transport, project, {})
    sessions = "shared" if server.sessions == "per_project" else server.sessions
    return replace(server, transport=transport, sessions=sessions, project=project)


def _aliases(given: JSONObject, at: Location) -> tuple[str, ...]:
    """The other names of a server."""
    found: tuple[str, ...] = read_key(given, "aliases", at) or ()
    for index, name in enumerate(found):
        if problem := bad_name(name):
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


def _with_process_settings(
    server: ServerConfig, given: JSONObject, at: Location, notices: ConfigNotices
) -> ServerConfig:
    """The server with what its settings say of its processes at the transport that starts them."""
    transport = server.transport
    own_settings = {"limits": server.quota.of_processes, "inherit": server.inherit}
    if isinstance(transport, Stdio):
        return replace(server, transport=replace(transport, **own_settings))
    if transport.program is not None:
        program = replace(transport.program, **own_settings)
        return replace(server, transport=replace(transport, program=program))
    if given.get("inherit") is not None:
        notices.add(at.key("inherit"), "has no effect on a server that is reached by a URL")
    own = given.get("limits")
    for key in keys(ProcessLimits):
        if isinstance(own, JSONObject) and own.get(key) is not None:
            notices.add(at.key("limits").key(key), "has no effect on a server that is reached by a URL")
    return server


def secrets_of_entry(entry: Entry) -> Iterator[Reference]:
    """The secrets that an entry names; none if its server is switched off."""
    if isinstance(entry.given, JSONObject) and not _is_off(entry.given, entry.at, ConfigNotices()):
        yield from _secrets_in(_expanded_part(entry.given))


def secrets_of_profiles(given: object) -> Iterator[Reference]:
    """The secrets that the overrides of profiles name."""
    for profile in given.values() if isinstance(given, dict) else ():
        if isinstance(profile, dict):
            yield from _secrets_in(profile.get("overrides"))


def env_files_of(entry: Entry) -> list[str]:
    """The files of variables that an entry names, as it is written."""
    given = entry.given if isinstance(entry.given, JSONObject) else JSONObject([])
    named = (given[key] for key in ENV_FILE_KEYS if key in given)
    files = [file for each in named for file in ([each] if isinstance(each, str) else each or ())]
    return [file for file in files if isinstance(file, str)]


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
    """Return True if the server is switched off."""
    for key, off in (("disabled", True), ("enabled", False)):
        with notices.gathering():
            if key in given and read_key(given, key, at) is off:
                return True
    return False


# --- how it is reached


def _plain(word: str) -> str:
    """The word without what people get wrong in it: case, `_` and `-`."""
    return word.lower().replace("_", "").replace("-", "")


_PLAIN_TYPES: Final = {_plain(word): kind for word, kind in TYPES.items()}


def _read_transport(
    entry: JSONObject, at: Location, context: ExpansionContext, notices: ConfigNotices
) -> tuple[Transport, Strings]:
    """Return the transport of an entry, and what has read its strings.

    That there is no way to reach the server, or two, is raised; what else is wrong is gathered.
    """
    declared = None
    with notices.gathering():
        declared = _declared(entry, at)
    url_key, starts = _url_key(entry, at), "command" in entry
    if not starts and not url_key:
        raise _neither(entry, at)
    if declared == "stdio" and starts and url_key:
        raise at.error(f'type "stdio" with {quote(url_key)}: over stdio a server has no address')
    needed = "command" if declared == "stdio" else "url"
    if declared and (needed == "command") is not (starts and not url_key):
        raise at.error(
            f'type "{declared}" needs {quote(needed)}, but the entry has {quote(url_key or "command")}'
        )
    if isinstance(entry.get("command"), list):
        hint = 'only its first item belongs here, the others in "args"'
        raise at.key("command").error(f"expected a string, got an array; {hint}")
    strings = Strings(entry, at, context, notices)
    unfit = () if url_key and starts else _STDIO_ONLY if url_key else _REMOTE_ONLY
    reached_by = "a URL" if url_key else "a command"
    for key in (key for key in unfit if key in entry):
        notices.add(at.key(key), f"has no effect on a server that is reached by {reached_by}")
    files = strings.env_files()
    program = _stdio(strings, files) if starts else None
    transport = _remote(strings, url_key, declared, program) if url_key else program
    assert transport is not None  # it has one of the two
    if isinstance(transport, Http | Sse) and not is_confidential(with_port(transport.url, 1)):
        _note_what_is_unencrypted(transport, entry, at, notices)
    return transport, strings


def _note_what_is_unencrypted(
    transport: Http | Sse, entry: JSONObject, at: Location, notices: ConfigNotices
) -> None:
    if transport.headers:
        notices.add(at.key("headers"), "sent unencrypted to another machine; use https:// if they are secret")
    for auth in (key for key in AUTH_KEYS if key in entry and transport.auth is not None):
        notices.add(at.key(auth), "no sign-in goes unencrypted to another machine; use https://")


def _declared(entry: JSONObject, at: Location) -> str | None:
    """The transport that the entry names: `stdio`, `http`, `sse` or `None`."""
    found = None
    for key in (key for key in TYPE_KEYS if key in entry):
        word = read_key(entry, key, at)
        kind = _PLAIN_TYPES.get(_plain(word))
        if kind is None:
            raise at.key(key).error(_unknown_type(word))
        if found not in (None, kind):
            raise at.key(key).error(f'"{kind}" contradicts the type "{found}" of the same entry')
        found = kind
    return found


def _unknown_type(word: str) -> str:
    meant = similar(word, TYPES)
    guess = f"; did you mean {quote(meant)}?" if meant else ""
    return f'unknown transport {quote(word)}, expected "stdio", "http" or "sse"{guess}'


def _url_key(entry: JSONObject, at: Location) -> str | None:
    given = [key for key in URL_KEYS if key in entry]
    if len(given) > 1:
        raise at.error(f"both {quote(given[0])} and {quote(given[1])}: a server has one address")
    return given[0] if given else None


def _neither(entry: JSONObject, at: Location) -> LocatedError:
    for key in entry:
        if (meant := similar(key, ("command", "url"))) is not None:
            hint = f"did you mean {quote(meant)} where it says {quote(key)}?"
            return at.name(key).error(f'neither "command" nor "url"; {hint}')
    return at.error('neither "command" nor "url": MCPX cannot know how to reach this server')


def _stdio(strings: Strings, files: dict[str, str]) -> Stdio:
    context = strings.context
    strings.variables += files.items()
    return Stdio(
        command=context.at_home(strings.text("command", _empty)),
        args=strings.texts("args"),
        env=files | strings.named("env"),
        cwd=None if strings.entry.get("cwd") is None else context.path(strings.text("cwd", _empty)),
    )


def _remote(strings: Strings, url_key: str, declared: str | None, program: Stdio | None) -> Http | Sse:
    url = strings.text(url_key, bad_url)
    headers = {name: value.strip() for name, value in strings.named("headers", _bad_header).items()}
    ends_in_sse = url.split("?", 1)[0].split("#", 1)[0].rstrip("/").endswith("/sse")
    guessed = "sse" if url_key != "httpUrl" and ends_in_sse else "http"
    kind = Sse if (declared or guessed) == "sse" else Http
    sign_in = EntryAuth(strings)
    auth = sign_in.auth(headers)
    if PORT in url and auth is not None:
        for key in (key for key in AUTH_KEYS if key in strings.entry):
            strings.notices.add(strings.at.key(key), "has no effect: a sign-in is for an address that stays")
        auth = None
    if program is not None and url:
        _check_port(url, program, strings)
    return kind(url=url, headers=headers, auth=auth, tls=sign_in.tls(url), program=program)


def _check_port(url: str, program: Stdio, strings: Strings) -> None:
    """Raise where the program would listen on another port than that of the URL."""
    is_told = any(PORT in text for text in (*program.args, *program.env.values()))
    if is_told and PORT not in url:
        raise strings.at.error(f"{PORT} in args or env, but not in the URL: MCPX would look at another port")
    if PORT in url and not is_told:
        raise strings.at.error(f"{PORT} in the URL, but not in args or env: the program would not know it")


def _empty(text: str) -> str | None:
    return None if text else "expected a string, got an empty one"


def _bad_header(value: str) -> str | None:
    wrong = _BAD_HEADER.search(value.strip())
    return "a header can hold printable ASCII only, and no line break" if wrong else None

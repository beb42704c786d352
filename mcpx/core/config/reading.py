"""The text of a configuration to a `Config`: settings, entries, references, profiles, in this order.

`parse` stops at what makes the configuration unusable; `read` gives all that is wrong or odd with it. Pure
but for the environment that they are given, unless secrets are to be fetched.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypedDict, Unpack
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from mcpx.core.config.document import ConfigNotices, LocatedError, Location, as_text, decode, quote
from mcpx.core.config.entries import Entry, find_entries, top_level_keys
from mcpx.core.config.env_files import EnvFileProblem, read_env_file
from mcpx.core.config.expand import Values, expand
from mcpx.core.config.model import Config, Replica, Settings
from mcpx.core.config.peers import may_be_of_peer
from mcpx.core.config.per_server import PerServer
from mcpx.core.config.profiles import Profile, by_own_names, check_profiles
from mcpx.core.config.server_config import Overrides, PeerConfig, ServerConfig
from mcpx.core.config.servers import (
    commands_in,
    env_files_of,
    read_server,
    secrets_of_entry,
    secrets_of_profiles,
    with_usable_aliases,
)
from mcpx.core.config.settings import read_settings
from mcpx.core.config.strings import ExpansionContext, checked_override
from mcpx.core.config.urls import bad_url
from mcpx.core.running import Environment, own, person, with_clients
from mcpx.core.running.login_shell import find_login_shell, how_to_set
from mcpx.core.running.secrets import Reference, fetch, secret, secret_of_keychain, shown
from mcpx.core.text.jsonc import JSONObject
from mcpx.errors import ConfigError
from mcpx.paths import config_hint, home

MIN_SECRET_BYTES: Final = 16
MAX_URL_CHARS: Final = 256


# How a file becomes a configuration. Reading goes on behind whatever is wrong, and tells four things apart:
#
# - Not JSON, or no object: nothing can be read, and that one error is raised.
# - A mistake: something that is wrong as it is written, with its place (`LocatedError`). It is raised where
#   it is found, and `ConfigNotices.gathering` catches it around each value, so that the others are read all
#   the same. One inside a server's entry disables that server alone; one elsewhere makes the whole
#   unusable, since nobody can say what was meant: then `parse` raises the first, and `findings.examine`
#   shows all.
# - An obstacle: something that is not there now, a variable, a file, a secret. The entry is right, and its
#   server waits until that is there (`diagnosis`).
# - A remark: a key without effect, a likely misspelling. Nothing follows from it.
#
# The order matters. Settings come first, for they say whether the login shell is asked and which files hold
# variables; then the values of references; then entries, whose strings are expanded with these; and at last
# what is said of servers by their names, for aliases and profiles need all of them.


class Options(TypedDict, total=False):
    """The surroundings of a configuration, as `parse` takes them."""

    environ: Mapping[str, str]
    folder: Path | None
    resolve: bool
    anew: bool | str
    asks_shell: bool
    secrets_of: Container[str] | None


def parse(text: str | bytes, *, where: str, **options: Unpack[Options]) -> Config:
    """Return the configuration in `text`. A mistake in a server's entry disables that server alone.

    `where` is shown in messages as the file. `folder` is where a relative `cwd` starts: the file's folder, by
    default the current one. To `resolve` is to ask the login shell for the environment of the person, and
    keychain and commands for secrets, each once for as long as the process lives, or `anew` (the secrets, if
    it is the name of a server, of that one alone; without `asks_shell`, the shell is not asked anew); it may
    block for some seconds. Otherwise the environment
    is `environ`, and secrets stay as they are written, as do those of servers other than `secrets_of`.

    Raises:
        ConfigError: Not UTF-8, not JSON, or wrong outside the servers' entries; one line that says where.
    """
    reading = read(as_text(text, where=where), where=where, **options)
    if not (spoiling := reading.spoiling):
        return reading.config
    first, *others = spoiling
    if not others:
        raise first
    more = f"{len(others)} more mistake{'s' if others[1:] else ''}"
    raise ConfigError(first.where, f"{first.problem}; and {more}, see: mcpx check{config_hint(where)}")


class Reading(msgspec.Struct, frozen=True):
    """A configuration as far as it could be read; `places` are where the entries of its servers stand."""

    config: Config
    notices: ConfigNotices
    places: dict[str, Location]
    not_run: dict[str, list[str]]
    """By server, the commands that its secrets come from, where none was to be run."""

    @property
    def spoiling(self) -> list[LocatedError]:
        """The mistakes outside of entries: with one of them the configuration cannot be used."""
        return [mistake for mistake in self.notices.mistakes if mistake.server is None]


def read(
    text: str,
    *,
    where: str,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    resolve: bool = False,
    anew: bool | str = False,
    asks_shell: bool = True,
    secrets_of: Container[str] | None = None,
    commands: bool = True,
) -> Reading:
    """Return the configuration in `text`, and all that is wrong or odd with it. Takes what `parse` takes.

    Without `commands` no `${cmd:...}` is run: it stays as it is written.

    Raises:
        ConfigError: Not JSON, or no object at all.
    """
    top, notices = Location(where), ConfigNotices()
    document = _document(text, top, notices)
    base = read_settings(document, PerServer(), top, notices)
    settings = read_settings(document, Settings(), top, notices)
    environment = own(environ)
    if resolve:
        environment = person(environ, login_shell=settings.login_shell, anew=bool(anew) and asks_shell)
    context = _context(settings, environment, top, notices, environ=environ, folder=folder)
    replica = usable_replica(settings.http.replica, context.values, top.key("http").key("replica"), notices)
    entries = find_entries(document, top, notices)
    contexts = dict.fromkeys((entry.name for entry in entries), context)
    of_profiles = context
    if resolve:
        meant = [entry for entry in entries if secrets_of is None or entry.name in secrets_of]
        more = () if secrets_of is not None else secrets_of_profiles(document.get("profiles"))
        _fetch_secrets(meant, with_clients(environment), anew=anew, commands=commands, more=more)
        known = secret if commands else secret_of_keychain
        fetched = replace(context, values=replace(context.values, secret=known))
        contexts |= dict.fromkeys((entry.name for entry in meant), fetched)
        of_profiles = fetched if secrets_of is None else context
    found = [read_server(entry, base, contexts[entry.name], notices) for entry in entries]
    peers = {server.name: server for server in found if isinstance(server, PeerConfig)}
    servers = {server.name: server for server in found if server.name not in peers}
    places = {entry.name: entry.at for entry in entries}
    servers = with_usable_aliases(servers, places, places, notices)
    profiles = {
        name: by_own_names(_with_values(each, of_profiles, top.key("profiles").key(name), notices), servers)
        for name, each in settings.profiles.items()
    }
    settings = replace(settings, http=replace(settings.http, replica=replica), profiles=profiles)
    _check(settings, servers, peers, top, notices)
    config = Config(
        source=where,
        servers=servers,
        peers=peers,
        notices=notices.lines(),
        http_served="http" in document,
        digest=hash(text),
        common=base,
        environment=environment,
        **msgspec.structs.asdict(settings),
    )
    not_run = {} if commands else {entry.name: commands_in(entry.given) for entry in entries}
    return Reading(config, notices, places, not_run)


def _document(text: str, top: Location, notices: ConfigNotices) -> JSONObject:
    """Return the object that is the file; what is odd with its keys is noted."""
    document = decode(text, where=top.source)
    if not isinstance(document, JSONObject):
        raise top.expected("an object", document)
    notices.mistakes += [top.name(key).error("this key is given twice") for key in document.repeated]
    notices.unused(document, top, known=top_level_keys())
    return document


def _context(
    settings: Settings,
    environment: Environment,
    top: Location,
    notices: ConfigNotices,
    *,
    environ: Mapping[str, str],
    folder: Path | None,
) -> ExpansionContext:
    """Return what entries are read against; variables of files count before those of the environment."""
    place = str((folder or Path()).absolute())
    values = Values(environment.variables, home(environment.variables))
    if settings.login_shell and (shell := find_login_shell(environ)) is not None:
        values = replace(values, remedy=how_to_set(shell.path))
    variables, at = dict(values.environ), top.key("env_file")
    named = settings.env_file
    for each in (named,) if isinstance(named, str) else named:
        try:
            variables |= read_env_file(each, at, replace(values, environ=variables), place, notices)
        except EnvFileProblem as problem:
            notices.add(at, str(problem))
    return ExpansionContext(replace(values, environ=variables), place)


def _with_values(
    profile: Profile, context: ExpansionContext, at: Location, notices: ConfigNotices
) -> Profile:
    """The profile with the references in its fixed arguments expanded; an override that is wrong is noted."""
    found: dict[str, Overrides] = {}
    for server, overrides in profile.overrides.items():
        found[server] = {}
        for tool, given in overrides.items():
            here = at.key("overrides").key(server).key(tool)
            with notices.gathering():
                found[server][tool] = checked_override(given, here, context.values, notices)
    return replace(profile, overrides=found) if found else profile


def _check(
    settings: Settings,
    servers: Mapping[str, ServerConfig],
    peers: Mapping[str, PeerConfig],
    top: Location,
    notices: ConfigNotices,
) -> None:
    """Note what contradicts itself in the whole."""
    may_be = partial(may_be_of_peer, peers.values())
    notices.mistakes += check_profiles(settings.profiles, servers, top.key("profiles"), may_be=may_be)
    if settings.audit_required and settings.audit == "off":
        notices.mistakes.append(top.key("audit_required").error('no call can be written: audit is "off"'))


def _fetch_secrets(
    entries: Iterable[Entry],
    environment: Environment,
    *,
    anew: bool | str,
    commands: bool,
    more: Iterable[Reference] = (),
) -> None:
    """Fetch the secrets of all entries, and `more`; those of the entries that are meant by `anew` again."""
    named = {entry.name: secrets_of_entry(entry) for entry in entries} | {"": iter(more)}
    wanted = {
        name: [each for each in its if commands or each.kind == "keychain"] for name, its in named.items()
    }
    again = () if anew is False else wanted if anew is True else {anew}
    meant = {each for name in again for each in wanted.get(name, ())}
    fetch((each for found in wanted.values() for each in found), environment, anew=meant)


def fetched_values(text: str, where: str) -> dict[str, list[str]]:
    """By server, what its entry has fetched from elsewhere, as it may be shown. Nothing is fetched.

    Raises:
        ConfigError: Not JSON, or no object at all.
    """
    top, notices = Location(where), ConfigNotices()
    found = {}
    for entry in find_entries(_document(text, top, notices), top, notices):
        files = env_files_of(entry)
        if values := [*map(shown, secrets_of_entry(entry)), *(f"env_file {each}" for each in files)]:
            found[entry.name] = list(dict.fromkeys(values))
    return found


# --- the replica


def usable_replica(given: Replica, values: Values, at: Location, notices: ConfigNotices) -> Replica:
    """The replica with its variables expanded; what is wrong with it is noted as a mistake."""
    if given == Replica():
        return given
    with notices.gathering():
        made = Replica(
            url=_expanded(given.url, values, at.key("url")).rstrip("/"),
            secret=_expanded(given.secret, values, at.key("secret")),
        )
        if problem := _bad_origin(made.url):
            raise at.key("url").error(problem)
        if len(made.secret.encode()) < MIN_SECRET_BYTES:
            needed = f"the secret must have {MIN_SECRET_BYTES} bytes or more"
            raise at.key("secret").error(f"{needed}; openssl rand -hex 32 makes one")
        return made
    return given


def _expanded(text: str, values: Values, at: Location) -> str:
    """The text with its variables."""
    found = expand(text, values)
    if found.problems:
        raise at.error("; ".join(map(str, found.problems)))
    if found.deferred or found.unparsed:
        raise at.error(f"only variables are expanded here, such as {quote('${MCPX_REPLICA_SECRET}')}")
    return found.text


def _bad_origin(url: str) -> str | None:
    """Return the problem with the URL of a replica, which must be nothing but scheme, host and port."""
    if problem := bad_url(url):
        return problem
    parts = urlsplit(url)
    if len(url) > MAX_URL_CHARS or "@" in parts.netloc or parts.path or parts.query or parts.fragment:
        return "expected a URL of scheme, host and port alone, such as http://10.0.0.3:8765"
    return None

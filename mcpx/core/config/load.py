"""From a file to a `Config`: the lookup, the reading, and the parse of the whole.

Owns the order in which the file is looked up and every error of the file system. `load` is called once at
start and at each reload; `parse` is pure but for the environment it is given.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from mcpx.core.config.document import LocatedError, Location, as_text, decode
from mcpx.core.config.env_files import EnvFileProblem, read_env_file
from mcpx.core.config.expand import Values
from mcpx.core.config.model import Config, PeerConfig, Settings
from mcpx.core.config.notices import ConfigNotices
from mcpx.core.config.peers import may_be_of_peer
from mcpx.core.config.per_server import PerServer
from mcpx.core.config.profiles import by_own_names, check_profiles
from mcpx.core.config.replica import usable_replica
from mcpx.core.config.servers import (
    Entry,
    commands_in,
    find_entries,
    read_server,
    secrets_of_entry,
    top_level_keys,
    with_usable_aliases,
)
from mcpx.core.config.settings import read_settings
from mcpx.core.config.strings import ExpansionContext
from mcpx.core.documents.jsonc import JSONObject
from mcpx.core.running import Environment, own, person
from mcpx.core.running.login_shell import find_login_shell, how_to_set
from mcpx.core.running.secrets import fetch, forget, secret, secret_of_keychain
from mcpx.errors import ConfigError
from mcpx.paths import CONFIG_VARIABLE, config_file, config_hint, home

MAX_CONFIG_BYTES: Final = 64 << 20


def load(
    path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ, resolve: bool = True
) -> Config:
    """The configuration in `path`, else the file `MCPX_CONFIG` names, else in the user's config folder.

    `resolve` is that of `parse`; without it nothing is started or waited for.

    Raises:
        ConfigError: The file is missing or cannot be read, or what `parse` raises.
    """
    return read_config(path, environ=environ).parse(environ=environ, resolve=resolve)


class ConfigText(NamedTuple):
    """The content of a configuration file, to be parsed as often as it is wanted: it may be a pipe."""

    file: Path
    data: bytes

    def parse(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        resolve: bool = True,
        secrets_of: Container[str] | None = None,
    ) -> Config:
        """The configuration, as `load` makes it; `secrets_of` is that of `parse`.

        Raises:
            ConfigError: What `parse` raises.
        """
        folder = self.file.absolute().parent
        return parse(
            self.data,
            where=str(self.file),
            environ=environ,
            folder=folder,
            resolve=resolve,
            secrets_of=secrets_of,
        )


def read_config(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> ConfigText:
    """The content of the file that `load` would read.

    Raises:
        ConfigError: The file is missing or cannot be read.
    """
    file = config_file(path, environ=environ)
    return ConfigText(file, read_file(file, missing=_missing_file(path, environ)))


def read_file(file: Path, *, missing: str = "no such file") -> bytes:
    """The content of a configuration file. `missing` is what the error says where there is none.

    Raises:
        ConfigError: The file is missing or cannot be read.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(str(file), missing) from None
    except IsADirectoryError:
        raise ConfigError(str(file), "this is a folder; name the file in it") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(str(file), f"cannot be read: {reason}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(str(file), f"larger than {MAX_CONFIG_BYTES >> 20} MiB")
    return data


def parse(
    text: str | bytes,
    *,
    where: str,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    resolve: bool = False,
    anew: bool | str = False,
    secrets_of: Container[str] | None = None,
) -> Config:
    """The configuration in `text`. A mistake in a server's entry disables that server alone.

    `where` is shown in messages as the file. `folder` is where a relative `cwd` starts: the file's folder, by
    default the current one. To `resolve` is to ask the login shell for the environment of the person, and
    keychain and commands for secrets, each once for as long as the process lives, or `anew` (the secrets, if
    it is the name of a server, of that one alone); it may block for some seconds. Otherwise the environment
    is `environ`, and secrets stay as they are written, as do those of servers other than `secrets_of`.

    Raises:
        ConfigError: Not UTF-8, not JSON, or wrong outside the servers' entries; one line that says where.
    """
    reading = read(
        as_text(text, where=where),
        where=where,
        environ=environ,
        folder=folder,
        resolve=resolve,
        anew=anew,
        secrets_of=secrets_of,
    )
    spoiling = reading.spoiling
    if not spoiling:
        return reading.config
    if len(spoiling) > 1:
        more = f"{len(spoiling) - 1} more mistake{'s' if len(spoiling) > 2 else ''}"  # noqa: PLR2004 - plural
        raise ConfigError(
            spoiling[0].where, f"{spoiling[0].problem}; and {more}, see: mcpx check{config_hint(where)}"
        )
    raise spoiling[0]


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
    environ: Mapping[str, str],
    folder: Path | None,
    resolve: bool = False,
    anew: bool | str = False,
    secrets_of: Container[str] | None = None,
    commands: bool = True,
) -> Reading:
    """The configuration in `text`, and all that is wrong or odd with it. Takes what `parse` takes.

    Without `commands` no `${cmd:...}` is run: it stays as it is written.

    Raises:
        ConfigError: Not JSON, or no object at all.
    """
    top = Location(where)
    notices = ConfigNotices()
    document = decode(text, where=where)
    if not isinstance(document, JSONObject):
        raise top.expected("an object", document)
    notices.mistakes += [top.name(key).error("this key is given twice") for key in document.repeated]
    notices.unused(document, top, known=top_level_keys())
    base = read_settings(document, PerServer(), top, notices)
    settings = read_settings(document, Settings(), top, notices)
    environment = own(environ)
    if resolve:
        environment = person(environ, login_shell=settings.login_shell, anew=bool(anew))
    place = str((folder or Path()).absolute())
    values = Values(environment.variables, home(environment.variables))
    shell = find_login_shell(environ) if settings.login_shell else None
    if shell is not None:
        values = replace(values, remedy=how_to_set(shell.path))
    values = replace(values, environ=_with_files(settings.env_file, values, place, top, notices))
    replica = usable_replica(settings.http.replica, values, top.key("http").key("replica"), notices)
    settings = replace(settings, http=replace(settings.http, replica=replica))
    entries = find_entries(document, top, notices)
    context = ExpansionContext(values, place)
    contexts = dict.fromkeys((entry.name for entry in entries), context)
    if resolve:
        meant = [entry for entry in entries if secrets_of is None or entry.name in secrets_of]
        _fetch_secrets(meant, environment, anew, commands=commands)
        known = secret if commands else secret_of_keychain
        fetched = replace(context, values=replace(values, secret=known))
        contexts |= dict.fromkeys((entry.name for entry in meant), fetched)
    found = [read_server(entry, base, contexts[entry.name], notices) for entry in entries]
    servers = {server.name: server for server in found if not isinstance(server, PeerConfig)}
    peers = {server.name: server for server in found if isinstance(server, PeerConfig)}
    places = {entry.name: entry.at for entry in entries}
    servers = with_usable_aliases(servers, places, places, notices)
    profiles = {name: by_own_names(each, servers) for name, each in settings.profiles.items()}
    settings = replace(settings, profiles=profiles)
    notices.mistakes += check_profiles(
        settings.profiles, servers, top.key("profiles"), may_be=partial(may_be_of_peer, peers.values())
    )
    if settings.audit_required and settings.audit == "off":
        notices.mistakes.append(top.key("audit_required").error('no call can be written: audit is "off"'))
    config = Config(
        source=where,
        servers=servers,
        peers=peers,
        notices=notices.lines(),
        http_served="http" in document,
        digest=hash(text),
        environment=environment,
        **msgspec.structs.asdict(settings),
    )
    not_run = {} if commands else {entry.name: commands_in(entry.given) for entry in entries}
    return Reading(config, notices, places, not_run)


def commands_of_servers(file: ConfigText, *, environ: Mapping[str, str] = os.environ) -> dict[str, list[str]]:
    """The commands that MCPX runs for the entry of each server, none of which is run.

    Raises:
        ConfigError: The content cannot be used.
    """
    where = str(file.file)
    text = as_text(file.data, where=where)
    return read(text, where=where, environ=environ, folder=file.file.parent, commands=False).not_run


def _with_files(
    named: str | tuple[str, ...], values: Values, folder: str, top: Location, notices: ConfigNotices
) -> Mapping[str, str]:
    """The variables of the environment, and of files that count before it, or are noted as unreadable."""
    variables, at = dict(values.environ), top.key("env_file")
    for each in (named,) if isinstance(named, str) else named:
        try:
            variables |= read_env_file(each, at, replace(values, environ=variables), folder, notices)
        except EnvFileProblem as problem:
            notices.add(at, str(problem))
    return variables


def _fetch_secrets(
    entries: Iterable[Entry],
    environment: Environment,
    anew: bool | str,  # noqa: FBT001
    *,
    commands: bool,
) -> None:
    """Fetch the secrets of all entries; those of the ones that are meant by `anew` again."""
    wanted = {
        entry.name: [each for each in secrets_of_entry(entry) if commands or each.kind == "keychain"]
        for entry in entries
    }
    again = wanted if isinstance(anew, bool) else {anew}
    if anew:
        forget(each for name in again for each in wanted.get(name, ()))
    fetch((each for found in wanted.values() for each in found), environment)


def _missing_file(path: str | Path | None, environ: Mapping[str, str]) -> str:
    """Why this file was looked for, so that the reader knows which of three places it is; and what next."""
    file = config_file(path, environ=environ)
    if path is not None and file != config_file(environ=environ):
        return "no such file"
    then = "mcpx import takes over the servers of your AI clients"
    if path is not None:
        return f"no such file; {then}"
    if environ.get(CONFIG_VARIABLE):
        return f"no such file; the environment variable {CONFIG_VARIABLE} names it"
    places = f"looked for the argument (none given), {CONFIG_VARIABLE} (not set), then this file"
    return f"no such file; {places}; {then}"

"""The clients' files: where each is for one user and system, and the servers in it, in MCPX's form.

Everything that is not taken is named. A file that cannot be read, or is not understood, is a `problem`, never
an exception: one broken file must not stand in the way of the others. No text here holds a value of `env`, of
a header or of a URL. Changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mcpx.core.config.entries import starts_mcpx
from mcpx.core.config.project_entries import ClaudeProjects, ProjectServers, label_of, read_project
from mcpx.core.system.linux import PLATFORM
from mcpx.core.text import kind_of
from mcpx.core.text.nearest import suggestion
from mcpx.errors import ConfigError
from mcpx.paths import home
from mcpx.setup.changes import ChangeError, read_file
from mcpx.setup.clients.rows import CLIENTS, Client, System
from mcpx.setup.clients.translating import Inputs, Server, translate
from mcpx.setup.clients.variables import NotImportedError
from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.editing import read

PROJECTS: Final = "projects"
"""The key of what Claude Code knows of single folders."""


class ClientFile(msgspec.Struct, frozen=True):
    """A file in which a client keeps its servers. `installed` is whether there are traces of the client."""

    client: Client
    path: Path
    exists: bool
    installed: bool


def client_named(name: str, clients: Sequence[Client] = CLIENTS) -> Client:
    """The row of a client, among these.

    Raises:
        ConfigError: There is none; the text names the nearest, or all.
    """
    for client in clients:
        if client.name == name.lower():
            return client
    hint = suggestion(name, (client.name for client in clients))
    raise ConfigError(name, f"no client of this name is known; {hint}")


def clients_named(names: Iterable[str], clients: Sequence[Client] = CLIENTS) -> Sequence[Client]:
    """The rows of the clients of these names, each once, or all of these clients if there is no name.

    Raises:
        ConfigError: As `client_named`.
    """
    return [client_named(name, clients) for name in dict.fromkeys(names)] or clients


_SYSTEMS: Final[dict[str, System]] = {"darwin": "macos", "win32": "windows"}


def this_system() -> System:
    """The system that this process runs on."""
    return _SYSTEMS.get(PLATFORM, "linux")


def find(client: Client, environ: Mapping[str, str] = os.environ, system: System | None = None) -> ClientFile:
    """The file of a client: of several possible ones the first that exists, else the first of all."""
    environ, system = _side(client, environ, system)
    paths = list(candidates(client, environ, system))
    existing = [path for path in paths if _is_file(path)]
    path = (existing or paths)[0]
    folder = Path(_filled(client.folder, environ)) if client.folder else path.parent
    return ClientFile(client, path, bool(existing), bool(existing) or os.path.isdir(folder))


def find_all(
    client: Client, environ: Mapping[str, str] = os.environ, system: System | None = None
) -> list[ClientFile]:
    """Every file of a client that exists: some have one for each editor that they live in."""
    found: dict[str, ClientFile] = {}
    environ, system = _side(client, environ, system)
    for path in candidates(client, environ, system):
        if _is_file(path):
            found.setdefault(os.path.realpath(path), ClientFile(client, path, exists=True, installed=True))
    return list(found.values())


def _side(
    client: Client, environ: Mapping[str, str], system: System | None
) -> tuple[Mapping[str, str], System]:
    """The environment and the system by which a client's files are found."""
    if client.windows is not None:
        return client.windows.environ, "windows"
    return environ, system or this_system()


def candidates(client: Client, environ: Mapping[str, str], system: System) -> Iterator[Path]:
    """The paths at which the client may keep its servers, the preferred one first; at least one."""
    for template in client.files[system]:
        variable, _, rest = template.partition("/")
        if variable.startswith("$"):
            if chosen := environ.get(variable[1:]):
                at_home = chosen == "~" or chosen.startswith("~/")
                yield Path(home(environ) + chosen[1:] if at_home else chosen, rest)
                return
        elif "*" in template:
            yield from _matching(_filled(template, environ))
        else:
            yield Path(_filled(template, environ))


def _is_file(path: Path) -> bool:
    """Return True if there is a file, or may be one: who may not look finds out by reading it."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _matching(path: str) -> list[Path]:
    """The paths that a path with one `*` stands for."""
    before, _, _ = path.partition("*")
    root = Path(before).parent
    return sorted(root.glob(Path(path).relative_to(root).as_posix()))


def _filled(template: str, environ: Mapping[str, str]) -> str:
    user = environ.get("HOME") or environ.get("USERPROFILE") or home(environ)
    chosen = environ.get("XDG_CONFIG_HOME", "")
    return template.format(
        home=user,
        config=chosen if chosen.startswith("/") else f"{user}/.config",
        support=f"{user}/Library/Application Support",
        roaming=environ.get("APPDATA") or f"{user}/AppData/Roaming",
        local=environ.get("LOCALAPPDATA") or f"{user}/AppData/Local",
    )


# --- the servers in one


class LeftOut(msgspec.Struct, frozen=True):
    """An entry that is no server for MCPX, and why."""

    name: str
    reason: str


class ClientServers(msgspec.Struct, frozen=True, kw_only=True):
    """The servers in one file. `own_entries` are those of MCPX itself as they stand there, with names."""

    file: ClientFile
    servers: tuple[Server, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    own_entries: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    notes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """The folders that the client has worked in, as far as the file says."""
    problem: str | None = None
    """Why the file cannot be used, with line and column where there are any."""

    @property
    def own(self) -> tuple[str, ...]:
        """The names under which MCPX itself stands there."""
        return tuple(name for name, _ in self.own_entries)


def read_client_file(file: ClientFile) -> ClientServers:
    """Read the servers in a client's file."""
    try:
        data = read_file(file.path)
    except ChangeError as error:
        reason = str(error).removeprefix(f"{file.path}: ")
        return ClientServers(file=file, problem=f"cannot be read: {reason}")
    if data is None:
        return ClientServers(file=file, problem="cannot be read: No such file or directory")
    return read_servers(file, data)


def read_servers(file: ClientFile, data: bytes) -> ClientServers:
    """Return the servers in a client's file with this content."""
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
        value = {} if client.form != "continue" else []
    if not isinstance(value, list if client.form == "continue" else Mapping):
        expected = "a list" if client.form == "continue" else "an object"
        return ClientServers(file=file, problem=f"{'.'.join(key)}: expected {expected}, got {kind_of(value)}")
    return _read_entries(file, value, document if isinstance(document, Mapping) else {})


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
    for each in of_folders(file.client, document):
        if not starts_mcpx(each.given):
            try:
                servers.append(_taken_over(each, file.client, inputs))
            except NotImportedError as error:
                left_out.append(LeftOut(each.name, str(error)))
    notes = [
        f"the name {name} is given twice; the client takes the last"
        for name in getattr(value, "repeated", ())
    ]
    return ClientServers(
        file=file,
        servers=tuple(servers),
        left_out=tuple(left_out),
        own_entries=tuple(own),
        notes=tuple(notes),
        folders=tuple(folders_in(file.client, document)),
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
    """Return what an editor asks for, by its id."""
    asked = document.get("inputs")
    given = [each for each in asked if isinstance(each, Mapping)] if isinstance(asked, list) else []
    return {str(each.get("id")): each for each in given}


def _turned_off(document: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return a test for servers that are turned off outside of their entries (Gemini's `mcp.excluded`)."""
    lists = document.get("mcp")
    given = lists if isinstance(lists, Mapping) else {}
    allowed, excluded = given.get("allowed"), given.get("excluded")
    return lambda name: (
        (isinstance(allowed, list) and bool(allowed) and name not in allowed)
        or (isinstance(excluded, list) and name in excluded)
    )


# --- servers for single folders, and files in these


class OfFolder(msgspec.Struct, frozen=True):
    """An entry of a client's file that is for one folder alone. `name` has that of the folder before its own.

    `path` is where it stands in the file.
    """

    folder: str
    name: str
    path: tuple[str, ...]
    given: Any


def of_folders(client: Client, document: Any) -> Iterator[OfFolder]:
    """The entries that a client's file has for single folders (`projects` of Claude Code)."""
    projects = document.get(PROJECTS) if isinstance(document, Mapping) else None
    if client.name != "claude-code" or not isinstance(projects, Mapping):
        return
    labels: dict[str, str] = {}  # with their folders: two may have one name
    for folder, about in projects.items():
        servers = about.get("mcpServers") if isinstance(about, Mapping) else None
        if not isinstance(servers, Mapping) or not servers:
            continue
        label = label_of(folder)
        if labels.setdefault(label, folder) != folder:
            label += f"-{hashlib.sha256(str(folder).encode(errors='replace')).hexdigest()[:6]}"
        for name, given in servers.items():
            yield OfFolder(folder, f"{label}/{name}", (PROJECTS, folder, "mcpServers", name), given)


def folders_in(client: Client, document: Any) -> list[str]:
    """The folders that a client's file says something of, which are there."""
    projects = document.get(PROJECTS) if isinstance(document, Mapping) else None
    if client.name != "claude-code" or not isinstance(projects, Mapping):
        return []
    return [folder for folder in map(str, projects) if _is_folder(folder)]


def in_folders(folders: Iterable[str], *more: str) -> list[ProjectServers]:
    """The servers that files of these folders name, without those that Claude Code keeps for them itself.

    The home folder is none of them: its files are a client's own.
    """
    real = dict.fromkeys(map(os.path.realpath, (*folders, *more)))
    nothing_of_its_own = ClaudeProjects()  # it was not asked to look
    read_all = (read_project(each, nothing_of_its_own) for each in real if each != os.path.realpath(home()))
    return [each for each in read_all if each.entries]


def _is_folder(path: str) -> bool:
    try:
        return os.path.isabs(path) and os.path.isdir(path)
    except ValueError:  # no name that a folder can have
        return False


def _taken_over(each: OfFolder, client: Client, inputs: Inputs) -> Server:
    """The server of a folder, with that folder as its project, where its relative paths begin.

    Raises:
        NotImportedError: It is nothing that MCPX can run.
    """
    if not _is_folder(each.folder):
        raise NotImportedError(f"its folder is not there: {each.folder}")
    given = each.given
    if isinstance(given, Mapping) and not isinstance(given.get("cwd"), str):
        server = translate(each.name, {**given, "cwd": each.folder}, client, inputs)
        entry = {key: value for key, value in server.entry.items() if key != "cwd"}
    else:
        server = translate(each.name, given, client, inputs)
        entry = server.entry
    return msgspec.structs.replace(server, entry={**entry, "project": each.folder})

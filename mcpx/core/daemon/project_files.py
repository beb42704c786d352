"""Servers that the files of a project name: offered to its clients alone, once a person has agreed to them.

The files are `.mcp.json`, `.vscode/mcp.json` and `.cursor/mcp.json` in the folder of a project, and what
`~/.claude.json` has for it under `projects`. A file that comes with a repository is somebody else's words. So
nothing of it runs before a person has agreed to what it would start (`mcpx approve --project`), by a digest
of that: when a file says something else, its servers are withdrawn until it is agreed to again. Of an entry
only counts how the server is started or reached; rules, hints and secrets of the keychain are not for a file
to ask. The rules of the configuration for all servers hold for these.

The files of a project are looked at while a client is there, and before each start and call of a server of
them (`ProjectFiles.refusal_of`). Files that are links, too large, or no JSON harm nobody: they are named
with what is wrong, and count as if they were not there.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
import structlog
from msgspec.structs import replace

from mcpx.core.catalog.model import JSON
from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.document import ConfigNotices, Location, decode
from mcpx.core.config.entries import Entry, all_entries, bad_name
from mcpx.core.config.expand import Values, secrets_in
from mcpx.core.config.projects import in_project
from mcpx.core.config.servers import read_server
from mcpx.core.config.strings import ExpansionContext
from mcpx.core.protocol.context import ClientId
from mcpx.core.running import own
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import READ_FLAGS, read_own_file, replace_file
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.text import one_line
from mcpx.core.text.jsonc import JSONObject
from mcpx.errors import CallError, Code, ConfigError, MCPXError
from mcpx.paths import config_hint, home, state_folder
from supervisors import Incarnation, Signal

log = structlog.get_logger()
FILES: Final = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""In the folder of a project; of two servers of one name that of the earlier file counts."""
CLAUDE: Final = ".claude.json"
"""In the home folder."""
STORE: Final = "projects.json"
MAX_FILE_BYTES: Final = 1 << 20
MAX_CLAUDE_BYTES: Final = 32 << 20
MAX_STORE_BYTES: Final = 4 << 20
MAX_SERVERS: Final = 64  # of one project
MAX_PROJECTS: Final = 64  # that are looked at
LOOK_S: Final = 1.0  # between two looks at the files of projects with clients
_KEYS: Final = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", "url", "serverUrl", "httpUrl", "headers"}
)
"""Keys of an entry that count: how the server is started or reached."""
_Seen = tuple[tuple[int, int, int, int] | None, ...]


class ProjectServers(msgspec.Struct, frozen=True):
    """The servers of one project by its files: their entries as written, by name, with the file of each.

    `problems` are the files and entries that do not count, and why. `digest` is that of what would run.
    """

    project: str
    entries: dict[str, tuple[str, JSON]]
    problems: tuple[str, ...]
    digest: str

    def shown(self) -> list[JSON]:
        """What it would start or reach, a server each, for a person: as written, on printable lines."""
        return [_shown(name, file, entry) for name, (file, entry) in self.entries.items()]


def read_project(project: str) -> ProjectServers:
    """Read the files of a project. Blocks; whatever is wrong with a file is said in the result."""
    entries: dict[str, tuple[str, JSON]] = {}
    problems: list[str] = []
    for file, document in _documents(project, problems):
        notices = ConfigNotices()
        for entry in all_entries(document, Location(file), notices):
            problem = entry.problem or bad_name(entry.name) or _unfit(entry.given)
            if problem is None and len(entries) >= MAX_SERVERS:
                problem = f"more than {MAX_SERVERS} servers"
            if problem is not None:
                problems.append(one_line(f"{file}: {entry.name}: {problem}"))
            elif not _is_off(entry.given):
                kept = {key: value for key, value in entry.given.items() if key in _KEYS}
                entries.setdefault(entry.name, (file, kept))
        problems += [one_line(str(mistake)) for mistake in notices.mistakes]
    said = msgspec.json.encode(entries, order="deterministic")
    return ProjectServers(project, entries, tuple(problems), hashlib.sha256(said).hexdigest())


def _documents(project: str, problems: list[str]) -> Iterator[tuple[str, JSONObject]]:
    for name in FILES:
        file = os.path.join(project, name)
        if (found := _document(file, MAX_FILE_BYTES, problems, through_links=False)) is not None:
            yield file, found
    file = os.path.join(home(), CLAUDE)
    found = _document(file, MAX_CLAUDE_BYTES, problems, through_links=True)
    projects = None if found is None else found.get("projects")
    own_part = projects.get(project) if isinstance(projects, JSONObject) else None
    if isinstance(own_part, JSONObject) and isinstance(servers := own_part.get("mcpServers"), JSONObject):
        yield file, JSONObject([("mcpServers", servers)])


def _document(path: str, limit: int, problems: list[str], *, through_links: bool) -> JSONObject | None:
    """The object that a file holds; None where there is none, or it does not count."""
    try:
        text = _read(path, limit, through_links=through_links)
        document = None if text is None else decode(text, where=path)
    except (OSError, UnicodeDecodeError, ConfigError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).removeprefix(f"{path}: ")
        problems.append(one_line(f"{path}: {why}"))
        return None
    if document is None or isinstance(document, JSONObject):
        return document
    problems.append(f"{path}: expected an object")
    return None


def _read(path: str, limit: int, *, through_links: bool) -> str | None:
    """The text of a regular file; None where there is none.

    Raises:
        OSError: It is a link, or in one; it is no file, or too large; or it cannot be read.
    """
    flags = READ_FLAGS & ~os.O_NOFOLLOW if through_links else READ_FLAGS
    if not through_links and os.path.islink(os.path.dirname(path)):
        raise OSError(0, "its folder is a link; it does not count")
    try:
        opened = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if os.path.islink(path):
            raise OSError(0, "it is a link; it does not count") from None
        raise
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(0, f"it is larger than {limit >> 20} MiB; it does not count")
    return data.decode("utf-8-sig")


def _unfit(given: Any) -> str | None:
    """The reason that an entry does not count, whatever a person says to it."""
    if not isinstance(given, JSONObject):
        return "expected an object"
    kept = {key: value for key, value in given.items() if key in _KEYS}
    if any(True for text in _texts(kept) for _ in secrets_in(text)):
        return "the file of a project cannot name secrets of the keychain, or commands that print them"
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _is_off(given: JSON) -> bool:
    return given.get("disabled") is True or given.get("enabled") is False


def _shown(name: str, file: str, entry: JSON) -> JSON:
    words = [str(entry.get("command", "")), *map(str, entry.get("args") or ())]
    target = next((str(entry[key]) for key in ("url", "serverUrl", "httpUrl") if key in entry), "")
    more = {key: entry[key] for key in ("env", "cwd", "headers") if entry.get(key)}
    starts = " ".join(_quoted(word) for word in words) if entry.get("command") else target
    return {
        "name": one_line(name),
        "file": one_line(file),
        "starts": one_line(starts),
        "with": [one_line(f"{key}: {_plain(value)}") for key, value in more.items()],
    }


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./${}-]+", word) else msgspec.json.encode(word).decode()


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class ProjectFiles:
    """The servers of all projects with clients. `changed` puts the configuration in force once more."""

    def __init__(self, state: Path | None, changed: Callable[[], Awaitable[None]]) -> None:
        self._file = (state or state_folder()) / STORE
        self._changed = changed
        self._wanted = Signal()
        self._entered: dict[str, None] = {}  # the latest last
        self._read: dict[str, tuple[_Seen, ProjectServers]] = {}
        self._in_force: dict[str, ProjectServers] = {}
        self._agreed: dict[str, str] = {}  # by project, the digest
        self._source = ""
        self._claude: _Seen = ()
        self._recall()

    # --- for the gateway

    def enter(self, project: str) -> None:
        """Look at the files of a project from now on: a client is there."""
        is_named = any(os.path.lexists(os.path.join(project, name)) for name in FILES)
        if is_named or project in self._agreed:  # `~/.claude.json` counts for those that were agreed to
            self._entered.pop(project, None)
            self._entered[project] = None
            self._wanted.set()

    def endpoint_for(self, endpoint: Endpoint, client: ClientId) -> Endpoint:
        """The endpoint with the servers of the client's project, where its files may name any.

        One that shows a single server is as it was.
        """
        if client.project is None or endpoint.alone is not None:
            return endpoint
        self.enter(client.project)
        return replace(endpoint, project=client.project) if client.project in self._entered else endpoint

    def note(self, project: str | None) -> str | None:
        """The servers of a project that wait for a person, as a sentence; None if there are none."""
        seen = None if project is None else self._read.get(project)
        if seen is None or not (found := seen[1]).entries or self._is_agreed(found):
            return None
        names = ", ".join(map(one_line, found.entries))
        command = f"mcpx approve --project {found.project}{config_hint(self._source) if self._source else ''}"
        return (
            f"the files of this project name servers that wait for the user's agreement ({names}): {command}"
        )

    def refusal_of(self, server: ServerConfig) -> CallError | None:
        """Say why a server of a project must not be started or called: its files say something else now."""
        project = server.project
        if project is None:
            return None
        in_force, seen = self._in_force.get(project), self._read.get(project)
        if in_force is not None and seen is not None and seen[0] == _look_at(project):
            return None
        self._wanted.set()
        text = f"{server.name} is not available (the files of its project have changed); nothing was sent"
        return CallError(Code.SERVER_UNAVAILABLE, text, server=server.name)

    # --- for a person

    async def answer(self, project: str, digest: str) -> JSON:
        """What the files of a project would start: `{project, servers, problems, digest, approved}`.

        With a `digest` it is agreed to, if it is that of just this.

        Raises:
            MCPXError: They say something else by now, or that cannot be kept.
        """
        return await (self._approve(project, digest) if digest else self._waiting(project))

    async def _waiting(self, project: str) -> JSON:
        found = await anyio.to_thread.run_sync(self._look, project)
        return {
            "project": project,
            "servers": found.shown(),
            "problems": list(found.problems),
            "digest": found.digest,
            "approved": self._is_agreed(found),
        }

    async def _approve(self, project: str, digest: str) -> JSON:
        found = await anyio.to_thread.run_sync(self._look, project)
        if found.digest != digest:
            raise MCPXError("the files of the project have changed meanwhile; look again")
        self._agreed[project] = digest
        self._entered[project] = None
        try:
            await anyio.to_thread.run_sync(self._keep)
        except OSError as error:
            raise MCPXError(f"{self._file}: {error.strerror}") from None
        await self._changed()
        return await self._waiting(project)

    # --- the configuration

    def expand(self, config: Config) -> Config:
        """The configuration with the servers of projects that a person has agreed to, and no others."""
        self._source = config.source
        servers = {name: each for name, each in config.servers.items() if each.project is None}
        self._in_force = {}
        for _, found in self._read.values():
            if found.entries and self._is_agreed(found):
                self._in_force[found.project] = found
                servers |= dict(_servers_of(found, config, taken={*servers, *config.peers}))
        return config if servers == config.servers else replace(config, servers=servers)

    # --- looking

    async def run(self, incarnation: Incarnation) -> None:
        """Look at the files again and again while there are any, until asked to leave."""
        incarnation.ready()
        await incarnation.while_wanted(self._follow)

    async def _follow(self) -> None:
        while True:
            if not self._entered:
                await self._wanted.wait()
            with anyio.move_on_after(LOOK_S):
                await self._wanted.wait()
            self._wanted.clear()
            before = {project: found.digest for project, found in self._in_force.items()}
            await anyio.to_thread.run_sync(self._look_again)
            now = {p: s.digest for p, (_, s) in self._read.items() if s.entries and self._is_agreed(s)}
            if now != before:
                log.info("projects.changed", projects=sorted(now))
                await self._changed()

    def _look_again(self) -> None:
        for project in list(self._entered)[: max(0, len(self._entered) - MAX_PROJECTS)]:
            del self._entered[project]
            self._read.pop(project, None)
        before, self._claude = self._claude, (_state(os.path.join(home(), CLAUDE)),)
        for project in list(self._entered):
            known = self._read.get(project)
            if known is None or known[0] != _look_at(project) or self._claude != before:
                self._look(project)

    def _look(self, project: str) -> ProjectServers:
        seen = _look_at(project)  # before it is read: what changes meanwhile is looked at again
        found = read_project(project)
        known = self._read.get(project)
        self._read[project] = seen, found
        for problem in found.problems if known is None or known[1] != found else ():
            log.warning("project.file", problem=problem)
        return found

    def _is_agreed(self, found: ProjectServers) -> bool:
        return self._agreed.get(found.project) == found.digest

    # --- the file of what was agreed to

    def _recall(self) -> None:
        try:
            data = read_own_file(self._file, MAX_STORE_BYTES)
            self._agreed = msgspec.json.decode(data, type=dict[str, str]) | self._agreed
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError) as error:
            log.warning("projects.unreadable", file=str(self._file), reason=str(error))

    def _keep(self) -> None:
        ensure_folder(self._file.parent)
        replace_file(self._file, msgspec.json.encode(self._agreed))


def _look_at(project: str) -> _Seen:
    """Identity, size and times of the files of a project, by which a change is noticed."""
    return tuple(_state(os.path.join(project, name)) for name in FILES)


def _state(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _servers_of(
    found: ProjectServers, config: Config, *, taken: set[str]
) -> Iterator[tuple[str, ServerConfig]]:
    """The servers of a project, each under a name that begins with the project's."""
    folder = re.sub(r"[^\w.-]", "-", os.path.basename(found.project), flags=re.ASCII).strip("-.") or "project"
    if any(name.startswith(f"{folder}/") for name in taken):
        folder += f"-{hashlib.sha256(found.project.encode()).hexdigest()[:6]}"
    environment = config.environment or own()
    context = ExpansionContext(Values(environment.variables, home(environment.variables)), found.project)
    for name, (file, given) in found.entries.items():
        shown = f"{folder}/{name}"
        entry = Entry(shown, JSONObject([*given.items()]), Location(file))
        server = read_server(entry, config.common, context, ConfigNotices())
        transport = in_project(server.transport, found.project, {})
        sessions = "shared" if server.sessions == "per_project" else server.sessions
        kept = replace(server, transport=transport, sessions=sessions, project=found.project, peer=None)
        yield shown, kept

"""Servers that the files of a project name: as they are written there, and as servers of MCPX.

The files are `.mcp.json`, `.vscode/mcp.json` and `.cursor/mcp.json` in the folder of a project, and what
`~/.claude.json` has for it under `projects`. A file that comes with a repository is somebody else's words. Of
an entry only counts how the server is started or reached; rules, hints and secrets of the keychain are not
for a file to ask, and MCPX itself is no server of a project. Files that are links, too large, or no JSON harm
nobody: they are named with what is wrong, and count as if they were not there.

The digest of an entry is that of what a person agrees to (`mcpx.core.policy.agreements`): its name, command,
arguments, variables, folder, address and headers, as they are written. The contents of a script that it names
are not in it, as those of a package are not that `npx` would fetch.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import JSON
from mcpx.core.config.document import ConfigNotices, Location, decode
from mcpx.core.config.entries import Entry, all_entries, bad_name, starts_mcpx
from mcpx.core.config.expand import Values, secrets_in
from mcpx.core.config.model import Config
from mcpx.core.config.server_config import ServerConfig
from mcpx.core.config.servers import in_folder, read_server
from mcpx.core.config.strings import URL_KEYS, ExpansionContext
from mcpx.core.running import own
from mcpx.core.store.private_files import READ_FLAGS
from mcpx.core.text import one_line
from mcpx.core.text.jsonc import JSONObject
from mcpx.errors import ConfigError
from mcpx.paths import home

FILES: Final = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""In the folder of a project; of two servers of one name that of the earlier file counts."""
CLAUDE: Final = ".claude.json"
"""In the home folder."""
MAX_FILE_BYTES: Final = 1 << 20
MAX_CLAUDE_BYTES: Final = 32 << 20
MAX_SERVERS: Final = 64  # of one project
_KEYS: Final = frozenset({"type", "transport", "command", "args", "env", "cwd", "headers", *URL_KEYS})
"""Keys of an entry that count: how the server is started or reached."""

Seen = tuple[tuple[int, int, int, int] | None, ...]
"""Identity, size and times of files, by which a change is noticed; None for one that is not there."""


class ProjectEntry(msgspec.Struct, frozen=True):
    """An entry as written, as far as it counts, and its file. `digest` is that of its name and all of it."""

    file: str
    given: JSON
    digest: str


class ProjectServers(msgspec.Struct, frozen=True):
    """The servers of one project by its files, by name. `problems`: what does not count there, and why."""

    project: str
    entries: dict[str, ProjectEntry]
    problems: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The digest of all that would run."""
        return _digest([each.digest for each in self.entries.values()])


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


class ClaudeProjects:
    """The servers that `~/.claude.json` has for single folders. It is read again when it has changed.

    Claude Code writes that file all the time, with much else in it: what is not asked for is not decoded.
    """

    def __init__(self) -> None:
        self._path = os.path.join(home(), CLAUDE)
        self._seen: object = ()
        self._servers: dict[str, bytes] = {}
        self.problem: str | None = None
        """The reason that the file does not count."""

    def look(self) -> bool:
        """Read the file if it has changed; return True if it has. Blocks."""
        seen = _state(self._path, through_links=True)
        if seen == self._seen:
            return False
        self._seen, self._servers, self.problem = seen, {}, None
        try:
            text = _read(self._path, MAX_CLAUDE_BYTES, through_links=True)
            found = _Claude() if text is None else msgspec.json.decode(text, type=_Claude)
            self._servers = {folder: bytes(each.servers) for folder, each in found.projects.items()}
        except (OSError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self.problem = one_line(f"{self._path}: {why}")
        return True

    def document(self, project: str) -> tuple[str, JSONObject] | None:
        """The file, and the servers of a project in it as a document of their own; None without any."""
        try:
            servers = decode(self._servers[project].decode(), where=self._path)
        except (KeyError, ConfigError, RecursionError):  # none, or what nobody writes
            return None
        return self._path, JSONObject([("mcpServers", servers)])


class _OfFolder(msgspec.Struct):
    servers: msgspec.Raw = msgspec.field(name="mcpServers", default=msgspec.Raw())


class _Claude(msgspec.Struct):
    projects: dict[str, _OfFolder] = {}


def read_project(project: str, claude: ClaudeProjects | None = None) -> ProjectServers:
    """Read the files of a project, and what `claude` has for it.

    Blocks; whatever is wrong with a file is said in the result.
    """
    if claude is None:
        claude = ClaudeProjects()
        claude.look()
    entries: dict[str, ProjectEntry] = {}
    problems: list[str] = []
    for file, document in _documents(project, claude, problems):
        notices = ConfigNotices()
        for entry in all_entries(document, Location(file), notices):
            problem = entry.problem or bad_name(entry.name) or _unfit(entry.given)
            if problem is None and len(entries) >= MAX_SERVERS:
                problem = f"more than {MAX_SERVERS} servers"
            if problem is not None:
                problems.append(one_line(f"{file}: {entry.name}: {problem}"))
            elif not _is_off(entry.given) and not starts_mcpx(entry.given):
                kept = {key: value for key, value in entry.given.items() if key in _KEYS}
                found = ProjectEntry(file, kept, _digest([entry.name, kept]))
                entries.setdefault(entry.name, found)
        problems += [one_line(str(mistake)) for mistake in notices.mistakes]
    return ProjectServers(project, entries, tuple(problems))


def look_at(project: str) -> Seen:
    """Look at the files in the folder of a project."""
    return tuple(_state(os.path.join(project, name)) for name in FILES)


def _state(path: str, *, through_links: bool = False) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=through_links)
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


# --- reading


def _documents(project: str, claude: ClaudeProjects, problems: list[str]) -> Iterator[tuple[str, JSONObject]]:
    if os.path.realpath(project) != project:  # it was, when a client said so
        problems.append(one_line(f"{project}: it is a link by now; its files do not count"))
        return
    for name in FILES:
        file = os.path.join(project, name)
        if (found := _document(file, MAX_FILE_BYTES, problems)) is not None:
            yield file, found
    problems += [claude.problem] if claude.problem else []
    if (own_part := claude.document(project)) is not None:
        yield own_part


def _document(path: str, limit: int, problems: list[str]) -> JSONObject | None:
    """The object that a file holds; None where there is none, or it does not count."""
    try:
        text = _read(path, limit)
        document = None if text is None else decode(text, where=path)
    except (OSError, UnicodeDecodeError, ConfigError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).removeprefix(f"{path}: ")
        problems.append(one_line(f"{path}: {why}"))
        return None
    if document is None or isinstance(document, JSONObject):
        return document
    problems.append(one_line(f"{path}: expected an object"))
    return None


def _read(path: str, limit: int, *, through_links: bool = False) -> str | None:
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
    try:
        msgspec.json.encode(kept)
    except UnicodeEncodeError:
        return "it holds half a character (a lone surrogate)"
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


# --- as servers of MCPX


def servers_of(found: ProjectServers, label: str, config: Config) -> dict[str, ServerConfig]:
    """The servers of a project as those of a configuration: each under a name that begins with the label."""
    environment = config.environment or own()
    context = ExpansionContext(Values(environment.variables, home(environment.variables)), found.project)
    servers = {}
    for name, each in found.entries.items():
        entry = Entry(f"{label}/{name}", JSONObject([*each.given.items()]), Location(each.file))
        server = in_folder(read_server(entry, config.common, context, ConfigNotices()), found.project)
        servers[entry.name] = replace(server, agreed=each.digest, peer=None)
    return servers


def label_of(project: str) -> str:
    """The name of a folder, as the names of its servers may begin."""
    return re.sub(r"[^\w.-]", "-", os.path.basename(project), flags=re.ASCII).strip("-.") or "project"

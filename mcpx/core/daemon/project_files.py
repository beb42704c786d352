"""The servers of the projects that clients work in: which there are, which are in force, and what waits.

A server is of a project if its entry in the configuration says so (`project`), or if a file of the project
names it and a person has agreed to it (`mcpx.core.config.project_entries`, `mcpx.core.policy.agreements`). It
is offered to clients in that folder, and to no others (`endpoint_for`). An entry of the configuration takes
the place of one by the same name in a file. The rules of the configuration for all servers hold for these.

`ProjectFiles` is owned by the hub, whose configuration it adds the servers to (`expand`), and told by the
gateway which clients are there (`enter`, `leave`). The files of a project are looked at while a client is
there, and before each start and call of a server of them (`refusal_of`): when an entry says something else,
its server is withdrawn at once, and waits for a person again. Files are read in a thread.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec
import structlog
from msgspec.structs import replace

from mcpx.core.calls.project_questions import ProjectQuestions
from mcpx.core.catalog.model import JSON
from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.project_entries import (
    ClaudeProjects,
    ProjectServers,
    Seen,
    label_of,
    look_at,
    read_project,
    servers_of,
)
from mcpx.core.policy.agreements import Agreements, Said, shown
from mcpx.core.protocol.context import ClientId
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import one_line
from mcpx.errors import CallError, Code, MCPXError
from mcpx.paths import config_hint, state_folder
from supervisors import Incarnation, Signal

log = structlog.get_logger()
MAX_PROJECTS: Final = 64  # that are kept; of those without clients the one that was left first goes
LOOK_S: Final = 1.0  # between two looks at the files of projects with clients
KNOWN_TIMEOUT_S: Final = 2.0  # that a client's first request waits for the files of its project
MAX_NAMES: Final = 8  # in a sentence
MAX_NAME_CHARS: Final = 40  # likewise
MAX_AT_ONCE_BYTES: Final = 1 << 17  # of files that are read before a call, on the event loop
_BAD_WORDS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
OTHER: Final = "the files of its project say something else now, which nobody has agreed to"


class _Known(msgspec.Struct, frozen=True):
    """The files of a project as they were read."""

    seen: Seen
    found: ProjectServers


class ProjectFiles:
    """The servers of all projects with clients. `changed` puts the configuration in force once more."""

    def __init__(
        self,
        state: Path | None,
        changed: Callable[[], Awaitable[None]],
        within_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.questions = ProjectQuestions(self.waiting, self.settle, within_s)
        """The questions to clients; `within_s` gives how long a person may take, in seconds."""
        self._agreements = Agreements(state or state_folder())
        self._claude = ClaudeProjects()
        self._changed = changed
        self._clients: dict[ClientId, str] = {}
        self._known: dict[str, _Known] = {}  # the latest entered last
        self._in_force: dict[str, set[str]] = {}  # by project, the digests of entries
        self._own: dict[str, set[str]] = {}  # by project, the names in the configuration, without the label
        self._labels: dict[str, str] = {}
        self._source = ""
        self._is_over = False  # nobody looks
        self.version = 0
        """The number of times that there were other projects with servers."""
        self._wanted = Signal()
        self._news = Signal()

    # --- for the gateway

    def enter(self, client: ClientId) -> None:
        """Note in which project a client is, and look at its files from now on."""
        project = client.project
        if project == self._clients.get(client):
            return
        self._clients.pop(client, None)
        if project is not None and client.connected:
            self._clients[client] = project
            if project not in self._known:
                self._wanted.set()

    def leave(self, client: ClientId) -> None:
        """Forget a client that has left."""
        self._clients.pop(client, None)
        self.questions.client_left(client)

    async def known(self, client: ClientId) -> None:
        """Wait until the files of a client's project were read, and what they name is in force, if it is."""
        if client.project is None or client not in self._clients:
            return
        with anyio.move_on_after(KNOWN_TIMEOUT_S):
            while not self._is_over and (client.project not in self._known or self._is_due(client.project)):
                await self._news.wait()

    def endpoint_for(self, endpoint: Endpoint, client: ClientId) -> Endpoint:
        """The endpoint with the servers of the client's project, where there are any.

        One that shows a single server is as it was.
        """
        project = client.project
        if project is None or endpoint.alone is not None:
            return endpoint
        has_any = project in self._in_force or project in self._own
        return replace(endpoint, project=project) if has_any else endpoint

    def waiting(self, project: str | None) -> ProjectServers | None:
        """The servers of a project of which nobody has said yes or no; None if there are none."""
        return self._said(project, None)

    def note(self, project: str | None) -> str | None:
        """Say which servers of a project wait for a person, and for which command; None if there are none."""
        if (found := self.waiting(project)) is None:
            return None
        option = config_hint(self._source) if self._source else ""
        command = f"mcpx approve --project {shlex.quote(found.project)}{option}"
        return f"servers of this project wait for the user's agreement, by {command}: {_names(found)}"

    def note_on(self, server: str, project: str | None) -> str | None:
        """The same, where one of them has the name of that server."""
        found = self.waiting(project)
        is_meant = found is not None and server.rpartition("/")[2] in found.entries
        return self.note(project) if is_meant else None

    def refusal_of(self, server: ServerConfig) -> CallError | None:
        """Say why a server that a file of a project names must not be started or called now."""
        project = server.project
        if not server.agreed or project is None:
            return None
        known, seen = self._known.get(project), look_at(project)
        if known is not None and known.seen != seen and _is_small(seen):
            known = self._note_known(_read(project, self._claude))
        if known is not None and known.seen == seen:
            digests = {each.digest for each in known.found.entries.values()}
            if server.agreed in digests & self._in_force.get(project, set()):
                return None
        self._wanted.set()
        text = f"{server.name} is not available ({OTHER}); nothing was sent"
        return CallError(Code.SERVER_UNAVAILABLE, text, server=server.name)

    # --- for a person

    async def answer(self, project: str, digest: str, word: Said = "yes") -> JSON:
        """The servers that a project's files would start: `{project, servers, problems, digest, approved}`.

        With a `digest` it is agreed to, or refused for good, if it is that of just this.

        Raises:
            MCPXError: They say something else by now, or that cannot be kept.
        """
        found = self._note_known(await anyio.to_thread.run_sync(self._read_anew, project)).found
        if digest:
            if found.digest != digest:
                raise MCPXError("the files of the project have changed meanwhile; look again")
            await self.settle(found, word)
        agreed = [self._agreements.said(project, each) == "yes" for each in found.entries.values()]
        servers = [{**each, "approved": done} for each, done in zip(shown(found), agreed, strict=True)]
        return {
            "project": project,
            "servers": servers,
            "problems": list(found.problems),
            "digest": found.digest,
            "approved": all(agreed),
        }

    async def settle(self, found: ProjectServers, word: Said) -> None:
        """Keep what a person has said to these servers, and put it in force.

        Raises:
            MCPXError: It cannot be kept.
        """
        try:
            await anyio.to_thread.run_sync(self._agreements.keep, found, word)
        except OSError as error:
            raise MCPXError(f"what you said cannot be kept: {error}") from None
        log.info("projects.said", word=word, project=found.project, servers=[*found.entries])
        await self._put_in_force()
        self._news.pulse()

    # --- the configuration

    def expand(self, config: Config) -> Config:
        """The configuration with the servers of projects that a person has agreed to, and no others."""
        self._source = config.source
        servers = {name: each for name, each in config.servers.items() if not each.agreed}
        before = {*self._own, *self._in_force}
        self._own = {}
        for each in servers.values():
            if each.project is not None:
                self._own.setdefault(each.project, set()).add(each.name.rpartition("/")[2])
        self._in_force = {}
        for project in self._known:
            found = self._said(project, "yes")
            if found is not None:
                self._in_force[project] = {each.digest for each in found.entries.values()}
                label = self._label(project, servers, config.peers)
                servers |= servers_of(found, label, config)
        self.version += before != {*self._own, *self._in_force}
        return config if servers == config.servers else replace(config, servers=servers)

    def _label(self, project: str, servers: Mapping[str, ServerConfig], peers: Iterable[str]) -> str:
        """The beginning of the names of a project's servers: its folder's name, the same for good."""
        if (label := self._labels.get(project)) is None:
            names = [name for name, each in servers.items() if each.project != project]
            taken = {*self._labels.values(), *(name.partition("/")[0] for name in (*names, *peers))}
            label = label_of(project)
            if label in taken:
                label += f"-{hashlib.sha256(project.encode()).hexdigest()[:6]}"
            self._labels[project] = label
        return label

    def _said(self, project: str | None, word: Said | None) -> ProjectServers | None:
        """The servers of a project's files of which a person has said that; not those by names of its own."""
        known = None if project is None else self._known.get(project)
        if project is None or known is None:
            return None
        own_names = self._own.get(project, ())
        entries = {
            name: each
            for name, each in known.found.entries.items()
            if name not in own_names and self._agreements.said(project, each) == word
        }
        return replace(known.found, entries=entries) if entries else None

    def _is_due(self, project: str) -> bool:
        """Return True if servers were agreed to that are not in force, or the other way round."""
        found = self._said(project, "yes")
        wanted = set() if found is None else {each.digest for each in found.entries.values()}
        return wanted != self._in_force.get(project, set())

    # --- looking

    async def run(self, incarnation: Incarnation) -> None:
        """Look at the files again and again while clients are there, until asked to leave."""
        incarnation.ready()
        try:
            self._is_over = False
            await incarnation.while_wanted(self._follow)
        finally:
            self._is_over = True
            self._news.pulse()

    async def _follow(self) -> None:
        while True:
            if not self._clients:
                await self._wanted.wait()
            with anyio.move_on_after(LOOK_S):
                await self._wanted.wait()
            self._wanted.clear()
            there = [*dict.fromkeys(self._clients.values())][-MAX_PROJECTS:]
            for known in await anyio.to_thread.run_sync(self._look_again, there):
                self._note_known(known)
            self._forget(there)
            if any(map(self._is_due, {*self._known, *self._in_force})):
                await self._put_in_force()
            self._news.pulse()

    def _look_again(self, there: list[str]) -> list[_Known]:
        """Read the files that have changed, in a thread: nothing else is changed here."""
        self._agreements.look()
        all_again, known = self._claude.look(), dict(self._known)
        return [
            _read(project, self._claude)
            for project in there
            if all_again or project not in known or known[project].seen != look_at(project)
        ]

    def _read_anew(self, project: str) -> _Known:
        self._agreements.look()
        self._claude.look()
        return _read(project, self._claude)

    def _note_known(self, known: _Known) -> _Known:
        before = self._known.pop(known.found.project, None)
        self._known[known.found.project] = known
        for problem in known.found.problems if before is None or before.found != known.found else ():
            log.warning("project.file", problem=problem)
        self.questions.reconsider()
        return known

    def _forget(self, there: list[str]) -> None:
        """Forget projects without clients, but for some whose servers may be wanted again."""
        for project in [each for each in self._known if each not in there]:
            if project not in self._in_force or len(self._known) > MAX_PROJECTS:
                del self._known[project]

    async def _put_in_force(self) -> None:
        log.info("projects.changed", projects=[each for each in self._known if self._is_due(each)])
        try:
            await self._changed()
        except MCPXError as error:  # of one server: all else is in force, and the next look tries again
            log.warning("projects.failed", reason=str(error))
        self.questions.reconsider()


def _read(project: str, claude: ClaudeProjects) -> _Known:
    seen = look_at(project)  # before it is read: what changes meanwhile is looked at again
    try:
        return _Known(seen, read_project(project, claude))
    except _BAD_WORDS as error:  # the boundary: a stranger's files cost their project, not MCPX
        contain(error, "project files", project=project)
        problem = f"its files cannot be read ({type(error).__name__})"
        return _Known(seen, ProjectServers(project, {}, (problem,)))


def _is_small(seen: Seen) -> bool:
    """Return True if files can be read at once, while others wait."""
    return sum(each[1] for each in seen if each is not None) <= MAX_AT_ONCE_BYTES


def _names(found: ProjectServers) -> str:
    names = [one_line(name, MAX_NAME_CHARS) for name in found.entries]
    more = f", and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more

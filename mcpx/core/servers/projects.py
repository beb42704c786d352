"""The sessions of a server that runs once for each project (`sessions: per_project`).

Owned by its `Server`, which asks it for the session of a client. A project is a folder, the one that the
client works in (`ClientId.project`); "" stands for none, where the entry has a default for that. A session is
opened at the first use in its project, shared by all clients there, and forgotten when it has rested.

What a session lists is the catalogue of the server: it is kept, shown and remembered once. Only where two
sessions that are open differ, each project is shown its own (`differ`); then what clients are shown depends
on who asks (`mcpx.core.protocol.context.asking`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from mcpx.core.catalog.diff import diff
from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config.projects import needs_project
from mcpx.core.protocol.context import ClientId, asking
from mcpx.core.servers.actor import Session
from mcpx.core.servers.call_errors import unavailable
from mcpx.errors import CallError, Code
from supervisors import ChildRested, Event, Phase

MAX_PROJECTS: Final = 64  # of one server that are open at a time: each may be a process
NOT_FOR_ALL: Final = "it is started once for each project, when a client there needs it"
NO_PROJECT: Final = "it runs once for each project, and this client is in none"
REMEDY: Final = (
    "start the client in the folder of a project, open one in it (MCP roots), or set CLAUDE_PROJECT_DIR there"
)
_RESTED: Final = "nobody has used it in its project"
_REPLACED: Final = "other projects are in use"


class ProjectSessions:
    """The sessions by project; `main` is the server's shared session, which is never started.

    `open_session` opens that of a client's project, `dismiss` ends one without waiting for it.
    """

    def __init__(
        self,
        main: Session,
        open_session: Callable[[ClientId], Session],
        dismiss: Callable[[Session, str], None],
    ) -> None:
        self.by_project: dict[str, Session] = {}
        """The latest opened last."""
        self.differ = False
        """True if two of them offer different things."""
        self.lead = main
        """The one that was used last: it stands for the server where nobody in particular asks."""
        self._main = main
        self._open = open_session
        self._dismiss = dismiss
        self._needed = needs_project(main.server.config.transport)

    # --- whose is which

    def of(self, client: ClientId | None) -> Session:
        """The session of a client's project, opened now if there is none.

        Raises:
            CallError: `server_unavailable`: it is in no project. `overloaded`: too many are in use.
        """
        self.check(client)
        assert client is not None  # it was checked
        project = self._project_of(client) or ""
        own = self.by_project.get(project)
        if own is None:
            self._make_room()
            own = self.by_project[project] = self._open(client)
        self.lead = own
        return own

    def check(self, client: ClientId | None) -> None:
        """Check that a client can have a session.

        Raises:
            CallError: `server_unavailable`: it is in no project.
        """
        if client is None or self._project_of(client) is None:
            raise unavailable(self._without_project(), "is not available", None)

    def _project_of(self, client: ClientId | None) -> str | None:
        """The key of a client's session; None where it can have none."""
        project = client.project if client is not None else None
        return project if project or self._needed else ""

    def asked(self) -> Session | None:
        """The session of the client that asks, opened now; where nobody asks, the one used last."""
        client = asking.get()
        if client is None:
            return None if self.lead is self._main else self.lead
        try:
            return self.of(client)
        except CallError:
            return None

    def _make_room(self) -> None:
        if len(self.by_project) < MAX_PROJECTS:
            return
        idle = [each for each in self.by_project.values() if not each.queue.has_callers]
        for each in idle:
            if each.queue.lifecycle_phase() is not Phase.UP or not each.is_busy:
                self._drop(each, _REPLACED)
                return
        name = self._main.name
        text = f"{name} runs for {MAX_PROJECTS} projects already; nothing was sent, try again later"
        raise CallError(Code.OVERLOADED, text, server=name)

    # --- what becomes of them

    def enter(self, client: ClientId) -> None:
        """Have the server listed in a client's project, if it is not known what it offers."""
        if self._main.cache.current is None and self._project_of(client) and len(self.by_project) == 0:
            self.of(client)

    def takes(self, event: Event, session: Session) -> None:
        """Take in an event of one of the sessions: one that rests is forgotten, unless it is called again."""
        if isinstance(event, ChildRested) and not session.queue.has_callers:
            self._drop(session, _RESTED)

    def _drop(self, session: Session, why: str) -> None:
        if self.by_project.get(session.project or "") is not session:
            return
        del self.by_project[session.project or ""]
        if self.lead is session:
            self.lead = next(reversed(self.by_project.values()), self._main)
        self._dismiss(session, why)
        self._compare()

    def listed(self, session: Session) -> None:
        """Take in what a session has listed: for all projects, unless another one offers something else."""
        self._compare()
        if not self.differ and session.cache.current is not None:
            self._main.cache.adopt(session.cache.current)

    def _compare(self) -> None:
        known = [each.cache.current for each in self.by_project.values() if each.cache.current is not None]
        self.differ = any(diff(known[0], each) for each in known[1:])

    # --- how the server is shown

    def catalogue(self) -> Catalogue | None:
        """What the server offers to the client that asks."""
        client = asking.get() if self.differ else None
        own = None if client is None else self.by_project.get(self._project_of(client) or "")
        known = None if own is None else own.cache.current
        return self._main.cache.current if known is None else known

    def info(self, catalogue: Catalogue | None) -> ServerInfo:
        """The server as it is for the client that asks, or in the project where it was used last."""
        client = asking.get()
        if client is not None and self._project_of(client) is None:
            return replace(self._without_project(), catalogue=catalogue)
        own = self.lead if client is None else self.by_project.get(self._project_of(client) or "", self._main)
        if own is self._main and not own.queue.closed and own.config.disabled is None:
            return self._shown(State.ASLEEP, catalogue)
        return replace(own.info(), catalogue=catalogue)

    def _without_project(self) -> ServerInfo:
        info = self._shown(State.NEEDS_SETUP, None)
        return replace(info, cause=NO_PROJECT, remedy=REMEDY, missing=("project",))

    def _shown(self, state: State, catalogue: Catalogue | None) -> ServerInfo:
        config = self._main.config
        return ServerInfo(name=config.name, state=state, transport=config.transport.kind, catalogue=catalogue)

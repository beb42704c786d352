"""The sessions with a server beside its main one: of one client, of one project, in the other era.

Owned by its `Server`, which asks them for the session of a client. The setting `sessions` says if clients or
projects have sessions of their own.

One of a client ends when the client leaves. Requests without a session (2026-07-28 over HTTP) tell apart no
clients of one token but by their names, so one session serves all that have token and name in common, for as
long as they use it.

A project is a folder, the one that the client works in (`ClientId.project`); "" stands for none, where the
entry has a default for that. A session is opened at the first use in its project, shared by all clients
there, and forgotten when it has rested. What it lists is the catalogue of the server: it is kept, shown and
remembered once. Only where two sessions that are open differ, each project is shown its own (`differ`); then
what clients are shown depends on who asks (`mcpx.core.protocol.context.asking`).

The session in the other era may turn out to be impossible. A server that does not speak the era is remembered
as such, and requests that waited for that session go to the main one; so they do while it alone cannot be
opened. It goes when the main session comes back in its era.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, diff
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config import Era
from mcpx.core.config.projects import needs_project
from mcpx.core.protocol.context import ClientId, asking
from mcpx.core.servers.actor import Session
from mcpx.core.servers.call_errors import unavailable
from mcpx.core.servers.causes import EraRefused, NoAnswer
from mcpx.core.servers.ports import Supervised
from mcpx.errors import CallError, Code
from supervisors import Cause, ChildFailed, ChildParked, ChildReady, ChildRested, Event, Phase

log = structlog.get_logger()
MAX_NAMED: Final = 64  # clients without sessions, by name: each may be a process
MAX_PROJECTS: Final = 64  # of one server that are open at a time: each may be a process
NOT_FOR_ALL: Final = "it is started once for each project, when a client there needs it"
NO_PROJECT: Final = "it runs once for each project, and this client is in none"
REMEDY: Final = (
    "start the client in the folder of a project, open one in it (MCP roots), or set CLAUDE_PROJECT_DIR there"
)
_RESTED: Final = "nobody has used it in its project"
_REPLACED: Final = "other projects are in use"


class ClientSessions:
    """The sessions by client, of the server of that name.

    `open_session` opens that of a client, in the era if one is given, and `dismiss` ends one without waiting
    for it. `check_project` is there if the entry names the project, and raises where a client is in none.
    """

    def __init__(
        self,
        name: str,
        open_session: Callable[[Era | None, ClientId], Session],
        dismiss: Callable[[Session, str], None],
        check_project: Callable[[ClientId], None] | None,
    ) -> None:
        self.by_client: dict[ClientId, Session] = {}
        self._named: dict[tuple[str, str], ClientId] = {}
        """By token and name, the clients without sessions; the latest used last."""
        self._name = name
        self._open = open_session
        self._dismiss = dismiss
        self._check_project = check_project

    def of(self, client: ClientId, name: str, era: Era | None) -> Session:
        """The session of a client that calls itself that, opened now if there is none.

        Raises:
            CallError: `server_unavailable`: it has left, or is in no project. `overloaded`: too many are in
                use.
        """
        if client.sessionless:
            client = self._named_client(client.principal, name)
        own = self.by_client.get(client)
        if own is not None and self._check_project is not None and own.project != (client.project or ""):
            self._dismiss(self.by_client.pop(client), "its client is in another project now")
            own = None
        if own is None:
            self._require_connected(client)
            if self._check_project is not None:
                self._check_project(client)
            own = self.by_client[client] = self._open(era, client)
        return own

    def _require_connected(self, client: ClientId) -> None:
        if not client.connected:
            cause = "the client has left"
            text = f"{self._name} is not available ({cause}); nothing was sent"
            raise CallError(Code.SERVER_UNAVAILABLE, text, server=self._name, details={"cause": cause})

    def _named_client(self, principal: str, name: str) -> ClientId:
        """The client that stands for those without sessions that have that token and name."""
        known = self._named.pop((principal, name), None)
        if known is None:
            self._make_room_for_name()
            known = ClientId(principal=principal, vanishes=True)
        self._named[principal, name] = known
        return known

    def _make_room_for_name(self) -> None:
        if len(self._named) < MAX_NAMED:
            return
        for client in self._named.values():
            own = self.by_client.get(client)
            if own is None or not (own.queue.has_callers or own.is_busy):
                self._leave(client, "others have come since it was used")
                return
        text = f"{self._name} runs for {MAX_NAMED} clients already; nothing was sent, try again later"
        raise CallError(Code.OVERLOADED, text, server=self._name)

    def leave(self, client: ClientId) -> None:
        """End the session of a client that has left.

        One that stands for all of a token takes those with it that stand for the clients of one name.
        """
        if client.sessionless:
            for each in [each for each in self._named.values() if each.principal == client.principal]:
                self._leave(each, "its token lets nobody in any more")
        self._leave(client, "its client has left")

    def rested(self, session: Session) -> None:
        """Forget a session that rests, of clients that do not say when they leave; unless it is called."""
        client = session.client
        if client is not None and client.vanishes and not session.queue.has_callers:
            self._leave(client, "its client has said nothing for long")

    def _leave(self, client: ClientId, why: str) -> None:
        if client.vanishes:
            self._named = {key: each for key, each in self._named.items() if each is not client}
        if (own := self.by_client.pop(client, None)) is not None:
            self._dismiss(own, why)


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
        """The server's offer to the client that asks."""
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


class OtherEra:
    """The session beside `main`: `open_session` opens it, `dismiss` ends it without waiting for it."""

    def __init__(
        self, main: Session, open_session: Callable[[Era], Session], dismiss: Callable[[Session, str], None]
    ) -> None:
        self.session: Session | None = None
        """None while nobody has needed it, or where there can be none."""
        self._main = main
        self._refused = main.server.known_eras.refused
        self._open = open_session
        self._dismiss = dismiss

    def session_for(self, era: Era) -> Session:
        """The session for a client of that era, opened now if need be; the main one where that serves it."""
        main = self._main
        if main.era == era or era in self._refused:
            return main
        if self.session is None or self.session.asked_era != era:
            self._end("the server speaks another era now")
            self.session = self._open(era)
        if self.session.queue.lifecycle_phase() is not Phase.UP and self._fails_alone(self.session):
            return main
        if main.queue.lifecycle_phase() is Phase.UP:
            main.queue.wanted_at = time.monotonic()
        else:
            main.queue.wake()
        return self.session

    def take_over(self, old: OtherEra) -> None:
        """Take the place of that of a server whose configuration has changed; subscriptions go on."""
        other = old.session
        if other is None or not other.subscriptions.uris:
            return
        if other.asked_era is not None and other.asked_era != self._main.era:
            self.session = self._open(other.asked_era)
            self.session.take_over(other)

    def takes(self, event: Event, session: Supervised) -> bool:
        """Take in an event of one of the server's sessions; True if it only says that it speaks one era."""
        other = self.session
        if other is None:
            return False
        if session is self._main and isinstance(event, ChildReady) and self._main.era == other.asked_era:
            self._end("the main session is of its era now")
        if session is not other or not isinstance(event, ChildFailed | ChildParked):
            return False
        if self._is_refusal(event.cause, other):
            log.info("upstream.one_era", server=other.name, cause=event.cause.text)
            return True
        if self._fails_alone(other):
            self._pass_on(other)
        return False

    def _is_refusal(self, cause: Cause, other: Session) -> bool:
        """Note that the server does not speak the other era, if that is why its session has failed."""
        silent = other.catalogue is None and isinstance(cause.error, NoAnswer)
        if not isinstance(cause.error, EraRefused) and not (silent and other.queue.lifecycle().failures > 1):
            return False
        if other.asked_era is not None:
            self._refused.add(other.asked_era)
        self._end(cause.text)
        return True

    def _fails_alone(self, other: Session) -> bool:
        return other.fails and self._main.queue.lifecycle_phase() in {Phase.IDLE, Phase.UP}

    def _end(self, why: str) -> None:
        session, self.session = self.session, None
        if session is not None:
            self._pass_on(session)
            self._dismiss(session, why)

    def _pass_on(self, other: Session) -> None:
        """Have the main session serve what waits for another."""
        for request, reply in other.queue.take_waiting():
            try:
                self._main.queue.submit(request, reply)  # it has been counted
            except CallError as error:
                reply.reject(error)

"""The page as a whole, as the composition root makes it: one for a daemon, whether somebody opens it or not.

`link` is what `mcpx ui` asks for. The page is served by the HTTP frontend, where the daemon has one on a
loopback address, else by a listener of its own, which begins with the first link, or with the daemon where
windows of the last one may come back. What serves it is imported then. `child` keeps the listener, and closes
the page when it is turned off and before the frontends leave.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
import structlog

from mcpx.core.config.urls import is_loopback
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.leaving import Use
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.errors import MCPXError
from mcpx.page.access import Access, PageMemory
from mcpx.paths import configuration_folder
from supervisors import ChildFailed, ChildSpec, Event, Incarnation, Shutdown, Supervisor

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from mcpx.page.listener import PageListener
    from mcpx.page.routes import ServedPage

log = structlog.get_logger()
OFF: Final = 'the page is off: take "ui": false out of the configuration, then: mcpx ui'
LEAVING: Final = "the daemon is about to leave; ask again in a moment"
HTTP_START_TIMEOUT_S: Final = 3.0
LOOK_S: Final = 0.02
GRACE_S: Final = 3.0  # for the listener, which has a shorter one


class Page:
    """One daemon's page: the hub and the clients' sessions, which the views look at and act on."""

    def __init__(self, hub: Hub, clients: ClientSessions) -> None:
        self.hub = hub
        self.clients = clients
        self.access = Access(on_end=self._end_streams)
        """Who may see it."""
        # before any frontend serves: a window that is still open must not be sent away
        self.memory = PageMemory(configuration_folder(hub.config.source), self.access)
        """The port and the sessions, for the next daemon."""
        # of the listener: what becomes of that costs the daemon nothing
        self._supervisor = Supervisor(observe=_log_failure)
        self._listener: PageListener | None = None
        self._lock = anyio.Lock()  # while the listener begins or ends
        self._is_leaving = False

    @cached_property
    def served(self) -> ServedPage:
        """The page for those who open it."""
        from mcpx.page.routes import ServedPage  # noqa: PLC0415 - for those who open it

        return ServedPage(self.hub, self.clients, self.access, self.memory)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request under `/ui`."""
        await (self.served.app if self._is_on else _off)(scope, receive, send)

    async def link(self) -> str:
        """The address that opens the page, once.

        Raises:
            MCPXError: The page is off, or there is no port to serve it on.
        """
        if not self._is_on:
            raise MCPXError(LEAVING if self.hub.config.ui else OFF)
        self.hub.need("page")
        origin = await self._origin_of_http() or await self._own_origin()
        return f"{origin}/ui/open?code={self.access.new_code()}"

    def child(self) -> ChildSpec:
        """The child of the root supervisor. It has to be stopped before what serves the page."""
        return ChildSpec(name="page", run=self._run, shutdown=Shutdown(grace=GRACE_S))

    def use(self) -> Use:
        """Report if somebody looks at the page by its own listener, and count the requests so far."""
        return Use(has_clients=False, so_far=0) if self._listener is None else self._listener.use()

    @property
    def _is_on(self) -> bool:
        return self.hub.config.ui and not self._is_leaving

    async def _origin_of_http(self) -> str | None:
        """Find where the HTTP frontend serves on loopback, if it does; wait for a daemon that starts."""
        if self.hub.http is None or not is_loopback(self.hub.config.http.host):
            return None
        with anyio.move_on_after(HTTP_START_TIMEOUT_S):
            while (status := self.hub.http()).url is None and status.error is None:  # noqa: ASYNC110 - no event
                await anyio.sleep(LOOK_S)
        return None if status.url is None else f"http://{urlsplit(status.url).netloc}"

    async def _own_origin(self) -> str:
        async with self._lock:
            listener = self._begin_listener()
            self._supervisor.resume(listener.NAME)  # one that could not listen tries again now
            return await listener.origin()

    def _begin_listener(self) -> PageListener:
        from mcpx.page.listener import PageListener  # noqa: PLC0415 - for those who open it

        if self._listener is None:
            self._listener = PageListener(self, self.hub, self.memory)
            self._supervisor.add(self._listener.child())
        return self._listener

    async def _run(self, incarnation: Incarnation) -> None:
        self._is_leaving = False
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._supervisor.run)
            incarnation.ready()
            if self._is_on and self.access.has_sessions(self.memory.port):
                self._begin_listener()
            await incarnation.while_wanted(self._close_when_off)
            self._is_leaving = True
            self.access.end_streams()
            self._supervisor.stop()

    async def _close_when_off(self) -> None:
        while True:
            await self.hub.applied.wait()
            self.hub.applied.clear()
            if not self.hub.config.ui:
                await self._close()

    async def _close(self) -> None:
        """End all sessions, with their streams, and the page's own listener."""
        self.access.end_all()
        async with self._lock:
            if self._listener is not None:
                await self._supervisor.remove(self._listener.NAME)
                self._listener = None

    def _end_streams(self, session: bytes) -> None:
        if "served" in vars(self):  # else nobody has opened any
            self.served.streams.end(session)


def _log_failure(event: Event) -> None:
    if isinstance(event, ChildFailed):
        log.warning("page.unavailable", cause=event.cause.text, retry_in_s=round(event.retry_in, 2))


async def _off(_scope: Scope, _receive: Receive, send: Send) -> None:
    body, headers = b"Not found\n", [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})

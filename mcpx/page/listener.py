"""The page's own listener on 127.0.0.1, for a daemon that serves no HTTP there; with the bounds of that.

Begins with the first link, on any free port, and lasts until the page is turned off. A child of the page's
supervisor: when it is started again it listens on the same port, or on another if that one is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import structlog

from mcpx.core.idle_exit import Use
from mcpx.errors import MCPXError
from mcpx.gateway.frontends.http_connection import Shared
from mcpx.gateway.frontends.http_frontend import (
    BindError,
    ListenerLostError,
    exit_when_asked,
    listen,
)
from mcpx.gateway.frontends.http_server import GRACEFUL_S, HttpServer
from supervisors import Backoff, ChildSpec, Incarnation, Policy, Shutdown, Signal

if TYPE_CHECKING:
    from mcpx.page.page import Page

log = structlog.get_logger()
HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 5.0  # less than a command waits for the daemon
BACKOFF: Final = Backoff(initial=0.5, cap=30.0)


class PageListener:
    """Serves the page."""

    NAME: Final = "listener"

    def __init__(self, page: Page) -> None:
        self._page = page
        self._port = 0
        self._server: HttpServer | None = None
        self._changed = Signal()
        self._problem: str | None = None

    def child(self) -> ChildSpec:
        """The child that serves."""
        shutdown = Shutdown(grace=GRACEFUL_S + 1.0)
        return ChildSpec(name=self.NAME, run=self._run, policy=Policy(backoff=BACKOFF), shutdown=shutdown)

    async def origin(self) -> str:
        """Where it listens, once it does: after the next attempt, if the last one has failed.

        Raises:
            MCPXError: It cannot.
        """
        self._problem = None
        with anyio.move_on_after(START_TIMEOUT_S):
            while self._server is None and self._problem is None:
                self._changed.clear()
                await self._changed.wait()
        if self._server is None:
            raise MCPXError(f"the page cannot be served: {self._problem or 'it does not start'}")
        return f"http://{HOST}:{self._port}"

    def use(self) -> Use:
        """Whether a page is open, and how many requests there were."""
        if self._server is None:
            return Use(has_clients=False, so_far=0)
        state = self._server.server_state
        return Use(has_clients=bool(state.tasks), so_far=state.total_requests)

    async def _run(self, incarnation: Incarnation) -> None:
        try:
            listener = listen(HOST, self._port)
        except BindError as error:
            self._port, self._problem = 0, str(error)  # somebody else has the port now
            self._changed.set()
            raise
        with listener:
            self._port, self._problem = listener.getsockname()[1], None
            server = self._server = HttpServer(self._page, self._shared())
            self._changed.set()
            incarnation.ready()
            log.info("page.listening", port=self._port)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(exit_when_asked, incarnation, server)
                    await server.serve([listener])
                    tasks.cancel_scope.cancel()
            finally:
                self._server = None
            if server.lost is not None and not incarnation.stopping.is_set():
                raise ListenerLostError(f"the page's socket was lost: {server.lost}")

    def _shared(self) -> Shared:
        hub = self._page.hub
        return Shared(2 * hub.config.max_message_bytes, hub.clients.count_dropped)

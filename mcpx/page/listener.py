"""The page's own listener on 127.0.0.1, for a daemon that serves no HTTP there; with the bounds of that.

Begins with the first link, on any free port, and lasts as long as the daemon. A child of the root supervisor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import uvicorn

from mcpx.core.idle_exit import Use
from mcpx.errors import MCPXError
from mcpx.gateway.frontends.http_connection import Shared
from mcpx.gateway.frontends.http_frontend import (
    GRACEFUL_S,
    BindError,
    ListenerLostError,
    exit_when_asked,
    listen,
)
from mcpx.gateway.frontends.http_server import BACKLOG, HttpServer
from supervisors import ChildSpec, Incarnation, Shutdown, Signal

if TYPE_CHECKING:
    from mcpx.page.page import Page

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 10.0


class PageListener:
    """Serves the page. The port stays the same when it is started again."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._port = 0
        self._server: HttpServer | None = None
        self._changed = Signal()
        self._problem: str | None = None

    def child(self) -> ChildSpec:
        """The child that serves."""
        return ChildSpec(name="page", run=self._run, shutdown=Shutdown(grace=GRACEFUL_S + 1.0))

    async def origin(self) -> str:
        """Where it listens, once it does.

        Raises:
            MCPXError: It cannot.
        """
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
            self._problem = str(error)
            self._changed.set()
            raise
        with listener:
            self._port, self._problem = listener.getsockname()[1], None
            config = uvicorn.Config(
                self._page,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=GRACEFUL_S,
                server_header=False,
                ws="none",
                backlog=BACKLOG,
            )
            limit = self._page.hub.config.max_message_bytes
            self._server = HttpServer(config, Shared(2 * limit, self._page.hub.clients.count_dropped))
            self._changed.set()
            incarnation.ready()
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(exit_when_asked, incarnation, self._server)
                    await self._server.serve([listener])
                    tasks.cancel_scope.cancel()
                if self._server.lost is not None and not incarnation.stopping.is_set():
                    raise ListenerLostError(f"the page's socket was lost: {self._server.lost}")
            finally:
                self._server = None

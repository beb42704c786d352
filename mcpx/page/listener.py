"""The page's own listener on 127.0.0.1, for a daemon that serves no HTTP there; with the bounds of that.

Begins with the first link, or with the daemon where windows of the last one may come back, and lasts until
the page is turned off. A child of the page's supervisor. Its port stays the same, over restarts of the daemon
too, unless somebody else has it: then that one is given up for good.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from mcpx.core.daemon.leaving import Use
from mcpx.core.gateway.frontends.http.asgi import AppSite
from mcpx.core.gateway.frontends.http.connection import Shared
from mcpx.core.gateway.frontends.http.frontend import BindError, ListenerLostError, end_when_asked, listen
from mcpx.core.gateway.frontends.http.server import GRACEFUL_S, HttpServer
from mcpx.errors import MCPXError
from supervisors import Backoff, ChildSpec, Incarnation, Policy, Shutdown, Signal

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mcpx.core.daemon.hub import Hub
    from mcpx.page.access import PageMemory

log = structlog.get_logger()
HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 5.0  # less than a command waits for the daemon
PORTS: Final = range(20_000, 30_000)
"""A new port is one of these: outgoing connections of other programs take theirs above (Linux, macOS)."""
ATTEMPTS: Final = 16  # to find a free one there, before any is taken that the system gives
BACKOFF: Final = Backoff(initial=0.5, cap=30.0)


class PageListener:
    """Serves `app`, which is the page."""

    NAME: Final = "listener"

    def __init__(self, app: ASGIApp, hub: Hub, memory: PageMemory) -> None:
        self._app = app
        self._hub = hub
        self._memory = memory
        self._server: HttpServer | None = None
        self._changed = Signal()
        self._problem: str | None = None

    def child(self) -> ChildSpec:
        """The child that serves."""
        shutdown = Shutdown(grace=GRACEFUL_S + 1.0)
        return ChildSpec(name=self.NAME, run=self._run, policy=Policy(backoff=BACKOFF), shutdown=shutdown)

    async def origin(self) -> str:
        """Wait for its address: until the next attempt, if the last one has failed.

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
        return f"http://{HOST}:{self._memory.port}"

    def use(self) -> Use:
        """Report if a page is open, and count the requests so far."""
        if self._server is None:
            return Use(has_clients=False, so_far=0)
        shared = self._server.shared
        return Use(has_clients=shared.is_busy, so_far=shared.served)

    async def _run(self, incarnation: Incarnation) -> None:
        try:
            listener = self._listen()
        except BindError as error:
            self._problem = str(error)
            self._changed.set()
            raise
        with listener:
            self._memory.take(listener.getsockname()[1])
            self._problem = None
            hub = self._hub
            shared = Shared(hub.config.max_message_bytes, hub.clients.count_dropped)
            server = self._server = HttpServer(AppSite(self._app), shared)
            self._changed.set()
            incarnation.ready()
            log.info("page.listening", port=self._memory.port)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(end_when_asked, incarnation, server)
                    await server.serve(listener)
                    tasks.cancel_scope.cancel()
            finally:
                self._server = None
            if server.lost is not None and not incarnation.stopping.is_set():
                raise ListenerLostError(f"the page's socket was lost: {server.lost}")

    def _listen(self) -> socket.socket:
        """Listen on the port that is remembered, else on a new one, or raise BindError."""
        if (port := self._memory.port) == 0:
            for _ in range(ATTEMPTS):
                with suppress(BindError):
                    return listen(HOST, secrets.choice(PORTS))
            return listen(HOST, 0)
        try:
            return listen(HOST, port)
        except BindError:
            log.warning(
                "page.port_taken", port=port, hint="another program has it; open the page with mcpx ui"
            )
            self._memory.give_up(port)
            raise

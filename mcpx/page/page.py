"""The page as a whole, as the composition root makes it: one for a daemon, whether somebody opens it or not.

`link` is what `mcpx ui` asks for. The page is served by the HTTP frontend, where the daemon has one on a
loopback address, else by a listener of its own, which begins with the first link. What serves it is imported
then.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mcpx.core.hub import Hub
from mcpx.core.idle_exit import Use
from mcpx.errors import MCPXError
from mcpx.gateway.clients.sessions import ClientSessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mcpx.page.access import Access
    from mcpx.page.events import Streams, Topic
    from mcpx.page.listener import PageListener
    from mcpx.page.processes import Processes

OFF = "the page is off: the configuration says ui: false"


class Page:
    """What the views look at and act on: the hub, and the sessions of the clients that are connected."""

    def __init__(self, hub: Hub, clients: ClientSessions) -> None:
        self.hub = hub
        self.clients = clients
        self._listener: PageListener | None = None

    @cached_property
    def access(self) -> Access:
        """Who may see it."""
        from mcpx.page.access import Access  # noqa: PLC0415 - for those who open it

        access = Access()
        access.on_end = self.streams.end
        return access

    @cached_property
    def streams(self) -> Streams:
        """The streams that are open."""
        from mcpx.page.events import Streams  # noqa: PLC0415 - for those who open it

        return Streams()

    @cached_property
    def processes(self) -> Processes:
        """What the servers' processes use, for those who look."""
        from mcpx.page.processes import Processes  # noqa: PLC0415 - for those who open it

        return Processes()

    @cached_property
    def topics(self) -> dict[str, Topic]:
        """What streams can follow, by name."""
        from mcpx.page.routes import VIEWS  # noqa: PLC0415 - for those who open it

        return {name: topic for view in VIEWS for name, topic in view.TOPICS.items()}

    @cached_property
    def _app(self) -> ASGIApp:
        from mcpx.page.routes import application  # noqa: PLC0415 - for those who open it

        return application(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request under `/ui`."""
        app = self._app if self.hub.config.ui else _off
        await app(scope, receive, send)

    async def link(self) -> str:
        """The address that opens the page, once.

        Raises:
            MCPXError: The page is off, or there is no port to serve it on.
        """
        if not self.hub.config.ui:
            raise MCPXError(OFF)
        origin = self._origin_of_http() or await self._own_listener().origin()
        return f"{origin}/ui/open?code={self.access.new_code()}"

    def _origin_of_http(self) -> str | None:
        """Where the HTTP frontend serves on loopback, if it does."""
        from mcpx.config.urls import is_loopback, split_url  # noqa: PLC0415 - for those who open it

        url = None if self.hub.http is None else self.hub.http().url
        parts = None if url is None else split_url(url)
        return f"http://{parts.netloc}" if parts is not None and is_loopback(parts.hostname or "") else None

    def _own_listener(self) -> PageListener:
        from mcpx.page.listener import PageListener  # noqa: PLC0415 - for those who open it

        if self._listener is None:
            self._listener = PageListener(self)
            self.hub.root.add(self._listener.child())
        return self._listener

    def use(self) -> Use:
        """Whether somebody looks at the page by its own listener, and how many requests there were."""
        return Use(has_clients=False, so_far=0) if self._listener is None else self._listener.use()


async def _off(scope: Scope, receive: Receive, send: Send) -> None:
    from starlette.responses import PlainTextResponse  # noqa: PLC0415 - as above

    await PlainTextResponse("Not found\n", 404)(scope, receive, send)

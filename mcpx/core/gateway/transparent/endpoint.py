"""`/mcp/servers/NAME`: an ASGI application for the transparent endpoints of all servers.

A server's sessions are kept until the server is removed from the configuration, or the frontend ends. A token
with a name has sessions of its own. If it is for a profile, there are for its clients the servers of that
profile alone, as the profile shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio.abc
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.bearer import Bearer, bearer_in
from mcpx.core.gateway.clients.outbox import NotificationOutbox
from mcpx.core.gateway.frontends.http_managers import SessionManagers
from mcpx.core.gateway.transparent.http import TransparentServer
from mcpx.core.servers.fleet.profiles import select
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.text import cut, shown_name
from mcpx.core.text.nearest import nearest
from mcpx.core.wire import envelope

ROUTE: Final = "/mcp/servers/{name:path}"
MAX_NAME_CHARS: Final = 256

MakeManager = Callable[[Server[Any]], StreamableHTTPSessionManager]


class TransparentEndpoint:
    """Serves while `running`. `make_manager` makes the session manager for a server of the SDK."""

    def __init__(self, hub: Hub, outbox: NotificationOutbox, make_manager: MakeManager) -> None:
        def make(own: tuple[str, Bearer | None], tasks: anyio.abc.TaskGroup) -> StreamableHTTPSessionManager:
            name, bearer = own
            return make_manager(TransparentServer(hub, name, outbox, tasks, bearer))

        self._hub = hub
        self._managers = SessionManagers(make)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep the sessions."""
        return self._managers.running()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        name, bearer = self._hub.config.server_named(str(scope["path_params"]["name"])), bearer_in(scope)
        shown = self._shown_to(bearer)
        if name not in shown:
            self._managers.end((name, bearer))
            await _unknown(name, shown)(scope, receive, send)
            return
        manager = await self._managers.get((name, bearer))
        await manager.handle_request(scope, receive, send)

    def _shown_to(self, bearer: Bearer | None) -> list[str]:
        """The names of the servers that there are for a bearer."""
        shown = select(Endpoint(profile=None if bearer is None else bearer.token.profile), self._hub.config)
        return [name for name in self._hub.upstreams if name in shown.config.servers]

    def end_all(self, bearer: Bearer) -> None:
        """End the sessions of a token."""
        self._managers.end_all(lambda each: each[1] is bearer)


def _unknown(name: str, names: list[str]) -> Response:
    near = nearest(name, names)
    hint = f"; did you mean {near[0]}?" if near else ""
    return not_found(f"No server {shown_name(cut(name, MAX_NAME_CHARS))}{hint}")


def not_found(problem: str) -> Response:
    """The response to a request for an endpoint that there is not."""
    error = {"code": INVALID_REQUEST, "message": problem}
    body = envelope.encode({"jsonrpc": "2.0", "id": None, "error": error})
    return Response(body, status_code=404, media_type="application/json")

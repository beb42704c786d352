"""`/mcp/servers/NAME`: an ASGI application for the transparent doors of all servers.

A server's sessions are kept by a session manager of the SDK, which is made when its first client comes, and
ends when the server is removed from the configuration, or the frontend ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.abc
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcpx.core.hub import Hub
from mcpx.gateway.clients.outbox import NotificationOutbox
from mcpx.gateway.transparent.http import TransparentServer
from mcpx.text import cut, shown_name
from mcpx.text.nearest import nearest
from mcpx.wire import envelope

ROUTE: Final = "/mcp/servers/{name:path}"
MAX_NAME_CHARS: Final = 256

MakeManager = Callable[[Server[Any]], StreamableHTTPSessionManager]


class TransparentEndpoint:
    """Serves while `running`. `make_manager` makes the session manager for a server of the SDK."""

    def __init__(self, hub: Hub, outbox: NotificationOutbox, make_manager: MakeManager) -> None:
        self._hub = hub
        self._outbox = outbox
        self._make_manager = make_manager
        self._managers: dict[str, tuple[StreamableHTTPSessionManager, anyio.CancelScope]] = {}
        self._making = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sessions."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()
        self._tasks = None
        self._managers.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        name = str(scope["path_params"]["name"])
        if name not in self._hub.upstreams:
            if (ended := self._managers.pop(name, None)) is not None:
                ended[1].cancel()
            await _unknown(name, list(self._hub.upstreams))(scope, receive, send)
            return
        manager = await self._manager(name)
        await manager.handle_request(scope, receive, send)

    async def _manager(self, name: str) -> StreamableHTTPSessionManager:
        async with self._making:
            if name not in self._managers:
                if self._tasks is None:
                    raise RuntimeError("the endpoint is not running")
                self._managers[name] = await self._tasks.start(self._run, name)
            return self._managers[name][0]

    async def _run(
        self,
        name: str,
        *,
        task_status: anyio.abc.TaskStatus[tuple[StreamableHTTPSessionManager, anyio.CancelScope]],
    ) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                manager = self._make_manager(TransparentServer(self._hub, name, self._outbox, tasks))
                async with manager.run():
                    task_status.started((manager, scope))
                    await anyio.sleep_forever()


def _unknown(name: str, names: list[str]) -> Response:
    near = nearest(name, names)
    hint = f"; did you mean {near[0]}?" if near else ""
    error = {"code": INVALID_REQUEST, "message": f"No server {shown_name(cut(name, MAX_NAME_CHARS))}{hint}"}
    body = envelope.encode({"jsonrpc": "2.0", "id": None, "error": error})
    return Response(body, status_code=404, media_type="application/json")

"""Notifications to clients outside any request, each client's in order, none holding up another.

Runs inside the task of whoever owns it. Before `run`, and for a client whose backlog is full, what is sent
is dropped; so is what a client does not take within `DELIVERY_S`.
"""

from __future__ import annotations

from typing import Final

import anyio
import anyio.abc
import structlog
from mcp.server.connection import Connection

from mcpx.gateway.clients.backlog import Backlog, size_of
from mcpx.observe.contained import contain
from mcpx.upstream.context import JSON
from mcpx.upstream.relay.clients import Audience

log = structlog.get_logger()
DELIVERY_S: Final = 5.0


class PostOffice:
    """One for all clients. What they go without is counted in the audience."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._tasks: anyio.abc.TaskGroup | None = None
        self._waiting: dict[Connection, Backlog[tuple[str, JSON]]] = {}

    async def run(self) -> None:
        """Deliver, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._waiting.clear()

    def send(self, connection: Connection, method: str, params: JSON) -> None:
        """Have a notification delivered."""
        if self._tasks is None:
            return
        queue = self._waiting.get(connection)
        if queue is None:
            queue = self._waiting[connection] = Backlog()
            self._tasks.start_soon(self._deliver, connection, queue)
        if not queue.put((method, params), size_of(params)):
            self._audience.dropped += 1

    async def _deliver(self, connection: Connection, queue: Backlog[tuple[str, JSON]]) -> None:
        """Empty one client's queue."""
        while queue:
            method, params = queue.take()
            with anyio.move_on_after(DELIVERY_S) as scope:
                try:
                    await connection.outbound.notify(method, params)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    queue.clear()
                except Exception as error:  # noqa: BLE001 - a server chose the words: they must not end the post
                    contain(error, "notification", method=method)
            if scope.cancelled_caught:
                dropped = queue.clear() + 1
                self._audience.dropped += dropped
                log.warning("client.deaf", waited_s=DELIVERY_S, dropped=dropped)
        del self._waiting[connection]

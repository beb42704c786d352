"""Messages to clients over the SDK, each client's in order, none delaying another's.

`NotificationOutbox` delivers outside any request, `RequestQueue` during one, before its answer. What a client
has not taken waits in a `Backlog` of bounded size; what comes when that is full is dropped, and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.abc
import msgspec
import structlog

from mcpx.core.catalog.model import JSON
from mcpx.core.gateway.clients.identity import Connection
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.telemetry.contained import containing
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import CallError
from supervisors import Signal

log = structlog.get_logger()

T = TypeVar("T")
Delivery = Callable[[], Awaitable[object]]
MAX_MESSAGES: Final = 1000  # of one backlog
MAX_BYTES: Final = 4 << 20  # of their JSON; the message that exceeds it is still accepted
DELIVERY_TIMEOUT_S: Final = 5.0


class Backlog(Generic[T]):
    """The messages that wait for one client, first in, first out, in bounded memory."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[T, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: T, size: int) -> bool:
        """Add a message of `size` bytes, unless the backlog is full. Returns whether it was added."""
        if len(self._waiting) >= MAX_MESSAGES or self._bytes > MAX_BYTES:
            return False
        self._waiting.append((message, size))
        self._bytes += size
        return True

    def take(self) -> T:
        """Remove the oldest message.

        Raises:
            IndexError: There is none.
        """
        message, size = self._waiting.popleft()
        self._bytes -= size
        return message

    def clear(self) -> int:
        """Drop all messages. Returns how many there were."""
        dropped = len(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return dropped


def size_of(params: dict[str, Any] | None) -> int:
    """The size in bytes of a message's parameters on the wire."""
    return len(msgspec.json.encode(params))


class NotificationOutbox:
    """Delivers to all clients, while `run`. What was dropped is counted in `clients`.

    Dropped is also what a client does not take within `DELIVERY_TIMEOUT_S`.
    """

    def __init__(self, clients: ConnectedClients) -> None:
        self._clients = clients
        self._tasks: anyio.abc.TaskGroup | None = None
        self._backlogs: dict[Connection, Backlog[tuple[str, JSON | None]]] = {}

    async def run(self) -> None:
        """Deliver, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._backlogs.clear()

    def send(self, connection: Connection, method: str, params: JSON | None) -> None:
        """Have a notification delivered. Returns at once, and never raises."""
        if self._tasks is None:
            return
        backlog = self._backlogs.get(connection)
        if backlog is None:
            backlog = self._backlogs[connection] = Backlog()
            self._tasks.start_soon(self._deliver, connection, backlog)
        if not backlog.put((method, params), size_of(params)):
            self._clients.dropped += 1

    async def _deliver(self, connection: Connection, backlog: Backlog[tuple[str, JSON | None]]) -> None:
        """Empty one client's backlog."""
        while backlog:
            method, params = backlog.take()
            with anyio.move_on_after(DELIVERY_TIMEOUT_S) as scope:
                with containing("notification", method=method):  # a server chose the params
                    try:
                        await connection.outbound.notify(method, params)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        backlog.clear()
            if scope.cancelled_caught:
                dropped = backlog.clear() + 1
                self._clients.dropped += dropped
                log.warning("client.deaf", waited_s=DELIVERY_TIMEOUT_S, dropped=dropped)
        del self._backlogs[connection]


class RequestQueue:
    """Messages to the client of a request that the SDK's server is handling."""

    def __init__(self, clients: ConnectedClients) -> None:
        self.tasks: anyio.abc.TaskGroup | None = None
        """Runs what lasts no longer than the request."""
        self._clients = clients
        self._waiting: Backlog[Delivery] = Backlog()
        self._changed = Signal()
        self._closed = False

    def put(self, delivery: Delivery, size: int) -> None:
        """Deliver soon; after the answer, and where too much waits, it is dropped."""
        if self._closed:
            return
        if self._waiting.put(delivery, size):
            self._changed.set()
        else:
            self._clients.dropped += 1

    async def deliver_during(self, serving: Awaitable[T]) -> T:
        """Deliver while the request is served, and what waits then; return its result.

        Raises:
            CallError: From `serving`.
            MCPError: From `serving`.
        """
        failure: CallError | MCPError | None = None
        async with anyio.create_task_group() as self.tasks:
            self.tasks.start_soon(self._deliver)
            try:
                result = await serving
            except (CallError, MCPError) as error:  # carried out of the task group, which would wrap it
                failure = error
            finally:
                self._closed = True
                self._changed.set()
        self.tasks = None
        if failure is not None:
            try:
                raise failure
            finally:
                failure = None  # which leads here: the collector does not see all that it leads to
        return result

    async def _deliver(self) -> None:
        while self._waiting or not self._closed:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            deliver = self._waiting.take()
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await deliver()

"""The peers of direct sessions over HTTP: a request that the SDK's server is handling, and a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
import anyio.abc
import msgspec
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.shared.dispatcher import Outbound
from mcp_types import INTERNAL_ERROR

from mcpx.core.gateway.clients.outbox import NotificationOutbox
from mcpx.core.protocol.requests import Cancel, OnAnswer
from mcpx.core.servers.passthrough.messages import error_answer, result_answer
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire.enclosed import enclose, encode_read
from supervisors import Signal

Admits = Callable[[str, msgspec.Raw], bool]
"""Whether a notification of the server, by its method and params, may go to the client."""
MAX_WAITING: Final = 1000  # messages to the client of one request; what comes beyond is dropped


class RequestPeer:
    """A request that the SDK's server is handling. Its messages go out in order, before its answer."""

    def __init__(self, outbound: Outbound, admits: Admits, *, is_local: bool) -> None:
        self.is_local = is_local
        self._outbound = outbound
        self._admits = admits
        self._waiting: deque[Callable[[], Awaitable[object]]] = deque()
        self._changed = Signal()
        self._closed = False
        self._tasks: anyio.abc.TaskGroup | None = None
        self._asking: set[anyio.CancelScope] = set()

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Send a notification soon, if it may go to the client; after the answer it is dropped."""
        if self._admits(method, params):
            self._put(partial(self._outbound.notify, method, _enclosed(params)))

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request of the server."""
        scope = anyio.CancelScope()

        async def start() -> None:
            if self._tasks is not None:
                self._tasks.start_soon(ask_client, self._outbound, method, params, on_answer, scope)

        self._asking.add(scope)
        self._put(start)
        return lambda _said: scope.cancel()

    def _put(self, deliver: Callable[[], Awaitable[object]]) -> None:
        if not self._closed and len(self._waiting) < MAX_WAITING:
            self._waiting.append(deliver)
            self._changed.set()

    def close(self) -> None:
        """End it, once the request is answered: nothing more is sent, and the server's own requests end."""
        self._closed = True
        self._changed.set()
        for scope in self._asking:
            scope.cancel()

    async def deliver(self, tasks: anyio.abc.TaskGroup) -> None:
        """Deliver until it is closed and empty."""
        self._tasks = tasks
        while self._waiting or not self._closed:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            deliver = self._waiting.popleft()
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await deliver()


class SessionPeer:
    """A session over HTTP, between its requests."""

    is_local: Final = False  # its requests know where they come from

    def __init__(
        self, connection: Connection, outbox: NotificationOutbox, tasks: anyio.abc.TaskGroup, admits: Admits
    ) -> None:
        self._admits = admits
        self._connection = connection
        self._outbox = outbox
        self._tasks = tasks

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Send a notification, if it may go to the client."""
        if self._admits(method, params):
            self._outbox.send(self._connection, method, _enclosed(params))

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request of the server."""
        scope = anyio.CancelScope()
        self._tasks.start_soon(ask_client, self._connection.outbound, method, params, on_answer, scope)
        return lambda _said: scope.cancel()


async def ask_client(
    outbound: Outbound, method: str, params: msgspec.Raw, on_answer: OnAnswer, scope: anyio.CancelScope
) -> None:
    """Send a request to a client, and call back with its answer, unless `scope` was cancelled."""
    with scope:
        try:
            result = await outbound.send_raw_request(method, _enclosed(params))
        except MCPError as error:
            on_answer(error_answer(error))
        except Exception as error:  # noqa: BLE001 - the boundary: whatever the SDK raises is the answer
            contain(error, "transparent", method=method)
            on_answer(error_answer(MCPError(INTERNAL_ERROR, "MCPX could not ask the client")))
        else:
            on_answer(result_answer(encode_read(result)))


def _enclosed(params: msgspec.Raw) -> dict[str, Any] | None:
    return enclose([bytes(params)]) if params else None

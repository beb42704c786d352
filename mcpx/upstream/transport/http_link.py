"""The links over HTTP: Streamable HTTP, and the older transport with one event stream (HTTP+SSE).

The SDK's transports run on the guarded HTTP client, which tells the link what each exchange says of the
session. The connection is lost when the server refuses the session or forgets it, and over the older
transport when the event stream ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import JSONRPCError

from mcpx.config import Http, Sse
from mcpx.upstream.transport.http_answers import Redact
from mcpx.upstream.transport.http_client import GuardedClient, certificates
from mcpx.upstream.transport.loss import ConnectionLost, Ending
from supervisors import Signal

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


class HttpLink:
    """A `Link` over HTTP, and the `Told` of the HTTP client."""

    pid: Final = None
    mark: Final = ""
    wire: Final = None

    def __init__(
        self, dispatcher: Dispatcher[TransportContext], on_events_missed: Callable[[], None]
    ) -> None:
        self.dispatcher = dispatcher
        self.lost, self.closing = Ending(), Ending()
        self.suspicion = Signal()
        self.established = False
        self.trouble: str | None = None
        """What was wrong with the last exchange; None while all is well."""
        self.curable = True
        """Whether connecting again can help."""
        self._on_events_missed = on_events_missed

    # --- for the session

    def establish(self) -> None:
        """Note that the handshake is over; what was odd during it is no reason for suspicion."""
        self.established = True
        self.suspicion.clear()

    def is_alive(self) -> bool:
        """Whether the server takes new requests, as far as it has said."""
        return not self.closing.is_set() and not self.lost.is_set()

    def is_doomed(self) -> bool:
        """Never known over HTTP."""
        return False

    def is_stopped(self) -> bool:
        """Never known over HTTP."""
        return False

    def first_unread(self) -> int | None:
        """Never known over HTTP."""
        return None

    def stderr_tail(self) -> str:
        """Nothing: the server is not our child."""
        return ""

    def failure(self) -> ConnectionLost:
        """The loss as an exception, once `lost` is set."""
        return ConnectionLost(self.lost.reason, retryable=self.curable)

    def handshake_failure(self) -> ConnectionLost | None:
        """The loss, or else what was wrong with the last exchange."""
        if self.lost.is_set():
            return ConnectionLost(f"{self.lost.reason} during the handshake")
        return None if self.trouble is None else ConnectionLost(self.trouble, retryable=self.curable)

    def give_up(self, reason: str) -> None:
        """End the connection."""
        self.lost.set(reason)

    # --- for the HTTP client

    def lose(self, reason: str) -> None:
        """Note that the session is over."""
        self.lost.set(reason)

    def close(self, reason: str) -> None:
        """Note that the server takes nothing new; it may finish what it has."""
        self.closing.set(reason)

    def fine(self) -> None:
        """Note that an exchange went well."""
        if not self.lost.is_set():
            self.trouble, self.curable = None, True

    def suspect(self) -> None:
        """Have the session checked."""
        self.suspicion.set()

    def missed(self) -> None:
        """Note that notifications may have been missed; before the end of the handshake that is no matter."""
        if self.established:
            self._on_events_missed()


@asynccontextmanager
async def open_http(
    http: Http, *, limit: int, on_events_missed: Callable[[], None], redact: Redact
) -> AsyncIterator[HttpLink]:
    """A link over Streamable HTTP. Nothing is sent before the first request.

    Raises:
        httpx2.HTTPError: The server cannot be reached (inside exception groups).
    """
    await anyio.to_thread.run_sync(certificates)  # for the first time; others have their turn meanwhile
    async with (
        GuardedClient(limit, http.headers, redact=redact) as client,
        # the client bounds each event, and knows what an event that is too large is the answer to
        streamable_http_client(http.url, http_client=client, max_sse_event_size=None) as (read, write),
        anyio.create_task_group() as tasks,
    ):
        client.told = link = HttpLink(JSONRPCDispatcher(read, write), on_events_missed)
        client.notifier.spawn = tasks.start_soon
        try:
            yield link
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_sse(
    sse: Sse, *, limit: int, on_events_missed: Callable[[], None], redact: Redact
) -> AsyncIterator[HttpLink]:
    """A link over the older transport, whose answers come on one event stream.

    Raises:
        httpx2.HTTPError: The server cannot be reached (inside exception groups).
    """
    client: GuardedClient | None = None
    await anyio.to_thread.run_sync(certificates)

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,  # noqa: ARG001 - the client has its own
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        nonlocal client
        client = GuardedClient(limit, headers, redact=redact, auth=auth)
        return client

    async with sse_client(sse.url, sse.headers, httpx_client_factory=factory) as (messages, write):
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception]()
        link = HttpLink(JSONRPCDispatcher(read, write), on_events_missed)

        async def deliver(answer: JSONRPCError) -> None:
            await incoming.send(SessionMessage(answer))

        if client is not None:
            client.told, client.apart = link, deliver
        async with anyio.create_task_group() as tasks, incoming, read:
            tasks.start_soon(_relay, messages, incoming, link, client)
            try:
                yield link
            finally:
                tasks.cancel_scope.cancel()


async def _relay(
    messages: AsyncIterable[SessionMessage | Exception],
    incoming: Incoming,
    link: HttpLink,
    client: GuardedClient | None,
) -> None:
    """Pass messages on, to see where the stream ends: that is the loss."""
    async for message in messages:
        await incoming.send(message)
    stream = client.event_stream if client is not None else None
    link.lose(stream.why if stream is not None else "the event stream ended")

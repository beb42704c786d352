"""The links over HTTP: Streamable HTTP, and the older transport with one event stream (HTTP+SSE).

The SDK's transports run on the guarded HTTP client, which reports to the link what each exchange says of
the session. The connection is lost when the server refuses the session or forgets it, and over the older
transport when the event stream ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError

from mcpx.core.config import Http, Sse
from mcpx.core.config.server_config import Tls
from mcpx.core.servers.accounts import Authorizer
from mcpx.core.servers.transport.exchange import HttpLink
from mcpx.core.servers.transport.http_answers import Redact
from mcpx.core.servers.transport.http_guard import DeliverError, HttpGuard
from mcpx.core.servers.transport.http_network import (
    ACCEPT_ENCODING,
    TIMEOUT,
    FewCookies,
    open_network,
)

MAX_SSE_EVENT_BYTES: Final = 1_000_000  # the SDK takes no more in an event over the older transport
Incoming = MemoryObjectSendStream[SessionMessage | Exception]


@asynccontextmanager
async def open_http(
    http: Http,
    *,
    limit: int,
    on_events_missed: Callable[[], None],
    redact: Redact,
    authorizer: Authorizer | None = None,
) -> AsyncIterator[HttpLink]:
    """Open a link over Streamable HTTP. Nothing is sent before the first request.

    Raises:
        httpx2.HTTPError: The server cannot be reached (inside exception groups).
    """
    async with (
        guarded_client(limit, http.headers, redact, tls=http.tls, authorizer=authorizer) as (client, guard),
        # the guard bounds each event, and knows what an event that is too large is the answer to
        streamable_http_client(http.url, http_client=client, max_sse_event_size=None) as (read, write),
    ):
        guard.observer = link = HttpLink(
            JSONRPCDispatcher(read, write), guard.network.renew, on_events_missed
        )
        yield link


@asynccontextmanager
async def open_sse(
    sse: Sse,
    *,
    limit: int,
    on_events_missed: Callable[[], None],
    redact: Redact,
    authorizer: Authorizer | None = None,
) -> AsyncIterator[HttpLink]:
    """Open a link over the older transport, whose answers come on one event stream.

    Raises:
        httpx2.HTTPError: The server cannot be reached (inside exception groups).
    """
    limit = min(limit, MAX_SSE_EVENT_BYTES)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception]()

    async def deliver_error(error: bytes) -> None:
        await incoming.send(SessionMessage(JSONRPCError.model_validate_json(error)))

    async with (
        incoming,
        read,
        guarded_client(
            limit, sse.headers, redact, tls=sse.tls, authorizer=authorizer, deliver_error=deliver_error
        ) as (client, guard),
        sse_client(sse.url, httpx_client_factory=lambda *_, **__: client) as (messages, write),
        anyio.create_task_group() as tasks,
    ):
        guard.observer = link = HttpLink(
            JSONRPCDispatcher(read, write), guard.network.renew, on_events_missed
        )
        tasks.start_soon(_relay, messages, incoming, link, guard)
        try:
            yield link
        finally:
            tasks.cancel_scope.cancel()


async def _relay(
    messages: AsyncIterable[SessionMessage | Exception], incoming: Incoming, link: HttpLink, guard: HttpGuard
) -> None:
    """Pass messages on, to see where the stream ends: that is the loss."""
    async for message in messages:
        await incoming.send(message)
    stream = guard.event_stream
    link.lose(stream.end_reason if stream is not None else "the event stream ended")


@asynccontextmanager
async def guarded_client(
    limit: int,
    headers: dict[str, str] | None,
    redact: Redact,
    *,
    tls: Tls | None = None,
    authorizer: Authorizer | None = None,
    deliver_error: DeliverError | None = None,
) -> AsyncIterator[tuple[httpx2.AsyncClient, HttpGuard]]:
    """Open a client for the SDK, with the guard that is its transport. The parameters are those of the two.

    It need not be closed, but may be: all that it holds is closed here.
    """
    cookies = FewCookies()
    async with open_network(cookies, authorizer, tls) as network, anyio.create_task_group() as tasks:
        guard = HttpGuard(network, tasks, limit, redact, deliver_error)
        sent = httpx2.Headers(headers)
        sent["Accept-Encoding"] = ACCEPT_ENCODING
        yield httpx2.AsyncClient(transport=guard, headers=sent, timeout=TIMEOUT, cookies=cookies), guard
        tasks.cancel_scope.cancel()

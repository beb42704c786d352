"""The three transports to an upstream server, behind one face: the only module that opens the SDK's.

`open_link` gives a `Link`: the SDK's message streams, and the push that the SDK lacks: `lost` is set as
soon as the connection has ended, with the reason, whether anybody calls or not. For a child process that
is its death or the end of its output; for HTTP what the last answers say of the session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from mcpx.config import Http, Sse, Stdio, Transport
from mcpx.upstream.process import ChildProcess, running
from mcpx.wire.messages import Rubbish, read_messages, write_messages

EXIT_CODE_WAIT_S = 0.03  # after the output ended: the exit code makes a better message than "output closed"
LAST_WORDS_S = 0.03  # after the exit: an answer written before it may still be in the pipe
SSE_READ_TIMEOUT_S = 3600.0  # an idle event stream is no fault; death is told by the stream's end
FORGOTTEN = 404  # a session that the server does not know any more
REFUSED = frozenset({401, 403})

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


class Link:
    """One open connection. `streams` go to the SDK's session; `pid` is the child's, if there is one."""

    def __init__(self, pid: int | None = None) -> None:
        self.streams: tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
        self.pid = pid
        self.lost = anyio.Event()
        self.reason = "the connection is open"
        self.stderr_tail: Callable[[], str] = str
        self.alive: Callable[[], bool] = lambda: not self.lost.is_set()
        """Whether it still makes sense to send; for a child process this asks the kernel."""
        self.http_status: int | None = None
        """The last HTTP status from 400 on; None while all is well."""
        self.established = False
        """Whether the handshake is over; set by whoever did it."""

    def lose(self, reason: str) -> None:
        """Note that the connection has ended. The first reason counts."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()


def open_link(transport: Transport, *, limit: int, on_rubbish: Rubbish) -> AbstractAsyncContextManager[Link]:
    """A context manager that connects, and that leaves nothing behind when it is left.

    `limit` is the longest message in bytes (stdio). `on_rubbish` is told of lines that are no messages.

    Raises:
        OSError: The command cannot be started.
        httpx2.HTTPError: The server cannot be reached (mostly inside exception groups).
    """
    match transport:
        case Stdio():
            return _stdio(transport, limit, on_rubbish)
        case Http():
            return _http(transport)
        case Sse():
            return _sse(transport)


@asynccontextmanager
async def _stdio(stdio: Stdio, limit: int, on_rubbish: Rubbish) -> AsyncIterator[Link]:
    async with running(stdio) as child:
        link = Link(child.pid)
        link.stderr_tail = child.stderr_tail
        link.alive = child.alive
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](64)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](64)
        link.streams = (read, write)
        async with anyio.create_task_group() as tasks, incoming, read, write, outgoing:
            tasks.start_soon(_read_child, child, link, incoming, limit, on_rubbish)
            tasks.start_soon(_write_child, child, outgoing)
            tasks.start_soon(_await_exit, child, link, incoming)
            try:
                yield link
            finally:
                tasks.cancel_scope.cancel()


async def _read_child(
    child: ChildProcess, link: Link, incoming: Incoming, limit: int, on_rubbish: Rubbish
) -> None:
    await read_messages(child.read, incoming, limit=limit, on_rubbish=on_rubbish)
    with anyio.move_on_after(EXIT_CODE_WAIT_S):
        await child.exited.wait()
    _report_death(child, link)
    incoming.close()


async def _await_exit(child: ChildProcess, link: Link, incoming: Incoming) -> None:
    """The exit itself ends the session, for a grandchild may hold the pipes open."""
    await child.exited.wait()
    await anyio.sleep(LAST_WORDS_S)
    _report_death(child, link)
    incoming.close()


def _report_death(child: ChildProcess, link: Link) -> None:
    link.lose(f"the server process {child.describe_exit()}")


async def _write_child(child: ChildProcess, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    try:
        await write_messages(outgoing, child.stdin.send)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        return  # it reads no more: the end of its output, or its exit, tells why


@asynccontextmanager
async def _http(http: Http) -> AsyncIterator[Link]:
    link = Link()
    async with (
        _client(link, http.headers) as client,
        streamable_http_client(http.url, http_client=client) as streams,
    ):
        link.streams = streams
        yield link


@asynccontextmanager
async def _sse(sse: Sse) -> AsyncIterator[Link]:
    link = Link()

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _client(link, headers, timeout, auth)

    async with sse_client(
        sse.url, sse.headers, sse_read_timeout=SSE_READ_TIMEOUT_S, httpx_client_factory=factory
    ) as (theirs, write):
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception]()
        link.streams = (read, write)
        async with anyio.create_task_group() as tasks, incoming, read:
            tasks.start_soon(_relay, theirs, incoming, lambda: link.lose("the event stream ended"))
            try:
                yield link
            finally:
                tasks.cancel_scope.cancel()


async def _relay(
    theirs: ReadStream[SessionMessage | Exception], incoming: Incoming, at_end: Callable[[], None]
) -> None:
    """Pass messages on, to see where the stream ends."""
    async for message in theirs:
        await incoming.send(message)
    at_end()
    incoming.close()


def _client(
    link: Link,
    headers: dict[str, str] | None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """An HTTP client that notes what the statuses say, for the SDK's error messages drop them."""

    async def note(response: httpx2.Response) -> None:
        if response.status_code >= httpx2.codes.BAD_REQUEST:
            link.http_status = response.status_code
            if link.established and response.request.method == "POST":
                if response.status_code == FORGOTTEN:
                    link.lose("the server does not know the session any more (HTTP 404)")
                elif response.status_code in REFUSED:
                    link.lose(f"the server refuses the session (HTTP {response.status_code})")

    client = create_mcp_http_client(headers=headers, timeout=timeout, auth=auth)
    client.event_hooks = {"response": [note]}
    return client

"""The three transports to an upstream server, behind one face: the only module that opens the SDK's.

`open_link` gives a `Link`: what the SDK's session is to run on, and the push that the SDK lacks: `lost` is
set as soon as the connection has ended, with the reason, whether anybody calls or not. For a child process
that is its death or the end of its output; for HTTP what the last answers say of the session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import anyio.to_thread
import httpx2
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import JSONRPCError

from mcpx.config import Http, Sse, Stdio, Transport
from mcpx.upstream.signal import Flag
from mcpx.upstream.transport.http_answers import Redact
from mcpx.upstream.transport.http_client import GuardedClient, certificates
from mcpx.upstream.transport.process import ChildProcess, running
from mcpx.wire.channel import PeerNotReading
from mcpx.wire.dispatcher import WireDispatcher
from mcpx.wire.receiver import OnMalformed

EXIT_CODE_WAIT_S = 0.03  # after the output ended: the exit code makes a better message than "output closed"
LAST_WORDS_S = 0.03  # after the exit: an answer written before it may still be in the pipe
LAST_WORDS_MOST_S = 0.5  # for one who left very much in the pipe
LAST_WORDS_LOOK_S = 0.005  # between two looks whether that was read
ASIDE_BYTES = 4 * 1024 * 1024  # of a request or notification of a server's own: reading them takes 0.1 s

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


class Link:
    """One open connection. The session runs on `dispatcher`; `pid` and `mark` are the child's, if any."""

    def __init__(
        self, dispatcher: Dispatcher[TransportContext], pid: int | None = None, mark: str = ""
    ) -> None:
        self.dispatcher = dispatcher
        self.pid = pid
        self.mark = mark
        self.lost = anyio.Event()
        self.reason = "the connection is open"
        self.stderr_tail: Callable[[], str] = str
        self.closing = anyio.Event()
        """Set when the server takes nothing new, but may finish what it has; `reason` says why."""
        self.alive: Callable[[], bool] = lambda: not self.closing.is_set() and not self.lost.is_set()
        """Whether it still makes sense to send; for a child process this asks the kernel."""
        self.doomed: Callable[[], bool] = lambda: False
        """Whether the server is about to die, though it may still take what is sent; asks the kernel."""
        self.first_unread: Callable[[], int | None] = lambda: None
        """The position in what was sent from which on the server has read nothing, where that is known."""
        self.stopped: Callable[[], bool] = lambda: False
        """Whether the kernel has stopped the server (SIGSTOP), where that is known: it works on nothing."""
        self.kill: Callable[[], None] = lambda: None
        """End a server that hangs; for a child process this is SIGKILL to its group."""
        self.trouble: str | None = None
        """What was wrong with the last HTTP exchange; None while all is well."""
        self.curable = True
        """Whether trying again can help, now that it is lost."""
        self.suspicion = Flag()
        """Set when there is reason to see whether the session still lives."""
        self.missed: Callable[[], None] = lambda: None
        """Called when news of changed lists may have been missed."""
        self.established = False
        """Whether the handshake is over; set by whoever did it."""

    @property
    def wire(self) -> WireDispatcher | None:
        """The dispatcher, where it takes bytes."""
        return self.dispatcher if isinstance(self.dispatcher, WireDispatcher) else None

    def lose(self, reason: str) -> None:
        """Note that the connection has ended. The first reason counts."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()

    def close(self, reason: str) -> None:
        """Note that the server takes nothing new."""
        if not self.lost.is_set() and not self.closing.is_set():
            self.reason = reason
            self.closing.set()

    def fine(self) -> None:
        """An HTTP exchange went well."""
        if not self.lost.is_set():
            self.trouble, self.curable = None, True

    def suspect(self) -> None:
        """There is reason to see whether the session still lives."""
        self.suspicion.set()

    def give_up(self, reason: str) -> None:
        """End the connection to a server that hangs."""
        self.lose(reason)
        self.kill()


class Hooks(msgspec.Struct, frozen=True):
    """Who is told of what happens on a link. None of them may raise."""

    on_open: Callable[[Link], None]
    """Called when it is open, before anything is sent: a child process is running."""
    on_rubbish: OnMalformed
    """Told of lines that are no messages."""
    on_stderr: Callable[[bytes], None]
    """Given what a child writes to standard error, as it comes."""


def open_link(
    transport: Transport, *, limit: int, hooks: Hooks, redact: Redact
) -> AbstractAsyncContextManager[Link]:
    """A context manager that connects, and that leaves nothing behind when it is left.

    `limit` is the longest message in bytes. `redact` takes secrets out of what is told of failures.

    Raises:
        OSError: The command cannot be started.
        httpx2.HTTPError: The server cannot be reached (mostly inside exception groups).
    """
    match transport:
        case Stdio():
            return _stdio(transport, limit, hooks, redact)
        case Http():
            return _http(transport, limit, redact)
        case Sse():
            return _sse(transport, limit, redact)


@asynccontextmanager
async def _stdio(stdio: Stdio, limit: int, hooks: Hooks, redact: Redact) -> AsyncIterator[Link]:
    async with running(stdio, hooks.on_stderr, redact) as child:
        output_ended = anyio.Event()
        wire = WireDispatcher(
            child.channel,
            limit=limit,
            on_malformed=hooks.on_rubbish,
            on_end=output_ended.set,
            request_limit=ASIDE_BYTES,
            mends=True,
        )
        link = Link(wire, child.pid, child.mark)
        link.stderr_tail = child.last_words.tail
        link.alive = child.alive
        link.stopped = child.stopped
        link.doomed = child.doomed
        link.kill = child.kill
        link.first_unread = child.channel.first_unread
        child.channel.on_broken = lambda error: _give_up_if_not_reading(link, error)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_await_end_of_output, child, link, wire, output_ended)
            tasks.start_soon(_await_exit, child, link, wire)
            try:
                yield link
            finally:
                tasks.cancel_scope.cancel()


def _give_up_if_not_reading(link: Link, error: OSError) -> None:
    """One that is gone tells so itself; one that lives and reads nothing would have to be kept in memory."""
    if isinstance(error, PeerNotReading):
        link.give_up(f"the server does not read its standard input: {error.strerror}")


async def _await_end_of_output(
    child: ChildProcess, link: Link, wire: WireDispatcher, output_ended: anyio.Event
) -> None:
    await output_ended.wait()
    with anyio.move_on_after(EXIT_CODE_WAIT_S):
        await child.exited.wait()
    _end(child, link, wire)


async def _await_exit(child: ChildProcess, link: Link, wire: WireDispatcher) -> None:
    """The exit itself ends the session, for a grandchild may hold the pipes open."""
    await child.exited.wait()
    await anyio.sleep(LAST_WORDS_S)
    with anyio.move_on_after(LAST_WORDS_MOST_S):
        while wire.has_backlog:  # noqa: ASYNC110 - the kernel's buffer too, and that sets no event
            await anyio.sleep(LAST_WORDS_LOOK_S)
    _end(child, link, wire)


def _end(child: ChildProcess, link: Link, wire: WireDispatcher) -> None:
    link.lose(f"the server process {child.describe_exit()}")
    wire.end()


@asynccontextmanager
async def _http(http: Http, limit: int, redact: Redact) -> AsyncIterator[Link]:
    await anyio.to_thread.run_sync(certificates)  # for the first time; others have their turn meanwhile
    async with (
        GuardedClient(limit, http.headers, redact=redact) as client,
        # the client bounds each event, and knows what an event that is too large is the answer to
        streamable_http_client(http.url, http_client=client, max_sse_event_size=None) as (read, write),
        anyio.create_task_group() as tasks,
    ):
        client.told = link = Link(JSONRPCDispatcher(read, write))
        client.notifier.spawn = tasks.start_soon
        try:
            yield link
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _sse(sse: Sse, limit: int, redact: Redact) -> AsyncIterator[Link]:
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

    async with sse_client(sse.url, sse.headers, httpx_client_factory=factory) as (theirs, write):
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception]()
        link = Link(JSONRPCDispatcher(read, write))

        async def apart(answer: JSONRPCError) -> None:
            await incoming.send(SessionMessage(answer))

        if client is not None:
            client.told, client.apart = link, apart
        async with anyio.create_task_group() as tasks, incoming, read:
            tasks.start_soon(_relay, theirs, incoming, link, client)
            try:
                yield link
            finally:
                tasks.cancel_scope.cancel()


async def _relay(
    theirs: ReadStream[SessionMessage | Exception],
    incoming: Incoming,
    link: Link,
    client: GuardedClient | None,
) -> None:
    """Pass messages on, to see where the stream ends."""
    async for message in theirs:
        await incoming.send(message)
    stream = client.event_stream if client is not None else None
    link.lose(stream.why if stream is not None else "the event stream ended")
    incoming.close()

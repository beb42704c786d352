"""Opening connections to servers, over whatever their entry says; and the link to a child process.

Messages of a child are lines on its standard streams. Its connection is lost when the process exits or closes
its standard output, whichever is seen first, and when it lives but never reads its standard input.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, Unpack

import anyio

from mcpx.core.config import Placed, Sse, Stdio, Transport
from mcpx.core.servers.transport.link import ConnectionLost, Link
from mcpx.core.servers.transport.placement import Placing
from mcpx.core.servers.transport.process import NOT_FOUND, ChildProcess, running
from mcpx.core.wire.channel import PeerNotReading
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.receiver import OnMalformed

if TYPE_CHECKING:
    from mcpx.core.servers.transport.http_link import Options

LAST_OUTPUT_S: Final = 0.03  # after the exit: an answer written before it may still be in the pipe
LAST_OUTPUT_TIMEOUT_S: Final = 0.5  # for one that left very much in the pipe
LAST_OUTPUT_POLL_S: Final = 0.005
MAX_SERVER_MESSAGE_BYTES: Final = 4 * 1024 * 1024  # of its own requests: reading one takes 0.1 s


class StdioLink(Link):
    """A link to one child process."""

    def __init__(self, child: ChildProcess, *, limit: int, on_malformed: OnMalformed) -> None:
        channel = child.channel
        assert channel is not None  # it speaks there
        self._output_ended = anyio.Event()
        self._wire = WireDispatcher(
            channel,
            limit=limit,
            on_malformed=on_malformed,
            on_end=self._output_ended.set,
            request_limit=MAX_SERVER_MESSAGE_BYTES,
            mends=True,
        )
        super().__init__(self._wire)
        self.by_pipe = True
        self.take_process(child)
        self._process = child
        vars(self).update(is_alive=child.is_alive, first_unread=channel.first_unread)
        channel.on_broken = self._on_broken

    def handshake_failure(self) -> ConnectionLost | None:
        if not self.lost.happened:
            return None
        lacks_command = self._process.returncode == NOT_FOUND
        reason = f"{self.lost.reason} during the handshake"
        return ConnectionLost(reason, self.stderr_tail(), lacks_command=lacks_command)

    def _on_broken(self, error: OSError) -> None:
        """Give up a server that lives and reads nothing; one that is gone is noticed by its exit."""
        if isinstance(error, PeerNotReading):
            self.give_up(f"the server does not read its standard input: {error.strerror}")

    async def await_end_of_output(self) -> None:
        """Note the end of standard output as the loss."""
        await self._output_ended.wait()
        await self._process.has_exited()
        self._note_exit()

    async def await_exit(self) -> None:
        """Note the exit of the process as the loss, for a grandchild may hold the pipes open."""
        await self._process.exited.wait()
        await anyio.sleep(LAST_OUTPUT_S)
        with anyio.move_on_after(LAST_OUTPUT_TIMEOUT_S):
            while self._wire.has_backlog:  # noqa: ASYNC110 - the kernel's buffer too, and that sets no event
                await anyio.sleep(LAST_OUTPUT_POLL_S)
        self._note_exit()

    def _note_exit(self) -> None:
        self.lost.set(f"the server process {self._process.describe_exit()}")


@asynccontextmanager
async def open_stdio(
    stdio: Stdio,
    *,
    limit: int,
    on_malformed: OnMalformed,
    on_stderr: Callable[[bytes], None],
    redact: Callable[[str], str],
) -> AsyncIterator[StdioLink]:
    """Start the process; at exit it is stopped.

    Raises:
        OSError: It cannot be started.
    """
    async with running(stdio, on_stderr, redact) as child, anyio.create_task_group() as tasks:
        link = StdioLink(child, limit=limit, on_malformed=on_malformed)
        tasks.start_soon(link.await_end_of_output)
        tasks.start_soon(link.await_exit)
        try:
            yield link
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_link(
    transport: Transport, *, placing: Placing | None = None, **options: Unpack[Options]
) -> AsyncIterator[Link]:
    """Connect, and leave nothing behind at exit. A connection that is lost ends the body.

    `placing` says on which node a server is that is placed on one.

    Raises:
        ConnectionLost: The connection ended by itself (inside an exception group).
        OSError: The command cannot be started.
        NotAuthorized: It is not reached without a token (inside exception groups).
    """
    async with _connected(transport, placing, options) as link, anyio.create_task_group() as tasks:
        tasks.start_soon(_raise_when_lost, link)
        options["hooks"].on_open(link)
        yield link
        tasks.cancel_scope.cancel()


def _connected(
    transport: Transport, placing: Placing | None, options: Options
) -> AbstractAsyncContextManager[Link]:
    limit, hooks = options["limit"], options["hooks"]
    if isinstance(transport, Stdio):
        return open_stdio(
            transport,
            limit=limit,
            on_malformed=hooks.on_malformed,
            on_stderr=hooks.on_stderr,
            redact=options["redact"],
        )
    if isinstance(transport, Placed):
        if placing is None or placing.placement is None:
            raise ConnectionLost("it is placed on a node, and there is no cluster", retryable=False)
        place = placing.placement.connect
        return place(placing.server, placing.session, limit=limit, on_malformed=hooks.on_malformed)
    from mcpx.core.servers.transport.http_link import open_http, open_sse  # noqa: PLC0415 - 3 MB, for who has such

    return open_sse(transport, **options) if isinstance(transport, Sse) else open_http(transport, **options)


async def _raise_when_lost(link: Link) -> None:
    await link.lost.wait()
    raise link.failure()

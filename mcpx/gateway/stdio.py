"""The stdio door: one client on this process's standard streams.

While it serves, file descriptor 0 is empty and 1 goes to standard error, so that stray output of this
process or a child never lands among the messages. When the client closes its end, what it has asked is still
answered, within the grace time; then the door is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import mcp_types
import structlog
from mcp.shared.message import SessionMessage

from mcpx.gateway.server import GatewayServer
from mcpx.wire import descriptors
from mcpx.wire.messages import MessageIn, MessageOut, read_messages, write_messages
from supervisors import Incarnation

log = structlog.get_logger()


class StdioDoor:
    """Serves one session on standard input and output."""

    def __init__(self, server: GatewayServer, *, limit: int, grace: float) -> None:
        self._server = server
        self._limit = limit
        self._grace = grace
        self._open: set[mcp_types.RequestId] = set()
        self._all_answered = anyio.Event()

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the client closes its end or stops reading, or the supervisor asks to leave."""
        with claimed_streams() as (stdin, stdout), descriptors.nonblocking(stdin, stdout):
            incarnation.ready()
            incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](64)
            write, outgoing = anyio.create_memory_object_stream[SessionMessage](64)
            async with anyio.create_task_group() as tasks, incoming, read, write, outgoing:
                tasks.start_soon(self._write, stdout, outgoing, tasks.cancel_scope)
                tasks.start_soon(self._read, stdin, incoming, incarnation)
                await self._server.run(read, write, self._server.create_initialization_options())
                tasks.cancel_scope.cancel()
        log.info("client.left")

    async def _read(self, stdin: int, incoming: MessageOut, incarnation: Incarnation) -> None:
        """Messages in; after the last, wait for the answers that are due, and end the session."""

        async def receive() -> bytes:
            return await descriptors.read(stdin)

        async def read() -> None:
            await read_messages(
                receive, incoming, limit=self._limit, on_rubbish=_rubbish, note=self._note_question
            )

        await incarnation.while_wanted(read)
        with anyio.move_on_after(self._grace):
            while self._open:
                self._all_answered = anyio.Event()
                await self._all_answered.wait()
        incoming.close()

    async def _write(self, stdout: int, outgoing: MessageIn, session: anyio.CancelScope) -> None:
        """Messages out; a client that does not read any more has left."""

        async def send(data: bytes) -> None:
            await descriptors.write(stdout, data)

        try:
            await write_messages(outgoing, send, note=self._note_answer)
        except OSError as error:
            log.warning("client.gone", reason=error.strerror)
            session.cancel()

    def _note_question(self, message: mcp_types.JSONRPCMessage) -> None:
        """Requests that will be answered; a listening stream has no end of its own."""
        if isinstance(message, mcp_types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._open.add(message.id)
        elif (
            isinstance(message, mcp_types.JSONRPCNotification)
            and message.method == "notifications/cancelled"  # such a request is never answered
            and message.params
        ):
            self._settle(message.params.get("requestId"))

    def _note_answer(self, message: mcp_types.JSONRPCMessage) -> None:
        if isinstance(message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
            self._settle(message.id)

    def _settle(self, request_id: mcp_types.RequestId | None) -> None:
        if request_id is not None:
            self._open.discard(request_id)
        if not self._open:
            self._all_answered.set()


def _rubbish(line: bytes, problem: str) -> None:
    log.warning("client.rubbish", problem=problem, line=line.decode(errors="replace"))


@contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the real standard input and output, which are diverted meanwhile."""
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield stdin, stdout
    finally:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        for fd in (nothing, stdin, stdout):
            os.close(fd)

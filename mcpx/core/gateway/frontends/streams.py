"""The frontends on streams: one client on standard input and output, or any number on a Unix socket.

Control requests come over the socket, too. It is 0600 in a folder that only the user can change, and a peer
of another user is refused: it gets no byte. A connection is one MCP client, unless it begins as
`mcpx.core.gateway.frontends.control` says. Nothing is set up for a connection before its first byte, so one
that vanishes costs a task for an instant. Of the connections that stay silent, or send half a control
request, the oldest are dropped when there are too many. Control requests are answered even when no further
client is admitted.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import structlog

from mcpx.core.daemon.leaving import Use
from mcpx.core.gateway.clients.projects import client_in
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.control import LOOKS, Control, PageLink, no_page
from mcpx.core.gateway.frontends.newcomers import Newcomers
from mcpx.core.gateway.frontends.operations import ControlRequest
from mcpx.core.protocol.context import ClientId
from mcpx.core.store.paths import DaemonPaths
from mcpx.core.system.endpoint import CONTROL_PREFIX, WANTED_KEY, Endpoint, surroundings
from mcpx.core.system.linux import grow_pipe
from mcpx.core.system.peers import peer_uid
from mcpx.core.wire.channel import Channel
from supervisors import Incarnation


class StdioFrontend:
    """Serves one session, at that endpoint, on standard input and output.

    While it serves, file descriptor 0 is empty and 1 goes to standard error, so that stray output of this
    process or a child never lands among the messages.
    """

    def __init__(self, endpoints: Endpoints, endpoint: Endpoint) -> None:
        self._endpoints = endpoints
        self._endpoint = endpoint

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the client closes its end or stops reading, or the supervisor asks to leave."""
        with claimed_streams() as (stdin, stdout):
            channel = Channel(stdin, stdout)
            try:
                forwarded = self._endpoints.hub.config.forward_env
                about = client_in(surroundings(forwarded), forwarded, home=str(Path.home()))
                client = self._endpoints.stream_client(self._endpoint, channel, client=about)
                incarnation.ready()
                await client.serve(incarnation)
            finally:
                channel.flush()
                channel.close()
        log.info("client.left")


@contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the real standard input and output, which are diverted meanwhile."""
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    blocking = {fd: os.get_blocking(fd) for fd in (stdin, stdout)}
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        for fd in (stdin, stdout):
            if not os.isatty(fd):  # a terminal is shared with the shell, which would suffer
                os.set_blocking(fd, False)
        grow_pipe(stdout)
        yield stdin, stdout
    finally:
        for fd in (stdin, stdout):
            os.set_blocking(fd, blocking[fd])
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        for fd in (nothing, stdin, stdout):
            os.close(fd)


log = structlog.get_logger()
PLAIN_ATTACH: Final = ControlRequest(mcpx="attach")
"""For a connection that begins with MCP."""
MAX_CONTROL_BYTES: Final = 1 << 24  # of a control request: the arguments of a call may be long
_ASKS: Final = f'"{WANTED_KEY}":'.encode()  # in the answer to a greeting
CONTROL_TIMEOUT_S: Final = 5.0  # for a control request to arrive, and for its response to be read


class SocketFrontend:
    """Serves the clients of one listening socket. `page_link` is as for `Control`."""

    def __init__(
        self, endpoints: Endpoints, listener: socket.socket, place: DaemonPaths, page_link: PageLink = no_page
    ) -> None:
        self._hub = endpoints.hub
        self._endpoints = endpoints
        self._listener = listener
        self._place = place
        self._control = Control(
            endpoints.hub, lambda: len(endpoints.clients.attached.all()), place, page_link
        )
        self._stop_requested = False
        self._newcomers = Newcomers("socket")
        self.clients = 0
        self._used = 0  # connections and control requests that were a use of the daemon

    def use(self) -> Use:
        """Return if clients are connected, and how often the daemon was used: a look at its state is none."""
        return Use(self.clients > 0, self._used)

    def end(self, why: str) -> None:
        """End the daemon in order, without the mark that it was stopped, which the command itself makes."""
        log.info("mcpx.stopping", signal=why)
        self._stop_requested = True
        self._hub.stop()

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the supervisor asks to leave; then let the clients finish."""
        incarnation.ready()
        log.info("socket.listening", path=str(self._place.socket))
        async with anyio.create_task_group() as tasks:
            await incarnation.while_wanted(
                lambda: self._newcomers.accept(
                    self._listener, lambda peer: tasks.start_soon(self._handle, peer, incarnation)
                )
            )
            if not self._stop_requested:
                self._mark_as_stopped()
            self._listener.close()  # a shim that connects now finds no daemon, and starts the next

    def _mark_as_stopped(self) -> None:
        """Note that a signal ends this daemon: shims must not start the next before their clients need it."""
        with suppress(OSError):
            self._place.stopped.touch(mode=0o600)

    async def _handle(self, peer: socket.socket, incarnation: Incarnation) -> None:
        """Serve one connection from its first bytes to its end. Its failure must not end the others."""
        with peer:
            try:
                if (uid := peer_uid(peer)) not in {None, os.getuid()}:
                    log.warning("socket.refused", uid=uid)
                    return
                first, line = b"", b""
                with self._newcomers.counted(peer):
                    await incarnation.while_wanted(lambda: anyio.wait_readable(peer))
                    first = peer.recv(len(CONTROL_PREFIX), socket.MSG_PEEK)
                    if first == CONTROL_PREFIX:
                        line = await self._read_control(peer)
                attach = PLAIN_ATTACH if first not in {b"", CONTROL_PREFIX} else None
                while line and attach is None:
                    attach, is_asked = await self._handle_control(peer, line)
                    line = await self._read_control(peer) if is_asked else b""
                    attach = None if is_asked else attach
                if attach is not None:
                    client = self._client(attach)
                    with self._hub.fleet.attached(attach.environment):
                        await self._serve(peer, attach.endpoint, client, incarnation)
            except OSError as error:  # gone already, or the frontend ends before it said anything
                log.debug("socket.gone", reason=str(error))
            except Exception:
                log.exception("client.failed")

    async def _read_control(self, peer: socket.socket) -> bytes:
        """A control request, or as much of it as arrived in time."""
        line = bytearray()
        try:
            with anyio.move_on_after(CONTROL_TIMEOUT_S):
                while not line.endswith(b"\n") and len(line) < MAX_CONTROL_BYTES:
                    await anyio.wait_readable(peer)
                    if not (chunk := peer.recv(65536)):
                        break
                    line += chunk
                    self._newcomers.note_partial(len(chunk))
        finally:
            self._newcomers.note_partial(-len(line))
        return bytes(line)

    def _client(self, request: ControlRequest) -> ClientId:
        client = client_in(request.surroundings, self._hub.config.forward_env, home=str(Path.home()))
        client.environment = request.environment or None
        return client

    async def _serve(
        self, peer: socket.socket, endpoint: Endpoint, about: ClientId, incarnation: Incarnation
    ) -> None:
        if self._newcomers.is_full(self.clients):
            return
        channel = Channel(peer.fileno(), peer.fileno())
        self.clients += 1
        self._used += 1
        log.info("client.joined", clients=self.clients)
        try:
            client = self._endpoints.stream_client(endpoint, channel, "socket", about)
            await client.serve(incarnation)
        finally:
            channel.flush()
            channel.close()
            self.clients -= 1
            self._used += 1
            log.info("client.left", clients=self.clients)

    async def _handle_control(self, peer: socket.socket, line: bytes) -> tuple[ControlRequest | None, bool]:
        """Answer a control request, unless its sender leaves.

        Returns the request to attach, if it is one, and whether its sender was asked to say more first.
        """
        response, request, reports = b"", None, _Reports(peer)
        async with anyio.create_task_group() as tasks:  # unbounded: a call has its own deadlines
            tasks.start_soon(_cancel_when_gone, peer, tasks.cancel_scope)
            response, request = await self._control.answer(line, reports.send)
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(CONTROL_TIMEOUT_S):
            await _send(peer, reports.unsent + response)
        if request is not None:
            self._used += request.mcpx not in LOOKS
            if request.mcpx == "stop":
                self.end("control")
        attaches = request is not None and request.mcpx == "attach"
        return request if attaches else None, attaches and _ASKS in response


class _Reports:
    """Sends lines before a response: whole, or not at all where the caller does not read."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self.unsent = b""
        """The rest of the last line."""

    def send(self, line: bytes) -> None:
        """Send a line if all before it have been taken."""
        if self.unsent:
            line = b""
        with suppress(OSError):  # it is full, or nobody is there, which is noticed elsewhere
            waiting = self.unsent + line
            self.unsent = waiting[self._peer.send(waiting) :]


async def _send(peer: socket.socket, response: bytes) -> None:
    rest = memoryview(response)
    while rest:
        await anyio.wait_writable(peer)
        rest = rest[peer.send(rest) :]


async def _cancel_when_gone(peer: socket.socket, scope: anyio.CancelScope) -> None:
    await anyio.wait_readable(peer)  # nothing more can come from it but its end
    scope.cancel()

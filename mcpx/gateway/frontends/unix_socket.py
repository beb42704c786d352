"""The socket door: any number of clients on a Unix socket, and control over the same socket.

The socket is 0600 in a folder of ours alone, and a peer of another user is refused: it gets no byte. A
connection is one MCP client, unless it begins as `mcpx.gateway.frontends.control` says. Nothing is set up
for a connection before its first byte, so that those who connect and vanish cost a task for an instant. Of
those who connect and stay silent, or say half a control request, the oldest are dropped when they become too
many; whoever asks something is heard, also when there is no place for another client.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import anyio
import anyio.abc
import structlog

from mcpx.core.hub import Hub
from mcpx.daemon.paths import DaemonError, DaemonPaths, address, claim_folder, connect
from mcpx.daemon.protocol import CONTROL_PREFIX
from mcpx.gateway.frontends.control import Control
from mcpx.gateway.frontends.stream import StreamClient
from mcpx.gateway.server import GatewayServer
from mcpx.observe.log import Throttle
from mcpx.upstream.transport.descriptors import share
from mcpx.wire.channel import Channel
from supervisors import Incarnation

log = structlog.get_logger()
LINUX: Final = sys.platform.startswith("linux")
BACKLOG: Final = 512
LONGEST_CONTROL: Final = 1 << 24  # bytes of a control request: the arguments of a call may be long
MOST_SILENT: Final = 256  # connections that have not said yet what they want
MOST_HALF: Final = 64 << 20  # bytes of control requests that have not arrived whole, all together
MOST_CLIENTS: Final = 16384
PART_SILENT: Final = 0.125  # of all descriptors
PART_CLIENTS: Final = 0.25
CONTROL_S: Final = 5.0  # for a control request to arrive whole, and for its answer to be read
BREATH_S: Final = 0.1  # after accepting failed: most likely there are no descriptors left


def listen(place: DaemonPaths) -> socket.socket:
    """A socket on which clients can connect from now on. The caller holds the lock (`acquire_lock`).

    Raises:
        DaemonError: The folder is not ours alone, somebody listens already, or something else is there.
    """
    claim_folder(place)
    _clear(place)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with address(place.socket) as here:
            listener.bind(here)
        listener.listen(BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - the standard library's signature
    except OSError as error:
        listener.close()
        raise DaemonError(f"{place.socket}: {error.strerror}") from None
    finally:
        os.umask(before)
    return listener


def _clear(place: DaemonPaths) -> None:
    """Take a dead socket away; leave everything else alone."""
    try:
        found = place.socket.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise DaemonError(f"{place.socket}: in the way, and no socket; remove it")
    if (other := connect(place)) is not None:
        other.close()
        raise DaemonError(f"{place.socket}: somebody listens here already; see mcpx daemon status")
    log.info("socket.reclaimed", path=str(place.socket))
    place.socket.unlink(missing_ok=True)


def peer_uid(joined: socket.socket) -> int:
    """The user at the other end. Raises OSError where the system does not tell."""
    if LINUX:
        told = joined.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[1])
    told = joined.getsockopt(0, 1, 8)  # SOL_LOCAL, LOCAL_PEERCRED: struct xucred begins with version and uid
    return int(struct.unpack("2I", told)[1])


class SocketDoor:
    """Serves the clients of one listening socket."""

    def __init__(self, hub: Hub, server: GatewayServer, listener: socket.socket, place: DaemonPaths) -> None:
        self._hub = hub
        self._server = server
        self._listener = listener
        self._place = place
        self._control = Control(hub, place.config, lambda: self.clients)
        self._asked_to_stop = False
        self._silent: dict[socket.socket, anyio.CancelScope] = {}  # the oldest first
        self._half = 0  # bytes of control requests that have not arrived whole
        self._most_silent = share(PART_SILENT, MOST_SILENT)
        self._most_clients = share(PART_CLIENTS, MOST_CLIENTS)
        self._full = Throttle()
        self.clients = 0

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the supervisor asks to leave; then let the clients finish."""
        incarnation.ready()
        log.info("socket.listening", path=str(self._place.socket))
        async with anyio.create_task_group() as tasks:
            await incarnation.while_wanted(lambda: self._accept(tasks, incarnation))
            if not self._asked_to_stop:
                self._mark_as_stopped()
            self._listener.close()  # who comes now finds nobody, and starts the next daemon

    def _mark_as_stopped(self) -> None:
        """A signal ends this daemon: shims must not start the next before their clients want it."""
        with suppress(OSError):
            self._place.stopped.touch(mode=0o600)

    async def _accept(self, tasks: anyio.abc.TaskGroup, incarnation: Incarnation) -> None:
        while True:
            await anyio.wait_readable(self._listener)
            try:
                joined, _ = self._listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                if self._full.lets_through():
                    log.warning("socket.not_accepted", reason=error.strerror)
                await anyio.sleep(BREATH_S)
                continue
            joined.setblocking(False)  # noqa: FBT003 - the standard library's signature
            tasks.start_soon(self._meet, joined, incarnation)

    async def _meet(self, joined: socket.socket, incarnation: Incarnation) -> None:
        """One connection, from its first bytes to its end. It must not cost the others theirs."""
        with joined:
            try:
                if (uid := peer_uid(joined)) != os.getuid():
                    log.warning("socket.refused", uid=uid)
                    return
                first, line = b"", b""
                with self._silence(joined):
                    await incarnation.while_wanted(lambda: anyio.wait_readable(joined))
                    first = joined.recv(len(CONTROL_PREFIX), socket.MSG_PEEK)
                    if first == CONTROL_PREFIX:
                        line = await self._request(joined)
                is_client = await self._obey(joined, line) if line else first not in {b"", CONTROL_PREFIX}
                if is_client:
                    await self._serve(joined, incarnation)
            except OSError as error:  # gone already, or asked to leave before it said anything
                log.debug("socket.gone", reason=str(error))
            except Exception:
                log.exception("client.failed")

    @contextmanager
    def _silence(self, joined: socket.socket) -> Iterator[None]:
        """While it is not known what a connection wants; left at once where others need its place."""
        with anyio.CancelScope() as scope:
            self._silent[joined] = scope
            try:
                if len(self._silent) > self._most_silent:
                    self._drop_oldest()
                yield
            finally:
                self._silent.pop(joined, None)

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._silent))
        self._silent.pop(oldest).cancel()
        if self._full.lets_through():
            log.warning("socket.full", reason="many connections say nothing; the oldest are dropped")

    async def _request(self, joined: socket.socket) -> bytes:
        """A control request; as much of it as came in time."""
        line = bytearray()
        try:
            with anyio.move_on_after(CONTROL_S):
                while not line.endswith(b"\n") and len(line) < LONGEST_CONTROL:
                    await anyio.wait_readable(joined)
                    if not (chunk := joined.recv(65536)):
                        break
                    line += chunk
                    self._half += len(chunk)
                    if self._half > MOST_HALF:
                        self._drop_oldest()
        finally:
            self._half -= len(line)
        return bytes(line)

    async def _serve(self, joined: socket.socket, incarnation: Incarnation) -> None:
        if self.clients >= self._most_clients:
            if self._full.lets_through():
                log.warning("socket.full", reason=f"{self.clients} clients are connected")
            return
        channel = Channel(joined.fileno(), joined.fileno())
        self.clients += 1
        log.info("client.joined", clients=self.clients)
        try:
            client = StreamClient(self._hub, self._server, channel)
            await client.serve(incarnation)
        finally:
            channel.flush()
            channel.close()
            self.clients -= 1
            log.info("client.left", clients=self.clients)

    async def _obey(self, joined: socket.socket, line: bytes) -> bool:
        """Answer one control request; give up when its sender does. Whether an MCP client follows."""
        answer, done = b"", ""
        async with anyio.create_task_group() as tasks:  # as long as it takes: a call has its own deadlines
            tasks.start_soon(_cancel_when_gone, joined, tasks.cancel_scope)
            answer, done = await self._control.answer(line)
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(CONTROL_S):
            await _say(joined, answer)
        if done == "stop":
            log.info("mcpx.stopping", signal="control")
            self._asked_to_stop = True
            self._hub.stop()
        return done == "attach"


async def _say(joined: socket.socket, answer: bytes) -> None:
    rest = memoryview(answer)
    while rest:
        await anyio.wait_writable(joined)
        rest = rest[joined.send(rest) :]


async def _cancel_when_gone(joined: socket.socket, scope: anyio.CancelScope) -> None:
    await anyio.wait_readable(joined)  # nothing more is due from it yet: this is its end
    scope.cancel()

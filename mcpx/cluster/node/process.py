"""The node process: a hub without a configuration, its listener, and its end.

Whoever starts it (the actor of the cluster on that machine) writes one line on its standard input and keeps
that open: its end is the end of the node, and of all its servers within `END_TIMEOUT_S`, whatever they are
doing, because nobody may be left to end them. A signal, or the request of a gateway, ends it in order, within
the grace time for the calls that run. What a node keeps is in the folder that it is given: the catalogues of
its servers, so that a server that is known is there at once, the ledger of their processes, so that a node
that was killed is cleaned up after, and their logs. It reads nothing else of the person who runs it.

Its listener takes TLS connections of gateways, each of which says first what it wants. Strangers are bounded
as on the daemon's socket (`Newcomers`): a few seconds for the handshake and the first line, and without the
token of the cluster one line that says so.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
import ssl
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
import structlog

from mcpx.cluster.node import protocol as say
from mcpx.cluster.node.protocol import line_of
from mcpx.cluster.node.reports import Reports, Room
from mcpx.cluster.node.servers import NodeRefusedError, NodeServers, UnknownServerError
from mcpx.cluster.node.starting import NodeReady, NodeStart
from mcpx.core.config import Config
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.signals import end_at_once, run_watched
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.newcomers import Newcomers
from mcpx.core.running import own
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.paths import check_state_folder
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.system.limits import raise_limit
from mcpx.core.system.watchdog import Patience
from mcpx.core.telemetry.contained import containing
from mcpx.core.telemetry.log_files import last_lines
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.tls_channel import TlsChannel, accept_tls, server_context
from mcpx.core.wire.turn import ChannelLoop
from mcpx.errors import MCPXError
from mcpx.paths import STATE_VARIABLE
from mcpx.version import __version__
from supervisors import ChildSpec, Incarnation, Shutdown

log = structlog.get_logger()
ANSWER_TIMEOUT_S: Final = 5.0  # for a short answer to be taken
MAX_SILENT: Final = 1024  # connections that have not said yet what they want
PATIENCE_S: Final = 2.0  # with a newcomer, where there are many: a gateway's own come back all at once
DRAIN_POLL_S: Final = 0.01  # between looks whether a long answer has been taken
BACKLOG: Final = 1024  # a gateway that is started again has a connection for each of its sessions


class _Bearer(msgspec.Struct):
    """The token of a first line, which is read before anything else of it counts."""

    token: str = ""


class NodeFrontend:
    """Serves the gateways of one node."""

    def __init__(
        self,
        endpoints: Endpoints,
        start: NodeStart,
        *,
        listener: socket.socket,
        context: ssl.SSLContext,
        servers: NodeServers,
        reports: Reports,
    ) -> None:
        self._hub = endpoints.hub
        self._endpoints = endpoints
        self._listener = listener
        self._context = context
        self._token = start.token.encode()
        self._hello_timeout_s = start.settings.hello_timeout_s
        self._servers = servers
        self._reports = reports
        self._room = Room(endpoints.hub, servers)
        self._newcomers = Newcomers("node", most=MAX_SILENT, patience_s=PATIENCE_S)
        self._clients = 0

    async def run(self, incarnation: Incarnation) -> None:
        """Serve until the supervisor asks to leave; then let the clients finish."""
        incarnation.ready()
        async with anyio.create_task_group() as tasks:
            await incarnation.while_wanted(
                lambda: self._newcomers.accept(
                    self._listener, lambda peer: tasks.start_soon(self._handle, peer, incarnation)
                )
            )
            self._reports.stopping = True
            self._listener.close()

    async def _handle(self, peer: socket.socket, incarnation: Incarnation) -> None:
        """Serve one connection from its first bytes to its end. Its failure must not end the others."""
        with peer, containing("node"):  # the boundary of a connection
            try:
                await self._shake_hands(peer, incarnation)
            except OSError as error:  # gone already, or no TLS
                log.debug("node.gone", reason=str(error))

    async def _shake_hands(self, peer: socket.socket, incarnation: Incarnation) -> None:
        """Take the handshake and the first line, within the time for it, and serve what is asked."""
        channel: TlsChannel | None = None
        line: bytes | None = None

        async def hear() -> None:
            nonlocal channel, line
            with self._newcomers.counted(peer), anyio.move_on_after(self._hello_timeout_s):
                channel = await accept_tls(peer, self._context)
                line = await _first_line(channel, self._newcomers)

        try:
            await incarnation.while_wanted(hear)
            if channel is not None and line is not None:
                await self._serve(channel, line, incarnation)
        finally:
            if channel is not None:
                channel.flush()
                channel.close()

    async def _serve(self, channel: Channel, line: bytes, incarnation: Incarnation) -> None:
        answer = say.Refused(error="this is not the token of the cluster", code="token")
        if not self._is_right(line):
            self._newcomers.warn("refused", "a wrong token")
            await _send(channel, answer)
            return
        try:
            hello: say.FirstLine = msgspec.json.decode(line, type=say.FirstLine)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            await _send(
                channel, say.Refused(error=f"the first line cannot be understood: {error}", code="invalid")
            )
            return
        match hello:
            case say.Attach():
                await self._attach(channel, hello, incarnation)
            case say.Watch():
                await self._watch(channel, incarnation)
            case _:
                await _send(channel, await self._answer(hello))
                if isinstance(hello, say.Stop):
                    self._hub.stop()

    def _is_right(self, line: bytes) -> bool:
        try:
            token = msgspec.json.decode(line, type=_Bearer).token
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    async def _refuse_more(self, channel: Channel) -> bool:
        if not self._newcomers.is_full(self._clients):
            return False
        await _send(
            channel, say.Refused(error=f"this node has {self._clients} connections already", code="full")
        )
        return True

    async def _attach(self, channel: Channel, hello: say.Attach, incarnation: Incarnation) -> None:
        """Have the connection be a client at the endpoint for that server."""
        if await self._refuse_more(channel):
            return
        if (problem := self._room.why_not(hello.server, hello.memory)) is not None:
            self._newcomers.warn("refused", f"no memory for {hello.server.name!r}")
            await _send(channel, say.Refused(error=problem, code="memory"))
            return
        self._clients += 1
        try:
            async with self._servers.used(hello.server) as server:
                log.info(
                    "node.client_joined", server=server.name, gateway=hello.client, clients=self._clients
                )
                channel.write(say.line_of(say.Accepted(digest=server.digest)))
                client = self._endpoints.stream_client(Endpoint(peer=server.name), channel, "socket")
                await client.serve(incarnation)
        except NodeRefusedError as error:
            await _send(channel, say.Refused(error=str(error), code="invalid"))
        finally:
            self._clients -= 1

    async def _watch(self, channel: Channel, incarnation: Incarnation) -> None:
        if await self._refuse_more(channel):
            return
        self._clients += 1
        try:
            await self._reports.watch(channel, incarnation)
        finally:
            self._clients -= 1

    # --- small requests

    async def _answer(self, hello: say.FirstLine) -> say.Accepted | say.Refused | say.Tail:
        try:
            match hello:
                case say.Release():
                    self._servers.release(self._servers.find(hello.server, hello.digest))
                case say.Restart():
                    await self._hub.restart(self._servers.find(hello.server, hello.digest).name)
                case say.Logs():
                    name = self._servers.find(hello.server, hello.digest).name
                    path = self._hub.upstreams[name].server_log.path
                    read = partial(last_lines, path, hello.lines, max_bytes=say.MAX_LOG_BYTES)
                    return say.Tail(log=tuple(await anyio.to_thread.run_sync(read)))
        except UnknownServerError as error:
            return say.Refused(error=str(error), code="unknown_server")
        except MCPXError as error:
            return say.Refused(error=str(error))
        return say.Accepted()


async def _first_line(channel: Channel, newcomers: Newcomers) -> bytes | None:
    """The first line of a connection without its end; None if it ends before, or says more than it may."""
    parts: list[bytes] = []
    length = 0
    done = anyio.Event()
    line: bytes | None = None

    def take(data: bytes) -> None:
        nonlocal length, line
        parts.append(data)
        length += len(data)
        newcomers.note_partial(len(data))
        if data.endswith(b"\n"):
            whole = b"".join(parts)[:-1]
            line = whole if b"\n" not in whole else None  # nothing else comes before the answer
        if b"\n" in data or length > say.MAX_HELLO_BYTES:
            channel.pause_reading()
            done.set()

    channel.on_data, channel.on_end = take, done.set
    channel.start_reading()
    try:
        await done.wait()
    finally:
        newcomers.note_partial(-length)
    return line


async def _send(channel: Channel, answer: say.Accepted | say.Refused | say.Tail) -> None:
    """Send the last line of a connection, as far as it is read in time."""
    over = anyio.Event()
    channel.on_broken = lambda _error: over.set()
    channel.write(say.line_of(answer))
    channel.flush()
    with anyio.move_on_after(ANSWER_TIMEOUT_S):
        while channel.unsent and not over.is_set() and not channel.hung_up():  # noqa: ASYNC110 - rarely more than once
            await anyio.sleep(DRAIN_POLL_S)


MAX_START_BYTES: Final = 1 << 20
END_TIMEOUT_S: Final = 1.0  # after the end of standard input; then the servers are killed
_STDIN: Final = 0
_STDOUT: Final = 1


def main() -> int:
    """Be a node until its end; the exit code. Standard input and output are those of the protocol."""
    try:
        start = _read_start()
        os.environ[STATE_VARIABLE] = start.state  # for whatever asks; nothing is to come from the usual one
        ensure_folder(Path(start.state))
        check_state_folder()
        raise_limit()
        context = server_context(start.certificate, start.key, start.state)
        family = socket.AF_INET6 if ":" in start.host else socket.AF_INET
        listener = socket.create_server((start.host, 0), family=family, backlog=BACKLOG)
        listener.settimeout(0.0)
    except (OSError, MCPXError, ValueError) as error:
        _say(NodeReady(error=_text(error)))
        return 2
    with listener:
        return anyio.run(
            partial(_serve, start, listener, context), backend_options={"loop_factory": ChannelLoop}
        )


def _read_start() -> NodeStart:
    """Read the first line of standard input, or raise DecodeError."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < MAX_START_BYTES:
        if not (byte := os.read(_STDIN, 1)):
            break  # the rest is nobody's, and the end is still to be seen by who waits for it
        line += byte
    return msgspec.json.decode(line, type=NodeStart)


async def _serve(start: NodeStart, listener: socket.socket, context: ssl.SSLContext) -> int:
    settings, state = start.settings, Path(start.state)
    config = Config(
        source=str(state / "node"),  # by which its folders are named; there is no such file
        servers={},
        audit="off",
        login_shell=False,
        watch_config=False,
        ui=False,
        max_message_bytes=settings.max_message_bytes,
        shutdown_grace=settings.shutdown_grace_s,
        environment=own(),
    )
    hub = Hub(config, state=state)
    clients = ClientSessions(hub)
    servers = NodeServers(hub, settings.linger_s)
    reports = Reports(start.name, hub, servers, settings.report_interval_s)
    host, port = listener.getsockname()[:2]
    ready = NodeReady(host=host, port=port, pid=os.getpid(), version=__version__)
    frontend = NodeFrontend(
        Endpoints(hub, clients), start, listener=listener, context=context, servers=servers, reports=reports
    )
    grace = Shutdown(grace=settings.shutdown_grace_s + 1.0)
    for child in (
        ChildSpec(name="clients", run=clients.run),
        ChildSpec(name="servers", run=servers.run),
        ChildSpec(name="reports", run=reports.run),
        ChildSpec(name="listener", run=frontend.run, shutdown=grace),
    ):
        hub.root.add(child)
    _end_with_input(hub)
    _say(ready)
    log.info("node.listening", node=start.name, host=host, port=port)
    return await run_watched(hub, Patience())


def _end_with_input(hub: Hub) -> None:
    """In a thread, wait for the end of standard input, and see to the end of the node."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        with suppress(OSError):
            while os.read(_STDIN, 4096):
                pass
        log.info("mcpx.stopping", reason="the end of standard input")
        with suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(hub.stop)
        time.sleep(END_TIMEOUT_S)
        end_at_once(hub, f"not stopped {END_TIMEOUT_S:g} s after the end of standard input", 1)

    threading.Thread(target=wait, name="standard input", daemon=True).start()


def _say(ready: NodeReady) -> None:
    """Write the one line for whoever has started the node; it is not the node's matter if nobody reads it."""
    with suppress(OSError):
        os.write(_STDOUT, line_of(ready))


def _text(error: Exception) -> str:
    """Describe what went wrong, without anything of the line that held the key."""
    if isinstance(error, msgspec.DecodeError):
        return f"standard input does not begin with the line that starts a node: {error}"
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror or error}"
    return str(error)

"""The node process: a hub without a configuration, its listener, and its end.

Whoever starts it (the actor of the cluster on that machine) writes one line on its standard input and keeps
that open: its end is the end of the node, and of all its servers within `END_TIMEOUT_S`, whatever they are
doing, because nobody may be left to end them. A signal, or the request of a gateway, ends it in order, within
the grace time for the calls that run. What a node keeps is in the folder that it is given: the catalogues of
its servers, so that a server that is known is there at once, the ledger of their processes, so that a node
that was killed is cleaned up after, and their logs. It reads nothing else of the person who runs it.
"""

from __future__ import annotations

import asyncio
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
import msgspec
import structlog

from mcpx.cluster.node.frontend import BACKLOG, NodeFrontend
from mcpx.cluster.node.protocol import line_of
from mcpx.cluster.node.reports import Reports
from mcpx.cluster.node.servers import NodeServers
from mcpx.cluster.node.starting import NodeReady, NodeStart
from mcpx.core.config import Config
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.signals import end_at_once, run_watched
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.running import own
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.paths import check_state_folder
from mcpx.core.system.limits import raise_limit
from mcpx.core.system.watchdog import Patience
from mcpx.core.wire.channel import ChannelLoop
from mcpx.core.wire.tls_channel import server_context
from mcpx.errors import MCPXError
from mcpx.paths import STATE_VARIABLE
from mcpx.version import __version__
from supervisors import ChildSpec, Shutdown

log = structlog.get_logger()
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

"""Connecting to a server of either era, directly and through MCPX, with the SDK's client of either era.

`direct` is a client of the server itself. `open_gateway` opens a hub over servers in this process;
`Gateway.client` connects a client to it over a socket with MCPX's stdio wiring at the other end, so that what
crosses it is what crosses a pipe.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    EmptyResult,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
    jsonrpc_message_adapter,
)

from mcpx.core.config import Config
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.eras import EraServer
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.dispatcher import WireDispatcher
from supervisors import ChildSpec
from tests.forking.client import command
from tests.mcpx.scripted import QUICK, Ears, Watch, open_watched

SERVER = Path(__file__).with_name("era_server.py")
MODES = {"handshake": "legacy", "modern": "auto"}
"""What the SDK calls a client of each era."""
ANSWER_S = 15.0


def arguments(era: str, ears: Ears, folder: Path | None = None) -> list[str]:
    return [str(SERVER), era, str(ears.path), *([str(folder)] if folder else [])]


def entry(era: str, ears: Ears, folder: Path | None = None, **settings: Any) -> dict[str, Any]:
    """The server in MCPX's configuration; `era` is `handshake`, or `both`, and spoken to as a modern one."""
    start, *args = command(*arguments(era, ears, folder))
    pin = {"era": "modern"} if era == "both" else {}
    return {"command": start, "args": args, "restart": QUICK, **pin, **settings}


@asynccontextmanager
async def direct(mode: str, ears: Ears, **options: Any) -> AsyncIterator[Client]:
    """A client of the server itself."""
    era = "handshake" if mode == "handshake" else "both"
    start, *args = command(*arguments(era, ears))
    parameters = StdioServerParameters(
        command=start, args=args, env={**os.environ}, cwd=str(SERVER.parents[4])
    )
    with anyio.fail_after(60):
        async with Client(
            stdio_client(parameters), mode=MODES[mode], read_timeout_seconds=ANSWER_S, **options
        ) as client:
            yield client


class Gateway:
    """A running MCPX. `watch` is its hub's; clients come and go."""

    def __init__(self, watch: Watch, clients: ClientSessions, server: GatewayServer) -> None:
        self.watch = watch
        self.hub: Hub = watch.hub
        self.clients = clients
        self.server = server

    def connection(self, wire: WireDispatcher) -> Any:
        """What serves a connection."""
        return EraServer(self.server, wire)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[socket.socket]:
        """The client's end of a new connection; leaving it is what a client that vanishes does."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        channel = Channel(ours.fileno(), ours.fileno())
        wire = WireDispatcher(channel, limit=1 << 24, on_malformed=_rubbish)
        connection = self.connection(wire)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.run)
                try:
                    yield theirs
                finally:
                    theirs.close()
                    wire.end()
        finally:
            channel.close()
            ours.close()

    @asynccontextmanager
    async def client(self, mode: str, **options: Any) -> AsyncIterator[Client]:
        """The SDK's client on a connection of its own."""
        async with self.connect() as end:
            streams = _streams(end)
            async with Client(
                streams,
                mode=MODES[mode],
                read_timeout_seconds=ANSWER_S,
                **options,  # type: ignore[arg-type]
            ) as client:
                yield client


@asynccontextmanager
async def open_gateway(config: Config) -> AsyncIterator[Gateway]:
    """MCPX over the servers of a configuration, all of them ready."""
    async with open_watched(config) as watch:
        clients = ClientSessions(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        yield Gateway(watch, clients, GatewayServer(watch.hub, clients))


def _rubbish(line: bytes, problem: str) -> None:
    raise AssertionError(f"{problem}: {line!r}")


@asynccontextmanager
async def _streams(end: socket.socket) -> AsyncIterator[tuple[Any, Any]]:
    """The SDK's pair of message streams over a socket, one message a line."""
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](1000)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](1000)

    async def receive() -> None:
        rest = b""
        async with incoming:
            while True:
                await anyio.wait_readable(end)
                if not (chunk := end.recv(65536)):
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await incoming.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

    async def send() -> None:
        async with outgoing:
            async for message in outgoing:
                data = message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                while data:
                    await anyio.wait_writable(end)
                    data = data[end.send(data) :]

    async def receive_while_wanted() -> None:
        with suppress(anyio.BrokenResourceError):  # the client has left, with a message on its way
            await receive()

    async with anyio.create_task_group() as tasks, read, write:
        tasks.start_soon(receive_while_wanted)
        tasks.start_soon(send)
        yield read, write
        tasks.cancel_scope.cancel()


async def subscribe(client: Client, uri: str) -> None:
    """`resources/subscribe`, which the SDK calls deprecated because 2026-07-28 has it no more."""
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


async def unsubscribe(client: Client, uri: str) -> None:
    """`resources/unsubscribe`, likewise."""
    await client.session.send_request(
        UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)), EmptyResult
    )

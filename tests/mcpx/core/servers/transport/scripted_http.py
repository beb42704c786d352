"""A server on a socket of this event loop, which answers each request with the bytes that a test says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcpx.core.servers.transport.exchange import HttpFailure
from mcpx.core.servers.transport.http_bodies import Body, Prefix
from mcpx.core.servers.transport.http_connection import Head, HttpConnection
from mcpx.core.servers.transport.http_network import Exchange, Network, open_network

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"


class Asked:
    """A request that has come, and the connection that it came on."""

    def __init__(self, head: bytes, body: bytes, connection: int, writer: asyncio.StreamWriter) -> None:
        self.line, *lines = head.decode().strip().split("\r\n")
        self.headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
        self.body = body
        self.connection = connection
        self.writer = writer


Answer = Callable[[Asked], Awaitable[bytes] | bytes | None]


class Server:
    """What came, in order."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self.tasks: set[asyncio.Task[Any] | None] = set()
        self._answer = answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.tasks.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                asked = Asked(head, b"", number, writer)
                asked.body = await reader.readexactly(int(asked.headers.get("content-length", 0)))
                self.asked.append(asked)
                said = self._answer(asked)
                said = await said if isinstance(said, Awaitable) else said
                if said is None:
                    return
                writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:  # asyncio takes it ill when a task of its own ends so
            writer.transport.abort()
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Such a server; `answer` gives the bytes of each response, or None to hang up."""
    server = Server(answer)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        running = [task for task in server.tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0)  # in which what was aborted is closed


class Fetched(Exchange):
    """A request whose response is read to its end, or to the bounds of what only explains."""

    def __init__(self, network: Network, method: str, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(network, network.request(method, headers, body))
        self.done = anyio.Event()
        self.status: int | None = None
        self.text = b""
        self.error: HttpFailure | None = None

    def accept(self, head: Head, connection: HttpConnection) -> Body:
        return Prefix(head, connection, lambda text: self._over(head.status_code, text))

    async def refused(self, head: Head, explanation: bytes, /) -> None:
        self._over(head.status_code, explanation)

    def failed(self, error: HttpFailure, /) -> None:
        self.error = error
        self.done.set()

    def _over(self, status: int, text: bytes) -> None:
        self.status, self.text = status, text
        self.done.set()


async def fetch(
    network: Network, method: str = "POST", body: bytes = b"{}", headers: dict[str, str] | None = None
) -> Fetched:
    """Send a request, and wait until it is over."""
    exchange = Fetched(network, method, body, headers or {})
    network.send(exchange)
    with anyio.fail_after(50):
        await exchange.done.wait()
    return exchange


@asynccontextmanager
async def network_to(answer: Answer, **options: Any) -> AsyncIterator[tuple[Network, Server]]:
    """Connections to such a server, and the server."""
    async with (
        serving(answer) as server,
        open_network(server.url, options.pop("headers", None), **options) as network,
    ):
        yield network, server

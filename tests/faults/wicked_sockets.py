"""HTTP/1.1 by hand, for a server that must be able to break it anywhere. Imports nothing of MCPX."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any


class Request:
    """One HTTP request, and the JSON-RPC message in it."""

    def __init__(
        self, method: str, headers: dict[str, str], body: bytes, reader: asyncio.StreamReader
    ) -> None:
        self.method, self.headers, self._reader = method, headers, reader
        self.message: dict[str, Any] = json.loads(body) if body else {}
        self.asks = str(self.message.get("method", ""))
        self.tool = str((self.message.get("params") or {}).get("name", ""))

    async def client_gone(self) -> None:
        """Wait until the client hangs up."""
        await self._reader.read()


class HttpServer:
    """Listens on loopback; `take` is given each request, and answers it with the methods below."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections: set[asyncio.StreamWriter] = set()
        self.busy: set[asyncio.StreamWriter] = set()  # those with a request that is not answered
        self.dead: set[asyncio.StreamWriter] = set()  # nothing goes over these any more, and nobody is told
        self._server: asyncio.Server | None = None

    async def take(self, request: Request, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    def closed(self, writer: asyncio.StreamWriter) -> None:
        """A connection has ended."""

    async def listen_on_port(self) -> None:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close_port(self, *, hang_up: bool | None = True) -> None:
        """Refuse new connections, and end those there are, or only the idle ones, or (None) none."""
        if self._server is not None:
            self._server.close()
        if hang_up is None:
            return
        await self.hang_up(self.connections - (set() if hang_up else self.busy))

    async def hang_up(self, connections: set[asyncio.StreamWriter]) -> None:
        """End connections, and return when they have ended."""
        for writer in connections:
            writer.transport.abort()
        while connections & self.connections:  # noqa: ASYNC110 - each end is a turn or two away
            await asyncio.sleep(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while (request := await self.read(reader)) is not None:
                if writer in self.dead:
                    continue
                self.busy.add(writer)
                await self.take(request, writer)
                self.busy.discard(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.connections.discard(writer)
            self.busy.discard(writer)
            self.dead.discard(writer)
            self.closed(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def read(self, reader: asyncio.StreamReader) -> Request | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method = first.partition(" ")[0]
        pairs = (line.split(":", 1) for line in lines if line)
        headers = {name.lower(): value.strip() for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Request(method, headers, body, reader)

    async def respond(
        self, writer: asyncio.StreamWriter, status: int, body: bytes = b"", **headers: str
    ) -> None:
        await self.head(writer, status, content_length=str(len(body)), **headers)
        await self.write(writer, body)

    async def head(self, writer: asyncio.StreamWriter, status: int, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} .", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
        await self.write(writer, ("\r\n".join(lines) + "\r\n\r\n").encode())

    async def stream(self, writer: asyncio.StreamWriter) -> None:
        """The head of an event stream, which ends with the connection."""
        await self.head(writer, 200, content_type="text/event-stream", connection="close")

    async def event(self, writer: asyncio.StreamWriter, message: Any, event_id: str | None = None) -> None:
        named = f"id: {event_id}\n" if event_id else ""
        await self.write(writer, f"{named}event: message\ndata: {json.dumps(message)}\n\n".encode())

    async def write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if writer not in self.dead:
            writer.write(data)
            await writer.drain()

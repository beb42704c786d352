"""Raw conversations with the odd server, directly and through a transparent endpoint, and what came back.

What came is compared member by member, in order, doubled ones too, with numbers as they were written; only
the ids of the server's own requests are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp_types import PROTOCOL_VERSION_META_KEY

from mcpx.core.gateway.transparent.clients import TransparentConnection
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.dispatcher import WireDispatcher
from tests.mcpx.core.gateway.transparent.odd_server import OddServer
from tests.mcpx.http_server import Handler, serving_http
from tests.mcpx.scripted import PATIENCE_S, STARTED_QUICKLY

SERVER = Path(__file__).with_name("odd_server.py")
Message = dict[str, Any]


def parsed(line: str | bytes) -> Any:
    """A message as pairs, with numbers as texts."""
    return json.loads(
        line, object_pairs_hook=list, parse_float=lambda n: ("f", n), parse_int=lambda n: ("i", n)
    )


def plain(line: str | bytes) -> Message:
    message = json.loads(line)
    assert isinstance(message, dict), line
    return message


class Talk:
    """One client. `heard` is what came, without the ids of the server's requests."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.reply: str | None = '"result":{"action":"accept","vendor":1e400}'
        """What the server's questions are answered with; None for not at all."""

    async def write(self, line: str) -> None:
        raise NotImplementedError

    async def read(self) -> str:
        raise NotImplementedError

    async def take(self) -> Message:
        """Read one message; a question is answered."""
        with anyio.fail_after(PATIENCE_S):
            line = await self.read()
        message, pairs = plain(line), parsed(line)
        asks = "id" in message and "method" in message
        self.heard.append([pair for pair in pairs if pair[0] != "jsonrpc" and not (asks and pair[0] == "id")])
        if asks and self.reply is not None:
            await self.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{self.reply}}}')
        return message

    async def send(self, method: str, params: str | None = None, request_id: Any = None) -> None:
        members = [f'"method":{json.dumps(method)}']
        members += [] if request_id is None else [f'"id":{json.dumps(request_id)}']
        members += [] if params is None else [f'"params":{params}']
        await self.write('{"jsonrpc":"2.0",' + ",".join(members) + "}")

    async def ask(self, method: str, params: str | None = None, request_id: Any = 1) -> Message:
        """Send a request and read to its answer."""
        await self.send(method, params, request_id)
        while True:
            message = await self.take()
            if "method" not in message and message.get("id") == request_id:
                return message


class Fds(Talk):
    """A client on a pair of descriptors."""

    def __init__(self, fd_in: int, fd_out: int) -> None:
        super().__init__()
        self._in, self._out, self._rest = fd_in, fd_out, b""

    async def write(self, line: str) -> None:
        left = line.encode() + b"\n"
        while left:
            try:
                left = left[os.write(self._out, left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._out)

    async def read(self) -> str:
        while b"\n" not in self._rest:
            await anyio.wait_readable(self._in)
            chunk = os.read(self._in, 65536)
            assert chunk, "the connection has ended"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode() if line.strip() else await self.read()


@asynccontextmanager
async def directly(*arguments: str):
    """The odd server as a child of the test."""
    command = [sys.executable, *STARTED_QUICKLY, str(SERVER), *arguments]
    child = subprocess.Popen(  # noqa: ASYNC220 - starts in no time
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield Fds(child.stdout.fileno(), child.stdin.fileno())
    finally:
        child.kill()
        child.communicate()


@asynccontextmanager
async def on_stream(hub, server: str = "odd"):
    """A client of the transparent endpoint on a stream of this process."""
    fds = [*os.pipe(), *os.pipe()]
    for fd in fds:
        os.set_blocking(fd, False)
    channel = Channel(fds[0], fds[3])
    wire = WireDispatcher(channel, limit=1 << 20, on_malformed=lambda *_: None, refuses=True)
    connection = TransparentConnection(hub, server, "stdio", wire)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            yield Fds(fds[2], fds[1])
            wire.end()
    finally:
        channel.close()
        for fd in fds:
            os.close(fd)


class Http(Talk):
    """A client of `/mcp/servers/NAME`: each request on a stream of its own, and one for the rest."""

    def __init__(self, client: httpx2.AsyncClient, url: str, tasks: anyio.abc.TaskGroup) -> None:
        super().__init__()
        self._client, self._url, self._tasks = client, url, tasks
        self.headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        self._send, self._receive = anyio.create_memory_object_stream[str](1000)

    async def write(self, line: str) -> None:
        message = plain(line)
        headers = dict(self.headers)
        if "method" in message and "mcp-protocol-version" in headers:
            headers["mcp-method"] = message["method"]
            params = message.get("params") or {}
            if isinstance(name := params.get("name", params.get("uri")), str):
                headers["mcp-name"] = name
        if "id" in message and "method" in message and message["method"] != "initialize":
            self._tasks.start_soon(self._post, line, headers)
        else:
            await self._post(line, headers)

    async def _post(self, line: str, headers: Message) -> None:
        async with self._client.stream("POST", self._url, content=line.encode(), headers=headers) as answer:
            if session := answer.headers.get("mcp-session-id"):
                self.headers["mcp-session-id"] = session
            if "event-stream" not in answer.headers.get("content-type", ""):
                if body := (await answer.aread()).decode():
                    await self._send.send(body)
                return
            async for text in answer.aiter_lines():
                if text.startswith("data:") and text[5:].strip():
                    await self._send.send(text[5:])

    async def read(self) -> str:
        return await self._receive.receive()

    def close(self) -> None:
        self._send.close()
        self._receive.close()


@asynccontextmanager
async def over_http(url: str, client: httpx2.AsyncClient | None = None):
    """A client of the endpoint over HTTP, which has no stream beside those of its requests."""
    async with (
        httpx2.AsyncClient(timeout=PATIENCE_S) if client is None else nullcontext(client) as used,
        anyio.create_task_group() as tasks,
    ):
        talk = Http(used, url, tasks)
        try:
            yield talk
        finally:
            talk.close()
            tasks.cancel_scope.cancel()


@contextmanager
def odd_http() -> Iterator[str]:
    """The URL of the odd server over Streamable HTTP, in a thread; every answer is a stream of events."""
    odd = OddServer()

    class Odd(Handler):
        def post(self) -> None:
            line = self.body().decode()
            message = json.loads(line)
            self.check_headers(message)
            if "id" not in message or "method" not in message:
                odd.take(line, lambda _line: None)
                self.answer(202)
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("mcp-session-id", "one")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            over = threading.Event()

            def say(said: str) -> None:
                data = f"event: message\ndata: {said}\n\n".encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                if "method" not in json.loads(said):
                    self.wfile.write(b"0\r\n\r\n")
                    over.set()

            if odd.take(line, say):
                over.wait(PATIENCE_S)

        def check_headers(self, message: Message) -> None:
            """A modern request has its headers, and a later one its session and revision."""
            version = (message.get("params") or {}).get("_meta", {}).get(PROTOCOL_VERSION_META_KEY)
            if version:
                assert self.headers["mcp-protocol-version"] == version
                assert self.headers["mcp-method"] == message["method"]
            elif message.get("method") != "initialize":
                assert self.headers["mcp-session-id"] == "one"
                assert self.headers["mcp-protocol-version"]

    with serving_http(Odd) as origin:
        yield f"{origin}/mcp"

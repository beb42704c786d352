"""A raw client of a stream of this process: lines through pipes, on the fast path or on the SDK's."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager

import anyio

from mcpx.core.gateway.eras import EraServer
from mcpx.core.gateway.fast.path import FastPath
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.dispatcher import WireDispatcher
from tests.mcpx.scripted import PATIENCE_S
from tests.mcpx.serving import LEGACY


class Line:
    """A client of a stream, on both paths: `slow` asks for an answer in the way that the SDK serves."""

    def __init__(self, hub):
        self.hub = hub
        self.slow = False
        self.fast = 0  # calls and reads that the fast path took
        self.notifications = []
        self.error = None  # of the last answer
        self._last = 0
        self._rest = b""

    @asynccontextmanager
    async def connected(self, server, client=None):
        """`client` is its identity, which may be in a project."""
        fds = [*os.pipe(), *os.pipe()]
        for fd in fds:
            os.set_blocking(fd, False)
        self._in, self._out = fds[2], fds[1]
        channel = Channel(fds[0], fds[3])
        wire = WireDispatcher(channel, limit=1 << 20, on_malformed=lambda *_told: None, refuses=True)
        connection = EraServer(server, wire, client=client)
        path = self.fast_path(server, connection)
        wire.receiver.fast = lambda *given: self._took(not self.slow and path.take(*given), given[2])
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.run)
                yield self
                wire.end()  # the client leaves
        finally:
            channel.close()
            for fd in fds:
                os.close(fd)

    def fast_path(self, server, connection):
        """What is offered each request before the SDK."""
        return FastPath(server, connection, connection.take)

    def _took(self, taken, method):
        self.fast += taken and method in {"tools/call", "resources/read"}
        return taken

    async def ask(self, method, params):
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        os.write(self._out, json.dumps(message).encode() + b"\n")
        while (answer := await self._next()).get("id") != self._last:
            self.notifications.append(answer["method"])
        self.error = answer.get("error")
        return answer.get("result")

    @property
    def last_id(self):
        """The id of the last request."""
        return self._last

    def tell(self, method, params):
        """Send a notification."""
        os.write(
            self._out, json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"
        )

    def answer(self, request_id, result):
        """Answer a request of the server."""
        os.write(
            self._out, json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode() + b"\n"
        )

    async def hear(self, method):
        """Wait for a notification."""
        while method not in self.notifications:
            self.notifications.append((await self._next())["method"])
        self.notifications.remove(method)

    async def _next(self):
        with anyio.fail_after(PATIENCE_S):
            while b"\n" not in self._rest:
                await anyio.wait_readable(self._in)
                self._rest += os.read(self._in, 65536)
        line, _, self._rest = self._rest.partition(b"\n")
        return self.decode(line)

    def decode(self, line):
        """A message; for tests that look at its bytes."""
        return json.loads(line)

    async def initialize(self, client=None, capabilities=None):
        client = client or {"name": "test", "version": "1"}
        given = {"protocolVersion": LEGACY, "capabilities": capabilities or {}, "clientInfo": client}
        greeted = await self.ask("initialize", given)
        os.write(self._out, b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        return greeted

"""A real node process, and gateways of it that say what a test wants: over real TLS, line by line."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import anyio

from mcpx.cluster.node.protocol import line_of
from mcpx.cluster.node.spec import ServerSpec, spec_of
from mcpx.cluster.node.starting import Credentials, NodeSettings, NodeStart, make_credentials
from mcpx.core.config import RestartPolicy, Stdio
from mcpx.core.wire.tls_channel import TlsChannel, connect_tls
from tests.forking.client import Python
from tests.mcpx.scripted import PATIENCE_S, config_of, entry
from tests.mcpx.serving import ENVELOPE, environment

CREDENTIALS = cache(make_credentials)
COMMAND = [sys.executable, "-P", "-m", "mcpx", "cluster", "node"]
QUICK = RestartPolicy(initial=0.05, cap=0.1, healthy_after=0.001)


def spec(
    ears: Any = None, /, *, name: str = "s", settings: dict[str, Any] | None = None, **script: Any
) -> ServerSpec:
    """The spec of a scripted server with that script."""
    server = config_of({name: entry(ears, settings=settings, **script)}).servers[name]
    assert isinstance(server.transport, Stdio)
    return spec_of(server, server.transport)


class Gateway:
    """One connection to a node."""

    def __init__(self, channel: TlsChannel) -> None:
        self.channel = channel
        self.lines: list[dict[str, Any]] = []
        self.ended = anyio.Event()
        self._rest = b""
        self._news = anyio.Event()
        self._last_id = 0
        channel.on_data = self._take
        channel.on_end = self._end
        channel.on_broken = lambda _error: self._end()
        channel.start_reading()

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += [json.loads(line) for line in lines]
        self._wake()

    def _end(self) -> None:
        self.ended.set()
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    def say(self, message: Any) -> None:
        self.channel.write(line_of(message))

    async def line(self, **wanted: Any) -> dict[str, Any]:
        """The next line with these members, taken out; one with None there if the connection ends before."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                for number, line in enumerate(self.lines):
                    if all(
                        key in line and (value is ... or line[key] == value) for key, value in wanted.items()
                    ):
                        return self.lines.pop(number)
                if self.ended.is_set():
                    raise ConnectionError(f"the node closed; said before: {self.lines}")
                await self._news.wait()

    def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._last_id += 1
        self.say(
            {
                "jsonrpc": "2.0",
                "id": self._last_id,
                "method": method,
                "params": {"_meta": ENVELOPE} | (params or {}),
            }
        )
        return self._last_id

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a request in the era of 2026-07-28."""
        return await self.line(id=self.send(method, params))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})


class Node:
    """A running node process. `stderr` is its log."""

    def __init__(self, process: Any, port: int, credentials: Credentials, state: Path) -> None:
        self.process = process
        self.port = port
        self.credentials = credentials
        self.state = state

    @asynccontextmanager
    async def connected(self, hello: dict[str, Any] | None = None) -> AsyncIterator[Gateway]:
        """A connection that has said that first, with the right token unless it names another."""
        channel = await connect_tls("127.0.0.1", self.port, self.credentials.certificate)
        try:
            gateway = Gateway(channel)
            if hello is not None:
                gateway.say({"mcpx": "node", "token": self.credentials.token} | hello)
            yield gateway
        finally:
            channel.flush()
            channel.close()

    @asynccontextmanager
    async def attached(self, server: ServerSpec) -> AsyncIterator[Gateway]:
        """A client of that server."""
        async with self.connected({"do": "attach", "server": server, "client": "test"}) as gateway:
            await gateway.line(ok=True)
            yield gateway

    async def do(self, **hello: Any) -> dict[str, Any]:
        """The answer to a small request."""
        async with self.connected(hello) as gateway:
            with anyio.fail_after(PATIENCE_S):
                await gateway.ended.wait() if not gateway.lines else None
                while not gateway.lines:
                    await gateway._news.wait()
            return gateway.lines[0]

    async def ended(self) -> int:
        """Its exit code, once it has ended."""
        with anyio.fail_after(PATIENCE_S):
            return await anyio.to_thread.run_sync(self.process.wait, PATIENCE_S)


async def started_with(folder: Path, line: bytes) -> tuple[dict[str, Any], int]:
    """What a process says that is given this line for a start, and its exit code."""

    def run() -> tuple[dict[str, Any], int]:
        process = Python(
            COMMAND,
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        said, _ = process.communicate(line, PATIENCE_S)
        return json.loads(said), process.returncode

    return await anyio.to_thread.run_sync(run)


@asynccontextmanager
async def running_node(
    folder: Path,
    *,
    state: str = "node",
    real: bool = False,
    environ: dict[str, str] | None = None,
    files: int | None = None,
    **settings: Any,
) -> AsyncIterator[Node]:
    """A node in that folder, ended with the body if not before."""
    credentials = CREDENTIALS()
    start = NodeStart(
        name="n1",
        host="127.0.0.1",
        token=credentials.token,
        certificate=credentials.certificate,
        key=credentials.key,
        state=str(folder / state),
        settings=NodeSettings(**{"shutdown_grace_s": 0.5, **settings}),
    )
    popen = subprocess.Popen if real else Python
    with (folder / "node.log").open("ab") as log:
        process = popen(
            COMMAND,
            env=environment(folder, **(environ or {})),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        if files is not None:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (files, files))
        os.write(process.stdin.fileno(), line_of(start))
        said = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))
        assert "error" not in said or said["error"] is None, said
        yield Node(process, said["port"], credentials, folder / state)
    finally:
        process.stdin.close()
        await anyio.to_thread.run_sync(process.wait, PATIENCE_S)
        process.stdout.close()

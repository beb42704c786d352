"""A whole MCPX as a process of its own, with one raw client on its standard streams.

For faults of MCPX itself, and for load: what it costs is then read from its process and from nothing else.
`open_served` starts it and has every server listed; leaving it closes its input and waits for its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from tests.faults import traces
from tests.forking.processes import PythonProcess, open_python

ANSWER_S = 30.0  # for any answer, a restart of the server and a loaded machine included
END_S = 20.0
CHUNK = 1 << 20
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "faults", "version": "1"},
}


class Answer(msgspec.Struct, frozen=True):
    """How one call ended. Without a code it was answered with `text`."""

    text: str
    code: str | None = None
    outcome: str | None = None


class Served:
    """A running MCPX and its client."""

    def __init__(self, process: PythonProcess, log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.log = log
        self._id = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._waiting: dict[int, anyio.Event] = {}
        self._rest = b""
        self.notified: Counter[str] = Counter()
        """How often MCPX has sent each notification."""

    async def hear(self) -> None:
        """Take what MCPX writes, until it ends."""
        assert self.process.stdout is not None
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                *lines, self._rest = (self._rest + await self.process.stdout.receive(CHUNK)).split(b"\n")
                for line in lines:
                    message = json.loads(line)
                    if "method" in message:
                        self.notified[message["method"]] += 1
                    elif waiting := self._waiting.pop(message["id"], None):
                        self._answers[message["id"]] = message
                        waiting.set()

    async def tell(self, method: str, params: dict[str, Any], **more: Any) -> None:
        """Send a notification, or with an `id` a request."""
        assert self.process.stdin is not None
        message = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        await self.process.stdin.send(json.dumps(message).encode() + b"\n")

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer: the whole message. Raises TimeoutError."""
        self._id += 1
        request_id, self._waiting[self._id] = self._id, anyio.Event()
        waiting = self._waiting[request_id]
        try:
            await self.tell(method, params, id=request_id)
            with anyio.fail_after(ANSWER_S):
                await waiting.wait()
        finally:
            self._waiting.pop(request_id, None)
        return self._answers.pop(request_id)

    async def call(self, server: str, tool: str, **arguments: Any) -> Answer:
        """One `exec`."""
        asked = {"server_name": server, "tool_name": tool, "arguments": arguments}
        result = (await self.request("tools/call", {"name": "exec", "arguments": asked}))["result"]
        text = result["content"][0]["text"]
        if not result.get("isError"):
            return Answer(text)
        told = result["structuredContent"]
        return Answer(text, told["code"], told["outcome"])

    async def greet(self) -> None:
        """Shake hands and list: the answer comes when every server is ready or has failed."""
        await self.request("initialize", HELLO)
        await self.tell("notifications/initialized", {})
        await self.request("tools/list", {})

    def children(self) -> list[int]:
        """Its child processes, zombies too."""
        return traces.children(self.pid)

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:]


def entry(mode: str, folder: Path, mark: str, **settings: Any) -> dict[str, Any]:
    """The config entry of a wicked server, which keeps its traces in `folder`."""
    folder.mkdir(exist_ok=True)
    server = Path(__file__).with_name("wicked_server.py")
    args = ["-S", "-E", str(server), mode, str(folder), "1000000"]
    return {"command": sys.executable, "args": args, "env": {traces.MARK: mark}, **settings}


@asynccontextmanager
async def open_served(
    servers: dict[str, Any], folder: Path, *, greeted: bool = True, **settings: Any
) -> AsyncIterator[Served]:
    """Run `mcpx serve` over these servers; its state and log are kept in `folder`."""
    config = folder / "config.json"
    config.write_text(json.dumps({"mcpServers": servers, **settings}))
    command = [sys.executable, "-m", "mcpx", "serve", str(config)]
    environment = os.environ | {"MCPX_STATE_DIR": str(folder / "state")}
    log = folder / "mcpx.log"
    with log.open("ab") as stderr:
        process = await open_python(command, stderr=stderr, env=environment)
    served = Served(process, log)
    async with process, anyio.create_task_group() as tasks:
        tasks.start_soon(served.hear)
        try:
            if greeted:
                await served.greet()
            yield served
        finally:
            with anyio.CancelScope(shield=True):
                await leave(served)
            tasks.cancel_scope.cancel()


async def leave(served: Served) -> float:
    """Close its input and wait for its end; the seconds it took. It is killed if it does not."""
    begun = time.monotonic()
    assert served.process.stdin is not None
    await served.process.stdin.aclose()
    with anyio.move_on_after(END_S) as scope:
        await served.process.wait()
    if scope.cancelled_caught:
        os.kill(served.pid, signal.SIGKILL)
        raise TimeoutError(f"MCPX did not end within {END_S:g} s: {served.last_words()}")
    return time.monotonic() - begun

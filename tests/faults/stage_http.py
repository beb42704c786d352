"""The stage for the faults of HTTP servers: a hub, a wicked server over real sockets, and a good neighbour.

`http_stage` opens one. A row plays on it and notes in `Seen` what its caller saw, after how long, and what
falls short. The neighbour, a child process, is called all the while; in the end no descriptor, no task of
the loop and no connection of the server's may be left. Limits are generous: a loaded machine is no fault.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from mcpx.core.catalog.snapshot import State
from mcpx.errors import CallError, Code, Outcome
from tests.faults.stage import Neighbour, Playing, Seen, beside, nothing_added
from tests.mcpx.scripted import Watch, config_of, entry, open_watched

SERVER = Path(__file__).with_name("wicked_http.py")
PATIENCE_S = 10.0
SOON_S = 2.0  # for what takes milliseconds
LIMIT = 2_000_000  # bytes of a message
SMALL = {
    "restart": {"initial": 0.05, "cap": 0.1, "healthy_after": 0.001, "park_after": 1000},
    "connect_timeout": 1.5,
    "call_timeout": 1.0,
    "queue_timeout": 1.0,
}
PAGE: dict[str, Any] = {
    "status": 200,
    "body": "<html>Please log in</html>",
    "headers": {"content_type": "text/html; charset=utf-8"},
}
PROBING = {"health_check_interval": 0.3, "health_check_timeout": 0.2}


class WickedProcess:
    """A wicked server; started again, it listens on the same port."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self._process: anyio.abc.Process | None = None
        self._rest = b""

    async def start(self) -> None:
        command = [sys.executable, "-S", "-E", str(SERVER), json.dumps(self.options)]
        self._rest = b""
        self._process = await anyio.open_process(command, stderr=None)
        self.options["port"] = (await self._line())["port"]

    async def order(self, **orders: Any) -> Any:
        """Give orders; the state after them."""
        assert self._process is not None
        assert self._process.stdin is not None
        await self._process.stdin.send(json.dumps(orders or {"state": True}).encode() + b"\n")
        return await self._line()

    async def _line(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        with anyio.fail_after(PATIENCE_S):
            while b"\n" not in self._rest:
                self._rest += await self._process.stdout.receive()
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with anyio.CancelScope(shield=True):  # bounded: SIGKILL
                process.kill()
                await process.aclose()


class HttpStage(Playing):
    """One fault being played on the server `w`."""

    name = "w"

    def __init__(self, watch: Watch, server: WickedProcess, seen: Seen) -> None:
        super().__init__(watch, seen)
        self.server = server

    def again(self) -> None:
        """What the caller saw so far was no fault."""
        self.seen.caller_saw = ""
        self.now()

    async def wicked(self, do: str | None, at: str = "tools/call", **options: Any) -> None:
        """From now on the server does this; None for good behaviour."""
        await self.server.order(rule=do and {"at": at, "do": do, **options})
        self.now()

    async def answered(self, tool: str = "act", *, within: float = PATIENCE_S) -> None:
        """A call is answered."""
        text = await self.answer_of(tool, within=within)
        self.check(text in {None, f"{tool} is done"}, f"the answer of {tool} is {(text or '')[:200]!r}")

    async def caught(
        self, code: Code, outcome: Outcome, *says: str, tool: str = "act", within: float = SOON_S
    ) -> CallError:
        """A call fails with this code and outcome, and a text that says these things."""
        error = await self.error_of(code, *says, tool=tool, within=within)
        self.check(error.outcome is outcome, f"the outcome is {error.outcome}, not {outcome}")
        return error

    async def recovered(self, incarnation: int) -> None:
        """That incarnation is ready, and answers."""
        await self.watch.until(
            lambda: self.watch.state("w") is State.READY and self.incarnation() >= incarnation,
            within=PATIENCE_S,
        )
        self.back()
        await self.answered("echo")

    async def untouched(self) -> None:
        """The same incarnation goes on, and answers."""
        await self.wicked(None)
        await self.answered("echo")
        self.check(self.incarnation() == 1, "it was restarted")
        self.seen.ended = "untouched"

    async def failing(self, *says: str) -> None:
        """It has failed, or is being tried again, with that cause."""
        await self.watch.until(lambda: self.upstream.info().cause is not None)
        self.check_says("the cause", self.upstream.info().cause, *says)

    async def listening(self) -> None:
        """The server has somebody who listens to its own messages."""
        with anyio.fail_after(PATIENCE_S):
            while not (await self.server.order())["listeners"]:
                pass

    async def waiting(self, calls: int) -> None:
        """So many calls wait for the server."""
        with anyio.fail_after(PATIENCE_S):
            while len(self.upstream.queue.ref.mailbox) < calls:
                await self.server.order()

    async def has_tool(self, name: str) -> None:
        """The change of the tools has been heard."""
        await self.watch.until(lambda: self.watch.hub.registry.get_tool("w", name) is not None)

    async def counted(self, tool: str = "act") -> int:
        """How often the tool took effect."""
        return (await self.server.order())["counted"].count(tool)


@asynccontextmanager
async def http_stage(
    seen: Seen,
    do: str | None = None,
    at: str = "*",
    *,
    era: str = "legacy",
    rule: Any = None,
    **settings: Any,
) -> AsyncIterator[HttpStage]:
    """A running stage; the server does its worst from the start if `do` is given."""
    server = WickedProcess({"era": era, "rule": do and {"at": at, "do": do, **(rule or {})}})
    async with nothing_added(seen):
        await server.start()
        kind, path = ("sse", "sse") if era == "sse" else ("http", "mcp")
        url = f"http://127.0.0.1:{server.options['port']}/{path}"
        servers = {"w": {"type": kind, "url": url, **SMALL, **settings}, "good": entry()}
        try:
            async with (
                open_watched(config_of(servers, max_message_bytes=LIMIT, start="eager")) as watch,
                beside(Neighbour(watch, seen, server="good", soon=SOON_S, text="x")),
            ):
                yield HttpStage(watch, server, seen)
            await _all_hung_up(server, seen)
        finally:
            await server.kill()


async def _all_hung_up(server: WickedProcess, seen: Seen) -> None:
    """The server sees the ends of its connections a moment later."""
    with anyio.move_on_after(SOON_S):
        while (await server.order())["connections"]:
            pass
        return
    seen.check(False, "connections to the server are left")

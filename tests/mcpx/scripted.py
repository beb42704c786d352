"""Driving scripted servers: their entries in a config, what they tell, and a hub over them.

`entry` makes a config entry for `scripted_server.py`; `Ears` hears its events, over a FIFO, so that a test
waits for what happens in the child and never sleeps; `open_watched` is `open_hub` with a `Watch` on it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import Config, parse
from mcpx.core.daemon.hub import Hub
from mcpx.errors import CallError, Code
from mcpx.parts import open_hub

SERVER = Path(__file__).with_name("scripted_server.py")
STARTED_QUICKLY = ("-S", "-E", str(Path(__file__).with_name("quick.py")))
"""What Python is given before a program of the standard library, see there."""
QUICK = {"initial": 0.05, "cap": 0.1, "healthy_after": 0.001}
PATIENCE_S = 50.0  # for what takes milliseconds on a machine that has time


class Ears:
    """The events of every server that was given this FIFO, in the order they happened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: list[dict[str, Any]] = []
        os.mkfifo(path)
        # open for writing too, so that it never ends when a server does
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def of(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The events of that name and with those fields so far."""
        self._drain()
        wanted = {"event": event, **fields}.items()
        return [each for each in self.heard if all(each.get(key) == value for key, value in wanted)]

    async def hear(self, event: str, *, count: int = 1, **fields: Any) -> dict[str, Any]:
        """The `count`-th such event; waits for it."""
        with anyio.fail_after(PATIENCE_S):
            while len(found := self.of(event, **fields)) < count:
                await anyio.wait_readable(self._fd)
        return found[count - 1]

    def _drain(self) -> None:
        while True:
            try:
                chunk = os.read(self._fd, 65536)
            except BlockingIOError:
                return
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self.heard += [json.loads(line) for line in lines]


class Gate:
    """Holds scripted servers back at their start, until each is let through."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)  # for reading too, so that neither end waits for the other

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def let_one_through(self) -> None:
        os.write(self._fd, b"1")


def entry(
    ears: Ears | None = None, /, *, settings: dict[str, Any] | None = None, **script: Any
) -> dict[str, Any]:
    """A server's entry under `mcpServers`: a scripted server with that script, and settings of its own."""
    if ears is not None:
        script["ears"] = str(ears.path)
    args = [*STARTED_QUICKLY, str(SERVER), json.dumps(script)]
    return {"command": sys.executable, "args": args, "restart": QUICK, **(settings or {})}


def entry_of(script: Path, **settings: Any) -> dict[str, Any]:
    """The entry of a scripted server whose script is in that file."""
    args = [*STARTED_QUICKLY, str(SERVER), str(script)]
    return {"command": sys.executable, "args": args, "restart": QUICK, **settings}


def config_of(servers: dict[str, dict[str, Any]], **settings: Any) -> Config:
    """A configuration with those entries; a short grace time, so that what hangs holds no test up."""
    return parse(json.dumps({"shutdown_grace": 0.2, **settings, "mcpServers": servers}), where="test")


async def soon(holds: Callable[[], object]) -> None:
    """Wait for what no event tells of."""
    with anyio.fail_after(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.002)  # what it waits for may need the processor


class Watch:
    """A running hub whose events can be waited for."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._news = anyio.Event()
        tell = hub.supervisor._observe

        def observe(event: Any) -> None:
            tell(event)
            self._wake()

        hub.supervisor._observe = observe
        hub.observe(lambda _name, _diff: self._wake())

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def until(self, holds: Callable[[], bool], *, within: float = PATIENCE_S) -> None:
        """Wait until `holds()`; it is asked again after each event and each change of a catalogue."""
        with anyio.fail_after(within):
            while not holds():
                await self._news.wait()

    def state(self, name: str = "s") -> State:
        return self.hub.upstreams[name].info().state

    async def becomes(self, state: State, name: str = "s") -> None:
        await self.until(lambda: self.state(name) is state)

    async def leaves(self, state: State, name: str = "s", *, within: float = PATIENCE_S) -> None:
        await self.until(lambda: self.state(name) is not state, within=within)

    async def text(self, tool: str, arguments: Any = None, *, server: str = "s") -> str:
        """The text that a tool answers with."""
        with anyio.fail_after(PATIENCE_S):
            done = await self.hub.calls.exec(server, tool, arguments)
        return str(done.shaped.content[0]["text"])

    async def failure(self, tool: str, arguments: Any = None, *, server: str = "s") -> CallError:
        """The error that a call ends with; fails where it succeeds."""
        try:
            text = await self.text(tool, arguments, server=server)
        except CallError as error:
            return error
        raise AssertionError(f"{server}.{tool} succeeded: {text}")

    async def outcome(self, tool: str, arguments: Any = None) -> Code | None:
        """None for a call that was answered, else the code of its error."""
        try:
            await self.text(tool, arguments)
        except CallError as error:
            return error.code
        return None


@asynccontextmanager
async def open_watched(
    config: Config, *, settled: bool = True, state: Path | None = None
) -> AsyncIterator[Watch]:
    """A running hub; every server has been ready or failed once, unless told not to wait."""
    async with open_hub(config, state=state) as hub:
        watch = Watch(hub)
        if settled:
            assert await hub.settled(PATIENCE_S)
        yield watch


@asynccontextmanager
async def one_server(
    ears: Ears | None = None,
    /,
    *,
    settled: bool = True,
    settings: dict[str, Any] | None = None,
    **script: Any,
) -> AsyncIterator[Watch]:
    """A hub with one scripted server, called `s`."""
    config = config_of({"s": entry(ears, settings=settings, **script)})
    async with open_watched(config, settled=settled) as watch:
        yield watch

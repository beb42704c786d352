"""What a running MCPX writes to its standard error, read as it comes.

`captured` gives the pipe that the process is started with, and the `Log` that fills: a dictionary for each
JSON line (MCPX runs with `MCPX_LOG_FORMAT=json`), a string for any other. Waiting is on events, not on time.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import IO, Any

import anyio
import msgspec

PATIENCE_S = 50.0  # for a line that must come; a noisy machine starts a server in seconds

Record = dict[str, Any]


class Log:
    """The records so far. One task at a time may wait."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.other: list[str] = []
        self._news = anyio.Event()

    def find(self, event: str, **fields: Any) -> list[Record]:
        """The records of that event whose fields have those values."""
        wanted = {"event": event, **fields}
        return [record for record in self.records if wanted.items() <= record.items()]

    async def wait_for(self, event: str, *, count: int = 1, **fields: Any) -> Record:
        """The `count`-th record of that event with those fields, now or when it comes."""
        try:
            with anyio.fail_after(PATIENCE_S):
                while len(found := self.find(event, **fields)) < count:
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"no {event} {fields} in the log: {self.records} {self.other}") from None
        return found[count - 1]

    def take(self, line: bytes) -> None:
        """Add one line."""
        try:
            self.records.append(msgspec.json.decode(line, type=Record))
        except msgspec.MsgspecError:
            self.other.append(line.decode(errors="replace"))
        news, self._news = self._news, anyio.Event()
        news.set()


@asynccontextmanager
async def captured() -> AsyncIterator[tuple[Log, IO[str]]]:
    """A log, and the file to start a process with as its standard error; close it once it runs."""
    log = Log()
    async with lines_of_a_pipe(log.take) as write_end:
        yield log, write_end


@asynccontextmanager
async def lines_of_a_pipe(take: Callable[[bytes], None]) -> AsyncIterator[IO[str]]:
    """The write end of a pipe whose lines are taken as they come, until the context is left."""
    read_end, write_end = os.pipe()
    try:
        with os.fdopen(write_end, "w") as file:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_follow, read_end, take)
                try:
                    yield file
                finally:
                    tasks.cancel_scope.cancel()
    finally:
        os.close(read_end)


async def _follow(fd: int, take: Callable[[bytes], None]) -> None:
    rest = b""
    while True:
        await anyio.wait_readable(fd)
        chunk = os.read(fd, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            take(line)

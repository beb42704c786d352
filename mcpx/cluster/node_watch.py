"""The watch over one node: a connection on which it says how it is, and answers pings at once.

Run by the cluster for each node that listens. A node that is silent for `SILENCE_S` is given up, and one
whose connection breaks at once: a process that was killed is noticed when the kernel closes its socket, a
machine that lost its power by the pings. Only silence while this process runs counts, so that a busy gateway
does not give up all of its nodes. A node that was given up is connected to again; it takes new sessions once
it answers.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final

import anyio
import msgspec
import structlog

from mcpx.cluster.node.protocol import MAX_REPORT_BYTES, Ping, Watch, WatchLine, line_of
from mcpx.cluster.node_requests import connection
from mcpx.cluster.node_table import Node
from mcpx.cluster.ray_process.protocol import NodeAddress
from mcpx.observe.contained import contain
from mcpx.text import cut, one_line

log = structlog.get_logger()
SILENCE_S: Final = 1.5
PING_INTERVAL_S: Final = 0.5
TICK_S: Final = 0.1
RETRY_S: Final = 0.2  # doubled up to the next
MAX_RETRY_S: Final = 2.0
MAX_CAUSE_CHARS: Final = 300
_CHUNK_BYTES: Final = 65536
_LINE: Final = msgspec.json.Decoder(WatchLine)


class NodeWatch:
    """Watches what listens at `address`. `on_change` is called when the node answers, and at each report."""

    def __init__(
        self,
        node: Node,
        address: NodeAddress,
        token: str,
        trusted: ssl.SSLContext,
        on_change: Callable[[Node], None],
    ) -> None:
        self._node = node
        self._address = address
        self._greeting = line_of(Watch(token=token))
        self._trusted = trusted
        self._on_change = on_change
        self._silent_s = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        pause = RETRY_S
        while True:
            reason = await self._follow()
            if self._node.answers:
                pause = RETRY_S
            self._node.give_up(cut(reason, MAX_CAUSE_CHARS))
            self._on_change(self._node)
            await anyio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_S)

    async def _follow(self) -> str:
        """Be told how the node is, for as long as it answers. Why it does not any more."""
        try:
            async with connection(self._address, self._trusted) as (reader, writer):
                writer.write(self._greeting)
                self._silent_s = 0.0
                return await self._until_lost(reader, writer)
        except TimeoutError:
            return "it does not answer"
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            return one_line(str(error)) or type(error).__name__
        except Exception as error:  # noqa: BLE001 - the boundary: one node must not end the watch over the others
            contain(error, "node watch", node=self._node.name)
            return type(error).__name__

    async def _until_lost(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        reason = ""
        failure: Exception | None = None

        async def read() -> None:
            nonlocal reason, failure
            try:
                reason = await self._read(reader)
            except (OSError, msgspec.MsgspecError, ValueError) as error:
                failure = error
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await self._ping(writer)
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return reason or f"it has said nothing for {SILENCE_S:g} s"

    async def _read(self, reader: asyncio.StreamReader) -> str:
        waiting = bytearray()
        while chunk := await reader.read(_CHUNK_BYTES):
            self._silent_s = 0.0
            waiting += chunk
            *lines, rest = waiting.split(b"\n")
            waiting = rest
            if len(waiting) > MAX_REPORT_BYTES:
                return "it sends a line without an end"
            for line in lines:
                if (refused := self._take(line)) is not None:
                    return refused
        return "it has closed the connection"

    async def _ping(self, writer: asyncio.StreamWriter) -> None:
        """Ping until it has been silent for too long."""
        seen, pinged, number = time.monotonic(), 0.0, 0
        while self._silent_s < SILENCE_S:
            await anyio.sleep(TICK_S)
            now = time.monotonic()
            self._silent_s += min(now - seen, 2 * TICK_S)  # the rest of it this process has slept itself
            seen = now
            if now - pinged >= PING_INTERVAL_S:
                pinged, number = now, number + 1
                writer.write(line_of(Ping(ping=number)))

    def _take(self, line: bytes | bytearray) -> str | None:
        """Take a line in; the reason where the node refuses the watch."""
        said = _LINE.decode(line)
        if said.error is not None:
            return said.error
        if said.node is None:
            return None
        node = self._node
        node.heard(said.node)
        if not node.answers:
            node.answers, node.problem = True, None
            log.info("cluster.node_answers", node=node.name, pid=said.node.pid, version=said.node.version)
        self._on_change(node)
        return None

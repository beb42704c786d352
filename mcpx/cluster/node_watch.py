"""The gateway's connections to a node, but for those that carry MCP: the watch over it, and single requests.

Run by the cluster for each node that listens. A node that is silent for `SILENCE_S` is given up, and one
whose connection breaks at once: a process that was killed is noticed when the kernel closes its socket, a
machine that lost its power by the pings. Only silence while this process runs counts, so that a busy gateway
does not give up all of its nodes; and a node that has been slow to answer pings, because a hundred servers
start on its machine, has longer: to give it up would have them start on another one, which is as busy then.
A node that was given up is connected to again; it takes new sessions once it answers.

`ask` makes a connection for each request. A node is trusted by its certificate, which all nodes of a cluster
share, and by nothing else; it trusts the gateway by the cluster's token. What a node says is bounded.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import anyio
import msgspec
import structlog

from mcpx.cluster.node.protocol import (
    MAX_LOG_BYTES,
    MAX_REPORT_BYTES,
    FirstAnswer,
    FirstLine,
    NodeReport,
    Ping,
    Watch,
    WatchLine,
    line_of,
)
from mcpx.cluster.node.starting import NodeAddress
from mcpx.cluster.node_table import Node
from mcpx.core.servers.transport.link import Ending
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import cut, one_line
from mcpx.core.wire.channel import answer_to
from mcpx.core.wire.lines import LineSplitter
from mcpx.core.wire.tls_channel import TlsChannel, connect_tls
from mcpx.errors import MCPXError

log = structlog.get_logger()
CONNECT_TIMEOUT_S: Final = 3.0  # a node is in the same network
ANSWER_TIMEOUT_S: Final = 5.0
RESTART_TIMEOUT_S: Final = 60.0  # the node itself waits 30 s for a new session
MAX_ANSWER_BYTES: Final = 2 * MAX_LOG_BYTES  # with what JSON adds to the lines of a log
_ANSWER: Final = msgspec.json.Decoder(FirstAnswer)
SILENCE_S: Final = 1.5
MAX_SILENCE_S: Final = 5.0  # of a node that has been slow: its servers are to answer elsewhere within 10 s
SLOW_SHARE: Final = 3.0  # so many times as long as the slowest of its last answers a node may be silent
CROWDED_LOAD: Final = 4.0  # processes for each processor; from there on all of them wait for it
MAX_PINGED: Final = 100  # without an answer
FADES: Final = 0.8  # of the slowest answer, for each that came since
PING_INTERVAL_S: Final = 0.5
TICK_S: Final = 0.1
RETRY_S: Final = 0.2  # doubled up to the next
MAX_RETRY_S: Final = 2.0
MAX_CAUSE_CHARS: Final = 300
_LINE: Final = msgspec.json.Decoder(WatchLine)


class NodeRefused(MCPXError):
    """A node did not do what it was asked, or could not be reached."""


@asynccontextmanager
async def connection(address: NodeAddress, certificate: str) -> AsyncIterator[TlsChannel]:
    """A connection to a node; at exit nothing of it is left.

    Raises:
        OSError: It cannot be made, or not in time.
    """
    channel = await connect_tls(address.host, address.port, certificate, timeout=CONNECT_TIMEOUT_S)
    try:
        yield channel
    finally:
        channel.close()


async def ask(
    address: NodeAddress, certificate: str, request: FirstLine, *, answer_s: float = ANSWER_TIMEOUT_S
) -> FirstAnswer:
    """Have a node do something, which may take `answer_s` seconds.

    Raises:
        NodeRefused: It does not, and why.
    """
    try:
        async with connection(address, certificate) as channel:
            with anyio.fail_after(answer_s):
                said = await answer_to(channel, line_of(request), limit=MAX_ANSWER_BYTES)
                answer = _ANSWER.decode(said.partition(b"\n")[0])
    except TimeoutError:
        raise NodeRefused("the node does not answer") from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NodeRefused(f"the node cannot be asked: {one_line(str(error))}") from None
    if answer.error is not None:
        raise NodeRefused(one_line(answer.error))
    return answer


class OnChange(Protocol):
    """Called when the node has said something, or is given up. `is_new`: it answers again, or at last."""

    def __call__(self, node: Node, *, is_new: bool) -> None: ...


class Patience:
    """Patience with a silent node, by how long its last answers to pings took, and by the load there."""

    def __init__(self) -> None:
        self._pinged: dict[int, float] = {}
        self._slowest_s = 0.0
        self._crowding = 0.0

    @property
    def allowed_s(self) -> float:
        """Seconds without a byte from it, after which it is given up."""
        slow_s = max(SLOW_SHARE * self._slowest_s, SILENCE_S * self._crowding)
        return max(SILENCE_S, min(slow_s, MAX_SILENCE_S))

    def heard(self, report: NodeReport) -> None:
        """It has said how it is."""
        self._crowding = (report.load or 0.0) / (CROWDED_LOAD * max(1, report.cpus))

    def pinged(self, number: int, now: float) -> None:
        """A ping was sent at that time."""
        self._pinged[number] = now
        if len(self._pinged) > MAX_PINGED:
            del self._pinged[next(iter(self._pinged))]

    def answered(self, number: int, now: float) -> None:
        """It was answered. What was never asked is no answer."""
        sent = self._pinged.pop(number, None)
        if sent is not None:
            self._slowest_s = max(now - sent, FADES * self._slowest_s)


class NodeWatch:
    """Watches what listens at `address`. `on_change` must neither wait nor raise."""

    def __init__(
        self, node: Node, address: NodeAddress, *, token: str, certificate: str, on_change: OnChange
    ) -> None:
        self._node = node
        self._address = address
        self._greeting = line_of(Watch(token=token))
        self._certificate = certificate
        self._on_change = on_change
        self._lines = LineSplitter(MAX_REPORT_BYTES)
        self._silent_s = 0.0
        self._lost = Ending()
        self._patience = Patience()
        self._is_heard = False

    async def run(self) -> None:
        """Watch until cancelled."""
        pause = RETRY_S
        while True:
            reason = await self._follow()
            if self._node.answers:
                pause = RETRY_S
            self._node.give_up(cut(one_line(reason), MAX_CAUSE_CHARS))
            self._on_change(self._node, is_new=False)
            await anyio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_S)

    async def _follow(self) -> str:
        """Be told how the node is, for as long as it answers. Why it does not any more."""
        self._lost, self._lines, self._silent_s = Ending(), LineSplitter(MAX_REPORT_BYTES), 0.0
        self._patience = Patience()
        try:
            async with connection(self._address, self._certificate) as channel:
                channel.on_data = self._on_data
                channel.on_end = lambda: self._lost.set("it has closed the connection")
                channel.on_broken = lambda _error: self._lost.set("the connection was reset")
                channel.write(self._greeting)
                channel.start_reading()
                return await self._until_lost(channel)
        except OSError as error:
            return error.strerror or str(error)
        except Exception as error:  # noqa: BLE001 - the boundary: one node must not end the watch over the others
            contain(error, "node watch", node=self._node.name)
            return type(error).__name__

    async def _until_lost(self, channel: TlsChannel) -> str:
        """Ping until it is lost, or has been silent for too long."""
        seen, pinged, number = time.monotonic(), 0.0, 0
        self._is_heard = False
        while self._silent_s < self._patience.allowed_s:
            with anyio.move_on_after(TICK_S):
                return await self._lost.wait()
            now = time.monotonic()
            self._silent_s += min(now - seen, 2 * TICK_S)  # the rest of it this process has slept itself
            seen = now
            if self._is_heard and now - pinged >= PING_INTERVAL_S:  # nothing comes before the node's answer
                pinged, number = now, number + 1
                self._patience.pinged(number, now)
                channel.write(line_of(Ping(ping=number)))
        return f"it has said nothing for {self._patience.allowed_s:.3g} s"

    def _on_data(self, data: bytes) -> None:
        self._silent_s, self._is_heard = 0.0, True
        for line in self._lines.feed(data):
            try:
                if not isinstance(line, bytes):
                    self._lost.set("it says a line that is too long")
                else:
                    self._take(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self._lost.set(f"what it says cannot be read: {error}")

    def _take(self, line: bytes) -> None:
        said = _LINE.decode(line)
        if said.error is not None:
            self._lost.set(said.error)
        if said.pong is not None:
            self._patience.answered(said.pong, time.monotonic())
        if said.node is None:
            return
        node = self._node
        node.heard(said.node)
        self._patience.heard(said.node)
        is_new = not node.answers
        if is_new:
            node.answers, node.was_tried, node.problem = True, True, None
            log.info("cluster.node_answers", node=node.name, pid=said.node.pid, version=said.node.version)
        self._on_change(node, is_new=is_new)

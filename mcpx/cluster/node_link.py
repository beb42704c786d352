"""The link to a server on a node of a cluster: messages as lines over TLS.

Each connection asks for a place, connects to that node, and says which server it wants; from the node's
answer on it is an MCP session at the node's endpoint for that server. It is lost when the connection breaks,
and at once when the node is given up. What was in flight then may have been run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

import anyio
import msgspec

from mcpx.cluster.node.protocol import FirstAnswer
from mcpx.core.config import ServerConfig
from mcpx.core.servers.transport.link import ConnectionLost, Ending, Link
from mcpx.core.text import cut, one_line
from mcpx.core.wire.channel import PeerNotReading, answer_to
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.receiver import OnMalformed
from mcpx.core.wire.tls_channel import TlsChannel, connect_tls

CONNECT_TIMEOUT_S: Final = 3.0  # a node is in the same network, and is known to answer
ANSWER_TIMEOUT_S: Final = 5.0  # the node answers before it starts anything
MAX_ANSWER_BYTES: Final = 64 * 1024  # of the node's answer to the greeting
MAX_CAUSE_CHARS: Final = 1000
MAX_PLACES: Final = 8  # nodes that are tried in turn, where one has no room; then the restart policy goes on
NO_ROOM: Final = frozenset({"memory", "full", "stopping"})
"""Answers of a node that has nothing against the server itself."""
MAX_SERVER_MESSAGE_BYTES: Final = 4 * 1024 * 1024  # of its own requests: reading one takes 0.1 s


class NodeTarget(msgspec.Struct, frozen=True):
    """A node that takes a server: its name, where it listens, and what proves either side to the other.

    `certificate` is the one that the node shows, in PEM. `greeting` is the first line of the gateway, without
    its end: the token, and the server that it wants.
    """

    node: str
    host: str
    port: int
    certificate: str
    greeting: bytes

    def __repr__(self) -> str:
        return f"NodeTarget(node={self.node!r}, host={self.host!r}, port={self.port})"


class Places(Protocol):
    """The cluster, as a connection needs it. A session is known by its name at the supervisor."""

    async def place(self, server: ServerConfig, session: str) -> NodeTarget:
        """Choose the node for a session with that server; raises `ConnectionLost` if none can take it."""

    def watch(self, session: str, target: NodeTarget, on_lost: Callable[[str], None]) -> Callable[[], None]:
        """Have `on_lost` called, once, with the reason when that node does not answer any more.

        Call the result when the session has ended or was never opened. `on_lost` must not wait, nor raise.
        """

    def refused(self, session: str) -> None:
        """Place nothing for a while on the node of a session, which has no room for it.

        Ask for another place before you call what `watch` gave: what is reserved goes along.
        """


class _NoRoom(ConnectionLost):
    """The node takes no more, and another may."""


class NodeLink(Link):
    """A link to one server on one node, which knows better whether a process hangs."""

    def __init__(self, channel: TlsChannel, node: str, *, limit: int, on_malformed: OnMalformed) -> None:
        wire = WireDispatcher(
            channel,
            limit=limit,
            on_malformed=on_malformed,
            on_end=lambda: self.lose("it closed the connection"),
            request_limit=MAX_SERVER_MESSAGE_BYTES,
        )
        super().__init__(wire)
        self._node = node
        channel.on_broken = self._on_broken

    def lose(self, why: str) -> None:
        """Take in that the connection has broken."""
        self.lost.set(f"the node {self._node} was lost: {why}")

    def _on_broken(self, error: OSError) -> None:
        reads_not = isinstance(error, PeerNotReading)
        self.lose(error.strerror if reads_not and error.strerror else "the connection was reset")


@asynccontextmanager
async def open_placed(
    places: Places, server: ServerConfig, session: str, *, limit: int, on_malformed: OnMalformed
) -> AsyncIterator[NodeLink]:
    """Connect to the node that `places` says; at exit the connection is closed.

    Raises:
        ConnectionLost: There is no node, it cannot be reached, or it refuses the server.
    """
    place = await _placed(places, server, session)
    try:
        link = NodeLink(place.channel, place.node, limit=limit, on_malformed=on_malformed)
        place.on_lost = link.lost.set
        if place.given_up.happened:
            link.lost.set(place.given_up.reason)
        yield link
    finally:
        place.end_watch()
        place.channel.close()


class _Place:
    """A connection to the node of a session, and the watch over that node."""

    def __init__(self, places: Places, session: str, target: NodeTarget) -> None:
        self.node = target.node
        self.given_up = Ending()
        self.on_lost: Callable[[str], None] = self.given_up.set
        self.channel: TlsChannel
        self.end_watch = places.watch(session, target, self._on_lost)

    def _on_lost(self, reason: str) -> None:
        self.given_up.set(reason)
        self.on_lost(reason)


async def _placed(places: Places, server: ServerConfig, session: str) -> _Place:
    """Connect to the first node that takes the session, of those that `places` says.

    Raises:
        ConnectionLost: As above.
    """
    before: _Place | None = None
    for number in range(MAX_PLACES):
        try:
            target = await places.place(server, session)
        finally:
            if before is not None:
                before.end_watch()
        place = before = _Place(places, session, target)
        try:
            place.channel = await _connected(target, place.given_up)
        except _NoRoom:
            places.refused(session)
            if number == MAX_PLACES - 1:
                place.end_watch()
                raise
        except BaseException:
            place.end_watch()
            raise
        else:
            return place
    raise AssertionError  # the last one has raised


async def _connected(target: NodeTarget, given_up: Ending) -> TlsChannel:
    """Make a connection on which the node has taken the server; all that follows on it is MCP.

    Raises:
        ConnectionLost: It cannot be had.
    """
    channel: TlsChannel | None = None
    failure: ConnectionLost | None = None

    async def connect() -> None:
        nonlocal channel, failure
        try:
            made = await connect_tls(target.host, target.port, target.certificate, timeout=CONNECT_TIMEOUT_S)
            try:
                await _greet(made, target)
            except BaseException:
                made.close()
                raise
            channel = made
        except OSError as error:
            said = one_line(error.strerror or str(error))
            failure = ConnectionLost(f"the node {target.node} cannot be reached: {said}")
        except ConnectionLost as error:
            failure = error
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connect)
        reason = await given_up.wait()
        failure = ConnectionLost(reason)
        tasks.cancel_scope.cancel()
    if channel is None:
        raise failure or ConnectionLost(f"the node {target.node} was lost")
    return channel


async def _greet(channel: TlsChannel, target: NodeTarget) -> None:
    """Say what is wanted, and read the answer; what comes behind it stays for the link.

    Raises:
        ConnectionLost: The node refuses, or closes the connection.
    """
    with anyio.move_on_after(ANSWER_TIMEOUT_S) as scope:
        answer = await answer_to(channel, target.greeting + b"\n", limit=MAX_ANSWER_BYTES)
    if scope.cancelled_caught:
        raise ConnectionLost(f"the node {target.node} does not answer")
    line, newline, rest = answer.partition(b"\n")
    name = f"the node {target.node}"
    if not newline:
        raise ConnectionLost(f"{name} closed the connection")
    try:
        said = msgspec.json.decode(line, type=FirstAnswer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ConnectionLost(f"{name} gave an answer that cannot be read") from None
    if not said.ok or rest:  # a node says nothing of MCP before it is asked
        cause = one_line(said.error or "it does not say why")
        kind = _NoRoom if said.code in NO_ROOM else ConnectionLost
        raise kind(f"{name} refused the server: {cut(cause, MAX_CAUSE_CHARS)}")

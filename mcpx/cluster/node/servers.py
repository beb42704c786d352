"""The servers of a node: which there are, who uses them, and when they end.

Gateways name a server by its spec. Equal specs are one server, whoever they come from; different specs of one
name run beside each other, each with clients of its own. A server is put into the hub when its first client
comes and taken out when it has had none for a while, by a reload of the hub: many that come together are put
in by one, and none of the others is touched. One that ends does so before it is taken out, so that one that
takes its time holds up nobody.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.abc
import structlog
from msgspec.structs import replace

from mcpx.cluster.node.spec import ServerSpec, server_of
from mcpx.core.daemon.hub import Hub
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import holds_controls
from mcpx.errors import MCPXError
from supervisors import Incarnation, Signal

log = structlog.get_logger()
MAX_SERVERS: Final = 10_000
MAX_PAUSE_S: Final = 0.1  # between two reloads, which take longer the more servers there are
_DIGITS: Final = 8  # of a digest, in the name of a server beside another of its name


class UnknownServerError(MCPXError):
    """The node has no such server."""


class NodeRefusedError(MCPXError):
    """The node does not take a server."""


class NodeServer:
    """One server of the node. `name` is that in the hub: its own, or one made up beside another's."""

    def __init__(self, spec: ServerSpec, digest: str, name: str) -> None:
        self.spec = spec
        self.digest = digest
        self.name = name
        self.connections = 0
        self.released = False
        """Whether it ends with its last connection, because a gateway does not need it here any more."""
        self.unused_since = math.inf
        """When it lost its last connection, by `anyio.current_time()`."""
        self.is_leaving = False
        self.has_left = False
        self.problem: str | None = None
        self.added = anyio.Event()
        """Set when the hub has it, or there is a `problem`."""
        self.gone = anyio.Event()


class NodeServers:
    """All servers of a node. `linger_s` is how long one stays that nobody uses. `run` it as a child."""

    def __init__(self, hub: Hub, linger_s: float) -> None:
        self._hub = hub
        self._linger_s = linger_s
        self._servers: dict[tuple[str, str], NodeServer] = {}  # by their own name and digest
        self._names: set[str] = set()  # in the hub
        self._changed = Signal()

    def __iter__(self) -> Iterator[NodeServer]:
        return iter(list(self._servers.values()))

    def __len__(self) -> int:
        return len(self._servers)

    def known(self, spec: ServerSpec) -> NodeServer | None:
        """The server of that spec, if it is here to stay."""
        found = self._servers.get((spec.name, spec.digest))
        return None if found is None or found.is_leaving else found

    def find(self, name: str, digest: str) -> NodeServer:
        """The server of that spec.

        Raises:
            UnknownServerError: There is none.
        """
        found = self._servers.get((name, digest))
        if found is None or found.is_leaving or not found.added.is_set():
            raise UnknownServerError(f"this node has no server {name!r} of that digest")
        return found

    @asynccontextmanager
    async def used(self, spec: ServerSpec) -> AsyncIterator[NodeServer]:
        """Use a server in the body, which is put into the hub first if it is not there.

        Raises:
            NodeRefusedError: It cannot be.
        """
        server = await self._join(spec)
        try:
            await server.added.wait()
            if server.problem is not None:
                raise NodeRefusedError(server.problem)
            yield server
        finally:
            server.connections -= 1
            if not server.connections:
                server.unused_since = anyio.current_time()
                self._changed.set()

    def release(self, server: NodeServer) -> None:
        """End a server as soon as nobody uses it."""
        server.released = True
        self._changed.set()

    async def _join(self, spec: ServerSpec) -> NodeServer:
        """The server of that spec, with one connection more."""
        digest = spec.digest
        while True:
            known = self._servers.get((spec.name, digest))
            if known is not None and known.is_leaving:
                await known.gone.wait()
            elif known is not None:
                known.connections += 1
                known.unused_since, known.released = math.inf, False
                return known
            elif (other := self._unused_namesake(spec.name)) is not None:
                self.release(other)  # the gateway has it changed
                await other.gone.wait()
            else:
                return self._add(spec, digest)

    def _unused_namesake(self, name: str) -> NodeServer | None:
        """The server that has this name in the hub, if nobody uses it."""
        holders = (each for each in self._servers.values() if each.name == name)
        return next((each for each in holders if not each.connections), None)

    def _add(self, spec: ServerSpec, digest: str) -> NodeServer:
        """A new server with one connection, which the next reload puts into the hub."""
        if holds_controls(spec.name):
            raise NodeRefusedError("the name of a server cannot hold control characters or line breaks")
        if any("\0" in text for text in _texts(spec)):
            raise NodeRefusedError(
                "a null character stands in the command, its arguments, or its environment"
            )
        if len(self._servers) >= MAX_SERVERS:
            raise NodeRefusedError(f"this node has {MAX_SERVERS} servers, and takes no more")
        name, digits = spec.name, _DIGITS
        while name in self._names:
            name = f"{spec.name}~{digest[:digits]}"
            digits += _DIGITS
        server = self._servers[spec.name, digest] = NodeServer(spec, digest, name)
        self._names.add(name)
        server.connections = 1
        self._changed.set()
        return server

    # --- the task that owns the hub's configuration

    async def run(self, incarnation: Incarnation) -> None:
        """Put servers into the hub and take them out, until asked to leave."""
        incarnation.ready()
        await incarnation.while_wanted(self._work)

    async def _work(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                with anyio.move_on_after(self._next_end() - anyio.current_time()):
                    await self._changed.wait()
                self._changed.clear()
                now = anyio.current_time()
                for server in list(self._servers.values()):
                    if not server.is_leaving and self._ends_at(server) <= now:
                        server.is_leaving = True
                        tasks.start_soon(self._end, server)
                before = anyio.current_time()
                await self._reload()
                await anyio.sleep(min(anyio.current_time() - before, MAX_PAUSE_S))

    def _ends_at(self, server: NodeServer) -> float:
        if server.connections or not server.added.is_set():
            return math.inf
        return server.unused_since + (0.0 if server.released else self._linger_s)

    def _next_end(self) -> float:
        return min(
            (self._ends_at(each) for each in self._servers.values() if not each.is_leaving), default=math.inf
        )

    async def _end(self, server: NodeServer) -> None:
        """End a server that nobody uses; the next reload takes it out."""
        log.info("node.server_unused", server=server.name)
        if (upstream := self._hub.upstreams.get(server.name)) is not None:
            await self._hub.fleet.retire(upstream)
        server.has_left = True
        self._changed.set()

    async def _reload(self) -> None:
        """Have the hub run what there is now, if that differs."""
        left = [each for each in self._servers.values() if each.has_left]
        new = [each for each in self._servers.values() if not each.added.is_set()]
        if not left and not new:
            return
        servers = dict(self._hub.config.servers)
        for each in left:
            servers.pop(each.name, None)
        servers |= {each.name: server_of(each.spec, each.name) for each in new}
        try:
            await self._hub.reload(replace(self._hub.config, servers=servers))
        except Exception as error:  # noqa: BLE001 - the boundary: who waits is told, and the node goes on
            contain(error, "node")
            for each in new:
                each.problem = f"the node cannot run it ({type(error).__name__}); its log says more"
                self._forget(each)
        for each in new:
            each.added.set()
        for each in left:
            self._forget(each)

    def _forget(self, server: NodeServer) -> None:
        self._servers.pop((server.spec.name, server.digest), None)
        self._names.discard(server.name)
        server.gone.set()


def _texts(spec: ServerSpec) -> Iterable[str]:
    yield from (spec.command, spec.cwd or "", *spec.args)
    for name, value in spec.env.items():
        yield name
        yield value

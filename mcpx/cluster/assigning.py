"""The assignment of sessions to nodes: made at each connection, and kept while that lasts.

Owned by the cluster. A server that all clients share is where Ray has reserved a place for it, for all
gateways alike; once known, Ray is asked again only when that node takes nothing any more. A session of one
client is placed by `placement.spread`, in the turn in which it is asked for, so that many at a time do not
all see the same empty node; Ray is asked for it only where it wants resources. Where there is no node now,
but one is on its way, a session waits a while for it.

Ray counts resources for all gateways; whether a node answers, is drained or is short of memory the gateway
knows better, and says so. Without Ray, a server that asks for nothing that is counted is placed all the same.

The most memory that was seen with a session of each server is kept in a file, for the first placement, and
fades. One that cannot be read or written costs nothing but that statistic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import msgspec
import structlog
from msgspec.structs import replace

from mcpx.cluster.node.spec import ServerSpec, demand_of
from mcpx.cluster.node_link import NodeTarget
from mcpx.cluster.node_table import Node, NodeTable
from mcpx.cluster.placement import Demand, candidates, misfit, spread
from mcpx.cluster.ray_client import RayError, RayProcess
from mcpx.core.config import ServerConfig
from mcpx.core.servers.transport.link import ConnectionLost
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import read_own_file, replace_file

log = structlog.get_logger()
NODE_WAIT_S: Final = 20.0  # for Ray to be joined, and for a node that starts; beside the connect timeout
UNUSED_S: Final = 180.0  # until a reservation that nobody uses is given up; the node lingers for 120 s
LOOK_INTERVAL_S: Final = 15.0
Tell = Callable[[Node, str, str], None]
"""Lets a node know that the server of that name and digest is not needed there any more."""
FILE_NAME: Final = "memory.json"
MAX_SERVERS: Final = 10_000
MAX_FILE_BYTES: Final = 4 << 20
FADES: Final = 0.9995
"""Of what was seen, for each look at a server, of which there is one a second: half after 23 minutes."""


class SeenMemory:
    """By server, bytes for one session. `folder` is that of the configuration."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._bytes: dict[str, float] = {}
        self._saved: dict[str, int] = {}
        self._is_broken = False

    def of(self, server: str) -> int:
        """Bytes that one session with that server takes; 0 where it has not been seen."""
        return int(self._bytes.get(server, 0))

    def note(self, server: str, memory: int, sessions: int) -> None:
        """Take in what a server's processes take on one node, for so many sessions."""
        if memory <= 0 or (server not in self._bytes and len(self._bytes) >= MAX_SERVERS):
            return
        each = memory / max(1, sessions)
        self._bytes[server] = max(each, self._bytes.get(server, 0.0) * FADES)

    def load(self) -> None:
        """Read the file, if there is one. Blocks."""
        try:
            data = read_own_file(self._path, MAX_FILE_BYTES, closed_to=0)
            found = msgspec.json.decode(data, type=dict[str, int])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        self._saved = {name: each for name, each in list(found.items())[:MAX_SERVERS] if each > 0}
        self._bytes = {**self._saved, **self._bytes}

    def changed(self) -> dict[str, int] | None:
        """Return what is to be written; None where it has hardly changed since."""
        now = {name: int(each) for name, each in self._bytes.items()}
        same = now.keys() == self._saved.keys() and all(
            abs(each - self._saved[name]) < each / 10 for name, each in now.items()
        )
        return None if same else now

    def save(self, found: dict[str, int]) -> None:
        """Write the file. Blocks, and never raises."""
        self._saved = found
        try:
            ensure_folder(self._path.parent)
            replace_file(self._path, msgspec.json.encode(found), synced=False)
            self._is_broken = False
        except OSError as error:
            if not self._is_broken:
                log.warning("cluster.memory_unwritable", path=str(self._path), reason=error.strerror)
            self._is_broken = True


class _Shared(msgspec.Struct):
    """A server that all share: its reservation, and the sessions that are on it."""

    key: str
    name: str
    digest: str
    node: str | None = None
    sessions: int = 0
    unused_since: float = 0.0


class _Assigned(msgspec.Struct):
    """One session. `digest` is that of its server, `key` that of a reservation for it alone."""

    node: Node
    digest: str
    shared: _Shared | None = None
    key: str | None = None


class Assignments:
    """The assignments of one gateway, whose reservations for sessions have its name."""

    def __init__(
        self, ray: RayProcess, nodes: NodeTable, memory: SeenMemory, *, gateway: str, tell: Tell
    ) -> None:
        self._ray = ray
        self._nodes = nodes
        self._memory = memory
        self._gateway = gateway
        self._tell = tell
        self._sessions: dict[str, _Assigned] = {}
        self._shared: dict[str, _Shared] = {}
        self._unplaced: set[str] = set()
        self._releasing: set[asyncio.Future[None]] = set()

    def node_of(self, session: str) -> Node | None:
        """The node that a session is on."""
        assigned = self._sessions.get(session)
        return None if assigned is None else assigned.node

    def nodes_of(self, digest: str) -> list[Node]:
        """The nodes with sessions of the server of that digest."""
        return [each.node for each in self._sessions.values() if each.digest == digest]

    def take_unplaced(self) -> set[str]:
        """The sessions for which there was no node; they are forgotten."""
        found, self._unplaced = self._unplaced, set()
        return found

    # --- a session

    async def assign(self, server: ServerConfig, spec: ServerSpec, session: str) -> Node:
        """The node for a session, which counts for it from now on until `watch` has ended.

        Raises:
            ConnectionLost: There is none, and why.
        """
        self._unplaced.discard(session)
        demand = demand_of(server, self._memory.of(server.name))
        deadline = time.monotonic() + min(NODE_WAIT_S, server.call_limits.connect_timeout / 2)
        try:
            while True:
                assigned = await self._choose(spec, session, demand)
                if assigned is not None:
                    break
                await self._await_news(demand, deadline)
        except ConnectionLost:
            self._unplaced.add(session)
            raise
        self._end(session, keep=assigned.key)
        self._sessions[session] = assigned
        assigned.node.take(session, demand)
        if assigned.shared is not None:
            assigned.shared.sessions += 1
        log.debug("cluster.placed", server=server.name, session=session, node=assigned.node.name)
        return assigned.node

    def watch(self, session: str, target: NodeTarget, on_lost: Callable[[str], None]) -> Callable[[], None]:
        """Have `on_lost` called when the node is given up; the result ends the assignment."""
        assigned = self._sessions.get(session)
        node = None if assigned is None else assigned.node
        where = None if node is None else node.address
        if node is None or not node.answers or where is None or where.port != target.port:
            problem = (node and node.problem) or "it listens elsewhere now"
            reason = f"the node {target.node} was lost: {problem}"
            end_listening = asyncio.get_running_loop().call_soon(on_lost, reason).cancel
        else:
            end_listening = node.listen(on_lost)

        def end() -> None:
            end_listening()
            if self._sessions.get(session) is assigned:
                self._end(session)

        return end

    def _end(self, session: str, *, keep: str | None = None) -> None:
        """A session is over, or goes elsewhere with the reservation of that key."""
        assigned = self._sessions.pop(session, None)
        if assigned is None:
            return
        assigned.node.sessions.pop(session, None)
        if (shared := assigned.shared) is not None:
            shared.sessions -= 1
            if not shared.sessions:
                shared.unused_since = time.monotonic()
        if assigned.key is not None and assigned.key != keep:
            self._release(assigned.key)

    # --- the choice

    async def _choose(self, spec: ServerSpec, session: str, demand: Demand) -> _Assigned | None:
        """The assignment of a session; None if no node can take it now, but one may soon.

        Raises:
            ConnectionLost: Ray has none.
        """
        able = candidates(self._nodes.views(), _without_resources(demand))
        if self._ray.joined is None or not able:
            known = self._shared.get(_key(spec)) if spec.sessions == "shared" else None
            node = self._staying(known, demand)
            return None if node is None else _Assigned(node, spec.digest, known)
        if any(node.is_awaited for node in self._nodes):
            # a gateway that has just been started must not move a server from a node that it has yet to hear,
            # nor put everything on the one that is the first to answer
            return None
        if spec.sessions == "shared":
            return await self._choose_shared(spec, demand)
        if demand.resources:
            key = f"session/{self._gateway}/{session}"
            node = await self._reserve(key, demand, spec.digest)
            return None if node is None else _Assigned(node, spec.digest, key=key)
        node = self._spread(demand)
        return None if node is None else _Assigned(node, spec.digest)

    async def _choose_shared(self, spec: ServerSpec, demand: Demand) -> _Assigned | None:
        key = _key(spec)
        shared = self._shared.setdefault(key, _Shared(key, spec.name, spec.digest))
        node = self._staying(shared, demand)
        if node is None:
            node = await self._reserve(key, demand, spec.digest)
        if node is not None and shared.node != node.record.id:
            self._leave(shared)
            shared.node = node.record.id
        return None if node is None else _Assigned(node, spec.digest, shared)

    def _staying(self, shared: _Shared | None, demand: Demand) -> Node | None:
        """The node that a server is on, if it can stay there: it takes new sessions, and is still meant."""
        node = None if shared is None or shared.node is None else self._nodes.get(shared.node)
        if node is None or shared is None or (node.is_full and not node.runs(shared.digest)):
            return None
        # what it takes is taken already: only whether the node is there, and meant, counts
        alike = Demand(node=demand.node)
        roomy = replace(node.view(), memory_total=0, is_full=False)
        return node if candidates([roomy], alike) else None

    async def _await_news(self, demand: Demand, deadline: float) -> None:
        """Wait for a change of the nodes that may help, or raise ConnectionLost: none will come in time."""
        views = self._nodes.views()
        coming = (
            self._ray.joined is None
            or bool(candidates(views, _without_resources(demand)))  # Ray knows of a node that we do not yet
            or any(
                node.is_awaited or candidates([replace(node.view(), is_suspect=False)], demand)
                for node in self._nodes
                if not node.answers
            )
        )
        left = deadline - time.monotonic()
        if coming and left > 0:
            with anyio.move_on_after(left):
                await self._nodes.news.wait()
                return
        if self._ray.joined is None:
            raise ConnectionLost(f"Ray has not been joined: {self._ray.problem}")
        raise ConnectionLost(f"there is no node for it: {misfit(views, demand)}")

    # --- reservations

    async def _reserve(self, key: str, demand: Demand, digest: str) -> Node | None:
        """Have Ray choose among the nodes that answer; None if its choice does not just now.

        Raises:
            ConnectionLost: Ray has none.
        """
        roomy = {view.id for view in candidates(self._nodes.views(), _without_resources(demand))}
        nodes = [node for node in self._nodes if node.record.id in roomy or node.runs(digest)]
        able = {node.record.id for node in nodes if node.view().takes_new}
        exclude = tuple(node.record.id for node in self._nodes if node.record.id not in able)
        try:
            chosen = await self._ray.reserve(
                key,
                resources=demand.resources,
                memory_bytes=demand.memory,
                node=demand.node,
                spread=demand.spread,
                exclude=exclude,
            )
        except RayError as error:
            if error.code == "unavailable" and not demand.resources:
                log.warning("cluster.placed_without_ray", key=key, cause=str(error))
                return self._spread(demand)  # one that runs is better than one that is placed best
            raise ConnectionLost(str(error), retryable=error.code != "invalid") from None
        node = self._nodes.get(chosen)
        return node if node is not None and node.answers else None

    def _spread(self, demand: Demand) -> Node | None:
        """Return the node for one more session among many, which Ray does not count."""
        chosen = spread(self._nodes.views(), demand)
        return None if chosen is None else self._nodes.get(chosen.id)

    def _release(self, key: str) -> None:
        """Give up a reservation, without waiting."""
        task = asyncio.ensure_future(self._try_to_release(key))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _try_to_release(self, key: str) -> None:
        try:
            await self._ray.release(key)
        except RayError as error:
            log.info("cluster.not_released", key=key, cause=str(error))

    # --- what is not needed any more

    def _leave(self, shared: _Shared) -> None:
        """A shared server goes elsewhere: it must not stay where it was."""
        node = None if shared.node is None else self._nodes.get(shared.node)
        if node is None:
            return
        if node.answers:
            self._tell(node, shared.name, shared.digest)
        else:
            node.left_behind.add((shared.name, shared.digest))

    def release_left_behind(self, node: Node) -> None:
        """A node answers again: have it end what has been placed elsewhere meanwhile."""
        left, node.left_behind = node.left_behind, set()
        here = {(each.name, each.digest) for each in self._shared.values() if each.node == node.record.id}
        for name, digest in left - here:
            self._tell(node, name, digest)

    async def forget_unused(self) -> None:
        """Give up the reservations of servers that nobody has used for long: removed, or asleep."""
        while True:
            await anyio.sleep(LOOK_INTERVAL_S)
            now = time.monotonic()
            for key, shared in list(self._shared.items()):
                if not shared.sessions and now - shared.unused_since > UNUSED_S:
                    del self._shared[key]
                    self._release(key)

    async def release_all(self) -> None:
        """Give up all reservations, but for those of servers that another gateway uses, too.

        Raises:
            RayError: Ray cannot be asked.
        """
        keys = [each.key for each in self._sessions.values() if each.key is not None]
        keys += [key for key, shared in self._shared.items() if not self._is_used_by_others(shared)]
        for key in keys:
            await self._ray.release(key)

    def _is_used_by_others(self, shared: _Shared) -> bool:
        node = None if shared.node is None else self._nodes.get(shared.node)
        servers = node.report.servers if node is not None and node.report is not None else ()
        return any(each.digest == shared.digest and each.connections > shared.sessions for each in servers)


def _without_resources(demand: Demand) -> Demand:
    """Return the demand without what Ray counts: it alone knows what of it the session has reserved."""
    return replace(demand, resources={})


def _key(spec: ServerSpec) -> str:
    return f"server/{spec.digest[:32]}/{spec.name}"

"""The cluster as the gateway has it: which nodes there are, and on which of them each session is.

Made by the composition root and handed to the hub as its `Placement`; `run` is a child of the root
supervisor. It reads the nodes from the Ray process, watches each (`mcpx.cluster.node_watch`), and answers the
transports of placed servers (`mcpx.cluster.assigning`). When a node does not answer any more, all sessions on
it are told in one turn: their supervisors connect them again, a few at a time, and they are placed elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
import structlog

from mcpx.cluster.assigning import Assignments, SeenMemory
from mcpx.cluster.draining import Draining
from mcpx.cluster.node.protocol import Attach, FirstAnswer, FirstLine, Logs, Release, Restart
from mcpx.cluster.node.spec import placed_spec
from mcpx.cluster.node.starting import NodeAddress
from mcpx.cluster.node_link import NodeLink, NodeTarget, open_placed
from mcpx.cluster.node_table import Node, NodeTable, as_node_says, use_of
from mcpx.cluster.node_watch import ANSWER_TIMEOUT_S, RESTART_TIMEOUT_S, NodeRefused, NodeWatch, ask
from mcpx.cluster.placement import starts_at_once
from mcpx.cluster.ray_client import RayProcess
from mcpx.cluster.ray_process.protocol import NodeRecord
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import ServerConfig
from mcpx.core.servers.fleet.fleet import Fleet
from mcpx.core.servers.fleet.supervision import try_again
from mcpx.core.servers.transport.link import ConnectionLost
from mcpx.core.servers.transport.placement import PlacedUse
from mcpx.core.telemetry.contained import containing
from mcpx.core.wire.receiver import OnMalformed
from supervisors import Incarnation

log = structlog.get_logger()
SAVE_INTERVAL_S: Final = 60.0
MAX_LOG_LINES: Final = 1000
COUNT_S: Final = 0.2  # for which the number of starts that the nodes can take holds


class Cluster:
    """The nodes, and what is on them. `folder` is that of the configuration, `gateway` names this MCPX."""

    def __init__(self, ray: RayProcess, *, folder: Path, gateway: str) -> None:
        self.ray = ray
        self.nodes = NodeTable()
        self.memory = SeenMemory(folder)
        self.assignments = Assignments(ray, self.nodes, self.memory, gateway=gateway, tell=self._tell)
        self.draining = Draining(ray, self.nodes, self.place_again)
        self.fleet: Fleet | None = None
        """The servers, once there are any."""
        self._digests: dict[str, tuple[ServerConfig, str | None]] = {}
        self._gateway = gateway
        self._at_once, self._counted_until = 0, 0.0
        self._tasks: anyio.abc.TaskGroup | None = None
        self._watched: dict[str, tuple[NodeAddress, anyio.CancelScope]] = {}
        ray.observe(self._on_ray)
        self._on_ray()

    # --- for the transports

    def connect(
        self, server: ServerConfig, session: str, *, limit: int, on_malformed: OnMalformed
    ) -> AbstractAsyncContextManager[NodeLink]:
        """Connect a session to a node that takes the server; see `Placement`."""
        return open_placed(self, server, session, limit=limit, on_malformed=on_malformed)

    async def place(self, server: ServerConfig, session: str) -> NodeTarget:
        """Choose the node for a session with that server; see `Places`."""
        spec = placed_spec(server)
        if spec is None:
            raise ConnectionLost("it is not placed on a node", retryable=False)
        node = await self.assignments.assign(server, spec, session)
        address, joined = node.address, self.ray.joined
        if address is None or joined is None:  # it went in this very turn
            raise ConnectionLost(f"the node {node.name} was lost: {node.problem}")
        memory = self.memory.of(server.name)
        greeting = Attach(token=joined.token, server=spec, memory=memory, client=self._gateway)
        return NodeTarget(
            node=node.name,
            host=address.host,
            port=address.port,
            certificate=joined.certificate,
            greeting=msgspec.json.encode(greeting),
        )

    def watch(self, session: str, target: NodeTarget, on_lost: Callable[[str], None]) -> Callable[[], None]:
        """Have `on_lost` called when the node of a session is given up; see `Places`."""
        return self.assignments.watch(session, target, on_lost)

    def refused(self, session: str) -> None:
        """Take in that the node of a session has no room for it; see `Places`."""
        if (node := self.assignments.node_of(session)) is not None:
            node.refused(session)

    def node_of(self, session: str) -> str | None:
        """The name of the node that a session is on."""
        node = self.assignments.node_of(session)
        return None if node is None else node.name

    def use_of(self, server: ServerConfig) -> PlacedUse | None:
        """Sum what a server uses on all nodes; see `Placement`."""
        return use_of(self.nodes, self.digest_of(server))

    def starts_at_once(self) -> int:
        """Return the number of sessions that may start on nodes at a time."""
        now = time.monotonic()
        if now >= self._counted_until:  # asked at every turn of a start
            self._at_once, self._counted_until = starts_at_once(self.nodes.views()), now + COUNT_S
        return self._at_once

    async def restart(self, server: ServerConfig) -> bool:
        """Have the nodes start a server again that they run; return True if any has. Connections stay."""
        spec = placed_spec(server)
        if spec is None:
            return False
        request = partial(Restart, server=spec.name, digest=spec.digest)
        done = [await self._try(node, request, RESTART_TIMEOUT_S) for node in self._running(server)]
        return any(each is not None for each in done)

    async def log_tail(self, server: ServerConfig, lines: int) -> list[str] | None:
        """Return the last lines of a server's log, of all nodes; None for one that is not placed."""
        spec, found = placed_spec(server), list[str]()
        if spec is None:
            return None
        request = partial(Logs, server=spec.name, digest=spec.digest, lines=min(lines, MAX_LOG_LINES))
        running = self._running(server)
        for node in running:
            answer = await self._try(node, request)
            said = () if answer is None else answer.log
            found += [f"{node.name}: {line}" for line in said] if len(running) > 1 else said
        return found[-lines:]

    def _running(self, server: ServerConfig) -> list[Node]:
        """The nodes that run a server: those with sessions of ours, and those that have said so."""
        digest = self.digest_of(server)
        ours = self.assignments.nodes_of(digest or "")
        return [
            node
            for node in self.nodes
            if node.answers and (node in ours or (digest is not None and node.runs(digest)))
        ]

    # --- for those who look

    def as_node_says(self, server: ServerConfig, session: str, info: ServerInfo) -> ServerInfo:
        """Return a server as its node says, where that knows better; see `Placement`."""
        return as_node_says(self.assignments.node_of(session), self.digest_of(server), info)

    def digest_of(self, server: ServerConfig) -> str | None:
        """Return the digest by which nodes know a server; None for one that is not placed."""
        known = self._digests.get(server.name)
        if known is None or known[0] is not server:
            spec = placed_spec(server)
            known = self._digests[server.name] = server, None if spec is None else spec.digest
        return known[1]

    # --- its life

    def serve(self, fleet: Fleet) -> None:
        """Be the cluster of that fleet, which was made with this as its `placement`."""
        self.fleet = self.draining.fleet = fleet

    async def run(self, incarnation: Incarnation) -> None:
        """Watch the nodes, until the root supervisor asks this child to stop."""
        await anyio.to_thread.run_sync(self.memory.load)
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                self._keep_watches()
                tasks.start_soon(self.draining.run)
                tasks.start_soon(self.assignments.forget_unused)
                tasks.start_soon(self._keep_memory)
                incarnation.ready()
                await incarnation.stopping.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._tasks = None
            self._watched.clear()
        if (found := self.memory.changed()) is not None:
            await anyio.to_thread.run_sync(self.memory.save, found)

    async def _keep_memory(self) -> None:
        while True:
            await anyio.sleep(SAVE_INTERVAL_S)
            if (found := self.memory.changed()) is not None:
                await anyio.to_thread.run_sync(self.memory.save, found)

    def _on_ray(self) -> None:
        """Take in the nodes as Ray has them now."""
        before = {node.record.id: node.record for node in self.nodes}
        self.nodes.update(self.ray.nodes)
        self._keep_watches()
        if any(_has_more(before.get(node.record.id), node.record) for node in self.nodes):
            self.place_again()

    def _keep_watches(self) -> None:
        """Watch each node where it listens now."""
        tasks, joined = self._tasks, self.ray.joined
        if tasks is None:
            return
        now = {node.record.id: node.address for node in self.nodes}
        for node_id, (address, scope) in list(self._watched.items()):
            if now.get(node_id) != address:
                scope.cancel()
                del self._watched[node_id]
        for node in self.nodes:
            if joined is not None and node.address is not None and node.record.id not in self._watched:
                scope = anyio.CancelScope()
                self._watched[node.record.id] = node.address, scope
                watch = NodeWatch(
                    node,
                    node.address,
                    token=joined.token,
                    certificate=joined.certificate,
                    on_change=self._on_node,
                )
                tasks.start_soon(_within, scope, watch)

    def _on_node(self, node: Node, *, is_new: bool) -> None:
        """Take in a node's report, or its silence. `is_new`: it answers again, or at last."""
        if node.answers and node.report is not None:
            for server in node.report.servers:
                if server.memory_bytes is not None:
                    self.memory.note(server.name, server.memory_bytes, server.processes)
        if is_new:
            self.assignments.release_left_behind(node)
            self.place_again()
        self.nodes.news.pulse()

    def place_again(self) -> None:
        """Try those sessions again for which there was no node."""
        if self.fleet is None:
            return
        without = self.assignments.take_unplaced()
        for session in self.fleet.children():
            if session.child in without:
                try_again(session, self.fleet.supervisor)

    # --- to the nodes

    def _tell(self, node: Node, server: str, digest: str) -> None:
        """Let a node know, without waiting, that a server is not needed there any more."""
        if self._tasks is not None:
            self._tasks.start_soon(self._try, node, partial(Release, server=server, digest=digest))

    async def _try(
        self, node: Node, request: Callable[..., FirstLine], answer_s: float = ANSWER_TIMEOUT_S
    ) -> FirstAnswer | None:
        """Have a node do something; its answer, or None where it does not."""
        address, joined = node.address, self.ray.joined
        if address is None or joined is None:
            return None
        with containing("node request", node=node.name):  # one node ends nothing else
            try:
                return await ask(address, joined.certificate, request(token=joined.token), answer_s=answer_s)
            except NodeRefused as error:
                log.info("cluster.node_refused", node=node.name, cause=str(error))
        return None


async def _within(scope: anyio.CancelScope, watch: NodeWatch) -> None:
    with scope:
        await watch.run()


def _has_more(before: NodeRecord | None, now: NodeRecord) -> bool:
    """Return True if a node may take more than before; a new one says so by answering."""
    if before is None:
        return False
    freed = any(amount > before.free.get(key, 0) for key, amount in now.free.items())
    return freed or (before.draining and not now.draining)

"""Draining: what is on a node that is to take nothing more moves to others, and no call is lost by it.

Owned by the cluster, which runs it. A session is ended in order when nothing is in flight and nothing waits,
and its supervisor connects it again: then it is placed elsewhere. One that is never idle, because its calls
follow each other without a pause, is held: what comes waits in its queue while what runs comes to its end,
for `HOLD_S` at most. One with a call that takes longer, a suspended call or an open task stays until that is
over; so does one that no other node can take. `drain` says what is left when its time is up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import anyio
import anyio.abc
import structlog
from msgspec.structs import replace

from mcpx.cluster.node_table import Node, NodeTable
from mcpx.cluster.placement import Session, candidates, misfit, moves
from mcpx.cluster.ray_client import RayProcess
from mcpx.core.servers import actor
from mcpx.core.servers.fleet.fleet import Fleet
from mcpx.core.servers.ports import Supervised
from mcpx.core.telemetry.contained import containing
from mcpx.core.text import one_line
from supervisors import Phase

log = structlog.get_logger()
LOOK_INTERVAL_S: Final = 0.2
IDLE_LOOK_INTERVAL_S: Final = 2.0  # while nothing is drained
PATIENCE_S: Final = 1.0  # for a session to be idle by itself
HOLD_S: Final = 3.0  # for which calls may wait that it is held
HOLD_AGAIN_S: Final = 10.0  # after a hold that was in vain
MAX_HELD: Final = 8  # at a time


class Draining:
    """Moves the sessions of one gateway off the nodes that are drained."""

    def __init__(self, ray: RayProcess, nodes: NodeTable, place_again: Callable[[], None]) -> None:
        self._ray = ray
        self._nodes = nodes
        self._place_again = place_again
        self.fleet: Fleet | None = None
        """The servers, once there are any."""
        self._busy_since: dict[str, float] = {}  # of sessions that are to move
        self._held: set[str] = set()

    async def drain(self, name: str, timeout_s: float) -> list[str]:
        """Have a node take nothing new, and wait until this gateway has nothing on it; what is left then.

        Raises:
            MCPXError: There is no such node, or more than one, or Ray cannot be asked.
        """
        node = self._nodes.named(name)
        await self._ray.drain(node.record.id, draining=True)
        node.record = replace(node.record, draining=True)  # before Ray says so
        log.info("cluster.draining", node=node.name, sessions=len(node.sessions))
        with anyio.move_on_after(timeout_s):
            while node.sessions:
                self.look()
                await anyio.sleep(LOOK_INTERVAL_S)
        return self.left_on(node)

    async def undrain(self, name: str) -> None:
        """Have a node take new sessions again.

        Raises:
            MCPXError: There is no such node, or more than one, or Ray cannot be asked.
        """
        node = self._nodes.named(name)
        await self._ray.drain(node.record.id, draining=False)
        node.record = replace(node.record, draining=False)
        self._place_again()

    def left_on(self, node: Node) -> list[str]:
        """The sessions on a node, by server, and why each is still there."""
        fleet, left = self.fleet, dict[str, tuple[str, int]]()
        for session in () if fleet is None else fleet.children():
            if session.child in node.sessions:
                why, count = left.get(session.name, (self._why(session, node), 0))
                left[session.name] = why, count + 1
        return [
            one_line(f"{name}{f' x{count}' if count > 1 else ''}: {why}")
            for name, (why, count) in left.items()
        ]

    # --- moving

    async def run(self) -> None:
        """Move what can be moved, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                with containing("draining"):  # the boundary: one odd session ends no draining
                    self.look()
                    self._hold_some(tasks)
                drains = any(node.record.draining and node.sessions for node in self._nodes)
                await anyio.sleep(LOOK_INTERVAL_S if drains else IDLE_LOOK_INTERVAL_S)

    def look(self) -> None:
        """Move the sessions that are idle."""
        found = self._to_move()
        known = [
            Session(name=name, node=node.record.id, is_busy=session.is_busy)
            for name, (session, node) in found.items()
        ]
        views = {view.id: view for view in self._nodes.views()}
        idle = {move.session for move in moves(known, views)}
        now = time.monotonic()
        self._busy_since = {
            each.name: self._busy_since.get(each.name, now) for each in known if each.name not in idle
        }
        for name in idle - self._held:
            self._move(*found[name])

    def _to_move(self) -> dict[str, tuple[Supervised, Node]]:
        """The sessions on nodes that are drained, and that another node can take."""
        fleet, nodes = self.fleet, self._nodes
        drained = [node for node in nodes if node.record.draining and node.sessions]
        if fleet is None or not drained:
            return {}
        found: dict[str, tuple[Supervised, Node]] = {}
        views = nodes.views()
        for session in fleet.children():
            node = next((each for each in drained if session.child in each.sessions), None)
            if node is not None and _is_up(session) and candidates(views, node.sessions[session.child]):
                found[session.child] = session, node
        return found

    def _move(self, session: Supervised, node: Node) -> None:
        fleet = self.fleet
        if fleet is not None:
            log.info("cluster.moving", server=session.name, session=session.child, node=node.name)
            fleet.supervisor.recycle(session.child)

    # --- sessions that are never idle

    def _hold_some(self, tasks: anyio.abc.TaskGroup) -> None:
        now = time.monotonic()
        for name, (session, node) in self._to_move().items():
            since = self._busy_since.get(name)
            if since is None or now - since < PATIENCE_S or name in self._held or len(self._held) >= MAX_HELD:
                continue
            if isinstance(session, actor.Session) and session.idleness and not session.idleness.is_bound():
                self._held.add(name)
                tasks.start_soon(self._hold, session, node)

    async def _hold(self, session: actor.Session, node: Node) -> None:
        """Have a session come to rest, and move it then."""
        try:
            with containing("draining", server=session.name):  # the boundary, as above
                idleness = session.idleness
                patience = min(HOLD_S, session.config.call_limits.queue_timeout / 3)
                if idleness is not None and await idleness.quiesce(patience):
                    self._move(session, node)
                else:
                    self._busy_since[session.child] = time.monotonic() + HOLD_AGAIN_S - PATIENCE_S
        finally:
            self._held.discard(session.child)

    def _why(self, session: Supervised, node: Node) -> str:
        demand, views = node.sessions.get(session.child), self._nodes.views()
        if demand is not None and not candidates(views, demand):
            return f"no other node can take it ({misfit(views, demand)})"
        return "it is busy" if session.is_busy else "it is moving"


def _is_up(session: Supervised) -> bool:
    life = session.queue.lifecycle_or_none()
    return life is not None and life.phase is Phase.UP

"""A whole simulation: what happens to nodes, and what follows for the sessions on them.

Which sessions must leave a node is decided by `mcpx.cluster.placement`, as is where they go (`placing`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from mcpx.cluster.placement import Session as Placed
from mcpx.cluster.placement import moves, spread
from scripts.lab.simulation.figures import Figures, Recovery
from scripts.lab.simulation.parts import Node, Session
from scripts.lab.simulation.placing import Choose, Placing
from scripts.lab.simulation.world import GB, World

Move = Callable[..., list]
DRAIN_POLL_S = 0.2


class Simulation(Placing):
    """One run. `choose` and `leave` are the decisions; tests put wrong ones in their place."""

    def __init__(self, world: World, *, choose: Choose = spread, leave: Move = moves) -> None:
        super().__init__(world, choose=choose)
        self._leave = leave
        for number in range(world.nodes):
            self.join(f"node-{number:05}", self.size(number))

    def size(self, number: int) -> int:
        """The memory of the node of that number."""
        large = number % self.world.large_every == self.world.large_every - 1
        return int(self.world.node_gb * GB * (2 if large else 1))

    def join(self, name: str, total: int) -> None:
        """A node joins, new or again, with nothing on it."""
        life = self.nodes[name].life + 1 if name in self.nodes else 0
        node = self.nodes[name] = Node(name, total, life=life)
        for gateway in self.gateways:
            gateway.learn(node, self.now)

    def die(self, nodes: list[Node]) -> None:
        """Nodes die at the same moment, and all that runs on them; the gateways know nothing yet."""
        alive = [node for node in nodes if node.is_alive and self.nodes[node.id] is node]
        recovery = Recovery(nodes=len(alive), at=self.now)
        self.figures.recoveries.append(recovery)
        for node in alive:
            node.is_alive = False
            recovery.lost += len(node.sessions)
            recovery.in_call += sum(self.random.random() < self.world.busy for _ in node.sessions)
        self.at(self.now + self.world.suspect_s, self._suspect, alive)
        self.at(self.now + self.world.given_up_s, self._give_up, alive, recovery)

    def _suspect(self, nodes: list[Node]) -> None:
        for node, gateway in itertools.product(nodes, self.gateways):
            gateway.known[node.id].is_suspect = True
            gateway.show(node, self.now)

    def _give_up(self, nodes: list[Node], recovery: Recovery) -> None:
        """The gateways have waited long enough: what was there is placed again."""
        lost = [session for node in nodes for session in node.sessions.values()]
        for node, gateway in itertools.product(nodes, self.gateways):
            gateway.forget(node)
        living = {name: view for gateway in self.gateways for name, view in gateway.views.items()}
        gone = {move.session for move in self._leave([as_placed(each) for each in lost], living)}
        for session in lost:
            if session.name not in gone:
                self.figures.problem(f"{session.name} stays on {session.node.id}, which is dead")
            self.take_off(session)
            self._recovering[session] = recovery
        for session in lost:
            self.figures.again += 1
            self.want(session)
        for node in nodes:
            self.at(self.now + self.world.back_s, self.join, node.id, node.total)

    def drain(self, node: Node) -> None:
        """Have its sessions leave when they are idle; it comes back when it has been empty for a while."""
        if not node.is_alive or node.is_draining or self.nodes[node.id] is not node:
            return
        node.is_draining = True
        self._show(node)
        self._move(node, self.now)

    def _show(self, node: Node) -> None:
        for gateway in self.gateways:
            gateway.show(node, self.now)

    def _move(self, node: Node, since: float) -> None:
        if not node.is_alive:
            return
        here = list(node.sessions.values())
        placed = [as_placed(each, busy=self.random.random() < self.world.busy) for each in here]
        for move in self._leave(placed, self.gateways[0].views):
            session = node.sessions[move.session]
            self.take_off(session)
            self.figures.again += 1
            self.want(session)
        if node.sessions:
            self.at(self.now + DRAIN_POLL_S, self._move, node, since)
            return
        self.figures.drained_s.append(self.now - since)
        self.at(self.now + self.world.back_s, self._come_back, node)

    def _come_back(self, node: Node) -> None:
        if node.sessions:
            self.figures.problem(f"{node.id} was drained, and has {len(node.sessions)} sessions")
        if node.is_alive:
            node.is_draining = False
            self._show(node)

    def look(self) -> None:
        """Note how full the nodes are, if there are more sessions than ever."""
        alive = [node for node in self.nodes.values() if node.is_alive]
        if self.open <= self.figures.peak_sessions or not alive:
            return
        shares = [node.used / node.total for node in alive]
        self.figures.peak_sessions, self.figures.peak_at = self.open, self.now
        self.figures.peak_used = sum(node.used for node in alive) / sum(node.total for node in alive)
        self.figures.peak_balance = max(shares) / self.figures.peak_used if self.figures.peak_used else 1.0

    def finish(self) -> Figures:
        """The figures, with what is left that must not be."""
        for session in self._unplaced:
            if not session.is_over:
                self.figures.problem(f"{session.name} has no node at the end")
        for node in self.nodes.values():
            if node.is_draining and node.sessions:
                self.figures.problem(f"{node.id} is still drained at the end")
        return self.figures


def as_placed(session: Session, *, busy: bool = True) -> Placed:
    """A session as the decisions know it."""
    return Placed(name=session.name, node=session.node.id if session.node else "", is_busy=busy)

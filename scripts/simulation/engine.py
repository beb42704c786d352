"""The simulation itself: a queue of events, and the rules by which sessions, nodes and gateways change.

Where a session goes, and which sessions must leave a node, is decided by `mcpx.cluster.placement`, of which
nothing is repeated here. What that must never do is checked at each decision, by arithmetic of its own.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterable

from mcpx.cluster.placement import MEMORY_RESERVE, Demand, NodeView, moves, spread
from mcpx.cluster.placement import Session as Placed
from scripts.simulation.figures import Figures, Recovery
from scripts.simulation.parts import Gateway, Node, Session
from scripts.simulation.world import GB, World

Choose = Callable[[Iterable[NodeView], Demand], NodeView | None]
Move = Callable[..., list]
RETRY_S = 0.5  # after a refusal, doubled up to ...
MAX_RETRY_S = 60.0
DRAIN_POLL_S = 5.0


class Simulation:
    """One run. `choose` and `leave` are the decisions; tests put wrong ones in their place."""

    def __init__(self, world: World, *, choose: Choose = spread, leave: Move = moves) -> None:
        self.world = world
        self.now = 0.0
        self.random = random.Random(world.seed)
        self.figures = Figures()
        self.gateways = [Gateway(number) for number in range(world.gateways)]
        self.nodes: dict[str, Node] = {}
        self.open = 0
        self.last_up = 0.0
        self._choose = choose
        self._leave = leave
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = itertools.count()
        self._recovering: dict[Session, Recovery] = {}
        self._unplaced: set[Session] = set()
        self._too_full: set[str] = set()
        for number in range(world.nodes):
            self.join(f"node-{number:05}", self.size(number))

    def size(self, number: int) -> int:
        """The memory of the node of that number."""
        large = number % self.world.large_every == self.world.large_every - 1
        return int(self.world.node_gb * GB * (2 if large else 1))

    def at(self, when: float, do: Callable[..., None], *about: object) -> None:
        """Have something happen at that time."""
        heapq.heappush(self._events, (when, next(self._order), do, about))

    def run(self, until: float) -> None:
        """Let everything happen that is due until then."""
        while self._events and self._events[0][0] <= until:
            self.now, _, do, about = heapq.heappop(self._events)
            do(*about)
        self.now = until

    # --- sessions

    def want(self, session: Session) -> None:
        """A session is needed, for the first time or again: it waits for its gateway to start it."""
        if session.is_over:
            return
        session.needed_at, session.refusals = self.now, 0
        self._unplaced.add(session)
        session.gateway.waiting.append(session)
        self._serve(session.gateway)

    def opens(self, session: Session) -> None:
        """A person uses a server for the first time."""
        self.figures.opened += 1
        self.open += 1
        self.want(session)

    def ends(self, session: Session) -> None:
        """The person leaves."""
        session.is_over = True
        self.open -= 1
        self._recovered(session, left=True)
        self._unplaced.discard(session)
        self.take_off(session)

    def _serve(self, gateway: Gateway) -> None:
        while gateway.waiting and gateway.starting < self.world.max_starting:
            session = gateway.waiting.popleft()
            if not session.is_over:
                self._place(session)

    def _place(self, session: Session) -> None:
        gateway = session.gateway
        began = time.perf_counter()
        view = self._choose(gateway.views.values(), session.demand)
        self.figures.decisions_s.append(time.perf_counter() - began)
        if view is None:
            self._refuse(session)
            return
        self._check(view, session)
        node = self.nodes[view.id]
        known = gateway.known[node.id]
        known.placed += 1
        known.promised += session.demand.memory
        known.starting += 1
        gateway.show(node)
        session.node, session.is_up = node, False
        session.run += 1
        session.holds_start = True
        gateway.starting += 1
        self.figures.placed += 1
        node.sessions[session.name] = session
        self.at(self.now + self.world.slow_start, self._slow, session, session.run)
        if not node.is_alive:
            self.figures.to_the_dead += 1  # it waits there until the node is given up
            return
        node.busy_until = max(self.now, node.busy_until) + 1 / self.world.starts_per_s
        up_at = max(self.now + self.world.start_s, node.busy_until)
        self.at(up_at, self._up, session, session.run)
        node.used += session.memory
        self._note_memory(node)
        self._changed(node)

    def _check(self, view: NodeView, session: Session) -> None:
        """Whether the chosen node may take it, by what its gateway knows."""
        if view.is_draining or view.is_suspect:
            self.figures.problem(f"{session.name} was placed on {view.id}, which takes nothing new")
        if view.memory_free - session.demand.memory < view.memory_total * MEMORY_RESERVE:
            self.figures.problem(f"{session.name} was placed on {view.id}, which has no memory for it")

    def _refuse(self, session: Session) -> None:
        """There is no node for it. It is tried again, later and later, as a supervisor does."""
        needed = session.demand.memory
        for view in session.gateway.views.values():
            room = view.memory_free - needed >= view.memory_total * MEMORY_RESERVE
            if room and not view.is_draining and not view.is_suspect:
                self.figures.problem(f"{session.name} was refused, and {view.id} has room")
                break
        self.figures.refused += session.refusals == 0
        pause = min(RETRY_S * 2**session.refusals, MAX_RETRY_S)
        session.refusals += 1
        self.at(self.now + pause, self._retry, session, session.run)

    def _retry(self, session: Session, run: int) -> None:
        if session.run == run and not session.is_over:
            session.gateway.waiting.append(session)
            self._serve(session.gateway)

    def _up(self, session: Session, run: int) -> None:
        """It answers its first call."""
        if session.run != run or session.is_over:
            return
        session.is_up, self.last_up = True, self.now
        self._settle(session, ran=True)
        self._unplaced.discard(session)
        waited = self.now - session.needed_at
        self.figures.waits.append(waited)
        late = waited > self.world.queue_timeout
        self.figures.late += late
        self._recovered(session, late=late)
        self._release(session)

    def _slow(self, session: Session, run: int) -> None:
        if session.run == run:
            self._release(session)

    def _release(self, session: Session) -> None:
        """Its start holds others back no longer."""
        if session.holds_start:
            session.holds_start = False
            session.gateway.starting -= 1
            self._serve(session.gateway)

    def _settle(self, session: Session, *, ran: bool) -> None:
        """Its start has ended: its memory is promised no more, and if it runs, not reported yet."""
        known = session.gateway.known.get(session.node.id) if session.node is not None else None
        if session.node is None or known is None:
            return
        known.promised -= session.demand.memory
        known.starting -= 1
        known.started += session.demand.memory * ran
        session.gateway.show(session.node)

    def take_off(self, session: Session) -> None:
        """End a session where it runs, or starts."""
        node = session.node
        if node is None:
            return
        if not session.is_up:
            self._settle(session, ran=False)
        session.run += 1  # what was due of this one is not, any more
        session.node, session.is_up = None, False
        del node.sessions[session.name]
        if node.is_alive:
            node.used -= session.memory
            self._changed(node)
        self._release(session)

    def _recovered(self, session: Session, *, late: bool = False, left: bool = False) -> None:
        """A session of a node that died runs again, or is not wanted any more."""
        recovery = self._recovering.pop(session, None)
        if recovery is None:
            return
        recovery.late += late
        recovery.left += left
        if not left:
            recovery.placed_s = self.now - recovery.at

    # --- nodes

    def _changed(self, node: Node) -> None:
        """Have it report within the second."""
        if not node.report_due:
            node.report_due = True
            self.at(self.now + self.random.uniform(0, self.world.report_s), self._report, node, node.life)

    def _report(self, node: Node, life: int) -> None:
        if node.life != life or not node.is_alive:
            return
        node.report_due = False
        for gateway in self.gateways:
            gateway.learn(node)

    def join(self, name: str, total: int) -> None:
        """A node joins, new or again, with nothing on it."""
        life = self.nodes[name].life + 1 if name in self.nodes else 0
        node = self.nodes[name] = Node(name, total, life=life)
        for gateway in self.gateways:
            gateway.learn(node)

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
            gateway.show(node)

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
            gateway.show(node)

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

    def _note_memory(self, node: Node) -> None:
        share = node.used / node.total
        self.figures.fullest = max(self.figures.fullest, share)
        if share > 1 and node.id not in self._too_full:
            self._too_full.add(node.id)
            self.figures.too_full += 1
            self.figures.problem(f"{node.id} has {share:.1%} of its memory in use")

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

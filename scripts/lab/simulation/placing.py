"""The queue of events of a simulation, and its sessions: how each waits, is placed, starts and ends.

Where a session goes is decided by `mcpx.cluster.placement`, of which nothing is repeated here. What that must
never do is checked at each decision, by arithmetic of its own. `engine` adds what happens to nodes.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterable

from mcpx.cluster.cluster import COUNT_S
from mcpx.cluster.node_link import MAX_PLACES
from mcpx.cluster.node_table import FULL_S, PROMISE_S
from mcpx.cluster.placement import MEMORY_RESERVE, Demand, NodeView, has_memory, starts_at_once
from scripts.lab.simulation.figures import Figures, Recovery
from scripts.lab.simulation.parts import Gateway, Known, Node, Session
from scripts.lab.simulation.world import World

Choose = Callable[[Iterable[NodeView], Demand], NodeView | None]
RETRY_S = 0.5  # after a refusal, doubled up to ...
MAX_RETRY_S = 60.0


class Placing:
    """The sessions of one run. `choose` decides where each goes."""

    def __init__(self, world: World, *, choose: Choose) -> None:
        self.world = world
        self.now = 0.0
        self.random = random.Random(world.seed)
        self.figures = Figures()
        self.gateways = [Gateway(number) for number in range(world.gateways)]
        self.nodes: dict[str, Node] = {}
        self.open = 0
        self.last_up = 0.0
        self._choose = choose
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = itertools.count()
        self._recovering: dict[Session, Recovery] = {}
        self._unplaced: set[Session] = set()
        self._too_full: set[str] = set()

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
        while gateway.waiting and gateway.starting < self._at_once(gateway):
            session = gateway.waiting.popleft()
            if not session.is_over:
                self._place(session)

    def _at_once(self, gateway: Gateway) -> int:
        """How many it may have start, which it counts anew a few times a second."""
        if self.world.max_starting:
            return self.world.max_starting
        if self.now >= gateway.counted_until:
            gateway.at_once = starts_at_once(gateway.views.values())
            gateway.counted_until = self.now + COUNT_S
        return gateway.at_once

    def _place(self, session: Session) -> None:
        gateway = session.gateway
        for _ in range(MAX_PLACES):
            began = time.thread_time()
            view = self._choose(gateway.views.values(), session.demand)
            self.figures.decisions_s.append(time.thread_time() - began)
            if view is None:
                break
            self._check(view, session)
            node = self.nodes[view.id]
            if not node.is_alive or has_memory(node.total, node.total - node.used, session.demand.memory):
                break
            self._node_refuses(gateway, node)
            view = None
        if view is None:
            self._refuse(session)
            return
        known = gateway.known[node.id]
        known.placed += 1
        known.promised += session.demand.memory
        known.starting += 1
        gateway.show(node, self.now)
        self.at(self.now + PROMISE_S, self._unpromise, gateway, known, node, session.demand.memory)
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

    def _node_refuses(self, gateway: Gateway, node: Node) -> None:
        """It sees what all gateways have placed, and has no room: nothing is placed there for a while."""
        self.figures.by_nodes += 1
        known = gateway.known[node.id]
        known.full_until = self.now + FULL_S
        gateway.show(node, self.now)
        self.at(known.full_until, self._show_again, gateway, known, node)

    def _show_again(self, gateway: Gateway, known: Known, node: Node) -> None:
        if gateway.known.get(node.id) is known:
            gateway.show(node, self.now)

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
            if room and not view.is_draining and not view.is_suspect and not view.is_full:
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

    def _unpromise(self, gateway: Gateway, known: Known, node: Node, memory: int) -> None:
        """A session that was placed is in the node's own figures by now."""
        known.promised -= memory
        known.starting -= 1
        if gateway.known.get(node.id) is known:
            gateway.show(node, self.now)

    def take_off(self, session: Session) -> None:
        """End a session where it runs, or starts."""
        node = session.node
        if node is None:
            return
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

    # --- reports

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
            gateway.learn(node, self.now)

    def _note_memory(self, node: Node) -> None:
        share = node.used / node.total
        self.figures.fullest = max(self.figures.fullest, share)
        if share > 1 and node.id not in self._too_full:
            self._too_full.add(node.id)
            self.figures.too_full += 1
            self.figures.problem(f"{node.id} has {share:.1%} of its memory in use")

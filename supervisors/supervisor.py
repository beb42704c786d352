"""The supervisor: the shell around `lifecycle.step`.

It owns its children (each a `ManagedChild`), feeds facts to `step` one after the other and has the commands
carried out. It decides only what concerns children together: which siblings are restarted with a failed one
(`strategy`), when the failures of those that are never parked are too many (`intensity`), and how many start
at a time (`starts.StartLimit`).

Used from one event loop, on either anyio back end. Run it with `run` in a task of its own, or as the
child of another supervisor with `run_as_child`. Its methods may be called from any task of that loop,
and from observers. A supervisor that is run again, after a restart by its own supervisor, starts its children
with a new state: all but those that are on demand and were never wanted.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Container
from dataclasses import replace

import anyio
import anyio.abc

from supervisors import facts, lifecycle
from supervisors.child import ChildSpec, Incarnation
from supervisors.errors import (
    DuplicateChild,
    NoSuchChild,
    SignificantChildFailed,
    SupervisorError,
    TooManyRestarts,
)
from supervisors.events import Event
from supervisors.facts import Announce, Arm, Command, Disarm, Fact, Halt, Spawn
from supervisors.lifecycle import ChildState, Phase
from supervisors.managed_child import ManagedChild
from supervisors.policy import Intensity, Strategy, siblings_to_restart
from supervisors.starts import Limit, StartLimit, Starts

Observer = Callable[[Event], None]


class Supervisor:
    """Keeps children alive. Children are added and removed at any time, before or while it runs.

    A child whose name is in `expendable` is parked where its failures alone would exceed the `intensity`.

    A start that takes longer than `slow_start` seconds does not count for `max_starting` (`StartLimit`).
    Children that start elsewhere count for `max_starting_elsewhere` alone.
    """

    def __init__(
        self,
        *,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        intensity: Intensity | None = None,
        expendable: Container[str] = (),
        max_starting: Limit | None = None,
        max_starting_elsewhere: Limit | None = None,
        slow_start: float = math.inf,
        stop_together: bool = False,
        observe: Observer = lambda _event: None,
        jitter: Callable[[], float] = lambda: random.uniform(0.5, 1.0),  # noqa: S311 - no secret
    ) -> None:
        self._strategy = strategy
        self._intensity = intensity
        self._expendable = expendable
        if strategy is Strategy.ONE_FOR_ONE:
            self._starts: Starts | StartLimit = Starts(max_starting, max_starting_elsewhere, slow_start)
        else:  # siblings that depend on each other start one after the other, as in OTP
            self._starts = StartLimit(1, by_priority=False)
        self._release_due_at = math.inf
        self._stop_together = stop_together
        self._observe, self._jitter = observe, jitter
        self.children: dict[str, ManagedChild] = {}
        """The children by name, in the order they were added: to be looked at only."""
        self._facts: deque[tuple[ManagedChild, Fact]] = deque()
        self._feeding = False
        self._tasks: anyio.abc.TaskGroup | None = None
        self._over = anyio.Event()
        self._failure: SupervisorError | None = None
        self._restarts: deque[float] = deque(maxlen=64)

    # --- the children

    def add(self, spec: ChildSpec) -> None:
        """Supervise a child; it is started at once, or with the supervisor, if it is not on demand.

        Raises:
            DuplicateChild: One of that name is there.
        """
        if spec.name in self.children:
            raise DuplicateChild(f"a child named {spec.name!r} is supervised already")
        if self._intensity is not None and spec.name in self._expendable:
            spec = replace(spec, policy=self._intensity.as_parking(spec.policy))
        self.children[spec.name] = child = ManagedChild(spec, self._feed, wanted=not spec.on_demand)
        if self._tasks is not None and child.wanted:
            self._feed(child, facts.Start())

    async def remove(self, name: str) -> None:
        """Stop a child, wait until it has left, and forget it.

        Raises:
            NoSuchChild: There is none of that name, as in the methods below.
        """
        child = self._child(name)
        self._feed(child, facts.Stop())
        await child.done.wait()
        self.children.pop(name, None)

    def dismiss(self, name: str) -> None:
        """Stop a child, and forget it once it has left; do not wait for that."""
        child = self._child(name)
        child.dismissed = True
        self._feed(child, facts.Stop())

    def names(self) -> list[str]:
        """The children's names in the order they were added."""
        return list(self.children)

    def state(self, name: str) -> ChildState:
        """Return what is known of a child now."""
        child = self.children.get(name)
        return (self._child(name) if child is None else child).state

    def parked(self) -> list[ChildState]:
        """Return the state of each child that is parked now."""
        states = [child.state for child in self.children.values()]
        return [state for state in states if state.phase is Phase.PARKED]

    def demand(self, name: str) -> bool:
        """Start the child now if it rests or waits, because a caller needs it.

        Returns false if it is parked and was just tried. Before the supervisor runs, it is noted.
        """
        child = self._child(name)
        if lifecycle.refused_for(child.state, anyio.current_time()) > 0:
            return False
        self._want(child, facts.Demand())
        return True

    def resume(self, name: str) -> None:
        """Forget a child's failures and try now."""
        self._want(self._child(name), facts.Resume())

    def _want(self, child: ManagedChild, fact: Fact) -> None:
        if self._tasks is None:
            self.children[child.spec.name] = ManagedChild(child.spec, self._feed, wanted=True)
        elif not self._over.is_set():
            child.wanted = True
            self._feed(child, fact)

    def recycle(self, name: str) -> None:
        """End a child's incarnation and start the next, without counting a failure."""
        self._feed(self._child(name), facts.Recycle())

    def rest(self, name: str) -> None:
        """End a child's incarnation, if it is up, and start the next one when it is demanded."""
        self._feed(self._child(name), facts.Rest())

    def reprioritize(self) -> None:
        """Start what may start now, because a child's priority has changed while its start was held back."""
        if self._tasks is not None and not self._feeding:
            self._release()

    def _child(self, name: str) -> ManagedChild:
        try:
            return self.children[name]
        except KeyError:
            raise NoSuchChild(f"no child named {name!r} is supervised here") from None

    # --- its own life

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep the children until `stop`, or until a significant child is done.

        Raises:
            TooManyRestarts: The restart intensity was exceeded.
            SignificantChildFailed: A significant child ended with a failure.
        """
        self._over, self._failure = anyio.Event(), None
        self._restarts.clear()
        self._facts.clear()
        self._release_due_at = math.inf
        for child in list(self.children.values()):
            again = ManagedChild(child.spec, self._feed, wanted=child.wanted)
            self.children[child.spec.name] = again
        try:
            async with anyio.create_task_group() as self._tasks:
                wanted = [child for child in self.children.values() if child.wanted]
                self._facts.extend((child, facts.Start()) for child in wanted)
                self._take_facts()
                task_status.started()
                await self._over.wait()
                await self._stop_children()
                self._tasks.cancel_scope.cancel()
        finally:
            self._tasks = None
        if self._failure is not None:
            raise self._failure

    async def run_as_child(self, incarnation: Incarnation) -> None:
        """`run`, as the function of a child of another supervisor."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self.run)
            incarnation.ready()
            await incarnation.while_wanted(self._over.wait)
            self.stop()

    def stop(self) -> None:
        """Stop all children, the youngest first, and let `run` return."""
        self._over.set()

    async def _stop_children(self) -> None:
        for child in reversed(list(self.children.values())):
            self._feed(child, facts.Stop())
            if not self._stop_together:
                await child.done.wait()
        for child in list(self.children.values()):
            await child.done.wait()

    def _escalate(self, failure: SupervisorError) -> None:
        self._failure = self._failure or failure
        self._over.set()

    # --- facts in, commands out

    def _feed(self, child: ManagedChild, fact: Fact) -> None:
        """Take one fact in. Facts that come up meanwhile wait for their turn."""
        self._facts.append((child, fact))
        if not self._feeding:
            self._take_facts()

    def _take_facts(self) -> None:
        self._feeding = True
        try:
            while self._facts:
                self._take_step(*self._facts.popleft())
            self._release()
        finally:
            self._feeding = False

    def _take_step(self, child: ManagedChild, fact: Fact) -> None:
        before = child.state
        child.state, commands = lifecycle.step(before, fact, now=anyio.current_time(), jitter=self._jitter())
        for command in commands:
            self._perform(child, command)
        if isinstance(fact, facts.Exited) and before.phase in {Phase.STARTING, Phase.UP}:
            self._after_failure(child)
        if child.state.phase is Phase.DONE and not child.done.is_set():
            self._after_done(child, asked=before.phase is Phase.STOPPING)

    def _after_failure(self, child: ManagedChild) -> None:
        """Apply a failure to the siblings and to the supervisor itself."""
        if child.state.phase is Phase.DONE:
            return
        if self._intensity is not None and child.spec.policy.parking is None:
            now = anyio.current_time()
            self._restarts.append(now)
            if self._intensity.exceeded(self._restarts, now):
                cause = child.state.cause.text if child.state.cause else "unknown"
                self._escalate(TooManyRestarts(f"{child.spec.name} failed too often, lastly with: {cause}"))
        at = child.state.next_attempt_at or 0.0
        for name in siblings_to_restart(self._strategy, list(self.children), child.spec.name):
            self._facts.append((self.children[name], facts.Recycle(at)))

    def _after_done(self, child: ManagedChild, *, asked: bool) -> None:
        child.done.set()
        if child.dismissed:
            self.children.pop(child.spec.name, None)
        cause = child.state.cause
        if child.spec.significant and not asked:
            if cause is None or cause.normal:
                self._over.set()
            else:
                failure = SignificantChildFailed(f"{child.spec.name} failed: {cause.text}")
                failure.__cause__ = cause.error
                self._escalate(failure)

    def _perform(self, child: ManagedChild, command: Command) -> None:
        match command:
            case Announce(event):
                self._observe(event)
            case Spawn(generation):
                child.pending = generation
            case Halt():
                child.halt(self._group, self._observe)
            case Arm(generation, at):
                child.arm(self._group, generation, at)
            case Disarm():
                child.disarm()

    @property
    def _group(self) -> anyio.abc.TaskGroup:
        if self._tasks is None:
            raise SupervisorError("the supervisor does not run")
        return self._tasks

    def _release(self) -> None:
        """Start what is pending, as far as leaving siblings and the limit allow."""
        children = list(self.children.values())
        if self._strategy is not Strategy.ONE_FOR_ONE and any(
            child.state.phase is Phase.STOPPING for child in children
        ):
            return
        admitted, again_at = self._starts.admit(children, anyio.current_time())
        for child in admitted:
            child.spawn(self._group)
        if again_at is not None and again_at < self._release_due_at:
            self._release_due_at = again_at
            self._group.start_soon(self._release_at, again_at)

    async def _release_at(self, at: float) -> None:
        await anyio.sleep_until(at)
        if self._release_due_at == at:
            self._release_due_at = math.inf
        self._release()

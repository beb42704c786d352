"""One supervised child: its specification, its state, and what runs for it now.

Owned by `Supervisor`, which decides; a `ManagedChild` carries out. It runs one incarnation at a time in a
task of the supervisor's group, ends it within its `Shutdown`, and keeps the one timer. What happens goes to
the supervisor as a fact, through `feed`.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.abc

from supervisors import facts
from supervisors.child import ChildSpec, Incarnation, run_incarnation
from supervisors.events import Cause, ChildStuck, Event
from supervisors.facts import Fact
from supervisors.lifecycle import ChildState

Feed = Callable[["ManagedChild", Fact], None]


class ManagedChild:
    """One child, which rests at first if it is not `wanted`.

    `pending` is the generation of a start that is held back.
    """

    def __init__(self, spec: ChildSpec, feed: Feed, *, wanted: bool) -> None:
        self.spec = spec
        self.state = ChildState(child=spec.name, policy=spec.policy, resting=not wanted)
        self.pending: int | None = None
        self.spawned_at = 0.0
        """When the newest incarnation was run, which may be later than it was to start."""
        self.wanted = wanted
        self.done = anyio.Event()
        self.dismissed = False
        self._feed = feed
        self._incarnation: Incarnation | None = None
        self._scope = anyio.CancelScope()
        self._timer: anyio.CancelScope | None = None

    # --- incarnations

    def spawn(self, tasks: anyio.abc.TaskGroup) -> None:
        """Run the pending incarnation."""
        generation, self.pending = self.pending or 0, None
        self.spawned_at = anyio.current_time()
        self._incarnation = Incarnation(
            self.spec.name,
            generation,
            lambda number: self._feed(self, facts.Ready(number)),
            lambda number: self._feed(self, facts.Proven(number)),
            lambda number, cause: self._feed(self, facts.Interrupted(number, cause)),
        )
        self._scope = anyio.CancelScope()
        tasks.start_soon(self._run, self._incarnation, self._scope, name=self.spec.name)

    async def _run(self, incarnation: Incarnation, scope: anyio.CancelScope) -> None:
        cause = await run_incarnation(self.spec, incarnation, scope)
        self._incarnation = None
        self._feed(self, facts.Exited(incarnation.generation, cause))

    def halt(self, tasks: anyio.abc.TaskGroup, observe: Callable[[Event], None]) -> None:
        """Ask the incarnation to leave, and enforce its `Shutdown`; a pending one has left."""
        if self.pending is not None:
            generation, self.pending = self.pending, None
            self._feed(self, facts.Exited(generation, Cause("never started", normal=True)))
        elif self._incarnation is not None:
            self._incarnation.stop()
            tasks.start_soon(self._terminate, self._incarnation, self._scope, observe)

    async def _terminate(
        self, incarnation: Incarnation, scope: anyio.CancelScope, observe: Callable[[Event], None]
    ) -> None:
        """Cancel an incarnation after its grace time, and report it if even that does not end it."""
        shutdown = self.spec.shutdown
        grace = shutdown.grace if incarnation.was_ready else 0.0
        await anyio.sleep(grace)
        if self._incarnation is not incarnation:
            return
        scope.cancel()
        await anyio.sleep(shutdown.limit)
        if self._incarnation is incarnation:
            observe(ChildStuck(self.spec.name, incarnation.generation, grace + shutdown.limit))

    # --- the timer

    def arm(self, tasks: anyio.abc.TaskGroup, generation: int, at: float) -> None:
        """Feed `Due(generation)` when the clock reads `at`; replaces an earlier timer."""
        self.disarm()
        self._timer = anyio.CancelScope()
        tasks.start_soon(self._wait_until, generation, at, self._timer)

    def disarm(self) -> None:
        """Cancel the timer, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wait_until(self, generation: int, at: float, scope: anyio.CancelScope) -> None:
        with scope:
            await anyio.sleep_until(at)
        if not scope.cancelled_caught:
            self._timer = None
            self._feed(self, facts.Due(generation))

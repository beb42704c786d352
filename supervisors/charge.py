"""A supervised child as its supervisor holds it: specification, state, and what runs for it now.

Owned by `Supervisor`, which decides; a `Charge` carries out: it runs one incarnation at a time in a task of
the supervisor's group, sees it off within its `Shutdown`, and keeps the one timer. Whatever happens comes
back as a fact through `feed`.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.abc

from supervisors import lifecycle
from supervisors.child import ChildSpec, Incarnation, run_incarnation
from supervisors.events import Cause, ChildStuck, Event
from supervisors.lifecycle import Fact, State

Feed = Callable[["Charge", Fact], None]


class Charge:
    """One child. `held` is the generation of a start that is held back."""

    def __init__(self, spec: ChildSpec, feed: Feed) -> None:
        self.spec = spec
        self.state = State(child=spec.name, policy=spec.policy)
        self.held: int | None = None
        self.done = anyio.Event()
        self.dismissed = False
        self._feed = feed
        self._incarnation: Incarnation | None = None
        self._scope = anyio.CancelScope()
        self._timer: anyio.CancelScope | None = None

    # --- incarnations

    def spawn(self, tasks: anyio.abc.TaskGroup) -> None:
        """Run the incarnation whose start was held back."""
        generation, self.held = self.held or 0, None
        self._incarnation = Incarnation(
            self.spec.name,
            generation,
            lambda number: self._feed(self, lifecycle.Ready(number)),
            lambda number: self._feed(self, lifecycle.Proven(number)),
        )
        self._scope = anyio.CancelScope()
        tasks.start_soon(self._live, self._incarnation, self._scope, name=self.spec.name)

    async def _live(self, incarnation: Incarnation, scope: anyio.CancelScope) -> None:
        cause = await run_incarnation(self.spec, incarnation, scope)
        self._incarnation = None
        self._feed(self, lifecycle.Exited(incarnation.generation, cause))

    def halt(self, tasks: anyio.abc.TaskGroup, observe: Callable[[Event], None]) -> None:
        """Ask the incarnation to leave, and see that it does; one that never ran has left."""
        if self.held is not None:
            generation, self.held = self.held, None
            self._feed(self, lifecycle.Exited(generation, Cause("never started", normal=True)))
        elif self._incarnation is not None:
            self._incarnation.stop()
            tasks.start_soon(self._see_off, self._incarnation, self._scope, observe)

    async def _see_off(
        self, incarnation: Incarnation, scope: anyio.CancelScope, observe: Callable[[Event], None]
    ) -> None:
        """Cancel an incarnation that overstays its grace, and say so when even that does not end it."""
        shutdown = self.spec.shutdown
        grace = shutdown.grace if incarnation.said_ready else 0.0
        await anyio.sleep(grace)
        if self._incarnation is not incarnation:
            return
        scope.cancel()
        await anyio.sleep(shutdown.limit)
        if self._incarnation is incarnation:
            observe(ChildStuck(self.spec.name, incarnation.generation, grace + shutdown.limit))

    # --- the timer

    def arm(self, tasks: anyio.abc.TaskGroup, generation: int, at: float) -> None:
        """Feed `Due(generation)` when the clock reads `at`, in the place of an earlier timer."""
        self.disarm()
        self._timer = anyio.CancelScope()
        tasks.start_soon(self._wait_until, generation, at, self._timer)

    def disarm(self) -> None:
        """Forget the timer, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wait_until(self, generation: int, at: float, scope: anyio.CancelScope) -> None:
        with scope:
            await anyio.sleep_until(at)
        if not scope.cancelled_caught:
            self._timer = None
            self._feed(self, lifecycle.Due(generation))

"""A child: how it is specified, and the run of one incarnation.

`run_incarnation` turns whatever the child's function does (return, raise, be cancelled on request) into
one `Cause`. It is the boundary behind which no exception escapes but a cancellation from outside.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from supervisors.events import Cause
from supervisors.policy import Policy, Shutdown

T = TypeVar("T")


class Incarnation:
    """One run of a child, for its function: its number, ways to report progress, and the request to leave.

    `stopping` is set when the child is asked to leave; a function that ignores it is cancelled after the
    grace time of its `Shutdown`, or at once if it was never ready: then it has nothing to finish.
    """

    def __init__(
        self,
        name: str,
        generation: int,
        on_ready: Callable[[int], None],
        on_proven: Callable[[int], None] = lambda _generation: None,
        on_interrupted: Callable[[int, Cause], None] = lambda _generation, _cause: None,
    ) -> None:
        self.name = name
        self.generation = generation
        self.stopping = anyio.Event()
        self.was_ready = False
        self.was_proven = False
        self._on_ready = on_ready
        self._on_proven = on_proven
        self._on_interrupted = on_interrupted
        self._waits: set[anyio.CancelScope] = set()

    def ready(self) -> None:
        """Report that this incarnation serves. May be called more than once."""
        self.was_ready = True
        self._on_ready(self.generation)

    def proven(self) -> None:
        """Report that it has done real work, so that earlier failures no longer count. May be repeated."""
        self.was_proven = True
        self._on_proven(self.generation)

    def interrupted(self, cause: Cause) -> None:
        """Report that it serves no more until it is `ready` again, for which it does all itself."""
        self.was_ready = self.was_proven = False
        self._on_interrupted(self.generation, cause)

    def stop(self) -> None:
        """Ask it to leave, as the supervisor does."""
        self.stopping.set()
        for scope in self._waits:
            scope.cancel()

    async def while_wanted(self, wait: Callable[[], Awaitable[T]]) -> T | None:
        """Await `wait()`, or return None as soon as the child is asked to leave."""
        if self.stopping.is_set():
            return None
        with anyio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                return await wait()
            finally:
                self._waits.discard(scope)
        return None


def classify(error: Exception) -> Cause:
    """Make a retryable cause of any exception, named by its type and text: the default.

    A task group's is named by what failed first in it.
    """
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    name, text = type(first).__name__, str(first)
    return Cause(f"{name}: {text}" if text else name, error=error)


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """The specification of one child: how to run and keep it.

    `run` is one incarnation. `classify` makes a cause of an exception it raised (pure; must not raise).
    A `significant` child takes its supervisor with it when it is done. One that is `on_demand` is not started
    with its supervisor, but when it is first demanded. `priority` ranks its start where starts are limited:
    lower ranks go first, 0 before all, and are not held back by higher ones that are starting. One that
    `starts_elsewhere` (another machine does the work) counts for a limit of its own kind.
    """

    name: str
    run: Callable[[Incarnation], Awaitable[None]]
    policy: Policy = field(default_factory=Policy)
    shutdown: Shutdown = field(default_factory=Shutdown)
    classify: Callable[[Exception], Cause] = classify
    significant: bool = False
    on_demand: bool = False
    priority: Callable[[], int] = lambda: 0
    starts_elsewhere: bool = False


async def run_incarnation(spec: ChildSpec, incarnation: Incarnation, scope: anyio.CancelScope) -> Cause:
    """Run one incarnation to its end, under `scope`, and return how it ended.

    Cancelling `scope` ends a halted child that overstays its grace; one from further outside passes through.
    """
    try:
        with scope:
            await spec.run(incarnation)
    except Exception as error:  # noqa: BLE001 - the boundary: any failure of a child becomes a cause
        return spec.classify(error)
    if scope.cancelled_caught:
        return Cause("cancelled after its grace time", normal=True)
    return Cause("returned", normal=True)

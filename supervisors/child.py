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
    """What a child's function gets: its number, ways to say how it does, and word that it must leave.

    `stopping` is set when the child is asked to leave; a function that ignores it is cancelled after the
    grace time of its `Shutdown`, or at once if it never said ready: then it has nothing to finish.
    """

    def __init__(
        self,
        name: str,
        generation: int,
        on_ready: Callable[[int], None],
        on_proven: Callable[[int], None] = lambda _generation: None,
    ) -> None:
        self.name = name
        self.generation = generation
        self.stopping = anyio.Event()
        self.said_ready = False
        self._on_ready = on_ready
        self._on_proven = on_proven
        self._waits: set[anyio.CancelScope] = set()

    def ready(self) -> None:
        """Say that this incarnation serves from now on. Saying it twice is harmless."""
        self.said_ready = True
        self._on_ready(self.generation)

    def proven(self) -> None:
        """Say that it has done real work: earlier failures count no more. Saying it twice is harmless."""
        self._on_proven(self.generation)

    def stop(self) -> None:
        """Ask it to leave: the supervisor's side of `stopping`."""
        self.stopping.set()
        for scope in self._waits:
            scope.cancel()

    async def while_wanted(self, wait: Callable[[], Awaitable[T]]) -> T | None:
        """`await wait()`, cut short when the child is asked to leave: then the result is None."""
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
    """The default: every exception is a curable failure, told by its type and text."""
    text = str(error)
    return Cause(f"{type(error).__name__}: {text}" if text else type(error).__name__, error=error)


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """How to run and keep one child.

    `run` is one incarnation. `classify` makes a cause of an exception it raised (pure; must not raise).
    A `significant` child takes its supervisor with it when it is done. `urgent` says that somebody waits
    for this child: where starts are limited, urgent ones go first.
    """

    name: str
    run: Callable[[Incarnation], Awaitable[None]]
    policy: Policy = field(default_factory=Policy)
    shutdown: Shutdown = field(default_factory=Shutdown)
    classify: Callable[[Exception], Cause] = classify
    significant: bool = False
    urgent: Callable[[], bool] = lambda: False


async def run_incarnation(spec: ChildSpec, incarnation: Incarnation, scope: anyio.CancelScope) -> Cause:
    """Run one incarnation to its end, under `scope`, and say how it ended.

    Cancelling `scope` is how a halted child that overstays its grace is ended; a cancellation from further
    outside passes through.
    """
    try:
        with scope:
            await spec.run(incarnation)
    except Exception as error:  # noqa: BLE001 - the boundary: any failure of a child becomes a cause
        return spec.classify(error)
    if scope.cancelled_caught:
        return Cause("cancelled after its grace time", normal=True)
    return Cause("returned", normal=True)

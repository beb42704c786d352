"""For tests of code that uses this package: an observer that can be waited for, and virtual time.

Virtual time needs nothing from here but a back end: on trio `MockClock(autojump_threshold=0)`, on asyncio
the loop of `async-solipsism`. `virtual_backends` gives both in the form `anyio.run` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from supervisors.events import Event
from supervisors.signals import Signal

E = TypeVar("E")


class Recorder:
    """Keeps every event, in order; pass the instance as `observe`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = Signal()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._news.pulse()

    def of(self, kind: type[E]) -> list[E]:
        """The events of one type, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    async def wait_for(
        self, kind: type[E], when: Callable[[E], bool] = lambda _event: True, *, count: int = 1
    ) -> E:
        """The `count`-th event of that type that satisfies `when`; waits until it has come."""
        while True:
            found = [event for event in self.of(kind) if when(event)]
            if len(found) >= count:
                return found[count - 1]
            await self._news.wait()


def virtual_backends() -> list[tuple[str, dict[str, Any]]]:
    """`(backend, backend_options)` for both anyio back ends, each with a fresh virtual clock.

    Needs `trio` and `async-solipsism`, which are not dependencies of this package.
    """
    import async_solipsism  # noqa: PLC0415 - wanted by tests only
    import trio.testing  # noqa: PLC0415 - wanted by tests only

    return [
        ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}),
        ("asyncio", {"loop_factory": async_solipsism.EventLoop}),
    ]

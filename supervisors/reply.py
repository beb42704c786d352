"""The slot for an answer that travels with a request.

Settled once, by the actor that serves the request; it may be handed on from actor to actor until then. The
asker either awaits it in a task or is called back. When the asker goes away first, `on_abandon` tells the
current holder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

R = TypeVar("R")


class Abandoned(Exception):
    """The asker no longer waits for the answer."""

    begun = False
    """True if its request may have been begun by then."""


class Reply(Generic[R]):
    """One answer: a value or an error.

    `on_settled` is called with the slot when it is settled, if the asker does not `wait`. `on_abandon` is set
    by the current holder and called, once, when the asker goes away; it returns whether the request may have
    been begun. `observer` is called with the slot in any case, last. None of them may raise.
    """

    __slots__ = ("_event", "error", "observer", "on_abandon", "on_settled", "settled", "value")

    def __init__(self, on_settled: Callable[[Reply[R]], object] | None = None) -> None:
        self.settled = False
        self.value: R | None = None
        self.error: BaseException | None = None
        self.on_settled = on_settled
        self.on_abandon: Callable[[], object] | None = None
        self.observer: Callable[[Reply[R]], object] | None = None
        self._event: anyio.Event | None = None

    def resolve(self, value: R) -> bool:
        """Answer with `value`; false if it was settled before."""
        if self.settled:
            return False
        self.value = value
        self._settle()
        return True

    def reject(self, error: BaseException) -> bool:
        """Answer with an error, to be raised where it is awaited; false if it was settled before."""
        if self.settled:
            return False
        self.error = error
        self._settle()
        return True

    def observe(self, observer: Callable[[Reply[R]], object]) -> None:
        """Have `observer` called too when the slot is settled, after the one that there is."""
        first = self.observer
        if first is None:
            self.observer = observer
            return

        def both(reply: Reply[R]) -> None:
            first(reply)
            observer(reply)

        self.observer = both

    def _settle(self) -> None:
        self.settled = True
        self.on_abandon = None
        observer, self.observer = self.observer, None  # it may keep the slot: no cycle
        if self._event is not None:
            self._event.set()
        if self.on_settled is not None:
            self.on_settled(self)
        if observer is not None:
            observer(self)

    def abandon(self) -> None:
        """Withdraw the request because the asker is gone; `on_settled` is not called."""
        if self.settled:
            return
        on_abandon, self.on_settled = self.on_abandon, None
        observer, self.observer = self.observer, None
        abandoned = Abandoned()
        self.reject(abandoned)
        if on_abandon is not None:
            abandoned.begun = bool(on_abandon())
        if observer is not None:
            observer(self)

    async def wait(self) -> R:
        """Return the answer, or raise what it was rejected with. Cancelling the wait abandons the request."""
        if not self.settled:
            self._event = anyio.Event()
            try:
                await self._event.wait()
            finally:
                self.abandon()
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # resolve() put an R there

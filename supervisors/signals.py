"""A signal between tasks: an event that can be used again and again."""

from __future__ import annotations

import anyio


class Signal:
    """Wakes tasks that wait for something to happen. For one event loop, never shared by threads.

    With one consumer, `set` it and let the consumer `clear` it before it acts: what happens meanwhile sets
    it again, so nothing is missed. With many, `pulse` it, and let each wait in a loop around the condition
    it waits for. All methods but `wait` return at once, call nothing back and never raise: callbacks may
    call them, and so may whoever is woken.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake whoever waits, and let nobody wait until `clear`."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it was set since the last `clear`."""
        return self._event.is_set()

    def clear(self) -> None:
        """Make `wait` wait again."""
        if self._event.is_set():
            self._event = anyio.Event()

    def pulse(self) -> None:
        """Wake whoever waits now, and nobody who waits later."""
        self._event.set()
        self._event = anyio.Event()

    async def wait(self) -> None:
        """Wait until it is set or pulsed."""
        await self._event.wait()

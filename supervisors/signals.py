"""A signal between tasks: an event that can be used again and again."""

from __future__ import annotations

import anyio


class Signal:
    """Wakes tasks that wait for something to happen. For one event loop, never shared by threads.

    With one consumer: `set` it, and have the consumer `clear` it before it acts. What happens meanwhile sets
    it again, so nothing is missed. With many: `pulse` it, and have each wait in a loop until its condition
    holds. All methods but `wait` return at once, never raise and call nothing back, so any callback may call
    them.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake all waiting tasks; until `clear`, no task has to wait."""
        self._event.set()

    def is_set(self) -> bool:
        """True if it was set since the last `clear`."""
        return self._event.is_set()

    def clear(self) -> None:
        """Undo `set`: tasks wait again."""
        if self._event.is_set():
            self._event = anyio.Event()

    def pulse(self) -> None:
        """Wake the tasks that wait now; tasks that come later wait for the next time."""
        self._event.set()
        self._event = anyio.Event()

    async def wait(self) -> None:
        """Wait until it is set or pulsed."""
        await self._event.wait()

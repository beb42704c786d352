"""A set-and-wait flag that is used again and again, where an event is used once."""

from __future__ import annotations

import anyio


class Flag:
    """Set by callbacks, waited for by one task, cleared when what it stands for is being dealt with."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """It has happened."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it has happened since the last `clear`."""
        return self._event.is_set()

    def clear(self) -> None:
        """What has happened so far is being dealt with."""
        if self._event.is_set():
            self._event = anyio.Event()

    async def wait(self) -> None:
        """Wait until it has happened since the last `clear`."""
        await self._event.wait()

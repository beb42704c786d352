"""The loss of a connection: an event with its reason, and the exception that reports it."""

from __future__ import annotations

import anyio


class ConnectionLost(Exception):  # noqa: N818 - a condition, not a mistake
    """The connection ended by itself. `stderr` is the tail of what the server wrote to standard error.

    `retryable` says whether connecting again can help, `held` whether a person has to sign in before it can,
    `lacks_command` whether the server's program ended because it did not find another one.
    """

    def __init__(
        self,
        reason: str,
        stderr: str = "",
        *,
        retryable: bool = True,
        held: bool = False,
        lacks_command: bool = False,
    ) -> None:
        super().__init__(reason)
        self.stderr = stderr
        self.retryable = retryable
        self.held = held
        self.lacks_command = lacks_command


class Ending:
    """An event that happens once, for a reason. The first reason counts."""

    __slots__ = ("_event", "reason")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self.reason = ""
        """Empty until it has happened."""

    def set(self, reason: str) -> None:
        """It has happened. Callbacks may call this: it never raises, and calls nothing back."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._event.is_set()

    async def wait(self) -> str:
        """Wait until it happens; its reason."""
        await self._event.wait()
        return self.reason

"""A bounded mailbox, and the reply slot that travels with a request.

A `Mailbox` belongs to an actor, not to one incarnation of it: messages survive a restart and wait for the
next incarnation. Putting never waits (a full mailbox is an error for the sender, told at once), taking
does. A `Reply` is written once by whoever serves the request and awaited by whoever asked; it may be
handed on from actor to actor. Everything here is for one event loop and never shared between threads.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

from supervisors.errors import MailboxClosed, MailboxFull

M = TypeVar("M")
R = TypeVar("R")


class Mailbox(Generic[M]):
    """First in, first out; at most `size` messages.

    One task at a time may take. `put` on a full mailbox raises and leaves everything as it was: the
    overflow rule is to refuse the newest, because the oldest has waited longest.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a mailbox holds at least 1 message, got {size}")
        self.size = size
        self._messages: deque[M] = deque()
        self._arrival: anyio.Event | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: M) -> None:
        """Put `message` at the end.

        Raises:
            MailboxFull: It holds `size` messages.
            MailboxClosed: `close` was called.
        """
        if self._closed:
            raise MailboxClosed("the mailbox is closed")
        if len(self._messages) >= self.size:
            raise MailboxFull(f"the mailbox holds {self.size} messages already")
        self._messages.append(message)
        self._wake()

    def put_back(self, message: M) -> None:
        """Put a message that was taken but not served at the front again; the size does not count."""
        self._messages.appendleft(message)
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None:
            self._arrival.set()

    async def take(self) -> M:
        """The oldest message; waits for one. Cancelling it loses nothing."""
        while not self._messages:
            self._arrival = anyio.Event()
            await self._arrival.wait()
        return self._messages.popleft()

    def discard(self, message: M) -> bool:
        """Take `message` out again, wherever it stands; whether it was there."""
        try:
            self._messages.remove(message)
        except ValueError:
            return False
        return True

    def drain(self) -> list[M]:
        """All messages, taken out at once, the oldest first."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    def close(self) -> list[M]:
        """Take no more; returns what was still waiting."""
        self._closed = True
        return self.drain()


class Reply(Generic[R]):
    """The answer to one request: settled once, awaited by one task.

    Whoever holds the request may `limit` how long it waits to be accepted, and `accept` it when it is
    really served; from then on it waits for as long as it takes. When the asker goes away first, the
    callback in `on_abandon`, set by the current holder, is called, once.
    """

    __slots__ = ("_deadline", "_error", "_event", "_on_expiry", "_scope", "_value", "on_abandon")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._value: R | None = None
        self._error: BaseException | None = None
        self._deadline = math.inf
        self._scope: anyio.CancelScope | None = None
        self._on_expiry: Callable[[], Exception] | None = None
        self.on_abandon: Callable[[], object] | None = None

    @property
    def settled(self) -> bool:
        """Whether there is an answer, or nobody to hear one."""
        return self._event.is_set()

    def resolve(self, value: R) -> bool:
        """Answer with `value`; false if it was settled before."""
        if self._event.is_set():
            return False
        self._value = value
        self._event.set()
        return True

    def reject(self, error: BaseException) -> bool:
        """Answer with an error, to be raised where it is awaited; false if it was settled before."""
        if self._event.is_set():
            return False
        self._error = error
        self._event.set()
        return True

    def limit(self, seconds: float, on_expiry: Callable[[], Exception]) -> None:
        """Unless accepted or settled within `seconds` from now, fail with what `on_expiry` makes."""
        self._on_expiry = on_expiry
        self._set_deadline(anyio.current_time() + seconds)

    def accept(self) -> bool:
        """The request is going to be served: no more limit. False if it has expired or is settled."""
        if self._event.is_set() or (self._scope is not None and self._scope.cancel_called):
            return False
        self._set_deadline(math.inf)
        return True

    def _set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._scope is not None:
            self._scope.deadline = deadline

    async def wait(self) -> R:
        """The answer.

        Raises:
            BaseException: What it was rejected with, or what `on_expiry` made.
        """
        try:
            with anyio.CancelScope(deadline=self._deadline) as self._scope:
                await self._event.wait()
        finally:
            self._scope = None
            self._abandon()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # resolve() put an R there

    def _abandon(self) -> None:
        """Settle for the asker's part: it has expired, or the asker is gone."""
        if self._event.is_set():
            return
        made = self._on_expiry() if self._on_expiry is not None else TimeoutError("abandoned")
        self.reject(made)
        if self.on_abandon is not None:
            self.on_abandon()

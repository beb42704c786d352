"""A bounded mailbox: where messages wait for an actor.

A mailbox belongs to an actor, not to one incarnation of it: messages survive a restart and wait for the
next incarnation. While an incarnation serves it, a consumer is attached, and a message put in is consumed
there and then, in the sender's turn of the event loop; there is no task switch and no wake-up on the way.
Otherwise messages queue, up to the size. Everything here is for one event loop, never shared by threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from supervisors.errors import MailboxClosed, MailboxFull

M = TypeVar("M")


class Mailbox(Generic[M]):
    """First in, first out; at most `size` messages wait.

    `put` on a full mailbox raises and leaves everything as it was: the overflow rule is to refuse the
    newest, because the oldest has waited longest. The consumer is never entered twice at a time: what is
    put in while it runs waits for its turn.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a mailbox holds at least 1 message, got {size}")
        self.size = size
        self._messages: deque[M] = deque()
        self._consumer: Callable[[M], object] | None = None
        self._consuming = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[M]:
        """Iterate over what waits now, in order."""
        return iter(tuple(self._messages))

    def put(self, message: M) -> None:
        """Have `message` consumed now, or put it at the end.

        Raises:
            MailboxFull: It holds `size` messages.
            MailboxClosed: `close` was called.
        """
        if self._closed:
            raise MailboxClosed("the mailbox is closed")
        if len(self._messages) >= self.size:
            raise MailboxFull(f"the mailbox holds {self.size} messages already")
        self._messages.append(message)
        if self._consumer is not None and not self._consuming:
            self._consume()

    def put_back(self, message: M) -> None:
        """Put a message that was consumed but not served at the front again; the size does not count."""
        self._messages.appendleft(message)

    def attach(self, consumer: Callable[[M], object]) -> None:
        """Give `consumer` every message until `detach`, those that wait first. It must not raise."""
        self._consumer = consumer
        if not self._consuming:
            self._consume()

    def detach(self) -> None:
        """Let messages wait from now on."""
        self._consumer = None

    def _consume(self) -> None:
        self._consuming = True
        try:
            while self._messages and self._consumer is not None:
                self._consumer(self._messages.popleft())
        finally:
            self._consuming = False

    def discard(self, message: M) -> bool:
        """Take `message` out again; false if it was not there."""
        try:
            self._messages.remove(message)
        except ValueError:
            return False
        return True

    def drain(self) -> list[M]:
        """Take out all messages, the oldest first."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    def close(self) -> list[M]:
        """Take no more; returns what was still waiting."""
        self._closed = True
        return self.drain()

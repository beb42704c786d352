"""What waits to be told to one client, first in, first out, in bounded memory. Pure.

A client that takes nothing goes without what comes when its backlog is full; it costs nobody else anything.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")
MOST: Final = 1000  # messages
MOST_BYTES: Final = 4 << 20  # of their JSON; the message that exceeds it still has its place


class Backlog(Generic[T]):
    """The messages of one client."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[T, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: T, size: int) -> bool:
        """Add a message of `size` bytes; whether there was room."""
        if len(self._waiting) >= MOST or self._bytes > MOST_BYTES:
            return False
        self._waiting.append((message, size))
        self._bytes += size
        return True

    def take(self) -> T:
        """The oldest message. Raises IndexError where there is none."""
        message, size = self._waiting.popleft()
        self._bytes -= size
        return message

    def clear(self) -> int:
        """Drop everything; how many messages that were."""
        dropped = len(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return dropped


def size_of(params: dict[str, Any]) -> int:
    """Bytes of a message's parameters on the wire."""
    return len(msgspec.json.encode(params))

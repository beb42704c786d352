"""The lines of the audit log that wait for the disk to take them, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_WAITING_BYTES: Final = 4 << 20


class Backlog:
    """Lines in order, and the slots of the calls that they are about."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.slots: list[int] = []
        self.lost = 0
        """How many lines there was no room for."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.texts)

    def keep(self, texts: Iterable[bytes], slots: Iterable[int]) -> None:
        """Keep lines until they can be written, as far as there is room."""
        self.slots += slots
        for text in texts:
            if self._bytes + len(text) > MAX_WAITING_BYTES:
                self.lost += 1
            else:
                self.texts.append(text)
                self._bytes += len(text)

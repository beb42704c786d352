"""What a direct session delivers to: a client, or one of its open requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

OnAnswer = Callable[[msgspec.Raw], None]
"""Called once with an answer: the member `"result":...` or `"error":...` of its message, in JSON. Must not
raise."""
Cancel = Callable[[msgspec.Raw], None]
"""Cancels a request of the server; called with the params of the server's `notifications/cancelled`."""


class Peer(Protocol):
    """Takes a server's messages for a client. No method may wait or raise."""

    @property
    def is_local(self) -> bool:
        """Whether the client's person is at this machine, and it came with no token of a name."""
        ...

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Send a notification; `params` is empty where there are none."""
        ...

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request of the server."""
        ...

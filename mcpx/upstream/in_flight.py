"""One request that a server has: what must be known of it until it is settled. Kept by `Calls`."""

from __future__ import annotations

import time
from collections.abc import Callable

from mcpx.observe.contained import contain
from mcpx.upstream.queue import RawReply
from mcpx.upstream.requests import Request
from mcpx.upstream.session.senders import Sent


class InFlight:
    """One request that the server has."""

    __slots__ = (
        "caller",
        "endings",
        "never_seen",
        "on_progress",
        "position",
        "reply",
        "request",
        "sent",
        "started",
    )

    def __init__(self, request: Request, reply: RawReply, position: int | None) -> None:
        self.request = request
        self.reply = reply
        self.position = position  # where it begins in what was sent
        self.started = time.monotonic()
        self.sent: Sent | None = None
        self.caller = request.origin.caller  # it and `on_progress` change when a held call goes on
        self.on_progress = request.origin.on_progress
        self.endings: list[Callable[[], None]] = []
        self.never_seen = False  # the server was killed before it could see the call, whoever took its bytes

    def end(self) -> None:
        """It is over: tell who asked on its behalf."""
        endings, self.endings = self.endings, []
        for told in endings:
            try:
                told()
            except Exception as error:  # noqa: BLE001 - whoever asked on its behalf must not keep it from its end
                contain(error, "ending")

    def is_unread(self, unread: int | None) -> bool:
        """Whether the server provably has not seen the first byte of it, nor will: it counts as not sent.

        `unread` is the position from which on the server has read nothing, where that is known.
        """
        if self.never_seen:
            return True
        if unread is not None and self.position is not None:
            return self.position >= unread
        return self.sent is not None and self.sent.recall()

"""Requests in flight: what is known of one until it is settled, if it may be sent again; the deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from mcpx.core.protocol.requests import Request, tool_of
from mcpx.core.servers.transport.exchange import ConnectionDropped, NotExecuted, PersonNeeded
from mcpx.core.servers.transport.link import Link
from mcpx.core.telemetry.contained import contain
from supervisors import Reply

K = TypeVar("K")


class Sent(Protocol):
    """A request that was started."""

    def recall(self) -> bool:
        """Take it back if nothing was sent yet; return whether that is known to have succeeded."""

    def cancel(self, reason: str) -> None:
        """Cancel it at the server; `on_answer` is not called any more."""


class InFlight:
    """One request. `position` is where it begins in what was sent, if that is known."""

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
        "timeout",
    )

    def __init__(self, request: Request, reply: Reply[msgspec.Raw], position: int | None) -> None:
        self.request = request
        self.reply = reply
        self.position = position
        self.started = time.monotonic()
        self.sent: Sent | None = None
        self.timeout: float | None = None  # of its tool, in place of the one that all calls have
        self.caller = request.context.caller  # it and `on_progress` change when a suspended call is resumed
        self.on_progress = request.context.on_progress
        trace = request.context.trace
        self.endings: list[Callable[[], None]] = [] if trace is None else [trace.released]
        self.never_seen = False  # the server was killed before it could see the bytes that it took

    @property
    def tool(self) -> str | None:
        """The name of the tool, for error messages; None for anything that is not a call of one."""
        return tool_of(self.request)

    def end(self) -> None:
        """Call the `endings`: the request is over."""
        endings, self.endings = self.endings, []
        for ending in endings:
            try:
                ending()
            except Exception as error:  # noqa: BLE001 - a question asked on its behalf must not keep it open
                contain(error, "ending")

    # --- whether it may be sent again

    def check_seen(self, link: Link) -> None:
        """Note whether the server was killed before the request reached it.

        A process for which a fatal signal waits runs no more code of its own, though a read that it is
        blocked in may still take what is written: what is unread then, it never sees.
        """
        if self.position is not None and link.is_doomed():
            unread = link.first_unread()
            self.never_seen = unread is not None and self.position >= unread

    def again_after(self, error: Exception) -> Request | None:
        """The request to send after that error, which concerned it alone; None where that is not safe."""
        if isinstance(error, PersonNeeded):
            return None
        if isinstance(error, NotExecuted) and not self.request.turned_away:
            return replace(self.request, turned_away=True)
        if isinstance(error, ConnectionDropped) and self.request.safe:
            return replace(self.request, safe=False)
        return None

    def again_after_loss(self, unread: int | None) -> Request | None:
        """The request to send after a lost connection; None where that is not safe.

        It is the same object if it counts as never sent. `unread` is the position from which on the server
        has read nothing, where that is known.
        """
        if self._is_unread(unread):
            return self.request
        return replace(self.request, safe=False) if self.request.safe else None

    def _is_unread(self, unread: int | None) -> bool:
        """True if the server provably has not seen the first byte of it, nor will."""
        if self.never_seen:
            return True
        if unread is not None and self.position is not None:
            return self.position >= unread
        return self.sent is not None and self.sent.recall()


class Expiry(Generic[K]):
    """Calls `on_expiry` with each key that was not discarded within `seconds`, by one timer.

    Because the timeout is the same for all, keys expire in the order in which they were added, and an
    ordinary dict keeps that order: adding and discarding are dict operations, and the one timer only ever
    looks at the oldest. A key that is renewed goes to the end.

    `on_expiry` may add and discard keys. What it raises is logged; the other keys expire all the same.
    """

    def __init__(self, seconds: float, on_expiry: Callable[[K], None]) -> None:
        self._seconds = seconds
        self._on_expiry = on_expiry
        self.deadlines: dict[K, float] = {}
        """When each key expires, by the clock of the loop; the next one first."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self.deadlines)

    def __iter__(self) -> Iterator[K]:
        """The keys, the next to expire first."""
        return iter(self.deadlines)

    def add(self, key: K) -> None:
        """Start the timeout of `key`."""
        self.deadlines[key] = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._expire)

    def renew(self, key: K) -> None:
        """Restart the timeout of `key`, if it is there."""
        if self.deadlines.pop(key, None) is not None:
            self.add(key)

    def discard(self, key: K) -> bool:
        """Remove `key`; return whether it was there."""
        return self.deadlines.pop(key, None) is not None

    def clear(self) -> list[K]:
        """Remove all keys and stop the timer; return them, the oldest first."""
        left = list(self.deadlines)
        self.deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return left

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self.deadlines:
            key, deadline = next(iter(self.deadlines.items()))
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._expire)
                return
            del self.deadlines[key]
            try:
                self._on_expiry(key)
            except Exception as error:  # noqa: BLE001 - one key must not keep the others from expiring
                contain(error, "expiry")

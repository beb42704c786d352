"""Requests in flight: what is known of one until it is settled, and if it may be sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec.structs import replace

from mcpx.core.protocol.context import Caller
from mcpx.core.protocol.requests import OnProgress, Request, tool_of
from mcpx.core.servers.transport.exchange import ConnectionDropped, Denied, NotExecuted
from mcpx.core.servers.transport.link import Link
from mcpx.core.telemetry.contained import containing
from supervisors import Reply


class Sent(Protocol):
    """A request that was started."""

    def recall(self) -> bool:
        """Take it back if nothing was sent yet; return whether that is known to have succeeded."""

    def cancel(self, reason: str) -> None:
        """Cancel it at the server; `on_answer` is not called any more."""


class InFlight(msgspec.Struct, eq=False):
    """One request, `started` then (monotonic clock).

    `position` is where it begins in what was sent, if that is known. `caller` and `on_progress` are those of
    its context, and change when a suspended call is resumed.
    """

    request: Request
    reply: Reply[msgspec.Raw]
    position: int | None
    started: float
    caller: Caller | None
    on_progress: OnProgress | None
    sent: Sent | None = None
    timeout: float | None = None  # of its tool, in place of the one that all calls have
    endings: list[Callable[[], None]] = []
    was_dropped: bool = False  # its connection was, and perhaps the server's program is ending
    never_seen: bool = False  # the server was killed before it could see the bytes that it took

    @property
    def tool(self) -> str | None:
        """The name of the tool, for error messages; None for anything that is not a call of one."""
        return tool_of(self.request)

    def end(self) -> None:
        """Call the `endings`: the request is over."""
        endings, self.endings = self.endings, []
        for ending in endings:
            with containing("ending"):  # a question asked on its behalf must not keep it open
                ending()

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
        if isinstance(error, Denied):
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

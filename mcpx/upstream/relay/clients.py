"""The clients as a whole: what upstream servers hear of them outside any call, and how to reach them all.

Owned by the hub. The gateway lets each client join whose session lasts from request to request (that is, of
the revisions before 2026-07-28) and tells when it leaves; the upstream actors read, and wait for news.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from mcpx.observe.contained import contain
from mcpx.upstream.context import JSON, Caller, most_verbose, wants
from supervisors import Signal

LOG: Final = "notifications/message"


class Member(Caller, Protocol):
    """A client that can be reached between its calls."""

    log_level: str | None
    """From which level on it wants log messages of all servers."""

    def tell(self, method: str, params: JSON) -> None:
        """Send it a notification outside any call. Must not raise."""
        ...


class Audience:
    """Everybody who is connected, and what they want of all servers."""

    def __init__(self) -> None:
        self.members: dict[object, Member] = {}
        """By the client, as callers name it."""
        self.roots_version = 0
        """Counts the times that some client's roots have changed."""
        self.dropped = 0
        """Log and progress messages that clients went without, because they did not read."""
        self._passing_by: str | None = None  # the most verbose level that a request of its own asked for
        self._strangers = False
        self.changes = Signal()
        """Pulsed when `level` or `roots_version` has changed."""
        self._on_left: list[Callable[[object], None]] = []

    # --- for the gateway

    def join(self, member: Member) -> None:
        """A client has come."""
        self.members[member.client] = member

    def leave(self, client: object) -> None:
        """A client has gone, of either era."""
        if self.members.pop(client, None) is not None:
            self.changed()
        for told in list(self._on_left):
            try:
                told(client)
            except Exception as error:  # noqa: BLE001 - what one server kept for it must not keep the others'
                contain(error, "client left")

    def changed(self) -> None:
        """The level that some member wants has changed."""
        self.changes.pulse()

    def pass_by(self, level: str | None) -> None:
        """A request came from a client without a session, that wants log messages from `level` on."""
        self._strangers = True
        if level is not None and level != self._passing_by:
            self._passing_by = most_verbose([level, self._passing_by])

    def roots_changed(self) -> None:
        """A client's roots have changed."""
        self.roots_version += 1
        self.changed()

    # --- for the upstreams

    @property
    def level(self) -> str | None:
        """The most verbose level that anybody wants; a request's own level counts from then on."""
        return most_verbose([self._passing_by, *(member.log_level for member in self.members.values())])

    def sole(self, owner: object | None = None) -> Member | None:
        """The client `owner`; or the one there is, unless there are several, or some without a session."""
        if owner is not None:
            return self.members.get(owner)
        if len(self.members) != 1 or self._strangers:
            return None
        return next(iter(self.members.values()))

    def broadcast(self, params: JSON, owner: object | None = None) -> None:
        """A log message for everybody who wants its level; for `owner` alone, where there is one."""
        for member in list(self.members.values()):
            if owner is not None and member.client is not owner:
                continue
            if wants(member.log_level, str(params.get("level"))):
                try:
                    member.tell(LOG, params)
                except Exception as error:  # noqa: BLE001 - one client must not keep the others from theirs
                    contain(error, "log message")

    def on_left(self, told: Callable[[object], None]) -> None:
        """Have `told` called with each client that leaves."""
        self._on_left.append(told)

    def forget(self, told: Callable[[object], None]) -> None:
        """Take back `on_left`."""
        if told in self._on_left:
            self._on_left.remove(told)

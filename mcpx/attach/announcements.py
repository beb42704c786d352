"""What the client of a shim knows of each list, and how it hears that a list has changed. Pure.

A client with a handshake gets a notification; since 2026-07-28 each open stream that wants it gets one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from mcpx.attach.daemon_requests import notification
from mcpx.attach.given_lists import ListKind, list_kinds
from mcpx.attach.in_force import InForce
from mcpx.attach.pending import PendingRequests
from mcpx.attach.refusals import PendingRequest
from mcpx.core.wire.envelope import RequestId

SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"


class Announcements:
    """The lists of one client, and its streams that are open."""

    def __init__(self, pending: PendingRequests, in_force: InForce) -> None:
        self.kinds = list_kinds()
        self.kind_of = {method: kind for kind in self.kinds for method in kind.lists}
        self._pending = pending
        self._in_force = in_force
        self._acknowledged: set[RequestId] = set()  # streams that the client knows to be open
        self._replayed: set[RequestId] = set()  # those that the daemon will acknowledge again
        self._made_up: list[ListKind] = []  # of which the client has what the shim has made up

    def give(
        self, request: PendingRequest, result: msgspec.Raw, *, made_up: bool = False, counted: bool = True
    ) -> None:
        """Note a list that the client gets. A `made_up` one has changed as soon as there is a daemon.

        `counted` as for `GivenList.give`.
        """
        kind = self.kind_of.get(request.method)
        if kind is None:
            return
        given = kind.lists[request.method]
        given.give(request.copied(), result, counted=counted)
        given.is_outdated = made_up
        if made_up and kind not in self._made_up:
            self._made_up.append(kind)

    def stream_opened(self, stream: RequestId | None, line: bytes) -> list[bytes]:
        """Pass on that a stream is open, once; and on it what has changed before that."""
        if stream in self._replayed:
            self._replayed.discard(stream)
            return []
        if stream is None or stream not in self._pending:
            return [line]
        self._open(stream)
        outdated = [each for each in self.kinds if each.is_outdated]
        return [line, *(each for kind in outdated for each in self.announce(kind, {stream}))]

    def open_streams(self) -> list[RequestId]:
        """Count all streams as open that are not yet, because there is no daemon to open them."""
        opened = [stream for stream in self._pending.streams() if stream not in self._acknowledged]
        for stream in opened:
            self._open(stream)
        return opened

    def _open(self, stream: RequestId) -> None:
        self._acknowledged = {each for each in self._acknowledged if each in self._pending} | {stream}

    def replay(self, stream: RequestId) -> None:
        """Another daemon is asked for that request; if it is an open stream, its opening is no news."""
        if stream in self._acknowledged:
            self._replayed.add(stream)

    def announce(self, kind: ListKind, streams: Collection[RequestId] | None = None) -> list[bytes]:
        """The notification that lists of that kind differ; on these streams, or on all that are open."""
        if self._in_force.initialize:
            return [notification(kind.notification, None)]
        return [
            notification(kind.notification, {"_meta": {SUBSCRIPTION_KEY: stream}})
            for stream in self._pending.streams_for(kind.wanted)
            if stream in (self._acknowledged if streams is None else streams)
        ]

    def is_made_up(self, kind: ListKind) -> bool:
        """Whether the client has one of these lists from the shim alone, and has not heard of a change."""
        return kind in self._made_up

    def announce_made_up(self) -> list[bytes]:
        """A daemon serves the client now: what was made up has changed."""
        kinds, self._made_up = self._made_up, []
        return [line for kind in kinds for line in self.announce(kind)]

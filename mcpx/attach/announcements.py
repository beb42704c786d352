"""The lists that a shim's client was given, and the announcement of their changes. Pure.

A client with a handshake gets a notification; since 2026-07-28 each open stream that wants it gets one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from mcpx.attach.pending import InForce, PendingRequest, PendingRequests, decode_object, notification
from mcpx.core.system.endpoint import COUNTED_KEY, SETTLED_KEY
from mcpx.core.wire.envelope import RequestId, RPCMessage, encode

# --- the lists that the client was given, page by page, to compare later ones with them


class _Listed(msgspec.Struct, gc=False):
    """A page of any list: three of these are missing."""

    tools: list[msgspec.Raw] = []
    prompts: list[msgspec.Raw] = []
    resources: list[msgspec.Raw] = []
    templates: list[msgspec.Raw] = msgspec.field(name="resourceTemplates", default_factory=list)
    next_cursor: Any = msgspec.field(name="nextCursor", default=None)


class GivenList:
    """A digest of each entry, in the order of the pages; valid within this process."""

    def __init__(self) -> None:
        self.request: PendingRequest | None = None
        """The request for the first page, as the client sent it; None before the first list."""
        self.is_outdated = False
        """Whether the daemon's list differed from this one when they were compared last."""
        self.is_counted = False
        """Whether a daemon has counted what the client was given."""
        self._digests: list[int] = []
        self._is_whole = False

    def give(self, request: PendingRequest, result: msgspec.Raw, *, counted: bool = True) -> None:
        """Note a page that the client gets; its request must not keep a whole line in memory.

        `counted` says that a daemon has answered, and not the shim.
        """
        self.is_counted |= counted
        if decode_object(request.params).get("cursor") is None:
            self.request = request
            self.is_outdated = False
            self._digests = []
        page, self._is_whole = _read(result)
        self._digests += page

    def differs(self, result: msgspec.Raw) -> bool:
        """Return True if a list differs from the one given, as far as both go; then it counts as given."""
        listed, is_whole = _read(result)
        common = min(len(listed), len(self._digests))
        if is_whole and self._is_whole:
            differs = listed != self._digests
        else:
            differs = listed[:common] != self._digests[:common]
        if differs:
            self._digests, self._is_whole, self.is_outdated = listed, is_whole, True
        return differs


class ListKind:
    """The lists that one notification announces, and their comparison with those of the daemon.

    `wanted` is what the filter of a 2026-07-28 stream calls that notification.
    """

    def __init__(self, notification: str, wanted: str, *methods: str) -> None:
        self.notification: Final = notification
        self.wanted: Final = wanted
        self.lists: Final = {method: GivenList() for method in methods}
        self._awaited = 0  # lists of the daemon
        self._again = False  # they changed during the comparison
        self._differs = False

    @property
    def is_given(self) -> bool:
        """True if the client was given one of the lists."""
        return any(given.request for given in self.lists.values())

    @property
    def is_outdated(self) -> bool:
        """True until the client lists again after a difference."""
        return any(given.is_outdated for given in self.lists.values())

    def compare(self, *, settled: bool = False) -> list[PendingRequest]:
        """Begin to compare: the requests for the daemon. Empty if a comparison is under way: it is repeated.

        `settled` as in `SETTLED_KEY`.
        """
        if self._awaited:
            self._again = True
            return []
        requests = [
            _whole(method, given.request, settled=settled, counted=given.is_counted)
            for method, given in self.lists.items()
            if given.request
        ]
        for given in self.lists.values():
            given.is_counted |= given.request is not None
        self._awaited = len(requests)
        return requests

    def stop_comparing(self) -> None:
        """The daemon that was asked is gone."""
        self._awaited = 0
        self._again = self._differs = False

    def take(self, method: str, message: RPCMessage) -> bool:
        """Take a list of the daemon; whether it differs. An error, and a list that changed since, do not."""
        self._awaited -= 1
        if self._again or message.error or not self.lists[method].differs(message.result):
            return False
        self._differs = True
        return True

    def must_repeat(self) -> bool:
        """Return True if all lists have come, but changed meanwhile: compare again."""
        if self._awaited or not self._again:
            return False
        self._again = False
        return True

    def is_to_be_announced(self) -> bool:
        """Return True if all lists have come, and one differs from what the client was given."""
        if self._awaited or not self._differs:
            return False
        self._differs = False
        return True


def list_kinds() -> list[ListKind]:
    """All kinds, of which the client has been given nothing."""
    resources = "resources/list", "resources/templates/list"
    return [
        ListKind("notifications/tools/list_changed", "toolsListChanged", "tools/list"),
        ListKind("notifications/prompts/list_changed", "promptsListChanged", "prompts/list"),
        ListKind("notifications/resources/list_changed", "resourcesListChanged", *resources),
    ]


def _whole(method: str, request: PendingRequest, *, settled: bool, counted: bool) -> PendingRequest:
    """The request for a whole list, in one page."""
    params = decode_object(request.params)
    meta = params.get("_meta") or {}
    meta.pop("progressToken", None)  # the client's request is over
    params["_meta"] = {**meta, SETTLED_KEY: settled, COUNTED_KEY: counted}
    return PendingRequest(method, msgspec.Raw(encode(params)))


def _read(result: msgspec.Raw) -> tuple[list[int], bool]:
    """The digests of a page, and whether no page follows on it."""
    try:
        listed = msgspec.json.decode(result, type=_Listed)
    except (msgspec.DecodeError, RecursionError):
        listed = _Listed()
    entries = [*listed.tools, *listed.prompts, *listed.resources, *listed.templates]
    return [hash(bytes(entry)) for entry in entries], listed.next_cursor is None


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
        """Return True if the client has one of these lists from the shim alone, unannounced."""
        return kind in self._made_up

    def announce_made_up(self) -> list[bytes]:
        """A daemon serves the client now: what was made up has changed."""
        kinds, self._made_up = self._made_up, []
        return [line for kind in kinds for line in self.announce(kind)]

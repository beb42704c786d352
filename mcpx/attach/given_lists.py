"""The lists that the client of a shim was given, page by page, to compare later ones with them. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.attach.refusals import PendingRequest, decode_object
from mcpx.core.system.control_protocol import COUNTED_KEY, SETTLED_KEY
from mcpx.core.wire.envelope import RPCMessage, encode


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
        """Whether a list is not what the client was given, as far as both go; then it counts as given."""
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
        """Whether the client was given one of the lists."""
        return any(given.request for given in self.lists.values())

    @property
    def is_outdated(self) -> bool:
        """Whether the client has not listed again since a difference was found."""
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
        """Whether all lists have come, but they changed meanwhile: to be compared again."""
        if self._awaited or not self._again:
            return False
        self._again = False
        return True

    def is_to_be_announced(self) -> bool:
        """Whether all lists have come, and one differs from what the client was given."""
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

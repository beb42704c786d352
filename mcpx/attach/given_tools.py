"""The tools that the client of a shim was given, page by page, to hold a later list against them. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpx.attach.refusals import PendingRequest, decode_object


class _Listed(msgspec.Struct, gc=False):
    tools: list[msgspec.Raw] = []
    next_cursor: Any = msgspec.field(name="nextCursor", default=None)


class GivenTools:
    """A digest of each tool, in the order of the pages; valid within this process."""

    def __init__(self) -> None:
        self.request: PendingRequest | None = None
        """The request for the first page, as the client sent it; None before the first list."""
        self._digests: list[int] = []
        self._is_whole = False

    def give(self, request: PendingRequest, result: msgspec.Raw) -> None:
        """Note a page that the client gets; its request must not keep a whole line in memory."""
        if decode_object(request.params).get("cursor") is None:
            self.request = request
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
            self._digests, self._is_whole = listed, is_whole
        return differs


def _read(result: msgspec.Raw) -> tuple[list[int], bool]:
    """The digests of a page, and whether no page follows on it."""
    try:
        listed = msgspec.json.decode(result, type=_Listed)
    except (msgspec.DecodeError, RecursionError):
        listed = _Listed()
    return [hash(bytes(tool)) for tool in listed.tools], listed.next_cursor is None

"""What a server lists and says of itself at a transparent endpoint, held against what is pinned.

Its session there is one of its own, perhaps the only one: what differs there is a change like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from mcp_types import SERVER_INFO_META_KEY

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.policy.pins import ServerPins
from mcpx.core.servers.offers.entries import MAX_TEXT_CHARS
from mcpx.core.servers.passthrough.messages import NOTHING, members_of, value_of
from mcpx.core.wire import envelope

TOOLS_LIST: Final = "tools/list"
GREETINGS: Final = frozenset({"initialize", "server/discover"})
MAX_TOOLS: Final = 10_000


class PinnedPages:
    """The pages of tools that clients of an endpoint get. `changed` is called when other things wait."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.compared = False
        """Whether any tools were held against their pins."""
        self._about: Catalogue | None = None  # what the server says of itself, and nothing else
        self._changed = changed
        self._listed: dict[str, ToolInfo] = {}

    def note_greeting(self, pins: ServerPins, about: Catalogue) -> None:
        """Take in what the server says of itself."""
        self._about = about
        if pins.record.state != "unseen":
            self._note(pins, {})

    def note_page(
        self, pins: ServerPins, params: msgspec.Raw | bytes, result: msgspec.Raw, tools: dict[str, ToolInfo]
    ) -> None:
        """Take in a page. Of a server that was never seen all pages are pinned together, at the last."""
        if not pins.is_active:
            return
        if "cursor" not in members_of(params):
            self._listed = {}
        if len(self._listed) < MAX_TOOLS:
            self._listed |= tools
        self.compared = True
        if pins.record.state != "unseen":
            self._note(pins, tools)
        elif value_of(members_of(result).get("nextCursor")) is None:
            self._note(pins, self._listed)

    def _note(self, pins: ServerPins, tools: dict[str, ToolInfo]) -> None:
        before = pins.changes()
        pins.note_part(tools, self._about)
        if pins.changes() != before:
            self._changed()


def about_in(result: msgspec.Raw) -> Catalogue:
    """What a server says of itself in its answer to `initialize` or `server/discover`."""
    members = members_of(result)
    info = members.get("serverInfo")
    if info is None:
        info = members_of(members.get("_meta", NOTHING)).get(SERVER_INFO_META_KEY)
    named = value_of(info)
    name, title = (named.get("name"), named.get("title")) if isinstance(named, dict) else (None, None)
    return Catalogue(
        generation=0,
        implementation=_text(name),
        server_title=_text(title) or _text(name),
        instructions=_text(value_of(members.get("instructions"))),
    )


def as_approved(result: msgspec.Raw, about: Catalogue, shown: Catalogue) -> bytes:
    """The answer with what the server says of itself as it is `shown`, in place of what it said."""
    members = members_of(result)
    if shown.instructions is None:
        members.pop("instructions", None)
    elif shown.instructions != about.instructions:
        members["instructions"] = msgspec.Raw(envelope.encode(shown.instructions))
    if shown.server_title != about.server_title and "serverInfo" in members:
        info = members_of(members["serverInfo"])
        info.pop("title", None)
        if shown.server_title is not None:
            info["title"] = msgspec.Raw(envelope.encode(shown.server_title))
        members["serverInfo"] = msgspec.Raw(envelope.encode(info))
    return envelope.encode(members)


def _text(value: Any) -> str | None:
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) and value else None

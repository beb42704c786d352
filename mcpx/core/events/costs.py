"""The cost of results and of listings of tools to a model, in estimated tokens.

Counted is what a model reads: the text of `content` (or of a resource's `contents`), and `structuredContent`
only where there is no content. Images, audio and other binary data cost nothing. Of a long text only parts
are looked at. Nothing here raises for what a server may send: what cannot be read costs nothing.

Of a session's listings the last one counts, in the place of those before (`Listings`): a menu that grows
while servers come up is one menu.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.events.stats import MCPX
from mcpx.core.rendering.tokens import estimate_result

Pieces = Sequence[bytes | memoryview]
"""An answer to a client as it goes out."""

_NOTHING: Final = msgspec.Raw()
_WHOLE_BYTES: Final = 4096  # of a text that is looked at whole
_WINDOW_BYTES: Final = 512
_WINDOWS: Final = 8  # of a longer text, evenly spaced
# Where a JSON string may be cut: at a sign that is in no escape, or before an escape.
_BREAK: Final = re.compile(rb'[^\\"/bfnrtu0-9a-fA-F\x80-\xff]|(?<=[^\\])\\')
_MAX_TAIL_BYTES: Final = 64  # of a part, in which the break is looked for at which it ends


class _Resource(msgspec.Struct, gc=False):
    text: msgspec.Raw = _NOTHING


class _Block(msgspec.Struct, gc=False):
    text: msgspec.Raw = _NOTHING
    resource: _Resource | None = None


class _Result(msgspec.Struct, gc=False):
    content: list[_Block] = []
    contents: list[_Block] = []
    structured: msgspec.Raw = msgspec.field(name="structuredContent", default=_NOTHING)


_decode = msgspec.json.Decoder(_Result).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


class CountedPieces(list[bytes | memoryview]):
    """A result in pieces of which the costs are known: a large one, which was read elsewhere."""

    def __init__(self, pieces: Iterable[bytes | memoryview], cost: tuple[int, int]) -> None:
        super().__init__(pieces)
        self.cost = cost


def costs(
    raw: msgspec.Raw | bytes, pieces: Pieces, whole: Callable[[msgspec.Raw], msgspec.Raw] = msgspec.Raw
) -> tuple[int, int]:
    """The cost of a server's result, and of the result in pieces that was made of it.

    Of outlines, `whole` gives what a text stands for.
    """
    if isinstance(pieces, CountedPieces):
        return pieces.cost
    direct = result_texts(raw)
    if len(pieces) > 1 and sum(map(len, pieces)) >= sum(map(len, direct)):
        spent = direct  # in pieces that are the server's own, and nothing was cut
    else:
        spent = result_texts(b"".join(pieces))
    cost = _sum(map(whole, direct))
    return cost, cost if spent == direct else _sum(map(whole, spent))


def tools_cost(tools: Iterable[ToolInfo]) -> int:
    """The cost of the tools of a server to a client that is connected to it directly."""
    return definitions_cost((tool.name, tool.description, tool.input_schema) for tool in tools)


def definitions_cost(definitions: Iterable[tuple[str, str | None, Any]]) -> int:
    """The cost of what a model reads of tools: their names, descriptions and parameters.

    Each is estimated by itself: of a long text only parts are looked at, and those of a list of many tools
    would say little about the others.
    """
    return sum(_definition_cost(name, description, schema) for name, description, schema in definitions)


def _definition_cost(name: str, description: str | None, schema: Any) -> int:
    shown = [{"name": name, "description": description or "", "inputSchema": schema}]
    try:
        text = _encode(shown).decode()
    except UnicodeEncodeError:  # a lone surrogate in a server's text
        text = json.dumps(shown, separators=(",", ":"))
    return estimate_result(text)


def result_texts(result: msgspec.Raw | bytes) -> list[msgspec.Raw]:
    """Return the part of a result that a model reads: JSON strings, or one other JSON value."""
    try:
        read = _decode(result)
    except (msgspec.DecodeError, RecursionError):
        return []
    blocks = read.content or read.contents
    if not blocks:
        return [read.structured] if read.structured else []
    texts = (block.text if block.resource is None else block.resource.text for block in blocks)
    return [text for text in texts if text]


def _sum(texts: Iterable[msgspec.Raw]) -> int:
    return sum(map(_cost, texts))


def _cost(text: msgspec.Raw) -> int:
    """The cost of a JSON string, or of another value as it is written."""
    if len(text) <= _WHOLE_BYTES:
        return estimate_result(_plain(text))
    whole = memoryview(text)
    windows = []
    for number in range(_WINDOWS):
        start = (len(whole) - _WINDOW_BYTES) * number // (_WINDOWS - 1)
        windows.append(_between_breaks(bytes(whole[start : start + _WINDOW_BYTES])))
    looked_at = b"".join(windows)
    return estimate_result(_plain(b'"%b"' % looked_at)) * len(whole) // len(looked_at)


def _between_breaks(window: bytes) -> bytes:
    """A part of a JSON string that begins and ends at a break, so that no escape in it is cut."""
    first, last = _BREAK.search(window), _BREAK.search(window, len(window) - _MAX_TAIL_BYTES)
    return window[first.start() : last.start()] if first and last else window


def _plain(text: msgspec.Raw | bytes) -> str:
    """A JSON string decoded; anything else as it is written."""
    try:
        return _decode_text(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bytes(text).decode(errors="ignore")


MAX_LISTINGS: Final = 1024  # clients whose last listing is remembered
SESSION_S: Final = 3600.0  # after which a client without sessions is taken for a new one


class Offers(Protocol):
    """A server, as far as its catalogue is looked at."""

    @property
    def catalogue(self) -> Catalogue | None:
        """The offers of the server, or its last ones; None where they are not known."""


Menu = Mapping[str, tuple[int, int]]
"""The cost of a listing: the direct and the spent tokens of each server."""


class _Listing(NamedTuple):
    menu: Menu
    at: float
    """On the monotonic clock, in seconds."""
    first: Menu
    """What was counted when the client was new."""


class Listings:
    """The listing that each client is counted with: its last one."""

    def __init__(self) -> None:
        self._last: dict[object, _Listing] = {}
        self._menu: Menu = {}  # the latest: one object for all that are equal

    def replace(self, client: object, menu: Menu) -> list[tuple[str, int, int]]:
        """Count a client with this listing from now on.

        Returns what changes for each server, in direct and in spent tokens; nothing where the listing that
        counted until now is the same. A client without sessions is a text: it is a new one after an hour.
        """
        if menu != self._menu:
            self._menu = menu
        now, menu = time.monotonic(), self._menu
        last = self._last.pop(client, None)
        if last is not None and isinstance(client, str) and now - last.at > SESSION_S:
            last = None
        self._last[client] = _Listing(menu, now, menu) if last is None else last._replace(menu=menu)
        if len(self._last) > MAX_LISTINGS:
            del self._last[next(iter(self._last))]
        before = {} if last is None else last.menu
        changes = []
        for server in menu.keys() | before.keys() if menu != before else ():
            shown, then = menu.get(server, (0, 0)), before.get(server, (0, 0))
            changes.append((server, shown[0] - then[0], shown[1] - then[1]))
        return changes

    def counted_before(self, client: object, menu: Menu) -> list[tuple[str, int, int]]:
        """Take it that the session was counted with its listing by the daemon before this one.

        Returns what changes, as `replace` does: the client may have listed before its shim could say so.
        """
        last = self._last.get(client)
        if last is not None and isinstance(client, str):
            return []
        if last is None:
            self.replace(client, menu)
        self._last[client] = self._last[client]._replace(first={})
        return [] if last is None else [(server, -each[0], -each[1]) for server, each in last.first.items()]

    def client_left(self, client: object) -> None:
        """Forget a client that has left."""
        self._last.pop(client, None)


def menu_of(servers: Mapping[str, Offers], spent: int) -> Menu:
    """Return the direct cost of each server's tools, with its share of what was spent; the shares add up."""
    menus = cost_of_menus(servers)
    whole = sum(menus.values())
    if not whole:
        return {MCPX: (0, spent)}
    menu, until = {}, 0
    for server, direct in menus.items():
        share = spent * (until + direct) // whole - spent * until // whole
        menu[server] = direct, share
        until += direct
    return menu


def cost_of_menus(upstreams: Mapping[str, Offers]) -> dict[str, int]:
    """Return the cost of each server's tools, to a client that is connected to it directly."""
    known = ((name, upstream.catalogue) for name, upstream in upstreams.items())
    return {name: _cost_of_menu(its) for name, its in known if its is not None and its.tools}


def _cost_of_menu(catalogue: Catalogue) -> int:
    """Return the cost of the tools of a catalogue, which is kept with it."""
    kept: dict[str, int] = catalogue.__dict__
    if "menu_cost" not in kept:
        kept["menu_cost"] = tools_cost(catalogue.tools.values())
    return kept["menu_cost"]

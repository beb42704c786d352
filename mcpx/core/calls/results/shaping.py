"""A result as its client gets it: passed through, rendered, or cut to its limit. Pure, but for what it keeps.

The same code makes small results on the event loop and large ones in a worker
(`mcpx.core.calls.results.worker`), so it imports neither the SDK nor an event loop. Every path to a model or
a program renders with the hub's one `ResultRenderer`, the one place that holds the settings for this: a
reload replaces its `settings` once. What an upstream's result becomes is in `mcpx.core.rendering.results`;
its bytes for clients are made by `mcpx.core.gateway.tools.encoding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from mcpx.core.calls.results.parts import BEGINNING, Limit, Page, may_be_json, nothing_selected, page_of
from mcpx.core.catalog.model import JSON
from mcpx.core.config import Config
from mcpx.core.protocol.result_address import SERVER, ResultAddress
from mcpx.core.rendering import large_results
from mcpx.core.rendering.budget import FindRows
from mcpx.core.rendering.large_results import is_large
from mcpx.core.rendering.projection import Projected
from mcpx.core.rendering.result_members import (
    Bytes,
    enveloped,
    passed_through,
    text_block,
    texts_of,
    with_texts,
)
from mcpx.core.rendering.result_reading import read_resource_result, read_tool_result
from mcpx.core.rendering.results import ToolResult, members_of, shape_resource, shape_tool_result
from mcpx.core.rendering.toon import TextForm, encode

_NEVER_TOON: Final = 1.0


class ResultRenderer:
    """Renders results by `settings`, the configuration in force. Assign another one to follow a reload."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings

    def tool(
        self,
        raw: msgspec.Raw,
        *,
        server: str,
        large: bool | None = None,
        toon: bool = True,
        whole: bool = False,
    ) -> tuple[JSON, ToolResult]:
        """The result of a `tools/call`: as far as it was read, and rendered.

        `large` says whether it is passed on without being read (`mcpx.core.rendering.large_results`), if
        known. Without `toon` JSON text is compact at most. With `whole` all of it is read, for programs.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        if large is None:
            large = is_large(raw, self.settings.toon_compression_max_size)
        result = read_tool_result(raw, server=server, large=large, whole=whole)
        return result, self.shape(result, server=server, large=large, toon=toon)

    def shape(self, result: JSON, *, server: str, large: bool = False, toon: bool = True) -> ToolResult:
        """The result of a `tools/call`, as far as it was read, rendered.

        Raises:
            CallError: `protocol_error`: it is not MCP.
        """
        return shape_tool_result(result, form=self.form(toon=toon), is_large=large, server=server)

    def resource(
        self, raw: msgspec.Raw, *, uri: str, server: str, as_it_came: bool = False, whole: bool = False
    ) -> ToolResult:
        """The result of a `resources/read` of `uri`; JSON texts in their form, or as they came.

        With `whole` all of it is read, for programs.

        It raises what `tool` does.
        """
        large = is_large(raw, self.settings.toon_compression_max_size)
        return shape_resource(
            read_resource_result(raw, server=server, whole=whole),
            uri=uri,
            form=None if large or as_it_came else self.form(),
            server=server,
        )

    def text(self, value: JSON) -> str:
        """A JSON object as text for a model."""
        if self.settings.toon_compression_enabled:
            return encode(value)
        return msgspec.json.encode(value).decode()

    def form(self, *, toon: bool = True) -> TextForm | None:
        """Return the form for JSON text; None for as it came. Without `toon`, compact JSON at most."""
        settings = self.settings
        if not settings.toon_compression_enabled:
            return None
        saving = settings.toon_compression_min_saving if toon else _NEVER_TOON
        return TextForm(saving, settings.toon_compression_min_size)


W = TypeVar("W")
Keep = Callable[[tuple[str, ...], W, Limit], str | None]
"""Keeps the texts of a result for whom they are, shown within that limit; their id, None where it cannot."""

MAX_KEPT_BYTES: Final = 64 << 20
_BYTES_PER_TOKEN: Final = 16  # of a limit; a larger result is over it in any form, so TOON is not tried


class Order(msgspec.Struct, frozen=True, array_like=True):
    """The form that a result is to have: all that the result itself does not say.

    `limit` is None where it is surely within, `further` is for the other pages. `structured`,
    `structured_is_shown` and `stamp` are the client's, as for `ResultEncoder`.
    """

    server: str
    uri: str | None
    """Of a resource; None for the result of a tool."""
    limit: Limit | None
    further: Limit
    structured: bool = False
    structured_is_shown: bool = False
    stamp: bytes | None = None


class ResultShaper:
    """Makes what clients get of results, by the settings of `results`."""

    def __init__(self, results: ResultRenderer, keep: Keep[Any], find_rows: FindRows) -> None:
        self._results = results
        self._keep = keep
        self._find_rows = find_rows

    # --- for the wire

    def pieces(self, raw: msgspec.Raw, order: Order, owner: object, *, may_pass: bool = True) -> list[Bytes]:
        """The result in pieces, its envelope included. `may_pass` as for `passed_through`: it was not tried.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
            UnknownResultType: It is of a type that MCPX does not know.
        """
        large = large_results.is_large(raw, self._results.settings.toon_compression_max_size)
        made, limit = None, order.limit
        if large and (order.uri is not None or limit is None or not order.structured_is_shown):
            made = self.large_pieces(raw, order, owner)
        elif order.uri is not None or not (may_pass or large):
            pass
        elif limit is None or limit.holds([str(memoryview(raw), "utf-8", "replace")]):
            made = passed_through(raw, structured=order.structured, stamp=order.stamp)
        if made is not None:
            return made
        if order.uri is not None:
            shaped = self.resource(raw, order, owner)
        elif order.limit is None:
            shaped = self._results.tool(raw, server=order.server, large=large)[1]
        else:
            shaped = self.tool(raw, order, owner)
        return self.enveloped(shaped, order)

    def enveloped(self, shaped: ToolResult, order: Order) -> list[Bytes]:
        """A result that is rendered already, in pieces."""
        return [enveloped(members_of(shaped, structured=order.structured), order.stamp)]

    def large_pieces(self, raw: msgspec.Raw, order: Order, owner: object) -> list[Bytes] | None:
        """A large result in pieces of its own, its texts cut; None where it has to be read, as a question.

        Raises:
            CallError: `protocol_error`: it is not MCP; `response_too_large`: it has too many blocks.
        """
        server, limit, structured, stamp = order.server, order.limit, order.structured, order.stamp
        if order.uri is None:
            shorten = None if limit is None else self._shortening(limit, order.further, owner)
            return large_results.pieces(
                raw, structured=structured, stamp=stamp, server=server, shorten=shorten
            )
        return large_results.resource_pieces(
            raw, uri=order.uri, structured=structured, stamp=stamp, server=server, texts=limit is None
        )

    def _shortening(self, limit: Limit, further: Limit, owner: object) -> large_results.Shorten:
        """Cut the content of a large result, of which nothing else is read."""

        def shorten(blocks: list[JSON]) -> list[JSON] | None:
            whole = ToolResult(content=blocks)
            fitted = self.fit(whole, blocks, limit, further, owner)
            return None if fitted is whole else fitted.content

        return shorten

    # --- as blocks

    def tool(self, raw: msgspec.Raw, order: Order, owner: object) -> ToolResult:
        """The result of a `tools/call` within its limit.

        Where structured content is shown to the model, it has the same limit. Over it, it is left out, and
        shown as a text where the texts do not hold it.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        server, limit, size = order.server, order.limit, len(memoryview(raw))
        if limit is None:
            return self._results.tool(raw, server=server)[1]
        large = large_results.is_large(raw, self._results.settings.toon_compression_max_size)
        toon = _may_fit(limit, size)
        result, shaped = self._results.tool(raw, server=server, large=large, toon=toon)
        if not (large or toon) and limit.holds(texts_of(shaped.content)):  # most of it are images
            shaped = self._results.shape(result, server=server)
        blocks = result.get("content") or [
            text_block(msgspec.json.encode(shaped.structured_content).decode())
        ]
        if order.structured_is_shown and (text := _over(shaped, limit)) is not None:
            if not any(map(may_be_json, texts_of(blocks))):
                blocks = [*blocks, text_block(text)]
            shaped = replace(shaped, content=blocks, structured_content=None)
        return self.fit(shaped, blocks, limit, order.further, owner)

    def resource(self, raw: msgspec.Raw, order: Order, owner: object) -> ToolResult:
        """The result of a `resources/read` within its limit.

        It raises what `tool` does.
        """
        uri, server, limit = order.uri or "", order.server, order.limit
        if limit is None:
            return self._results.resource(raw, uri=uri, server=server)
        came = shaped = self._results.resource(raw, uri=uri, server=server, as_it_came=True)
        if _may_fit(limit, len(memoryview(raw))):
            shaped = self._results.resource(raw, uri=uri, server=server)
        if order.structured_is_shown and _over(shaped, limit) is not None:
            shaped = replace(shaped, structured_content=None)
        return self.fit(shaped, came.content, limit, limit, owner)

    def fit(
        self, shaped: ToolResult, blocks: list[JSON], limit: Limit, further: Limit, owner: object
    ) -> ToolResult:
        """A result within a limit: itself, or its first page; the `further` limit is for the other pages.

        `blocks` is its content as the server gave it, before any of it became TOON.
        """
        if limit.holds(texts_of(shaped.content)):
            return shaped
        texts = tuple(texts_of(blocks))
        page = self.page_of(texts, limit)
        kept = None if page.is_last else self._keep(texts, owner, further)
        return replace(
            shaped, content=with_texts(blocks, _shown(page, kept, further, as_resource=further.as_resource))
        )

    def part(self, value: bytes, order: Order, owner: object) -> ToolResult:
        """A projection, as a model gets it; for programs it is there unless it is too large to be read."""
        limit = order.limit
        large = large_results.is_large(value, self._results.settings.toon_compression_max_size)
        plain: Any = None if large and value[:1] != b'"' else msgspec.json.decode(value)
        blocks = [text_block(plain if isinstance(plain, str) else value.decode())]
        toon = limit is None or _may_fit(limit, len(value))
        shaped = self._results.shape({"content": blocks}, server=SERVER, large=large, toon=toon)
        if not large:
            shaped = replace(
                shaped, structured_content=plain if isinstance(plain, dict) else {"result": plain}
            )
        part = shaped if limit is None else self.fit(shaped, blocks, limit, order.further, owner)
        if order.structured_is_shown and limit is not None and _over(part, limit) is not None:
            return replace(part, structured_content=None)
        return part

    # --- pages

    def page(self, texts: Sequence[str], result_id: str, limit: Limit, at: ResultAddress) -> ToolResult:
        """A page of texts that are kept under that id.

        Raises:
            CallError: `invalid_arguments`: there is nothing at that place.
        """
        shown = _shown(self.page_of(texts, limit, at), result_id, limit)
        return ToolResult(content=list(map(text_block, shown)))

    def selected_page(
        self, projected: Projected, at: ResultAddress, limit: Limit, owner: object
    ) -> ToolResult:
        """The part that an address selects of texts that are kept, from the place on that it names."""
        if projected.problem or projected.hint:
            return nothing_selected(projected, at.id)
        if not (at.start or at.count):
            return self.part(projected.value, Order(SERVER, None, limit, limit), owner)
        texts = (projected.value.decode(),)
        return self.page(texts, self._keep(texts, owner, limit) or at.id, limit, replace(at, block=1))

    def page_of(self, texts: Sequence[str], limit: Limit, at: ResultAddress = BEGINNING) -> Page:
        """The texts that begin at a place, within a limit."""
        return page_of(texts, limit, at=at, form=self._results.form() or str, find=self._find_rows)


def _over(shaped: ToolResult, limit: Limit) -> str | None:
    """The structured content as JSON, where it is over a limit."""
    if shaped.structured_content is None:
        return None
    text = msgspec.json.encode(shaped.structured_content).decode()
    return None if limit.holds([text]) else text


def _may_fit(limit: Limit, size: int) -> bool:
    """Return True if a result of `size` bytes may be within a limit in its shortest form."""
    return size <= _BYTES_PER_TOKEN * (limit.tokens if limit.chars is None else limit.chars)


def _shown(page: Page, result_id: str | None, kept: Limit, *, as_resource: bool = False) -> list[str]:
    """The texts of a page; the last one ends with the line that says where it goes on."""
    *texts, last = page.texts
    if page.is_last:
        return list(page.texts)
    if result_id is not None:
        address = page.address(result_id)
        how = f"read the resource {address}" if kept.as_resource else address.call
        return [*texts, f"{last}\n{page.rest}: {how}"]
    size = MAX_KEPT_BYTES >> 20
    how = "ask for less of it" if as_resource else "call again with select or max_tokens"
    return [*texts, f"{last}\n{page.rest}, not kept (over {size} MB): {how}"]

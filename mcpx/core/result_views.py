"""What a model gets of a result: all of it, the part within its limit, or the part that it selected.

Called by the gateway for `exec` and for resources, on every path to a client; programs and the command line
get results whole. What is over its limit is cut (`mcpx.core.result_pages`), its texts are kept for the client
(`mcpx.core.kept_results`), and the last line says how much there is and under which address. Images, audio
and links are neither cut nor counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.catalog.model import JSON
from mcpx.core.kept_results import MAX_AGE_S, MAX_KEPT_BYTES, KeptResult, KeptResults
from mcpx.core.messages import Exec, Read
from mcpx.core.projector import PATIENCE_S, NoTurn, Projector
from mcpx.core.result_address import SERVER, ResultAddress
from mcpx.core.result_limits import ResultLimits
from mcpx.core.result_pages import BEGINNING, Limit, Page, page_of
from mcpx.core.result_selection import (
    Selectable,
    check_expression,
    may_be_json,
    no_turn,
    nothing_selected,
    selectable,
)
from mcpx.core.results import ResultRenderer
from mcpx.core.tasks import Tasks
from mcpx.errors import CallError, Code
from mcpx.rendering.content import text_block, texts_of, with_texts
from mcpx.rendering.large_results import is_large
from mcpx.rendering.results import ToolResult
from mcpx.upstream.actor import Upstream
from mcpx.upstream.context import ClientId
from mcpx.workers.pool import WorkerPool

_BYTES_PER_TOKEN: Final = 16  # of a limit; a larger result is over it in any form, so TOON is not tried


class ResultViews:
    """Makes what models get, and keeps what is left."""

    def __init__(self, results: ResultRenderer, upstreams: Mapping[str, Upstream], pool: WorkerPool) -> None:
        self.results = results
        self.limits = ResultLimits(results, upstreams)
        self.kept = KeptResults()
        self.tasks = Tasks()
        self._projector = Projector(pool)

    # --- results of tools and resources

    def tool(
        self,
        raw: msgspec.Raw,
        request: Exec,
        client: ClientId | None,
        *,
        structured_is_shown: bool = False,
    ) -> ToolResult:
        """The result of a `tools/call` within its limit, unprojected.

        `structured_is_shown` says that the client's model is given the structured content, so that it has the
        same limit. Over it, it is left out, and shown as a text where the texts do not hold it.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        server, limit = request.server_name, self.limits.find(request, len(memoryview(raw)))
        if limit is None:
            return self.results.tool(raw, server=server)[1]
        large = is_large(raw, self.results.settings.toon_compression_max_size)
        toon = _may_fit(limit, len(memoryview(raw)))
        result, shaped = self.results.tool(raw, server=server, large=large, toon=toon)
        if not (large or toon) and limit.holds(texts_of(shaped.content)):  # most of it are images
            shaped = self.results.shape(result, server=server)
        blocks = result.get("content") or [
            text_block(msgspec.json.encode(shaped.structured_content).decode())
        ]
        if structured_is_shown and (text := _over(shaped, limit)) is not None:
            if not any(map(may_be_json, texts_of(blocks))):
                blocks = [*blocks, text_block(text)]
            shaped = replace(shaped, content=blocks, structured_content=None)
        return self.fit(shaped, blocks, limit, self.limits.of_pages(request), client)

    def resource(
        self,
        raw: msgspec.Raw,
        request: Read,
        client: ClientId | None,
        *,
        structured_is_shown: bool = False,
    ) -> ToolResult:
        """The result of a `resources/read` within its limit; `structured_is_shown` as for `tool`.

        Raises:
            CallError: As from `tool`.
            InputRequired: As from `tool`.
        """
        uri, server = request.uri, request.server_name
        limit = self.limits.find(request, len(memoryview(raw)))
        if limit is None:
            return self.results.resource(raw, uri=uri, server=server)
        came = shaped = self.results.resource(raw, uri=uri, server=server, as_it_came=True)
        if _may_fit(limit, len(memoryview(raw))):
            shaped = self.results.resource(raw, uri=uri, server=server)
        if structured_is_shown and _over(shaped, limit) is not None:
            shaped = replace(shaped, structured_content=None)
        return self.fit(shaped, came.content, limit, limit, client)

    def fit(
        self, shaped: ToolResult, blocks: list[JSON], limit: Limit, further: Limit, client: ClientId | None
    ) -> ToolResult:
        """A result within a limit: itself, or its first page; the `further` limit is for the other pages.

        `blocks` is its content as the server gave it, before any of it became TOON.
        """
        if limit.holds(texts_of(shaped.content)):
            return shaped
        texts = tuple(texts_of(blocks))
        page = self._page_of(texts, limit)
        kept = None if page.is_last else self.kept.keep(texts, client, further)
        return replace(
            shaped, content=with_texts(blocks, _shown(page, kept, as_resource=further.as_resource))
        )

    # --- projections

    def check(self, request: Exec) -> None:
        """Check what a call selects, before it is sent.

        Raises:
            CallError: `invalid_arguments`: the expression cannot be parsed.
        """
        check_expression(request.select or "", server=request.server_name, tool=request.tool_name)

    def selectable(self, raw: msgspec.Raw, request: Exec) -> Selectable | None:
        """What a projection takes its part of; None for a result that is shown as it is.

        Raises:
            CallError: As from `tool`.
        """
        return selectable(raw, server=request.server_name)

    async def project(
        self,
        found: Selectable,
        request: Exec,
        client: ClientId | None,
        *,
        structured_is_shown: bool = False,
    ) -> ToolResult:
        """The part that a call selects, within its limit; `structured_is_shown` as for `tool`.

        Where there is no such part the whole result is kept, so that the call need not be repeated.
        """
        further = self.limits.of_pages(request)
        server = self.results.settings.servers.get(request.server_name)
        patience_s = PATIENCE_S if server is None else server.call_limits.queue_timeout
        try:
            projected = await self._projector.project(
                request.select or "", found.sources, client, patience_s=patience_s
            )
        except NoTurn as late:
            raise no_turn(late, self.kept.keep(found.texts, client, further), request.server_name) from None
        if projected.problem or projected.hint:
            kept = self.kept.keep(found.texts, client, further)
            return nothing_selected(projected, kept, after_call=True)
        limit = self.limits.find(request, len(projected.value))
        part = self._part(projected.value, limit, further, client)
        if structured_is_shown and limit is not None and _over(part, limit) is not None:
            return replace(part, structured_content=None)
        return part

    def _part(self, value: bytes, limit: Limit | None, further: Limit, client: ClientId | None) -> ToolResult:
        """A projection, as a model gets it; for programs it is there unless it is too large to be read."""
        large = is_large(value, self.results.settings.toon_compression_max_size)
        plain: Any = None if large and value[:1] != b'"' else msgspec.json.decode(value)
        blocks = [text_block(plain if isinstance(plain, str) else value.decode())]
        toon = limit is None or _may_fit(limit, len(value))
        shaped = self.results.shape({"content": blocks}, server=SERVER, large=large, toon=toon)
        if not large:
            shaped = replace(
                shaped, structured_content=plain if isinstance(plain, dict) else {"result": plain}
            )
        return shaped if limit is None else self.fit(shaped, blocks, limit, further, client)

    # --- kept results

    def has(self, address: ResultAddress, client: ClientId | None) -> bool:
        """Whether the result is kept for this client."""
        return self.kept.get(address.id, client) is not None

    async def read(self, address: ResultAddress, client: ClientId | None) -> ToolResult:
        """A page of a kept result, or a part that the address selects.

        Raises:
            CallError: `unknown_resource`: it is not kept, or no more; `invalid_arguments`: there is nothing
                at that place, or the expression cannot be parsed.
        """
        kept = self.kept.get(address.id, client)
        if kept is None:
            raise _not_kept(address)
        if address.select is None:
            return self._page(kept, address)
        check_expression(address.select, server=SERVER)
        try:
            projected = await self._projector.project(address.select, kept.texts, client)
        except NoTurn as late:
            raise CallError(Code.OVERLOADED, f"select: {late}; try again later", server=SERVER) from None
        if projected.problem or projected.hint:
            return nothing_selected(projected, kept)
        if not (address.start or address.count):
            return self._part(projected.value, kept.limit, kept.limit, client)
        part = self.kept.keep((projected.value.decode(),), client, kept.limit)
        return self._page(part or kept, replace(address, block=1))

    def _page(self, kept: KeptResult, address: ResultAddress) -> ToolResult:
        page = self._page_of(kept.texts, kept.limit, address)
        return ToolResult(content=list(map(text_block, _shown(page, kept))))

    def _page_of(self, texts: Sequence[str], limit: Limit, at: ResultAddress = BEGINNING) -> Page:
        return page_of(texts, limit, at=at, form=self.results.form() or str, find=self.kept.find_rows)


def _over(shaped: ToolResult, limit: Limit) -> str | None:
    """The structured content as JSON, where it is over a limit."""
    if shaped.structured_content is None:
        return None
    text = msgspec.json.encode(shaped.structured_content).decode()
    return None if limit.holds([text]) else text


def _may_fit(limit: Limit, size: int) -> bool:
    """Whether a result of `size` bytes may be within a limit in its shortest form."""
    return size <= _BYTES_PER_TOKEN * (limit.tokens if limit.chars is None else limit.chars)


def _shown(page: Page, kept: KeptResult | None, *, as_resource: bool = False) -> list[str]:
    """The texts of a page; the last one ends with the line that says where it goes on."""
    *texts, last = page.texts
    if page.is_last:
        return list(page.texts)
    if kept is not None:
        address = page.address(kept.id)
        how = f"read the resource {address}" if kept.limit.as_resource else address.call
        return [*texts, f"{last}\n{page.rest}: {how}"]
    size = MAX_KEPT_BYTES >> 20
    how = "ask for less of it" if as_resource else "call again with select or max_tokens"
    return [*texts, f"{last}\n{page.rest}, not kept (over {size} MB): {how}"]


def _not_kept(address: ResultAddress) -> CallError:
    text = (
        f"No result is kept under {ResultAddress(address.id)}. They are kept for {MAX_AGE_S / 60:g} minutes,"
        " for the client that called, unless newer ones need the room or MCPX restarts: call the tool again."
    )
    return CallError(Code.UNKNOWN_RESOURCE, text, server=SERVER, details={"uri": str(address)})

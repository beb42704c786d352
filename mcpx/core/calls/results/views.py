"""Views of results for a model: all of a result, the part within its limit, or the part that it selected.

Called by the gateway for `exec` and for resources, on every path to a client; programs and the command line
get results whole. What is over its limit is cut (`mcpx.core.calls.results.parts`), its texts are kept
for the client (`mcpx.core.calls.results.kept`), and the last line says how much there is and under
which address. Pictures that a client cannot take are made to fit (`mcpx.core.rendering.pictures`); else
images, audio and links are neither cut nor counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from mcpx.core.calls.results.kept import MAX_AGE_S, KeptResult, KeptResults
from mcpx.core.calls.results.large import LargeResults, NoTurn, Projector, patience_for
from mcpx.core.calls.results.parts import Limit, Selectable, check_expression, no_turn, nothing_selected
from mcpx.core.calls.results.shaping import Order, ResultRenderer, ResultShaper
from mcpx.core.calls.tasks import Tasks
from mcpx.core.catalog.model import JSON
from mcpx.core.config import PerServer
from mcpx.core.events.costs import CountedPieces, costs, result_texts
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.protocol.result_address import SERVER, ResultAddress
from mcpx.core.rendering.pictures import USUAL, PictureLimits
from mcpx.core.rendering.results import ToolResult
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.wire.intake import INTAKE, is_cut
from mcpx.core.wire.workers.pool import WorkerPool
from mcpx.errors import CallError, Code

CLAIM: Final = "anthropic/maxResultSizeChars"
MAX_CLAIM_CHARS: Final = 500_000  # as in the client that knows this claim
SURELY_WITHIN: Final = 1024  # bytes of a result; only the limit of a single call can be smaller
_DEFAULT: Final = PerServer().result_token_budget


class ResultLimits:
    """Finds limits. `results` holds the settings in force."""

    def __init__(self, results: ResultRenderer, upstreams: Mapping[str, VisibleServer]) -> None:
        self._results = results
        self._upstreams = upstreams

    def find(self, request: Exec | Read, size: int) -> Limit | None:
        """The limit for a result of `size` bytes; None where it is surely within."""
        return self.of_first(request).of_size(size)

    def of_first(self, request: Exec | Read) -> Limit:
        """The limit for what a call gives."""
        if isinstance(request, Exec) and request.max_tokens is not None:
            return Limit(request.max_tokens)
        return self.of_pages(request)

    def of_pages(self, request: Exec | Read) -> Limit:
        """The limit for further pages of a result, whatever its call asked for."""
        claim, as_resource = None, False
        if isinstance(request, Exec):
            claim, as_resource = self._claim(request), request.rest_as_resource
        if claim is not None:
            return Limit(0, claim, as_resource)
        config = self._results.settings.servers.get(request.server_name)
        budget = _DEFAULT if config is None else config.result_token_budget
        return Limit(budget, as_resource=as_resource)

    def of_pictures(self, request: Exec | Read, client: PictureLimits | None) -> PictureLimits | None:
        """The limits for the pictures of a result; None where they are to pass as they are.

        `client` is what is known of the client. Native tools and their like are as their server has them, so
        there only what is known counts.
        """
        config = self._results.settings.servers.get(request.server_name)
        if config is not None and config.fit_images == "never":
            return None
        is_native = isinstance(request, Exec) and request.rest_as_resource
        return client if client is not None or is_native else USUAL

    def _claim(self, request: Exec) -> int | None:
        """The characters that a tool claims for its results."""
        upstream = self._upstreams.get(request.server_name)
        catalogue = upstream.catalogue if upstream else None
        tool = catalogue.tool(request.tool_name) if catalogue else None
        claim = tool.meta.get(CLAIM) if tool and tool.meta else None
        if not isinstance(claim, int) or isinstance(claim, bool) or claim <= 0:
            return None
        return min(claim, MAX_CLAIM_CHARS)


class ResultViews:
    """Makes what models get, and keeps what is left."""

    def __init__(
        self,
        results: ResultRenderer,
        upstreams: Mapping[str, VisibleServer],
        pool: WorkerPool,
        tasks: Tasks | None = None,
    ) -> None:
        self.results = results
        self.limits = ResultLimits(results, upstreams)
        self.kept = KeptResults()
        self.tasks = Tasks() if tasks is None else tasks
        self.shaper = ResultShaper(results, self._keep, self.kept.find_rows)
        self._projector = Projector(pool)
        self.large = LargeResults(results, self.kept, pool)

    # --- results of tools and resources

    def result(
        self,
        raw: msgspec.Raw,
        request: Exec | Read,
        client: ClientId | None,
        *,
        structured_is_shown: bool = False,
    ) -> ToolResult:
        """Render a result within its limit, unprojected.

        `structured_is_shown` says that the client's model is given the structured content, so that it has the
        same limit. Over it, it is left out, and shown as a text where the texts do not hold it.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        order = self._order(request, len(memoryview(raw)), structured_is_shown=structured_is_shown)
        if isinstance(request, Exec):
            return self.shaper.tool(raw, order, client)
        return self.shaper.resource(raw, order, client)

    def passed(self, raw: msgspec.Raw, order: Order, client: ClientId | None) -> CountedPieces | None:
        """A large result whose long strings go out as they came; None where a worker has to read it."""
        outline = INTAKE.outline(raw)
        if outline is None or len(raw) <= self.results.settings.toon_compression_max_size:
            return None
        read, cuts = outline.content, any(map(is_cut, result_texts(outline.content)))
        if order.limit is not None and (cuts or order.structured_is_shown):
            return None
        try:
            made = self.shaper.large_pieces(read, order, client)
            pieces = [each for piece in made or () for each in outline.filled(piece, raw)]
        except (CallError, ValueError):
            return None  # which the worker explains
        return CountedPieces(pieces, costs(read, made, partial(outline.whole, raw))) if made else None

    def _order(self, request: Exec | Read, size: int, *, structured_is_shown: bool) -> Order:
        uri = request.uri if isinstance(request, Read) else None
        limit, further = self.limits.find(request, size), self.limits.of_pages(request)
        return Order(request.server_name, uri, limit, further, structured_is_shown=structured_is_shown)

    async def project(
        self, found: Selectable, request: Exec, client: ClientId | None, *, structured_is_shown: bool = False
    ) -> ToolResult:
        """Render the part that a call selects, within its limit; `structured_is_shown` as for `result`.

        Where there is no such part the whole result is kept, so that the call need not be repeated.
        """
        further = self.limits.of_pages(request)
        patience_s = patience_for(self.results, request.server_name)
        try:
            projected = await self._projector.project(
                request.select or "", found.sources, client, patience_s=patience_s
            )
        except NoTurn as late:
            raise no_turn(late, self._keep(found.texts, client, further), request.server_name) from None
        if projected.problem or projected.hint:
            kept = self._keep(found.texts, client, further)
            return nothing_selected(projected, kept, after_call=True)
        order = self._order(request, len(projected.value), structured_is_shown=structured_is_shown)
        return replace(self.shaper.part(projected.value, order, client), meta=found.meta)

    # --- kept results

    def has(self, address: ResultAddress, client: ClientId | None) -> bool:
        """Return True if the result is kept for this client."""
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
        if address.select is not None:
            check_expression(address.select, server=SERVER)
        if kept.source is not None:
            return await self.large.page(kept, address, client)
        if kept.pictures:
            return ToolResult(content=[_picture(kept, address)])
        if address.select is None:
            return self.shaper.page(kept.texts, kept.id, kept.limit, address)
        try:
            projected = await self._projector.project(address.select, kept.texts, client)
        except NoTurn as late:
            raise CallError(Code.OVERLOADED, f"select: {late}; try again later", server=SERVER) from None
        return self.shaper.selected_page(projected, address, kept.limit, client)

    async def contents(self, uri: str, address: ResultAddress, client: ClientId | None) -> list[JSON]:
        """The same as the contents of a resource.

        Raises:
            CallError: As from `read`.
        """
        return [_contents(uri, block) for block in (await self.read(address, client)).content]

    def _keep(self, texts: tuple[str, ...], client: ClientId | None, limit: Limit) -> str | None:
        kept = self.kept.keep(texts, client, limit)
        return None if kept is None else kept.id


def _picture(kept: KeptResult, address: ResultAddress) -> JSON:
    """The block of the result that was a picture before it was made to fit."""
    if address.block > len(kept.pictures) or address.start or address.count or address.select:
        least = f"block=1 to {len(kept.pictures)}" if len(kept.pictures) > 1 else "block=1"
        text = f"{ResultAddress(kept.id)} has pictures alone: it takes {least}, and nothing else"
        raise CallError(Code.INVALID_ARGUMENTS, text, server=SERVER)
    block: JSON = msgspec.json.decode(kept.pictures[address.block - 1])
    return block


def _contents(uri: str, block: JSON) -> JSON:
    """A block as contents of a resource: a text, or a picture."""
    held = block.get("resource", block)
    if "text" in held:
        return {"uri": uri, "mimeType": "text/plain", "text": held["text"]}
    data = held["data"] if "data" in held else held["blob"]
    return {"uri": uri, "mimeType": held.get("mimeType"), "blob": data}


def _not_kept(address: ResultAddress) -> CallError:
    text = (
        f"No result is kept under {ResultAddress(address.id)}. They are kept for {MAX_AGE_S / 60:g} minutes,"
        " for the client that called, unless newer ones need the room or MCPX restarts: call the tool again."
    )
    return CallError(Code.UNKNOWN_RESOURCE, text, server=SERVER, details={"uri": str(address)})

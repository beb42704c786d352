"""Results for clients: the upstream's bytes passed through where nothing has to change, else rendered.

A result that holds JSON which may become TOON is rendered as everywhere else (`mcpx.core.results`). One that
holds none (plain text, images, errors) goes out in the pieces in which it came, so that ten megabytes of text
are neither parsed nor copied; so does one that is too large to be read (`mcpx.rendering.large_results`). Used
on every way to a client, so all get the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from mcpx.catalog.model import JSON
from mcpx.core.messages import Exec, Read
from mcpx.core.result_limits import SURELY_WITHIN
from mcpx.core.result_pages import Limit
from mcpx.core.result_views import ResultViews
from mcpx.errors import CallError, Code
from mcpx.gateway.clients.known_clients import shows_structured_content, wants_structured_content
from mcpx.gateway.tools import definitions as tools
from mcpx.observe.tracing import note_failure
from mcpx.rendering import large_results
from mcpx.rendering.result_members import Bytes, closing, enveloped, is_given, structured_content
from mcpx.rendering.result_reading import TASK, UnknownResultType
from mcpx.rendering.results import ToolResult
from mcpx.upstream.context import NO_CAPABILITIES, TASKS, Capabilities

_NOTHING: Final = msgspec.Raw()
_LARGE_BLOCK: Final = 16384  # bytes; below, decoding a block costs less than matching how it begins
_HEAD_BYTES: Final = 256
_USUAL_TEXT: Final = re.compile(rb'\s*\{\s*(?:"type"\s*:\s*"text"\s*,\s*)?"text"\s*:\s*"')
_JSON_STARTS: Final = frozenset(b"{[ \t\\")  # after the quote: JSON, or white space (escaped, too) before it


class _Result(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    content: list[msgspec.Raw] = []
    structured: msgspec.Raw = msgspec.field(name="structuredContent", default=_NOTHING)
    is_error: bool = msgspec.field(name="isError", default=False)
    meta: msgspec.Raw = msgspec.field(name="_meta", default=_NOTHING)
    result_type: str = msgspec.field(name="resultType", default="complete")


class _Block(msgspec.Struct, gc=False):
    type: str
    text: msgspec.Raw = _NOTHING


_decode = msgspec.json.Decoder(_Result).decode
_decode_block = msgspec.json.Decoder(_Block).decode


class ResultEncoder:
    """Makes the `result` of responses to one client, in pieces.

    `structured` says whether with `structuredContent`, `structured_is_shown` whether that client gives it to
    its model, so that it has the limit of the texts; `stamp` is the `_meta` that results of the 2026-07-28
    revision carry, None for a client of an older one. A client that takes tasks, by its `capabilities`, is
    given them under the `name` that it calls itself.
    """

    def __init__(
        self,
        views: ResultViews,
        *,
        structured: bool,
        structured_is_shown: bool = False,
        stamp: bytes | None = None,
        name: str | None = None,
        capabilities: Capabilities = NO_CAPABILITIES,
    ) -> None:
        self._views = views
        self._name = name or ""
        self._capabilities = capabilities
        self.structured_is_shown = structured_is_shown
        self._results = views.results
        self._structured = structured
        self._stamp = stamp

    @classmethod
    def for_client(
        cls,
        views: ResultViews,
        name: str | None,
        stamp: bytes | None,
        capabilities: Capabilities = NO_CAPABILITIES,
    ) -> ResultEncoder:
        """For a client that calls itself that, by the settings in force."""
        wanted = wants_structured_content(views.results.settings.include_structured_content, name)
        shown = wanted and shows_structured_content(name)
        return cls(
            views,
            structured=wanted,
            structured_is_shown=shown,
            stamp=stamp,
            name=name,
            capabilities=capabilities,
        )

    def tool(self, raw: msgspec.Raw, request: Exec) -> list[Bytes]:
        """The result of a tool. One of a type that MCPX does not know is for clients of 2026-07-28 to judge.

        A task is for those that take tasks.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        structured, stamp, server = self._structured, self._stamp, request.server_name
        size = len(memoryview(raw))
        limit = None
        if size > SURELY_WITHIN or request.max_tokens is not None:
            limit = self._views.limits.find(request, size)
        large = large_results.is_large(raw, self._results.settings.toon_compression_max_size)
        if limit is not None:
            if large and not self.structured_is_shown:
                return self._limited(raw, request, limit)
            return self._measured(raw, request, limit)
        pieces = (
            large_results.pieces(raw, structured=structured, stamp=stamp, server=server)
            if large
            else _passed_through(raw, structured=structured, stamp=stamp)
        )
        if pieces is not None:
            return pieces
        return self._rendered(request, lambda: self._results.tool(raw, server=server, large=large)[1])

    def _measured(self, raw: msgspec.Raw, request: Exec, limit: Limit) -> list[Bytes]:
        """A result that may be over its limit: passed through where it is not, and nothing has to change."""
        if limit.holds([str(memoryview(raw), "utf-8", "replace")]):
            pieces = _passed_through(raw, structured=self._structured, stamp=self._stamp)
            if pieces is not None:
                return pieces
        return self._viewed(raw, request)

    def _viewed(self, raw: msgspec.Raw, request: Exec) -> list[Bytes]:
        """A result that may be over its limit."""
        client, shown = request.context.client, self.structured_is_shown
        return self._rendered(
            request, lambda: self._views.tool(raw, request, client, structured_is_shown=shown)
        )

    def _limited(self, raw: msgspec.Raw, request: Exec, limit: Limit) -> list[Bytes]:
        """A large result, of which nothing but the content is read."""

        def shorten(blocks: list[JSON]) -> list[JSON] | None:
            whole, further = ToolResult(content=blocks), self._views.limits.of_pages(request)
            fitted = self._views.fit(whole, blocks, limit, further, request.context.client)
            return None if fitted is whole else fitted.content

        pieces = large_results.pieces(
            raw,
            structured=self._structured,
            stamp=self._stamp,
            server=request.server_name,
            shorten=shorten,
        )
        return self._viewed(raw, request) if pieces is None else pieces

    def resource(self, raw: msgspec.Raw, request: Read) -> list[Bytes]:
        """The result of the resources tool.

        Raises:
            CallError: As from `tool`.
            InputRequired: As from `tool`.
        """
        size, uri, server = len(memoryview(raw)), request.uri, request.server_name
        limited = size > SURELY_WITHIN and self._views.limits.find(request, size) is not None
        if large_results.is_large(raw, self._results.settings.toon_compression_max_size):
            pieces = large_results.resource_pieces(
                raw,
                uri=uri,
                structured=self._structured,
                stamp=self._stamp,
                server=server,
                texts=not limited,
            )
            if pieces is not None:
                return pieces
        client, shown = request.context.client, self.structured_is_shown
        return self._rendered(
            request, lambda: self._views.resource(raw, request, client, structured_is_shown=shown)
        )

    def _rendered(self, request: Exec | Read, render: Callable[[], ToolResult]) -> list[Bytes]:
        """What `render` makes of a result; a client of 2026-07-28 gets one of an unknown type as it is."""
        try:
            return self.shaped(render())
        except UnknownResultType as unknown:
            if self._stamp is None:
                raise
            if unknown.kind != TASK:
                return self.members(unknown.result)
            if isinstance(request, Read) or not self._capabilities.has_extension(TASKS):
                raise
            server, client = request.server_name, request.context.client
            owner = self._name if client is None else client.principal + self._name
            return self.members(self._views.tasks.give(unknown.result, server=server, owner=owner))

    def shaped(self, result: ToolResult) -> list[Bytes]:
        """A result that is rendered already."""
        return self.members(tools.result(result, structured=self._structured))

    def failure(self, error: CallError, *, in_meta: bool = False) -> list[Bytes]:
        """An error as a result; `in_meta` for the native tools that `failure_in_meta` is for."""
        note_failure(str(error.code))
        if in_meta:
            return self.members(tools.failure_in_meta(error))
        return self.members(tools.failure(error, structured=self._structured))

    def wrong_parameters(self, tool: str, problem: str) -> list[Bytes]:
        """The result for a call whose own parameters are wrong, those of one of the three tools."""
        note_failure(str(Code.INVALID_ARGUMENTS))
        return self.members(tools.wrong_parameters(tool, problem, structured=self._structured))

    def members(self, result: JSON) -> list[Bytes]:
        """The members of a result, or of input requests in the place of one (2026-07-28)."""
        return [enveloped(result, self._stamp)]


def _passed_through(raw: msgspec.Raw, *, structured: bool, stamp: bytes | None) -> list[Bytes] | None:
    """The result around the upstream's own bytes; None where something in it has to change."""
    try:
        result = _decode(raw)
        if not result.content or result.result_type != "complete":
            return None
        if not result.is_error:
            for block in result.content:
                if _holds_json(memoryview(block)):
                    return None
    except (msgspec.DecodeError, RecursionError):
        return None
    pieces: list[Bytes] = [b'{"content":[']
    for block in result.content:
        pieces += [memoryview(block), b","]
    pieces[-1] = b'],"isError":true' if result.is_error else b'],"isError":false'
    if structured and result.structured and is_given(result.structured):
        pieces += structured_content(memoryview(result.structured))
    if result.meta:
        pieces += closing(result.meta, stamp)
    elif stamp is not None:
        pieces += [b',"resultType":"complete","_meta":', stamp, b"}"]
    else:
        pieces.append(b"}")
    return pieces


def _holds_json(block: memoryview) -> bool:
    """Whether a block is text that may hold a JSON object or array, judged by how it begins.

    A large block is not decoded for that, if it is written as nearly all are.
    """
    if len(block) > _LARGE_BLOCK and (usual := _USUAL_TEXT.match(block[:_HEAD_BYTES])):
        return block[usual.end()] in _JSON_STARTS
    probed = _decode_block(block)
    text = memoryview(probed.text)
    return probed.type == "text" and len(text) > 2 and text[1] in _JSON_STARTS  # noqa: PLR2004 - the quotes

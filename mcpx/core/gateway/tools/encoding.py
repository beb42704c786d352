"""Results for clients: the upstream's bytes passed through where nothing has to change, else rendered.

A result that holds JSON which may become TOON is rendered as everywhere else
(`mcpx.core.calls.results.shaping`). One that holds none (plain text, images, errors) goes out in the pieces
in which it came, so that ten megabytes of text are neither parsed nor copied; so does one that is too large
to be read (`mcpx.core.rendering.large_results`). Used on every way to a client, so all get the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mcpx.core.calls.results.large import Apart, refuse_large_question
from mcpx.core.calls.results.parts import NO_LIMIT, Limit, Selectable, selectable
from mcpx.core.calls.results.shaping import Order
from mcpx.core.calls.results.views import SURELY_WITHIN, ResultViews
from mcpx.core.catalog.model import JSON
from mcpx.core.gateway.clients import known_clients
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.protocol.context import NO_CAPABILITIES, TASKS, Capabilities
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.rendering.pictures import PictureLimits, may_hold_pictures, mentions_picture
from mcpx.core.rendering.result_members import Bytes, enveloped, passed_through
from mcpx.core.rendering.result_reading import TASK, UnknownResultType
from mcpx.core.rendering.results import ToolResult, members_of
from mcpx.core.telemetry.tracing import note_failure
from mcpx.core.wire.intake import INTAKE, LARGE_BYTES
from mcpx.errors import CallError, Code

Made = list[Bytes] | Apart[list[Bytes]]


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
        known = known_clients.known_client(name)
        self._pictures = None if known is None else known.pictures
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
        wanted = known_clients.wants_structured_content(
            views.results.settings.include_structured_content, name
        )
        shown = wanted and known_clients.shows_structured_content(name)
        return cls(
            views,
            structured=wanted,
            structured_is_shown=shown,
            stamp=stamp,
            name=name,
            capabilities=capabilities,
        )

    def tool(self, raw: msgspec.Raw, request: Exec, *, fits: bool = False) -> Made:
        """The result of a tool. One of a type that MCPX does not know is for clients of 2026-07-28 to judge.

        A task is for those that take tasks. `fits` says that its pictures are as the client takes them.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        size = len(raw)
        read = raw if size <= LARGE_BYTES else INTAKE.looked_at(raw)
        if not fits and mentions_picture(read) and (limits := self._picture_limits(read, request)):
            return Apart(lambda: self._fitted(raw, request, limits, self.tool))
        if size > LARGE_BYTES:
            return self._large(raw, request)
        if size > SURELY_WITHIN or request.max_tokens is not None:
            return self._shaped(raw, request, self._views.limits.find(request, size))
        made = passed_through(raw, structured=self._structured, stamp=self._stamp)
        return made or self._shaped(raw, request, None, may_pass=False)

    def resource(self, raw: msgspec.Raw, request: Read, *, fits: bool = False) -> Made:
        """The result of the resources tool.

        It raises what `tool` does.
        """
        size = len(raw)
        read = raw if size <= LARGE_BYTES else INTAKE.looked_at(raw)
        if not fits and mentions_picture(read) and (limits := self._picture_limits(read, request)):
            return Apart(lambda: self._fitted(raw, request, limits, self.resource))
        if size > LARGE_BYTES:
            return self._large(raw, request)
        limit = self._views.limits.find(request, size) if size > SURELY_WITHIN else None
        return self._shaped(raw, request, limit)

    def selectable(self, raw: msgspec.Raw, request: Exec) -> Selectable | list[Bytes] | Apart[list[Bytes]]:
        """Find what can be selected from; or encode the result of a tool that is shown as it is.

        It raises what `tool` does.
        """
        found = None if len(raw) > LARGE_BYTES else selectable(raw, server=request.server_name)
        return found or self.tool(raw, request)

    def _picture_limits(self, read: msgspec.Raw, request: Exec | Read) -> PictureLimits | None:
        """The limits for the pictures of a result; None where there are none, or they pass as they are."""
        limits = self._views.limits.of_pictures(request, self._pictures)
        return limits if limits is not None and may_hold_pictures(read) else None

    async def _fitted(
        self, raw: msgspec.Raw, request: Exec | Read, limits: PictureLimits, encode: Callable[..., Made]
    ) -> list[Bytes]:
        """The result with pictures that the client takes."""
        as_resource = isinstance(request, Exec) and request.rest_as_resource
        fitted = await self._views.large.fitted(raw, request, limits, as_resource=as_resource)
        pieces = encode(fitted, request, fits=True)
        return await pieces if isinstance(pieces, Apart) else pieces

    def _large(self, raw: msgspec.Raw, request: Exec | Read) -> Made:
        """A large result, or the part of it that the request selects."""
        limits, client = self._views.limits, request.context.client
        limit = limits.find(request, len(raw))
        selects = isinstance(request, Exec) and request.select is not None
        first = limits.of_first(request) if selects else limit
        order = self._order(request, first, limits.of_pages(request))

        async def made_apart() -> list[Bytes]:
            pieces = await self._views.large.pieces(raw, request, order, client)
            if pieces is None:
                refuse_large_question(raw, request.server_name)
                return self._shaped(raw, request, limit)
            return pieces

        made = None if selects else self._views.passed(raw, order, client)
        return made or Apart(made_apart)

    def _shaped(
        self, raw: msgspec.Raw, request: Exec | Read, limit: Limit | None, *, may_pass: bool = True
    ) -> list[Bytes]:
        """A result; a client of 2026-07-28 gets one of an unknown type as it is.

        With `may_pass` false it is known that something in it has to change.
        """
        views, owner = self._views, request.context.client
        further = NO_LIMIT if limit is None else views.limits.of_pages(request)
        order = self._order(request, limit, further)
        try:
            return views.shaper.pieces(raw, order, owner, may_pass=may_pass)
        except UnknownResultType as unknown:
            if self._stamp is None:
                raise
            if unknown.kind != TASK:
                return self.members(unknown.result)
            if isinstance(request, Read) or not self._capabilities.has_extension(TASKS):
                raise
            server, client = request.server_name, request.context.client
            name = self._name if client is None else client.principal + self._name
            task = {member: value for member, value in unknown.result.items() if member != "inputRequests"}
            return self.members(self._views.tasks.give(task, server=server, owner=name))

    def _order(self, request: Exec | Read, limit: Limit | None, further: Limit) -> Order:
        uri = request.uri if isinstance(request, Read) else None
        return Order(
            request.server_name, uri, limit, further, self._structured, self.structured_is_shown, self._stamp
        )

    def shaped(self, result: ToolResult) -> list[Bytes]:
        """A result that is rendered already."""
        return self.members(members_of(result, structured=self._structured))

    def failure(self, error: CallError, *, in_meta: bool = False) -> list[Bytes]:
        """An error as a result; `in_meta` for the native tools that `failure_in_meta` is for."""
        note_failure(str(error.code))
        if in_meta:
            return self.members(tools.failure_in_meta(error))
        return self.members(tools.failure(error, structured=self._structured))

    def failed(self, error: CallError, request: Exec | Read) -> list[Bytes]:
        """An error as the result of a request."""
        return self.failure(error, in_meta=isinstance(request, Exec) and request.fails_in_meta)

    def wrong_parameters(self, tool: str, problem: str) -> list[Bytes]:
        """The result for a call whose own parameters are wrong, those of one of the three tools."""
        note_failure(str(Code.INVALID_ARGUMENTS))
        return self.members(tools.wrong_parameters(tool, problem, structured=self._structured))

    def members(self, result: JSON) -> list[Bytes]:
        """The members of a result, or of input requests in the place of one (2026-07-28)."""
        return [enveloped(result, self._stamp)]

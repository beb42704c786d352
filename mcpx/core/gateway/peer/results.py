"""Results as another MCPX gets them: the bytes that came from the server, under the envelope of its era.

Nothing is rendered, cut or checked: that is done where the client is. Only what a result is must be known
here, because input that the server asks for, and tasks, take ways of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcpx.core.calls.results.large import Apart, refuse_large_question
from mcpx.core.calls.results.views import ResultViews
from mcpx.core.catalog.model import JSON
from mcpx.core.gateway.clients.handles import capabilities_in
from mcpx.core.gateway.clients.identity import connection_of
from mcpx.core.protocol.context import NO_CAPABILITIES, TASKS, Capabilities
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.rendering.result_members import COMPLETE, Bytes, enveloped
from mcpx.core.rendering.result_reading import TASK, UnknownResultType, read_members
from mcpx.core.servers.call_errors import FAILURE_KEY
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import INTERNAL_ERROR, MCPError
from mcpx.core.wire.intake import INTAKE, LARGE_BYTES
from mcpx.errors import CallError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

# Failures have one form, which no server can make up: a JSON-RPC error whose `data` is
# `{"mcpx": {code, outcome, server, tool?, ...details}}`, with the text as its message. What the server
# itself has said is inside of it, under `upstream`.


def as_peer_error(error: CallError) -> MCPError:
    """The error, its data enclosed (`mcpx.core.wire.enclosed`)."""
    return MCPError(INTERNAL_ERROR, _text(error), enclose([_data(error)]))


def encoded_error(error: CallError) -> bytes:
    """The same as the `error` of a JSON-RPC answer."""
    said = {"code": INTERNAL_ERROR, "message": _text(error), "data": msgspec.Raw(_data(error))}
    return msgspec.json.encode(said)


def _data(error: CallError) -> bytes:
    """The data, without the details where these cannot be encoded."""
    details = error.to_dict()
    del details["error"]  # it is the message
    try:
        return msgspec.json.encode({FAILURE_KEY: details})
    except (RecursionError, UnicodeEncodeError):  # what the server has said is nested too deeply, or no text
        plain = {name: details[name] for name in ("code", "outcome", "server", "tool") if name in details}
        return msgspec.json.encode({FAILURE_KEY: {key: _sendable(text) for key, text in plain.items()}})


def _text(error: CallError) -> str:
    return _sendable(str(error))


def _sendable(text: str) -> str:
    """A text in characters that can be sent."""
    return text if text.isascii() else text.encode(errors="replace").decode()


_TYPE: Final = b'"resultType":"complete"}'
_SHORT: Final = 32  # bytes of a result that may be empty


class _Typed(msgspec.Struct, gc=False):
    result_type: str = msgspec.field(name="resultType", default="")


_decode: Final[Callable[[msgspec.Raw], _Typed]] = msgspec.json.Decoder(_Typed).decode


def _kind(raw: msgspec.Raw) -> str | None:
    """The `resultType` of a result, "" where it has none, None where it cannot be read."""
    try:
        return _decode(raw).result_type
    except (msgspec.DecodeError, RecursionError):
        return None


class PeerEncoder:
    """Makes the `result` of responses to one peer, in pieces. The parameters are as for `ResultEncoder`."""

    def __init__(
        self,
        views: ResultViews,
        stamp: bytes | None,
        *,
        name: str | None = None,
        capabilities: Capabilities = NO_CAPABILITIES,
    ) -> None:
        self._views = views
        self._stamp = stamp
        self._name = name or ""
        self._capabilities = capabilities

    @classmethod
    def for_request(
        cls, views: ResultViews, ctx: ServerRequestContext[Any, Any], stamp: bytes | None
    ) -> PeerEncoder:
        """For the peer that has made a request."""
        return cls(
            views,
            stamp,
            name=connection_of(ctx.session).client_name,
            capabilities=capabilities_in(ctx.params),
        )

    def tool(self, raw: msgspec.Raw, request: Exec) -> list[Bytes] | Apart[list[Bytes]]:
        """The result of a tool; or the task that it is, for peers that take tasks.

        Raises:
            CallError: `protocol_error`: it is not MCP.
            InputRequired: The server asks for input instead.
        """
        if len(raw) > LARGE_BYTES:
            return self._large(raw, request)
        return self._tool(raw, request)

    def failed(self, error: CallError, _request: Exec | Read) -> bytes:
        """A failure, as the `error` of the response."""
        return encoded_error(error)

    def _large(self, raw: msgspec.Raw, request: Exec | Read) -> list[Bytes] | Apart[list[Bytes]]:
        """A large result: at once where its outline says that it is one."""
        outline = INTAKE.outline(raw)
        kind = None if outline is None else _kind(outline.content)
        if kind in {"", COMPLETE}:
            return self._passed_as(kind, memoryview(raw))
        return Apart(lambda: self._made_apart(raw, request))

    async def _made_apart(self, raw: msgspec.Raw, request: Exec | Read) -> list[Bytes]:
        """A large result, which is a result or is refused."""
        server = request.server_name
        kind = await self._views.large.kind(raw, request.context.client, server)
        if kind in {"", COMPLETE}:
            return self._passed_as(kind, memoryview(raw))
        refuse_large_question(raw, server)
        return self._tool(raw, request) if isinstance(request, Exec) else self.passed(raw, server=server)

    def _tool(self, raw: msgspec.Raw, request: Exec) -> list[Bytes]:
        try:
            return self.passed(raw, server=request.server_name)
        except UnknownResultType as unknown:
            if unknown.kind != TASK and self._stamp is not None:
                return self.members(unknown.result)
            if self._stamp is None or not self._capabilities.has_extension(TASKS):
                raise
            client = request.context.client
            owner = self._name if client is None else client.principal + self._name
            tasks = self._views.tasks
            return self.members(tasks.give(unknown.result, server=request.server_name, owner=owner))

    def resource(self, raw: msgspec.Raw, request: Read) -> list[Bytes] | Apart[list[Bytes]]:
        """The result of a read; raises as `tool`."""
        if len(raw) > LARGE_BYTES:
            return self._large(raw, request)
        try:
            return self.passed(raw, server=request.server_name)
        except UnknownResultType as unknown:
            if self._stamp is None or unknown.kind == TASK:
                raise
            return self.members(unknown.result)

    def passed(self, raw: msgspec.Raw, *, server: str) -> list[Bytes]:
        """Any result as it came; in 2026-07-28 it says that it is complete.

        Raises:
            CallError: As from `tool`.
            UnknownResultType: It is of a type that MCPX does not know, or a task.
        """
        kind = _kind(raw)
        if kind not in {"", COMPLETE}:
            members = read_members(raw, server=server)  # which raises what it is
            return [enveloped(members, self._stamp)]
        return self._passed_as(kind, memoryview(raw))

    def _passed_as(self, kind: str | None, whole: memoryview) -> list[Bytes]:
        if kind == COMPLETE or self._stamp is None:
            return [whole]
        if len(whole) < _SHORT and not bytes(whole)[1:-1].strip():
            return [b"{", _TYPE]
        return [whole[:-1], b",", _TYPE]

    def members(self, result: JSON) -> list[Bytes]:
        """The members of a result, or of input requests in the place of one (2026-07-28)."""
        return [enveloped(result, self._stamp)]

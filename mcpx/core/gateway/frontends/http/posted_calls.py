"""The fast path of peers over HTTP: a plain POST of `tools/call` (2026-07-28) at the endpoint of one server.

As on streams (`mcpx.core.gateway.peer.fast_path`): params are decoded as far as the name of the tool, and the
result goes out as the bytes that came. The answer is JSON; where a notification comes before it, or
nothing for a while, it is a stream of events. What is unusual in the headers or the body is left to the SDK's
server (`mcpx.core.gateway.peer.server`), which gives the same answers, and which says what is wrong.
"""

from __future__ import annotations

from typing import Any, Final

import anyio
import msgspec
from mcp.shared.inbound import x_mcp_header_map
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.gateway.clients.handles import own_logger
from mcpx.core.gateway.clients.identity import bearer_in
from mcpx.core.gateway.endpoint_server import EndpointServer
from mcpx.core.gateway.fast.call import CALL
from mcpx.core.gateway.fast.parameters import (
    NATIVE_CALLS,
    Decoder,
    Meta,
    NativeParams,
)
from mcpx.core.gateway.frontends.http.connection import EventResponse, cancel_when_gone, event
from mcpx.core.gateway.peer.results import PeerEncoder, encoded_error
from mcpx.core.protocol.context import (
    SESSIONLESS,
    Caller,
    InputAnswers,
    Origin,
    client_text,
    read_capabilities,
    this_user,
)
from mcpx.core.protocol.messages import Exec, as_call_error
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.servers.relay.clients import LOG
from mcpx.core.wire import envelope
from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.envelope import Bytes, RequestId

MAX_WAITING: Final = 256  # notifications that the client has not been sent; more are dropped
_JSON: Final = (b"content-type", b"application/json")
_EVENTS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_BRACE: Final = ord("{")
_ONCE: Final = frozenset({b"content-type", b"accept", b"mcp-protocol-version", b"mcp-method", b"mcp-name"})


def may_be_plain(scope: Scope) -> dict[bytes, bytes] | None:
    """The headers that decide about a request, if it may be one that is taken here."""
    if scope["method"] != "POST":
        return None
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _ONCE:
            if name in found:
                return None
            found[name] = value
        elif name.startswith(b"mcp-") or name == b"origin":
            return None
    accept = found.get(b"accept", b"")
    is_plain = (
        found.get(b"mcp-method") == CALL.encode()
        and found.get(b"content-type") == b"application/json"
        and b"application/json" in accept
        and b"text/event-stream" in accept
        and found.get(b"mcp-protocol-version", b"").decode("latin-1") in MODERN_PROTOCOL_VERSIONS
    )
    return found if is_plain else None


class PostedCalls:
    """Takes what it can of the requests at the endpoint of one server."""

    def __init__(self, server: EndpointServer) -> None:
        self._server = server
        self._name = server.hub.endpoint.peer or ""
        self._hub = server.hub
        self._decode = Decoder(NATIVE_CALLS)
        self._in_headers: dict[str, tuple[ToolInfo, bool]] = {}  # tools with arguments that headers repeat

    async def take(
        self, headers: dict[bytes, bytes], body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> bool:
        """Serve a request, or leave it to the SDK: then the result is false and nothing was done."""
        hub = self._hub
        upstream = hub.upstreams.get(self._name)
        if upstream is None or not upstream.has_listed or upstream.per_client or hub.tracing.on:
            return False
        try:
            message = envelope.decode_message(body)
            if message.method != CALL or message.id is None or not message.params:
                return False
            params = self._decode(message.params)
            meta = params.meta
            if (
                meta is None
                or not _agrees(params, meta, headers)
                or self._is_in_headers(upstream.catalogue, params.name)
            ):
                return False
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        posted = _PostedCall(self._server, message.id, meta)
        await posted.serve(posted.request(params, meta, scope, given=message.params), receive, send)
        return True

    def _is_in_headers(self, known: Any, name: str) -> bool:
        """Return True if headers of a call repeat its arguments, or there is no such tool."""
        tool = None if known is None else known.tools.get(name)
        if tool is None:
            return True
        kept = self._in_headers.get(name)
        if kept is None or kept[0] is not tool:
            if len(self._in_headers) > len(known.tools):
                self._in_headers.clear()
            kept = self._in_headers[name] = tool, bool(x_mcp_header_map(tool.input_schema))
        return kept[1]


def _agrees(params: NativeParams, meta: Meta, headers: dict[bytes, bytes]) -> bool:
    """Return True if the params are whole, and agree with the headers."""
    arguments = params.arguments
    return (
        meta.client_info is not None
        and bool(meta.client_info.name and meta.client_info.version and meta.capabilities)
        and memoryview(meta.capabilities)[0] == _BRACE
        and meta.version.encode() == headers[b"mcp-protocol-version"]
        and params.name.encode() == headers.get(b"mcp-name")
        and (not arguments or memoryview(arguments)[0] == _BRACE)
    )


class _PostedCall:
    """One call, until it is answered.

    It does not keep its request, which leads to it: the garbage collector does not see such cycles.
    """

    def __init__(self, server: EndpointServer, request_id: RequestId, meta: Meta) -> None:
        self._capabilities = read_capabilities(bytes(meta.capabilities))
        self._hub = server.hub
        self._peer = server.hub.endpoint.peer or ""
        self._id = request_id
        self._events = EventResponse(MAX_WAITING)
        self._answer: list[Bytes] = []
        name = "" if meta.client_info is None else meta.client_info.name
        self._encoder = PeerEncoder(self._hub.views, server.stamp, name=name, capabilities=self._capabilities)
        self._hub.clients.note_sessionless(meta.log_level)

    def request(self, params: NativeParams, meta: Meta, scope: Scope, *, given: msgspec.Raw) -> Exec:
        """The call as the pipeline takes it."""
        bearer, info, token = bearer_in(scope), meta.client_info, meta.progressToken
        context = RequestContext(
            client=SESSIONLESS if bearer is None else bearer.sessionless,
            caller=Caller(
                client=object(),  # without a session each request is a client of its own
                capabilities=self._capabilities,
                modern=True,
                is_peer=True,  # and it is not known where the person sits
                level=meta.log_level,
                log=self._log,
            ),
            answers=InputAnswers(params.responses, params.state)
            if params.state is not None or params.responses
            else None,
            on_progress=None if token is None else lambda step: self._progressed(token, step),
            meta=meta.for_server,
            origin=Origin(
                transport="http",
                client=None if info is None else client_text(info.name, info.version),
                name=None if info is None else info.name,
                user=this_user(),
                profile=self._hub.endpoint.profile,
                token=None if bearer is None else bearer.token.name,
            ),
        )
        return Exec(self._peer, params.name, params.arguments, context, given=given)

    # --- what comes before its answer

    def _log(self, params: JSON) -> None:
        self._notify(envelope.notification(LOG, envelope.encode(own_logger(params, self._peer))))

    def _progressed(self, token: RequestId, step: bytes) -> None:
        self._notify(envelope.notification("notifications/progress", envelope.progress(token, step)))

    def _notify(self, notification: list[Bytes]) -> None:
        if not self._answer and not self._events.put(_event(notification)):
            self._hub.clients.count_dropped()

    # --- its life

    async def serve(self, request: Exec, receive: Receive, send: Send) -> None:
        """Run it, and respond; cancelled, if the client leaves."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_gone, receive, tasks.cancel_scope.cancel)
            tasks.start_soon(self._run, request)
            await self._respond(send)
            tasks.cancel_scope.cancel()

    async def _run(self, request: Exec) -> None:
        try:
            result = await self._hub.calls.run(request, lambda raw: self._encoder.tool(raw, request))
            pieces = result if isinstance(result, list) else self._encoder.members(result)
            self._answer = envelope.answer(self._id, pieces)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever a call makes us raise is the answer
            failure = encoded_error(as_call_error(error, request))
            self._answer = envelope.failure(self._id, failure)
        self._events.end()

    async def _respond(self, send: Send) -> None:
        if await self._events.stream(send, _EVENTS, lambda: _event(self._answer)):
            return
        body = b"".join(self._answer)
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": 200, "headers": [_JSON, length]})
        await send({"type": "http.response.body", "body": body})


def _event(message: list[Bytes]) -> bytes:
    return event(one_line(b"".join(message).rstrip()))

"""The spans of what clients ask of the SDK's server, and what the spans of all requests say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp
import msgspec

from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.identity import connection_of, origin_of, wire_context
from mcpx.core.protocol.context import Origin
from mcpx.core.telemetry.tracing import PARENT, STATE, ServedRequest, short, target_in
from mcpx.core.wire.envelope import MCPError, RequestId

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

    Context = ServerRequestContext[Any, Any]

UNTRACED: Final = frozenset({"ping", "subscriptions/listen"})
"""Methods whose requests say nothing, or stay open for as long as the client does."""
_NETWORK: Final[dict[str, dict[str, str]]] = {
    "stdio": {"network.transport": "pipe"},
    "socket": {"network.transport": "unix"},
    "http": {"network.transport": "tcp", "network.protocol.name": "http"},
}
_SESSION: Final = "mcp-session-id"


def serving_spans(hub: HubView) -> ServerMiddleware[Any]:
    """A middleware for the SDK's server, the outermost: every request of a client is a span."""

    async def serve(ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method in UNTRACED:
            return await call_next(ctx)
        served = _begun(hub, ctx)
        with served.current():
            try:
                result = await call_next(ctx)
            except (MCPError, mcp.MCPError) as error:
                code = str(error.code)
                served.end(code, **{"rpc.response.status_code": code})
                raise
            except anyio.get_cancelled_exc_class():
                served.end("cancelled")
                raise
            except BaseException as error:
                served.end(type(error).__qualname__)
                raise
            served.end()
            return result

    return serve


def _begun(hub: HubView, ctx: Context) -> ServedRequest:
    params = ctx.params or {}
    meta, headers = params.get("_meta"), _headers(ctx)
    carrier: Mapping[str, Any] = meta if isinstance(meta, Mapping) and PARENT in meta else headers
    version = None if ctx.method == "initialize" else ctx.protocol_version  # which is about to be agreed
    about = client_attributes(origin_of(connection_of(ctx.session), hub), ctx.request_id, version)
    if session := headers.get(_SESSION):
        about["mcp.session.id"] = short(session)
    return hub.tracing.serve(ctx.method, target_in(params), carrier, about)


def _headers(ctx: Context) -> dict[str, str]:
    """Read trace and session from the headers, where the request came over HTTP."""
    context = wire_context(ctx.session)
    given = {} if context is None else context.headers
    names = {name: name.encode() for name in (PARENT, STATE, _SESSION)}
    return {name: given[key].decode("latin-1") for name, key in names.items() if key in given}


def client_attributes(
    origin: Origin, request_id: RequestId | None, version: str | None
) -> dict[str, str | int | bool]:
    """The attributes that say who asks, over what, and under which id."""
    about: dict[str, str | int | bool] = {**_NETWORK.get(origin.transport, {})}
    if request_id is not None:
        about["jsonrpc.request.id"] = short(str(request_id))
    if version:
        about["mcp.protocol.version"] = short(version)
    if origin.client:
        about["mcpx.client"] = short(origin.client)
    if origin.profile:
        about["mcpx.profile"] = short(origin.profile)
    return about


class _Trace(msgspec.Struct, gc=False):
    """The trace that a `_meta` names; anything may stand there."""

    traceparent: Any = None
    tracestate: Any = None


_decode_trace: Final = msgspec.json.Decoder(_Trace).decode


def carrier_in(members: bytes) -> dict[str, Any]:
    """Return what the members of a `_meta` (`RequestContext.meta`) say of the trace."""
    try:
        return msgspec.structs.asdict(_decode_trace(b"{%b}" % members)) if members else {}
    except (msgspec.DecodeError, RecursionError):
        return {}

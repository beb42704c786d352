"""Results that are JSON already: how a handler of any server gives one to any client, unread and unchanged.

The SDK checks the results of the protocol's methods against its models of a revision, drops what these do not
know, and refuses blocks of unknown types. So handlers that pass on what others wrote are called by a
middleware of ours (`unsieved`), with checked parameters as ever, and own their results whole: the envelope of
2026-07-28 (`resultType`, the `_meta` with MCPX's `serverInfo`) too. They return
`enclose(pieces)` (`mcpx.core.wire.enclosed`), which goes through all transports and comes out as these bytes:
on a stream by `mcpx.core.wire.incoming`, over HTTP by `mcpx.core.gateway.frontends.http_results`.

For a further handler on the gateway's server, add it there as to any server of the SDK, its method to
`METHODS`, and return `enclose(...)`. Another server gets `unsieved(server, methods)` among its `middleware`,
and over HTTP an `EncodedResults` around its application. A middleware may as well answer by itself, any
method, with `enclose(raw)`; `MCPError(code, message, enclose(data))` does the same for the data of an error.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.gateway.clients.identity import connection_of

Context = ServerRequestContext[Any, Any]

METHODS: Final = frozenset(
    {
        "tools/call",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    }
)
"""The methods of the gateway's server whose handlers own their results."""


def unsieved(server: Server[Any], methods: Collection[str] = METHODS) -> ServerMiddleware[Any]:
    """A middleware for the SDK's server that gives the results of these methods to the client as they are."""

    async def serve(ctx: Context, call_next: CallNext) -> HandlerResult:
        entry = server.get_request_handler(ctx.method) if ctx.method in methods else None
        if entry is None or ctx.request_id is None or not connection_of(ctx.session).initialize_accepted:
            return await call_next(ctx)
        try:
            validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
        except KeyError:  # that revision does not have it, and the SDK says so
            return await call_next(ctx)
        params = entry.params_type.model_validate(ctx.params or {}, by_name=False)
        result: HandlerResult = await entry.handler(ctx, params)
        return result

    return serve


def stamp_of(server: Server[Any]) -> bytes:
    """The `_meta` that results of 2026-07-28 have: what the server says of itself."""
    return msgspec.json.encode({SERVER_INFO_META_KEY: server.server_info_stamp})


def is_modern(ctx: Context) -> bool:
    """Whether the result of a request has the envelope of 2026-07-28."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

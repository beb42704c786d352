"""Requests to an upstream for the SDK's server, and results that go past its models.

`run` builds the context of a call, whose client hears of progress and log messages in order, and leaves the
rest to `mcpx.core.calls.calls`. The fast path does the same for streams without the SDK, so both give the
same answers.

The SDK checks the results of the protocol's methods against its models of a revision, drops what these do not
know, and refuses blocks of unknown types. So handlers that pass on what others wrote are called by a
middleware of ours (`unsieved`), with checked parameters as ever, and own their results whole: the envelope of
2026-07-28 (`resultType`, the `_meta` with MCPX's `serverInfo`) too. They return `enclose(pieces)`
(`mcpx.core.wire.enclosed`), which goes through all transports and comes out as these bytes: on a stream by
`mcpx.core.wire.incoming`, over HTTP by `mcpx.core.gateway.over_http`. For a further handler on
the gateway's server, add its method to `METHODS`; another server gets `unsieved(server, methods)` among its
`middleware`. A middleware may as well answer by itself with `enclose(raw)`, and
`MCPError(code, message, enclose(data))` does the same for the data of an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import mcp
import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.methods import SPEC_CLIENT_METHODS, validate_client_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace
from pydantic import ValidationError

from mcpx.core.calls.asking import Render
from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.handles import answers_in, request_caller
from mcpx.core.gateway.clients.identity import as_sent, connection_of, origin_of, request_outbound
from mcpx.core.gateway.clients.outbox import RequestQueue
from mcpx.core.protocol.messages import Exec, Request, is_fresh, meta_for_server
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import INVALID_PARAMS, MCPError, progress_token_from_params

METHODS: Final = frozenset(
    {
        "tools/call",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/directory/read",
        "skills/list",
        "skills/get",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    }
)
"""The methods of the gateway's server whose handlers own their results."""


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise what the SDK's server raises in the body as errors of MCPX; they pass through it unseen.

    Raises:
        MCPError: The request failed, or its parameters are wrong.
    """
    try:
        yield
    except mcp.MCPError as error:
        raise MCPError(error.code, error.message, error.data) from error
    except ValidationError as error:
        raise MCPError(INVALID_PARAMS, "Invalid request parameters", "") from error


def unsieved(server: Server[Any], methods: Collection[str] = METHODS) -> ServerMiddleware[Any]:
    """A middleware for the SDK's server that gives the results of these methods to the client as they are."""

    async def serve(ctx: Context, call_next: CallNext) -> HandlerResult:
        entry = server.get_request_handler(ctx.method) if ctx.method in methods else None
        if entry is None or ctx.request_id is None or not connection_of(ctx.session).initialize_accepted:
            return await call_next(ctx)
        try:
            if ctx.method in SPEC_CLIENT_METHODS:  # others are of extensions
                validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
        except KeyError:  # that revision does not have it, and the SDK says so
            return await call_next(ctx)
        params = entry.params_type.model_validate(ctx.params or {}, by_name=False)
        result: HandlerResult = await entry.handler(ctx, params)
        return result

    return serve


def is_modern(ctx: Context) -> bool:
    """Return True if the result of a request has the envelope of 2026-07-28."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


Context = ServerRequestContext[Any, Any]
R = TypeVar("R")


async def run(hub: HubView, ctx: Context, request: Request, render: Render[R]) -> R | JSON:
    """The rendered result; or the input requests of the server, as the result that they are.

    Raises:
        CallError: The request failed, or `render` says that it did.
        MCPError: From `render`; or what the client sent is not of the protocol.
    """
    notifications = RequestQueue(hub.clients)
    with_context = replace(request, context=_context(hub, ctx, notifications, request.context))
    if isinstance(with_context, Exec):
        with_context = replace(with_context, given=as_sent(ctx.session))
    return await notifications.deliver_during(hub.calls.run(with_context, render))


def _context(
    hub: HubView, ctx: Context, notifications: RequestQueue, known: RequestContext
) -> RequestContext:
    """The context of the client's request; some of it is `known`."""
    caller = request_caller(ctx, hub, notifications)
    if caller.modern:
        hub.clients.note_sessionless(caller.log_level)

    outbound = request_outbound(ctx.session)
    token = progress_token_from_params(ctx.params)

    def progressed(step: bytes) -> None:
        if token is None:
            return
        with suppress(msgspec.DecodeError, RecursionError):  # a number or a depth that the SDK cannot pass on
            params = msgspec.json.decode(envelope.progress(token, step))
            notifications.put(partial(outbound.notify, "notifications/progress", params), len(step))

    return RequestContext(
        client=connection_of(ctx.session).client,
        caller=caller,
        answers=answers_in(ctx.params),
        on_progress=None if token is None else progressed,
        meta=meta_for_server(ctx.params),
        origin=origin_of(connection_of(ctx.session), hub),
        fresh=known.fresh or is_fresh(ctx.params),
        watched=known.watched,
    )

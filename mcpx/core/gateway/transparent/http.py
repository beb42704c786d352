"""The clients of `/mcp/servers/NAME`, over the SDK's transport and past its models.

`TransparentServer` is a server of the SDK whose one middleware takes all requests and notifications. Params
are read from the body of the HTTP request; results, the data of errors and what is sent to the client go out
enclosed (`mcpx.core.wire.enclosed`): so they pass as the bytes that came here, too.
"""

from __future__ import annotations

from typing import Any, Final, cast

import anyio
import anyio.abc
import msgspec
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.bearer import Bearer
from mcpx.core.gateway.clients.identity import connection_of, is_of_this_machine, request_outbound
from mcpx.core.gateway.clients.outbox import NotificationOutbox
from mcpx.core.gateway.transparent.peers import RequestPeer, SessionPeer
from mcpx.core.gateway.transparent.sessions import TransparentSessions
from mcpx.core.gateway.transparent.subjects import TOOLS_CALL
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.passthrough.client import INITIALIZE, DirectClient
from mcpx.core.servers.passthrough.messages import CANCELLED
from mcpx.core.wire import envelope
from mcpx.core.wire.enclosed import encode_read

Context = ServerRequestContext[Any, Any]
_CLIENT_KEY: Final = "mcpx.direct"


class TransparentServer(Server[Any]):
    """Serves the clients of one server's transparent endpoint over HTTP."""

    def __init__(
        self,
        hub: Hub,
        server: str,
        outbox: NotificationOutbox,
        tasks: anyio.abc.TaskGroup,
        bearer: Bearer | None = None,
    ) -> None:
        """`tasks` runs a client's work outside its requests; `bearer` as for `TransparentSessions`."""
        super().__init__(server, get_tool_input_schema=self._input_schema)
        self.middleware = [self._serve]
        self._sessions = TransparentSessions(hub, server, "http", bearer)
        self._is_default = bearer is None
        self._outbox = outbox
        self._tasks = tasks

    def _input_schema(self, tool: str) -> JSON | None:
        return self._sessions.schema_of(tool)

    async def _serve(self, ctx: Context, call_next: CallNext) -> HandlerResult:  # noqa: ARG002 - as the SDK names it
        """A middleware that calls nothing behind it."""
        client = self._client(ctx)
        params = await _params(ctx)
        if ctx.request_id is None:
            if client is not None and ctx.method != CANCELLED:  # which has ended the handler of its request
                self._sessions.notify(client, ctx.method, params)
            return None
        if client is None and ctx.method == INITIALIZE:  # over HTTP that revision does not have it
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        is_local = self._is_default and is_of_this_machine(ctx.request)
        admits = self._sessions.admits_notification
        peer = RequestPeer(request_outbound(ctx.session), admits, is_local=is_local)
        request = self._sessions.request(ctx.method, bytes(params), ctx.request_id, peer)
        return await self._answer(client, request, peer)

    async def _answer(
        self, client: DirectClient | None, request: Passed, peer: RequestPeer
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        failure: MCPError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.deliver, tasks)
            try:
                result = await self._sessions.answer(client, request)
            except MCPError as error:  # carried out of the task group, which would wrap it
                failure = error
            finally:
                peer.close()
        if failure is not None:
            raise failure
        return result

    def _client(self, ctx: Context) -> DirectClient | None:
        """The client whose session it is; None from 2026-07-28 on, which has no sessions over HTTP."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        connection: Connection = connection_of(ctx.session)
        known = cast("DirectClient | None", connection.state.get(_CLIENT_KEY))
        if known is None:
            admits = self._sessions.admits_notification
            peer = SessionPeer(connection, self._outbox, self._tasks, admits)
            known = DirectClient(peer, may_vanish=True)
            connection.state[_CLIENT_KEY] = known
            connection.exit_stack.callback(self._sessions.leave, known)
        return known


async def _params(ctx: Context) -> msgspec.Raw:
    """The params as they came, where the transport keeps them.

    Raises:
        MCPError: They are of a call, and the SDK has read something else in them than stands there.
    """
    if ctx.request is not None:
        try:
            message = envelope.decode_message(body := await ctx.request.body())
        except (msgspec.DecodeError, RecursionError):
            is_batch = body.lstrip()[:1] == b"["
        else:
            if message.method == ctx.method and message.id == ctx.request_id:
                return message.params
            is_batch = False
        if ctx.method == TOOLS_CALL and not is_batch:
            raise MCPError(
                INVALID_PARAMS, "The arguments cannot be read (half a character?); nothing was sent"
            )
    return encode_read(ctx.params)

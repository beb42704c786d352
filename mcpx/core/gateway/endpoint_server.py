"""The base of all MCP servers but the transparent ones: the SDK's server over a view of the hub.

One instance serves every connection of an endpoint, in both protocol eras. `mcpx.core.gateway.server` is the
one that shows servers to clients, `mcpx.core.gateway.peer` the one that gives a server to another MCPX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import mcp_types
import msgspec
from mcp.server.connection import Connection as SdkConnection
from mcp.server.connection import NotifyOnlyOutbound
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import ServerRunner, serve_one
from mcp.shared.dispatcher import Outbound
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types.version import LATEST_MODERN_VERSION

from mcpx.core.calls.asking import refused
from mcpx.core.calls.tasks import MAX_ID_CHARS, Task
from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway import sdk_path
from mcpx.core.gateway.clients.handles import capabilities_in
from mcpx.core.gateway.clients.identity import Bearer, Connection, as_sdk, client_of, connection_of
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.native.errors import as_protocol_error
from mcpx.core.gateway.offer import Offer, Params, declared_extensions
from mcpx.core.gateway.sdk_path import Context, is_modern, unsieved
from mcpx.core.policy.server_questions import presented_requests
from mcpx.core.protocol.context import TASK_METHODS, TASKS, ClientId, Transport
from mcpx.core.protocol.messages import Forward, encode_for_server
from mcpx.core.protocol.requests import TaskRequest
from mcpx.core.rendering.result_members import enveloped
from mcpx.core.rendering.result_reading import UnknownResultType, read_members
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.text import cut, kind_of, shown_name
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, MCPError
from mcpx.errors import CallError

if TYPE_CHECKING:
    from mcpx.core.gateway.offer import Received

# Tasks, an extension of 2026-07-28. What a client declares goes to the servers with each of its requests
# (`mcpx.core.protocol.context.Capabilities`), and results that are tasks go to the clients that take them.
# Here clients ask for their tasks (`mcpx.core.calls.tasks`): the requests pass to the server that has the
# task, and its answers pass back. For older revisions, and where no server has tasks, there are no such
# methods. Changes of tasks are not announced (`taskIds` of `subscriptions/listen` are left out of what is
# acknowledged): clients ask.

LISTEN: Final = "subscriptions/listen"
_REQUIRED: Final[JSON] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
_OWN: Final = frozenset({"taskId", "_meta", "inputResponses", "requestState"})
"""Members of params that are not passed on as they are; the last two are the answers of the context."""


def serving_tasks(
    hub: HubView,
    stamp_for: Callable[[Context], bytes | None],
    as_error: Callable[[CallError], MCPError] = as_protocol_error,
) -> ServerMiddleware[Any]:
    """A middleware for the SDK's server that answers requests about tasks. `stamp_for` as for prompts."""

    async def serve(ctx: Context, call_next: CallNext) -> HandlerResult:
        if not _is_about_tasks(ctx) or not _has_tasks(hub):
            return await call_next(ctx)
        if not capabilities_in(ctx.params).has_extension(TASKS):
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", _REQUIRED
            )
        if ctx.method == LISTEN:
            return await call_next(ctx)  # which does not promise them
        task = _task_of(hub, ctx)
        try:
            return enclose([enveloped(await _ask(hub, ctx, task), stamp_for(ctx))])
        except CallError as error:
            raise as_error(error) from None

    return serve


def _has_tasks(hub: HubView) -> bool:
    """Return True if any server has tasks, or had, and is not hidden."""
    return TASKS in declared_extensions(hub, modern=True) or (
        hub.endpoint.shows_all and len(hub.views.tasks) > 0
    )


def _is_about_tasks(ctx: Context) -> bool:
    """Return True for a request that only clients may make that take tasks."""
    if ctx.request_id is None or not is_modern(ctx):
        return False
    wanted = (ctx.params or {}).get("notifications") if ctx.method == LISTEN else None
    return ctx.method in TASK_METHODS or (isinstance(wanted, Mapping) and bool(wanted.get("taskIds")))


def _task_of(hub: HubView, ctx: Context) -> Task:
    """The task that a request of a client is about.

    Raises:
        MCPError: The client has no such task.
    """
    task_id = (ctx.params or {}).get("taskId")
    if not isinstance(task_id, str):
        raise MCPError(INVALID_PARAMS, f"taskId must be a string, got {kind_of(task_id)}; nothing was sent")
    client = connection_of(ctx.session).client
    task = hub.views.tasks.find(
        task_id, owner=client.principal + (connection_of(ctx.session).client_name or "")
    )
    if task is None or hub.hides(task.server):
        shown = shown_name(cut(task_id, MAX_ID_CHARS))
        raise MCPError(INVALID_PARAMS, f"This client has no task {shown}; nothing was sent")
    return task


async def _ask(hub: HubView, ctx: Context, task: Task) -> JSON:
    """Ask the server, and return its answer with the id of the task as the client knows it.

    Raises:
        CallError: The request failed.
        MCPError: What the client sent is not of the protocol.
    """

    def read(raw: msgspec.Raw) -> JSON:
        try:
            members = read_members(raw, server=task.server)
        except UnknownResultType as unknown:
            members = unknown.result
        if "inputRequests" in members:
            upstream = hub.registry.upstream(task.server)
            asking = None if hub.endpoint.peer is not None else task.server
            try:
                asked = presented_requests(
                    members["inputRequests"], asking, from_mcpx=upstream.config.is_remote_mcpx
                )
            except MCPError as refusal:
                raise refused(task.server, refusal) from None
            members = members | {"inputRequests": asked}
        return hub.views.tasks.heard(task, members) if ctx.method == "tasks/get" else members

    more = {name: value for name, value in (ctx.params or {}).items() if name not in _OWN}
    request = TaskRequest(
        method=ctx.method,
        task_id=task.id,
        more=encode_for_server(more, "params")[1:-1],
        safe=ctx.method == "tasks/get",
    )
    return await sdk_path.run(hub, ctx, Forward(task.server, request), read)


class EndpointServer(Server[Any]):
    """Serves the clients of one endpoint over what it shows of a hub.

    `as_error` makes the error of a request about a task that failed; `parts` are those of the SDK's server.
    """

    def __init__(
        self,
        name: str,
        clients: ClientSessions,
        endpoint: Endpoint,
        *,
        as_error: Callable[[CallError], MCPError] = as_protocol_error,
        **parts: Any,
    ) -> None:
        super().__init__(name, **parts)
        # not by name: the SDK calls these parts of the protocol deprecated, and warns
        self.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, self._set_level)
        self.add_notification_handler(
            "notifications/roots/list_changed", mcp_types.NotificationParams, self._roots_changed
        )
        self.tool_list = clients.tool_list(endpoint)
        self.exposure = self.tool_list.exposure
        self.hub: HubView = self.tool_list.hub
        spans = []
        if self.hub.tracing.on:
            from mcpx.core.gateway.tracing import serving_spans  # noqa: PLC0415 - few trace

            spans.append(serving_spans(self.hub))
        self.middleware = [
            *spans,
            clients.tracking(self.tool_list),
            self._declare,
            unsieved(self),
            serving_tasks(self.hub, self.stamp_for, as_error),
        ]

    @property
    def opening(self) -> Offer | None:
        """The opening of sessions on streams without this server, if there is one."""
        return None

    def loaded_server(self) -> EndpointServer:
        """Itself, as `Offer` has it."""
        return self

    async def load_server(self) -> EndpointServer:
        """The same."""
        return self

    def serving(self, connection: Connection) -> StreamServing:
        """Make what serves one connection on a stream."""
        return StreamServing(self, connection)

    @property
    def stamp(self) -> bytes:
        """The `_meta` of results for clients of 2026-07-28."""
        raise NotImplementedError

    def stamp_for(self, ctx: Context) -> bytes | None:
        """The `_meta` of results for a client of 2026-07-28, None for one of an older revision."""
        return self.stamp if is_modern(ctx) else None

    async def _declare(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A middleware: add the extensions to the answer to `initialize`, for which the SDK has no place."""
        result = await call_next(ctx)
        extensions = declared_extensions(self.hub, modern=False) if ctx.method == "initialize" else None
        if not extensions or not isinstance(result, dict):
            return result
        return {**result, "capabilities": {**result["capabilities"], "extensions": extensions}}

    @property
    def announces_native(self) -> bool:
        """True if changes of resources and prompts are announced."""
        return True

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Announce the lists when they change, whatever the frontend; else as the SDK does."""
        native = self.announces_native
        options = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=native, prompts_changed=native
        )
        # the handshake has no extensions
        return super().create_initialization_options(options, experimental_capabilities, extensions or {})

    @property
    def extensions(self) -> dict[str, JSON]:
        """The extensions that are declared; asked for at each `server/discover`."""
        return declared_extensions(self.hub, modern=True)

    @extensions.setter
    def extensions(self, value: dict[str, JSON]) -> None:
        """The SDK sets what it was given, which is nothing."""

    async def _set_level(
        self, ctx: Context, params: mcp_types.SetLevelRequestParams
    ) -> mcp_types.EmptyResult:
        """Send the client log messages of all servers from this level on (before 2026-07-28)."""
        handle = self.hub.clients.handles.get(client_of(connection_of(ctx.session)))
        if handle is not None:
            handle.log_level = params.level
            self.hub.clients.changed()
        return mcp_types.EmptyResult()

    async def _roots_changed(self, _ctx: Context, _params: mcp_types.NotificationParams) -> None:
        self.hub.clients.roots_changed()  # the client itself was noted when the message came in


def envelope_connection(
    version: str,
    info: Any,
    capabilities: Any,
    client: ClientId,
    transport: Transport,
    *,
    bearer: Bearer | None = None,
    outbound: Outbound | None = None,
) -> Connection:
    """The connection of one request of 2026-07-28, by the envelope that it brings (`info`, `capabilities`).

    `outbound` takes the notifications that belong to no request; without it there is no way for them.
    """
    said = SdkConnection.from_envelope(version, info, capabilities)
    made = Connection(outbound or said.outbound, client, transport, bearer=bearer)
    made.protocol_version = version
    made.client_params, made.client_capabilities = said.client_params, said.client_capabilities
    made.initialized.set()
    return made


class StreamServing:
    """The SDK's server runner, which is declared provisional, on one stream connection, in either era."""

    def __init__(self, server: EndpointServer, connection: Connection) -> None:
        self._server = server
        self._connection = connection
        self._runner: ServerRunner[Any] = ServerRunner(server, as_sdk(connection), None)
        self._outbound = NotifyOnlyOutbound(connection.outbound)

    async def request(self, context: Received, method: str, params: Params) -> dict[str, Any]:
        """Serve a request of the handshake era."""
        with sdk_path.own_errors():
            return await self._runner.on_request(context, method, params)

    async def notification(self, context: Received, method: str, params: Params) -> None:
        """Take a notification of the handshake era."""
        await self._runner.on_notify(context, method, params)

    async def modern_request(self, context: Received, method: str, params: Params) -> dict[str, Any]:
        """Serve a request of 2026-07-28, on a connection that it brings.

        Raises:
            MCPError: It failed, or its envelope or parameters are wrong.
        """
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(route.code, route.message, route.data)
        connection = self._of_envelope(route.protocol_version, route.client_info, route.client_capabilities)
        with sdk_path.own_errors():
            return await serve_one(
                self._server, context, method, params, connection=as_sdk(connection), lifespan_state=None
            )

    async def modern_notification(self, context: Received, method: str, params: Params) -> None:
        """Take a notification of 2026-07-28."""
        connection = self._of_envelope(LATEST_MODERN_VERSION, None, None)
        runner: ServerRunner[Any] = ServerRunner(self._server, as_sdk(connection), None)
        try:
            await runner.on_notify(context, method, params)
        finally:
            await connection.close()

    def _of_envelope(self, version: str, info: Any, capabilities: Any) -> Connection:
        of = self._connection
        return envelope_connection(
            version, info, capabilities, of.client, of.transport, outbound=self._outbound
        )

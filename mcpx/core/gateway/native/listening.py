"""`subscriptions/listen`: the stream of 2026-07-28 on which a client hears of changes until it leaves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio
import mcp_types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import INTERNAL_ERROR

from mcpx.core.calls.names import resolve_uri
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.subscribers import ResourceTarget, Subscribers
from mcpx.core.gateway.native.lookup import Lookup
from mcpx.errors import CallError

Context = ServerRequestContext[Any, Any]

MAX_STREAMS: Final = 1024  # as in the SDK


class ListenStreams:
    """The open streams of an endpoint. `lists_natively` says whether it lists resources and prompts."""

    def __init__(
        self,
        hub: HubView,
        subscribers: Subscribers,
        bus: InMemorySubscriptionBus,
        lookup: Lookup,
        lists_natively: Callable[[], bool],
    ) -> None:
        self._hub = hub
        self._subscribers = subscribers
        self._bus = bus
        self._lookup = lookup
        self._lists_natively = lists_natively
        self._open_streams = 0

    async def listen(
        self, ctx: Context, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        """Acknowledge what will be delivered, and deliver it until the client leaves.

        Raises:
            MCPError: `MAX_STREAMS` are open.
        """
        if self._open_streams >= MAX_STREAMS:
            raise MCPError(INTERNAL_ERROR, f"{MAX_STREAMS} streams are open already; close one, or try later")
        self._open_streams += 1
        try:
            wanted = params.notifications
            async with self._subscribers.open_stream(self._bus, await self._targets(ctx, wanted)) as stream:
                native = self._lists_natively()
                honoured = wanted.model_copy(
                    update={
                        "resource_subscriptions": stream.uris or None,
                        "resources_list_changed": wanted.resources_list_changed if native else None,
                        "prompts_list_changed": wanted.prompts_list_changed if native else None,
                    }
                )
                taken = params.model_copy(update={"notifications": honoured})
                return await ListenHandler(stream)(ctx, taken)
        finally:
            self._open_streams -= 1

    async def _targets(self, ctx: Context, wanted: mcp_types.SubscriptionFilter) -> list[ResourceTarget]:
        """The resources of a filter that may be subscribed to; the others are left out."""
        found: dict[str, ResourceTarget] = {}

        async def find(uri: str) -> None:
            with suppress(MCPError, CallError):
                target = await self._lookup.resource(uri, version=ctx.protocol_version)
                resolve_uri(target.upstream, target.own_uri)
                found[uri] = target

        async with anyio.create_task_group() as tasks:  # together: a server may be on its way
            for uri in dict.fromkeys(wanted.resource_subscriptions or ()):
                tasks.start_soon(find, uri)
        return list(found.values())

"""Announces changes of a folder of documents to a client, in both protocol eras.

`Watch` looks at the folder every `interval` seconds, off the event loop, and announces what differs: one
list-changed when documents came or went, and an update of each document that was edited to those who
subscribed to it. Polling needs nothing but the standard library and works on every file system; a change is
announced at the latest one interval and one look after it happened.

Owns the subscriptions of its one client (handshake era), and the bus of listen streams (2026-07-28).
Called by `mcpx.demo.knowledge`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated
from mcp_types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

from mcpx.demo import folder
from mcpx.demo.serving import is_modern

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.server import Server
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.session import ServerSession

    Request = ServerRequestContext[Any, Any]
    Marks = dict[str, tuple[int, int, int]]


class Watch:
    """One folder and its one client."""

    def __init__(self, root: Path, interval: float) -> None:
        self.bus = InMemorySubscriptionBus()
        self._root = root
        self._interval = interval
        self._subscribed: set[str] = set()
        self._session: ServerSession | None = None  # of the handshake era

    # --- the client

    async def meet(self, ctx: Request, call_next: CallNext) -> HandlerResult:
        """A middleware for the SDK's server: learns how to reach the client between its requests."""
        if not is_modern(ctx.protocol_version) and ctx.method != "initialize":
            self._session = ctx.session
        return await call_next(ctx)

    async def subscribe(self, _: Request, params: SubscribeRequestParams) -> EmptyResult:
        """From now on the client hears of edits of that document (handshake era)."""
        self._subscribed.add(params.uri)
        return EmptyResult()

    async def unsubscribe(self, _: Request, params: UnsubscribeRequestParams) -> EmptyResult:
        """The client no longer hears of edits of that document (handshake era)."""
        self._subscribed.discard(params.uri)
        return EmptyResult()

    # --- the folder

    @asynccontextmanager
    async def lifespan(self, _server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        """Watches for as long as the server runs."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            yield {}
            tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        known = await self._look({})
        while True:
            await anyio.sleep(self._interval)
            found = await self._look(known)
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client is leaving
                if found.keys() != known.keys():
                    await self._list_changed()
                for uri in found.keys() & known.keys():
                    if found[uri] != known[uri]:
                        await self._updated(uri)
            known = found

    async def _look(self, otherwise: Marks) -> Marks:
        """The folder as it is now; `otherwise` where it cannot be read, which may be so for a moment."""
        try:
            return await anyio.to_thread.run_sync(folder.marks, self._root)
        except OSError:
            return otherwise

    async def _list_changed(self) -> None:
        await self.bus.publish(ResourcesListChanged())
        if self._session is not None:
            await self._session.send_resource_list_changed()

    async def _updated(self, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri=uri))
        if self._session is not None and uri in self._subscribed:
            await self._session.send_resource_updated(uri)

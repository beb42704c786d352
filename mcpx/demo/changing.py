"""A server whose lists change while it runs, and which says so in both protocol eras, over stdio.

Run as `python -P -m mcpx.demo.changing`. It starts with four tools (`add_tool`, `remove_tool`,
`add_document`, `remove_document`) and no resources. A tool that was added answers with a greeting; a document
that was added is a resource, and adding it again replaces its text. Each change is announced to the client,
in the handshake era by notification, at 2026-07-28 and later on its `subscriptions/listen` stream.

Owns the two lists and the subscriptions of its one client. Every request is handled by one task at a time on
one loop, and state changes before the first await.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from mcp.server import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    SubscribeRequestParams,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from mcpx.demo import shelf
from mcpx.demo.serving import answer, is_modern, resource_not_found, serve

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    Request = ServerRequestContext[Any, Any]


class Announcer:
    """Tells the one client about a change, the way its protocol era wants it."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.subscribed: set[str] = set()

    async def announce(self, ctx: Request, event: ServerEvent) -> None:
        """Send the event on the listen streams, or as a notification; updates go to subscribers only."""
        if is_modern(ctx.protocol_version):
            await self.bus.publish(event)
        elif isinstance(event, ToolsListChanged):
            await ctx.session.send_tool_list_changed()
        elif isinstance(event, ResourcesListChanged):
            await ctx.session.send_resource_list_changed()
        elif isinstance(event, ResourceUpdated) and event.uri in self.subscribed:
            await ctx.session.send_resource_updated(event.uri)

    async def subscribe(self, _: Request, params: SubscribeRequestParams) -> EmptyResult:
        """From now on the client hears of updates of that URI (handshake era)."""
        self.subscribed.add(params.uri)
        return EmptyResult()

    async def unsubscribe(self, _: Request, params: UnsubscribeRequestParams) -> EmptyResult:
        """The client no longer hears of updates of that URI (handshake era)."""
        self.subscribed.discard(params.uri)
        return EmptyResult()


def build() -> Server[Any]:
    """A new server with empty lists."""
    announcer = Announcer()
    stock = shelf.Shelf()

    async def list_tools(_: Request, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[*shelf.VERBS, *map(shelf.greeter, stock.greeters)])

    async def call_tool(ctx: Request, params: CallToolRequestParams) -> CallToolResult:
        try:
            text, event = stock.apply(params.name, params.arguments or {})
        except ValueError as error:
            return answer(str(error), failed=True)
        if event is not None:
            await announcer.announce(ctx, event)
        return answer(text)

    async def list_resources(_: Request, __: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(
            resources=[_resource(name, text) for name, text in stock.documents.items()]
        )

    async def read_resource(ctx: Request, params: ReadResourceRequestParams) -> ReadResourceResult:
        text = stock.documents.get(params.uri.removeprefix(shelf.URI_PREFIX))
        if text is None or not params.uri.startswith(shelf.URI_PREFIX):
            raise resource_not_found(params.uri, ctx.protocol_version)
        return ReadResourceResult(
            contents=[TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)]
        )

    return Server(
        "mcpx-demo-changing",
        title="Demo of changing lists",
        version="1.0.0",
        instructions="Add and remove tools and documents; the lists follow at once.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_subscribe_resource=announcer.subscribe,
        on_unsubscribe_resource=announcer.unsubscribe,
        on_subscriptions_listen=ListenHandler(announcer.bus),
    )


def _resource(name: str, text: str) -> Resource:
    return Resource(
        uri=shelf.URI_PREFIX + name, name=name, mime_type="text/plain", size=len(text.encode("utf-8"))
    )


async def _main() -> None:
    await serve(build(), tools_change=True, resources_change=True)


if __name__ == "__main__":
    anyio.run(_main)

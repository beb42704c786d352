"""A server whose lists change while it runs, and which says so in both protocol eras, over stdio.

Run as `python -P -m mcpx.demo.changing`. It starts with four tools (`add_tool`, `remove_tool`,
`add_document`, `remove_document`) and no resources. A tool that was added answers with a greeting; a document
that was added is a resource, and adding it again replaces its text. Each change is announced to the client,
in the handshake era by notification, at 2026-07-28 and later on its `subscriptions/listen` stream.

Owns the two lists and the subscriptions of its one client. Every request is handled by one task at a time on
one loop, and state changes before the first await.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

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
    Tool,
    ToolAnnotations,
    UnsubscribeRequestParams,
)

from mcpx.demo.serving import answer, is_modern, resource_not_found, serve

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    Request = ServerRequestContext[Any, Any]


# --- the tools and documents

URI_PREFIX: Final = "note:///"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

Change = tuple[str, ServerEvent | None]
"""What to answer, and what to announce, if anything."""


class Shelf:
    """Added tools and documents, in the order of their adding. Names are 1 to 64 of A-Z a-z 0-9 _ -."""

    def __init__(self) -> None:
        self.greeters: dict[str, None] = {}  # a set that keeps its order
        self.documents: dict[str, str] = {}

    def apply(self, tool: str, arguments: dict[str, Any]) -> Change:
        """Carry out one tool call.

        Raises:
            ValueError: It cannot be done; the text says why.
        """
        if tool in self.greeters:
            return f"Hello from {tool}", None
        if tool == "add_document":
            return self._put(_name(arguments), _text(arguments))
        verbs = {"add_tool": self._add, "remove_tool": self._remove, "remove_document": self._drop}
        if tool not in verbs:
            raise ValueError(f"There is no tool {tool}; add it with add_tool")
        return verbs[tool](_name(arguments))

    def _add(self, name: str) -> Change:
        if name in self.greeters or name in _TAKEN:
            raise ValueError(f"There is a tool {name} already")
        self.greeters[name] = None
        return f"added tool {name}", ToolsListChanged()

    def _remove(self, name: str) -> Change:
        if name not in self.greeters:
            raise ValueError(
                f"There is no added tool {name}; there are: {', '.join(self.greeters) or 'none'}"
            )
        del self.greeters[name]
        return f"removed tool {name}", ToolsListChanged()

    def _put(self, name: str, text: str) -> Change:
        replaced = name in self.documents
        self.documents[name] = text
        if replaced:
            return f"replaced {URI_PREFIX}{name}", ResourceUpdated(uri=URI_PREFIX + name)
        return f"added {URI_PREFIX}{name}", ResourcesListChanged()

    def _drop(self, name: str) -> Change:
        if name not in self.documents:
            raise ValueError(f"There is no document {name}; there are: {', '.join(self.documents) or 'none'}")
        del self.documents[name]
        return f"removed {URI_PREFIX}{name}", ResourcesListChanged()


def greeter(name: str) -> Tool:
    """The tool that was added under that name."""
    return Tool(
        name=name,
        description=f"Say hello from {name}.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )


def _verb(tool: str, description: str, /, **properties: str) -> Tool:
    """One of the server's own tools; every property is a required string, given with its description."""
    schemas = {key: {"type": "string", "description": text} for key, text in properties.items()}
    schemas["name"]["pattern"] = f"^{_NAME.pattern}$"
    return Tool(
        name=tool,
        description=description,
        input_schema={
            "type": "object",
            "properties": schemas,
            "required": list(schemas),
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=tool.startswith("remove"), open_world_hint=False
        ),
    )


VERBS: Final = (
    _verb("add_tool", "Add a tool that answers with a greeting.", name="The new tool's name"),
    _verb("remove_tool", "Remove a tool that was added.", name="The tool's name"),
    _verb(
        "add_document",
        "Add a document to the resources, or replace its text.",
        name="The document's name",
        text="Its text",
    ),
    _verb("remove_document", "Remove a document from the resources.", name="The document's name"),
)
_TAKEN: Final = frozenset(verb.name for verb in VERBS)


def _name(arguments: dict[str, Any]) -> str:
    name = arguments.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("name must be 1 to 64 of the characters A-Z a-z 0-9 _ -")
    return name


def _text(arguments: dict[str, Any]) -> str:
    text = arguments.get("text")
    if not isinstance(text, str):
        raise ValueError("text must be a string")  # noqa: TRY004 - one kind of error for bad arguments
    return text


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
    stock = Shelf()

    async def list_tools(_: Request, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[*VERBS, *map(greeter, stock.greeters)])

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
        text = stock.documents.get(params.uri.removeprefix(URI_PREFIX))
        if text is None or not params.uri.startswith(URI_PREFIX):
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
    return Resource(uri=URI_PREFIX + name, name=name, mime_type="text/plain", size=len(text.encode("utf-8")))


async def _main() -> None:
    await serve(build(), tools_change=True, resources_change=True)


if __name__ == "__main__":
    anyio.run(_main)

"""A server built on the SDK with everything that the protocol has beside tools; for tests.

Run as `python era_server.py ERA EARS [FOLDER]` over stdio: ERA is `handshake` (it knows nothing of
2026-07-28) or `both`, and with `-http` behind it, on a free port over HTTP. Every subscription that begins or
ends, every read and every start is written to the file or FIFO EARS as a JSON line. Its tools change it:
`touch(uri, text)` replaces a text and tells subscribers, `grow(kind, name)` adds a resource, a prompt or a
tool and says so, `say(kind)` says that a list changed though it did not, `hang_up` ends the streams of
2026-07-28, `die` ends it all. What is in FOLDER/NAME is the text of `note:///NAME`, so that it can change
while nobody looks.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.lowlevel import NotificationOptions
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp_types import (
    Annotations,
    BlobResourceContents,
    CallToolResult,
    CompleteResult,
    Completion,
    EmbeddedResource,
    EmptyResult,
    GetPromptResult,
    Icon,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

ANY = {"type": "object"}
ICON = Icon(src="https://example.com/icon.png", mime_type="image/png", sizes=["48x48"])
FULL = Resource(
    uri="note:///full",
    name="full",
    title="Full of metadata",
    description="Everything that a resource can have",
    mime_type="text/plain",
    size=4,
    icons=[ICON],
    annotations=Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01T00:00:00Z"),
    _meta={"example.com/kept": {"deep": [1, None]}},
)
TEMPLATE = ResourceTemplate(
    uri_template="row://{table}/{id}{?columns*}",
    name="row",
    title="A row",
    description="One row of a table",
    mime_type="application/json",
    icons=[ICON],
    annotations=Annotations(audience=["assistant"], priority=1.0),
    _meta={"example.com/kept": True},
)
PROMPT = Prompt(
    name="brief.the/team",
    title="Brief the team",
    description="Two arguments, a resource and a link",
    arguments=[
        PromptArgument(name="who", title="Who", description="Whom to brief", required=True),
        PromptArgument(name="tone", description="How"),
    ],
    icons=[ICON],
    _meta={"example.com/kept": 1},
)


class EraServer:
    """Its state, and the handlers."""

    def __init__(self, ears: str, folder: Path | None) -> None:
        self.texts = {"note:///full": "full", "note:///other": "other"}
        self.listed = [FULL, Resource(uri="note:///other", name="other", description="d")]
        self.prompts = [PROMPT]
        self.tools = ["touch", "grow", "say", "hang_up", "die"]
        self.folder = folder
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        self.subscribed: set[str] = set()
        self._ears = os.open(ears, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self.note("started", pid=os.getpid())

    def note(self, event: str, **fields: Any) -> None:
        os.write(self._ears, json.dumps({"event": event, **fields}).encode() + b"\n")

    async def tell(self, ctx: Any, event: Any) -> None:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self.bus.publish(event)
        elif isinstance(event, ToolsListChanged):
            await ctx.session.send_tool_list_changed()
        elif isinstance(event, ResourcesListChanged):
            await ctx.session.send_resource_list_changed()
        elif isinstance(event, PromptsListChanged):
            await ctx.session.send_prompt_list_changed()
        elif any(event.uri == uri or event.uri.startswith(f"{uri}/") for uri in self.subscribed):
            await ctx.session.send_resource_updated(event.uri)

    # --- tools

    async def list_tools(self, _ctx: Any, _params: Any) -> ListToolsResult:
        self.note("listed", what="tools")
        return ListToolsResult(tools=[Tool(name=name, input_schema=ANY) for name in self.tools])

    async def call_tool(self, ctx: Any, params: Any) -> CallToolResult:
        given = params.arguments or {}
        match params.name:
            case "touch":
                self.texts[given["uri"]] = given["text"]
                await self.tell(ctx, ResourceUpdated(given["uri"]))
            case "grow":
                await self.tell(ctx, self.grow(given["kind"], given["name"]))
            case "say":
                await self.tell(ctx, self.grow(given["kind"], None))
            case "hang_up":
                self.listen.close()
            case "die":
                os._exit(3)
        return CallToolResult(content=[TextContent(text="done")])

    def grow(self, kind: str, name: str | None) -> Any:
        match kind:
            case "tools":
                self.tools += [name] if name else []
                return ToolsListChanged()
            case "prompts":
                self.prompts += [Prompt(name=name)] if name else []
                return PromptsListChanged()
            case _:
                self.listed += [Resource(uri=f"note:///{name}", name=name)] if name else []
                return ResourcesListChanged()

    # --- resources

    async def list_resources(self, _ctx: Any, _params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=self.listed)

    async def list_templates(self, _ctx: Any, _params: Any) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def read(self, ctx: Any, params: Any) -> ReadResourceResult:
        uri = str(params.uri)
        self.note("read", uri=uri)
        if uri.startswith("row://") and not uri.endswith("broken"):
            text = json.dumps({"row": uri})
            meta = {"example.com/kept": "read"}
            item = TextResourceContents(uri=uri, mime_type="application/json", text=text, _meta=meta)
            blob = BlobResourceContents(uri=f"{uri}/picture", mime_type="image/png", blob="AAEC")
            return ReadResourceResult(contents=[item, blob])
        if uri == "row://t/broken":
            return ReadResourceResult(contents=[BlobResourceContents(uri=uri, blob="not base64!")])
        file = self.folder / uri.removeprefix("note:///") if self.folder else None
        text = file.read_text() if file and file.exists() else self.texts.get(uri)
        if text is None:
            code = -32602 if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else -32002
            raise MCPError(code, f"Resource not found: {uri}", {"uri": uri, "kept": 1})
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="text/plain", text=text)])

    async def subscribe(self, _ctx: Any, params: Any) -> EmptyResult:
        if params.uri == "note:///secret":
            raise MCPError(-31001, "not for you", {"uri": params.uri})
        self.note("subscribed", uris=[params.uri])
        self.subscribed.add(params.uri)
        return EmptyResult()

    async def unsubscribe(self, _ctx: Any, params: Any) -> EmptyResult:
        self.note("unsubscribed", uris=[params.uri])
        self.subscribed.discard(params.uri)
        return EmptyResult()

    async def stream(self, ctx: Any, params: Any) -> Any:
        uris = params.notifications.resource_subscriptions or []
        if uris:
            self.note("subscribed", uris=uris)
        try:
            return await self.listen(ctx, params)
        finally:
            if uris:
                self.note("unsubscribed", uris=uris)

    # --- prompts

    async def list_prompts(self, _ctx: Any, _params: Any) -> ListPromptsResult:
        return ListPromptsResult(prompts=self.prompts)

    async def get_prompt(self, _ctx: Any, params: Any) -> GetPromptResult:
        if (params.arguments or {}).get("who") == "broken":
            broken = EmbeddedResource(resource=BlobResourceContents(uri="note:///x", blob="not base64!"))
            return GetPromptResult(messages=[PromptMessage(role="user", content=broken)])
        if params.name != PROMPT.name or "who" not in (params.arguments or {}):
            raise MCPError(-32602, "who is missing", {"why": "because"})
        held = TextResourceContents(uri="note:///full", mime_type="text/plain", text="full")
        contents = [
            TextContent(text=json.dumps(params.arguments), annotations=Annotations(priority=0.1)),
            EmbeddedResource(resource=held),
            ResourceLink(uri="note:///other", name="other", title="Other"),
        ]
        messages = [PromptMessage(role="user", content=content) for content in contents]
        return GetPromptResult(description="A brief", messages=messages, _meta={"example.com/kept": 2})

    async def complete(self, _ctx: Any, params: Any) -> CompleteResult:
        ref = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        known = (params.context.arguments or {}) if params.context else {}
        values = [ref, params.argument.name, params.argument.value, json.dumps(known)]
        return CompleteResult(completion=Completion(values=values, total=9, has_more=True))


def build(state: EraServer) -> Server[Any]:
    return Server(
        "era",
        version="1",
        on_list_tools=state.list_tools,
        on_call_tool=state.call_tool,
        on_list_resources=state.list_resources,
        on_list_resource_templates=state.list_templates,
        on_read_resource=state.read,
        on_subscribe_resource=state.subscribe,
        on_unsubscribe_resource=state.unsubscribe,
        on_subscriptions_listen=state.stream,
        on_list_prompts=state.list_prompts,
        on_get_prompt=state.get_prompt,
        on_completion=state.complete,
    )


async def over_http(server: Server[Any], state: EraServer, options: Any, *, handshake: bool) -> None:
    """On a free port, which is told to the ears."""
    server.create_initialization_options = lambda *_, **__: options  # type: ignore[method-assign]
    manager = StreamableHTTPSessionManager(server)
    endpoint: Any = StreamableHTTPASGIApp(manager)
    if handshake:
        endpoint = HandshakeOnly(endpoint)
    app = Starlette(routes=[Route("/mcp", endpoint=endpoint)], lifespan=lambda _app: manager.run())
    listener = socket.create_server(("127.0.0.1", 0))
    state.note("listening", port=listener.getsockname()[1])
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve([listener])


class HandshakeOnly:
    """Refuses the requests of 2026-07-28, as a server does that does not know it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if (b"mcp-protocol-version", b"2026-07-28") in scope["headers"]:
            await PlainTextResponse("unsupported protocol version", 400)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def main() -> None:
    era, ears, *folder = sys.argv[1:]
    state = EraServer(ears, Path(folder[0]) if folder else None)
    server = build(state)
    changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    options = server.create_initialization_options(changes)
    if era.endswith("-http"):
        await over_http(server, state, options, handshake=era.startswith("handshake"))
        return
    async with stdio_server() as (incoming, outgoing):
        if era == "both":
            await server.run(incoming, outgoing, options)
        else:
            await serve_loop(server, incoming, outgoing, lifespan_state=None, init_options=options)


if __name__ == "__main__":
    anyio.run(main)

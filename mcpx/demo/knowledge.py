"""The knowledge base: a folder of text documents offered as `file://` resources, over stdio.

Run as `python -P -m mcpx.demo.knowledge [--folder PATH] [--poll SECONDS]`; without a folder it serves the
three medical leaflets in Chinese that ship with it (diabetes, heart disease, hypertension). Resources carry
name, MIME type and size and, on purpose, no description: a gateway makes one from the content. Whatever is
not a visible file inside the folder does not exist for it. The folder is read afresh at every request, and
watched: changes of the list are announced to the client, and edits of the documents that it subscribed to.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import click
import msgspec
from mcp.server import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    BlobResourceContents,
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

from mcpx.demo import folder
from mcpx.demo.serving import answer, is_modern, resource_not_found, serve

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.session import ServerSession

    Request = ServerRequestContext[Any, Any]
    Marks = dict[str, tuple[int, int, int]]


# --- changes of the folder: polling needs nothing but the standard library and works on every file system; a
# change is announced at the latest one interval and one look after it happened


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


BUNDLED: Final = Path(__file__).parent / "documents"
POLL_S: Final = 1.0  # a look costs a listing of the folder
INSTRUCTIONS: Final = (
    "A folder of documents. Find the right one with search_documents or in the list of resources, "
    "then read it by its URI."
)

_SEARCH: Final = Tool(
    name="search_documents",
    description="Find the lines that hold a word or phrase, in all documents, without regard to case.",
    input_schema={
        "type": "object",
        "properties": {"query": {"type": "string", "minLength": 1, "description": "The word or phrase"}},
        "required": ["query"],
        "additionalProperties": False,
    },
    annotations=ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
)


def build(root: Path, *, poll: float = POLL_S) -> Server[Any]:
    """A server of the documents under `root`, which is looked at every `poll` seconds."""
    watch = Watch(root, poll)

    async def list_resources(_: Request, __: PaginatedRequestParams | None) -> ListResourcesResult:
        found = await anyio.to_thread.run_sync(folder.documents, root)
        return ListResourcesResult(resources=[_resource(document) for document in found])

    async def read_resource(ctx: Request, params: ReadResourceRequestParams) -> ReadResourceResult:
        document = await anyio.to_thread.run_sync(folder.find, root, params.uri)
        if document is None:
            raise resource_not_found(params.uri, ctx.protocol_version)
        try:
            content = await anyio.to_thread.run_sync(folder.read, document)
        except OSError as error:
            problem = f"Cannot read {document.name}: {error.strerror}"
            raise MCPError(INTERNAL_ERROR, problem, {"uri": params.uri}) from error
        return ReadResourceResult(contents=[_contents(params.uri, document.mime_type, content)])

    async def list_tools(_: Request, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_SEARCH])

    async def call_tool(_: Request, params: CallToolRequestParams) -> CallToolResult:
        query = (params.arguments or {}).get("query")
        if params.name != _SEARCH.name:
            return answer(f"No tool {params.name!r}: there is only {_SEARCH.name}", failed=True)
        if not isinstance(query, str) or not query:
            return answer("query must be a text of at least one character", failed=True)
        return _found(await anyio.to_thread.run_sync(folder.search, root, query))

    server: Server[Any] = Server(
        "mcpx-demo-knowledge",
        title="Demo knowledge base",
        version="1.0.0",
        instructions=INSTRUCTIONS,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscribe_resource=watch.subscribe,
        on_unsubscribe_resource=watch.unsubscribe,
        on_subscriptions_listen=ListenHandler(watch.bus),
        lifespan=watch.lifespan,
    )
    server.middleware = [watch.meet]
    return server


def _resource(document: folder.Document) -> Resource:
    return Resource(uri=document.uri, name=document.name, mime_type=document.mime_type, size=document.size)


def _contents(uri: str, mime_type: str, content: str | bytes) -> TextResourceContents | BlobResourceContents:
    if isinstance(content, str):
        return TextResourceContents(uri=uri, mime_type=mime_type, text=content)
    return BlobResourceContents(uri=uri, mime_type=mime_type, blob=base64.b64encode(content).decode())


def _found(matches: list[folder.Match]) -> CallToolResult:
    """The matches as JSON text, and the same as structured content."""
    rows = {"matches": msgspec.to_builtins(matches)}
    return answer(json.dumps(rows, ensure_ascii=False), structured=rows)


@click.command()
@click.option(
    "--folder",
    "root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=BUNDLED,
    help="The folder to serve, in place of the bundled leaflets.",
)
@click.option(
    "--poll",
    type=click.FloatRange(min=0.01),
    default=POLL_S,
    show_default=True,
    help="Seconds between two looks at the folder.",
)
def main(root: Path, poll: float) -> None:
    """Serve a folder of documents as an MCP server over stdio."""
    anyio.run(partial(serve, build(root, poll=poll), resources_change=True))


if __name__ == "__main__":
    main()

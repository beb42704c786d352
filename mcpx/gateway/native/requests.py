"""Resources, templates, prompts and completions as the protocol has them, over all servers.

Registers the handlers on the gateway's server, in both eras; none where every server is `native: false`.
Lists come from the catalogues, the last known ones of servers that are away; a read, a prompt or a completion
goes through the server's queue like any call, with the same deadlines and outcomes. Names are those of
`mcpx.catalog.naming`. A server's own URI (tools' results hold such) is taken too where only one server offers
it. Promises: metadata and contents as the server gave them, and a blob only where it is valid base64.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
import mcp_types
import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from mcpx.catalog.model import JSON, Catalogue
from mcpx.catalog.naming import LONGEST, offered_prompt, offered_uri, own_prompt, own_uri
from mcpx.catalog.uris import is_offered
from mcpx.core.hub import Hub
from mcpx.core.router import Forward, Read
from mcpx.errors import CallError
from mcpx.gateway import sdk_path as slow_lane
from mcpx.gateway.clients.subscribers import Subscribers, Target
from mcpx.gateway.native import forms
from mcpx.gateway.native.errors import about_prompt, about_resource, no_such_resource
from mcpx.gateway.native.pagination import BadCursorError, page_of
from mcpx.nearest import nearest
from mcpx.rendering.results import read_resource_result, read_result, resource_value
from mcpx.text import shown_name
from mcpx.upstream.actor import Upstream
from mcpx.upstream.requests import Complete, GetPrompt

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")

SHOWN: Final = 200  # characters of a URI that is too long
MOST_STREAMS: Final = 1024  # of `subscriptions/listen`, as the SDK has it
_UNCACHED: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_NO_COMPLETION: Final = {"completion": {"values": [], "total": 0, "hasMore": False}}


class Native:
    """The handlers. `settled` waits for the servers' first listings, for a bounded time."""

    def __init__(self, hub: Hub, subscribers: Subscribers, settled: Callable[[], Awaitable[None]]) -> None:
        self._hub = hub
        self._subscribers = subscribers
        self._settled = settled
        self._open_streams = 0

    @property
    def enabled(self) -> bool:
        """Whether any server is offered natively."""
        return any(upstream.config.native for upstream in self._hub.upstreams.values())

    def register(self, server: Server[Any]) -> None:
        """Put the handlers on the server, which then declares the capabilities."""
        add = server.add_request_handler
        add("subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, self._listen)
        if not self.enabled:
            return
        add("resources/list", mcp_types.PaginatedRequestParams, self._list_resources)
        add("resources/templates/list", mcp_types.PaginatedRequestParams, self._list_templates)
        add("resources/read", mcp_types.ReadResourceRequestParams, self._read)
        add("resources/subscribe", mcp_types.SubscribeRequestParams, self._subscribe)
        add("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, self._unsubscribe)
        add("prompts/list", mcp_types.PaginatedRequestParams, self._list_prompts)
        add("prompts/get", mcp_types.GetPromptRequestParams, self._get_prompt)
        add("completion/complete", mcp_types.CompleteRequestParams, self._complete)

    # --- lists

    def _catalogues(self) -> Iterator[tuple[Upstream, Catalogue]]:
        for upstream in self._hub.upstreams.values():
            if upstream.config.native and upstream.catalogue is not None:
                yield upstream, upstream.catalogue

    async def _list_resources(self, _ctx: Context, params: mcp_types.PaginatedRequestParams) -> JSON:
        await self._settled()
        entries = [
            (prefix + uri, info)
            for upstream, catalogue in self._catalogues()
            for prefix in (offered_uri(upstream.name, ""),)
            for uri, info in catalogue.resources.items()
        ]
        return _listed("resources", entries, forms.resource, params.cursor)

    async def _list_templates(self, _ctx: Context, params: mcp_types.PaginatedRequestParams) -> JSON:
        await self._settled()
        entries = [
            (offered_uri(upstream.name, info.uri_template), info)
            for upstream, catalogue in self._catalogues()
            for info in catalogue.templates
        ]
        return _listed("resourceTemplates", entries, forms.template, params.cursor)

    async def _list_prompts(self, _ctx: Context, params: mcp_types.PaginatedRequestParams) -> JSON:
        await self._settled()
        entries = [
            (offered_prompt(upstream.name, info.name), info)
            for upstream, catalogue in self._catalogues()
            for info in catalogue.prompts
        ]
        return _listed("prompts", entries, forms.prompt, params.cursor)

    # --- resources

    async def _read(self, ctx: Context, params: mcp_types.ReadResourceRequestParams) -> JSON:
        target = await self._target(ctx, params.uri)
        server = target.upstream.name

        def shape(raw: msgspec.Raw) -> JSON:
            read = read_resource_result(raw, server=server)
            resource_value(read, uri=target.own, server=server)  # every item has text, or valid base64
            return _UNCACHED | forms.contents(read, target.shown)

        try:
            return await slow_lane.run(self._hub, ctx, Read(server, target.own), shape)
        except CallError as error:
            raise about_resource(
                error, uri=params.uri, own=target.own, version=ctx.protocol_version
            ) from None

    async def _subscribe(self, ctx: Context, params: mcp_types.SubscribeRequestParams) -> JSON:
        target = await self._target(ctx, params.uri)
        try:
            self._hub.registry.admit(target.upstream, target.own)
            await self._subscribers.subscribe(ctx.session, target)
        except CallError as error:
            raise about_resource(
                error, uri=params.uri, own=target.own, version=ctx.protocol_version
            ) from None
        return {}

    async def _unsubscribe(self, ctx: Context, params: mcp_types.UnsubscribeRequestParams) -> JSON:
        self._subscribers.unsubscribe(ctx.session, params.uri)
        return {}

    async def _target(self, ctx: Context, uri: str) -> Target:
        """The resource that the client means. Raises MCPError where that cannot be told."""
        if len(uri) > LONGEST:
            problem = f"The URI is longer than {LONGEST} characters"
            raise no_such_resource(uri[:SHOWN], problem, version=ctx.protocol_version)
        named = own_uri(uri)
        if named is None:
            return await self._by_its_own_uri(ctx, uri)
        server, own = named
        upstream = self._hub.upstreams.get(server)
        if upstream is None or not upstream.config.native:
            raise no_such_resource(uri, f"No server is offered as {server!r}", version=ctx.protocol_version)
        await upstream.await_catalogue()
        return Target(upstream, own, uri, lambda changed: offered_uri(server, changed))

    async def _by_its_own_uri(self, ctx: Context, uri: str) -> Target:
        await self._settled()
        known = list(self._catalogues())
        found = [upstream for upstream, catalogue in known if uri in catalogue.resources] or [
            upstream for upstream, catalogue in known if is_offered(uri, catalogue)
        ]
        if len(found) == 1:
            return Target(found[0], uri, uri, str)
        offered = [offered_uri(upstream.name, uri) for upstream in found]
        problem = (
            f"Several servers have {uri}: ask for one of {', '.join(offered)}"
            if found
            else f"No server has {uri}; resources/list has the names of all, as mcpx://SERVER/URI"
        )
        raise no_such_resource(uri, problem, version=ctx.protocol_version)

    # --- prompts and completions

    async def _get_prompt(self, ctx: Context, params: mcp_types.GetPromptRequestParams) -> JSON:
        upstream, name = await self._prompt(params.name)
        server = upstream.name
        arguments = b"" if params.arguments is None else msgspec.json.encode(params.arguments)

        def shape(raw: msgspec.Raw) -> JSON:
            got = read_result(raw, server=server)
            for resource in forms.embedded(got):
                resource_value({"contents": [resource]}, server=server)
            return {"resultType": "complete"} | forms.messages(got, lambda uri: offered_uri(server, uri))

        return await self._ask(ctx, Forward(server, GetPrompt(name, arguments)), shape)

    async def _prompt(self, offered: str) -> tuple[Upstream, str]:
        """The server and its own name of a prompt. Raises MCPError where there is none."""
        if len(offered) > LONGEST:
            raise MCPError(INVALID_PARAMS, f"The prompt's name is longer than {LONGEST} characters")
        named = own_prompt(offered)
        upstream = self._hub.upstreams.get(named[0]) if named else None
        if named is not None and upstream is not None and upstream.config.native:
            await upstream.await_catalogue()
            catalogue = upstream.catalogue
            if catalogue is None or any(info.name == named[1] for info in catalogue.prompts):
                return upstream, named[1]
        near = nearest(
            offered,
            [
                offered_prompt(up.name, info.name)
                for up, known in self._catalogues()
                for info in known.prompts
            ],
        )
        hint = f"; did you mean {' or '.join(map(shown_name, near))}?" if near else ""
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {shown_name(offered)}{hint}", {"did_you_mean": near})

    async def _complete(self, ctx: Context, params: mcp_types.CompleteRequestParams) -> JSON:
        ref: JSON = params.ref.model_dump(by_alias=True, mode="json", exclude_none=True)
        if isinstance(params.ref, mcp_types.PromptReference):
            upstream, ref["name"] = await self._prompt(params.ref.name)
        else:
            target = await self._target(ctx, params.ref.uri)
            upstream, ref["uri"] = target.upstream, target.own
        catalogue = upstream.catalogue
        if catalogue is not None and not _completes(catalogue):
            return {"resultType": "complete", **_NO_COMPLETION}
        context = b"" if params.context is None else _encoded(params.context)
        request = Complete(msgspec.json.encode(ref), _encoded(params.argument), context)

        def shape(raw: msgspec.Raw) -> JSON:
            return {"resultType": "complete"} | read_result(raw, server=upstream.name)

        return await self._ask(ctx, Forward(upstream.name, request), shape)

    async def _ask(self, ctx: Context, message: Forward, shape: Callable[[msgspec.Raw], JSON]) -> JSON:
        """The result of a request about a prompt. Raises MCPError."""
        try:
            return await slow_lane.run(self._hub, ctx, message, shape)
        except CallError as error:
            raise about_prompt(error) from None

    # --- the stream of 2026-07-28

    async def _listen(
        self, ctx: Context, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        """Acknowledge what will really be delivered, and deliver it until the client leaves."""
        if self._open_streams >= MOST_STREAMS:
            raise MCPError(
                INTERNAL_ERROR, f"{MOST_STREAMS} streams are open already; close one, or try later"
            )
        self._open_streams += 1
        try:
            wanted = params.notifications
            async with self._subscribers.stream(await self._targets(ctx, wanted)) as stream:
                honoured = wanted.model_copy(
                    update={
                        "resource_subscriptions": list(stream.leaving) or None,
                        "resources_list_changed": wanted.resources_list_changed if self.enabled else None,
                        "prompts_list_changed": wanted.prompts_list_changed if self.enabled else None,
                    }
                )
                taken = params.model_copy(update={"notifications": honoured})
                return await ListenHandler(stream)(ctx, taken)
        finally:
            self._open_streams -= 1

    async def _targets(self, ctx: Context, wanted: mcp_types.SubscriptionFilter) -> list[Target]:
        """The resources of a filter that can be subscribed to; the acknowledgement leaves out the others."""
        found: dict[str, Target] = {}

        async def find(uri: str) -> None:
            with suppress(MCPError, CallError):
                target = await self._target(ctx, uri)
                self._hub.registry.admit(target.upstream, target.own)
                found[uri] = target

        async with anyio.create_task_group() as tasks:  # together: a server may be on its way
            for uri in dict.fromkeys(wanted.resource_subscriptions or ()):
                tasks.start_soon(find, uri)
        return list(found.values())


def _listed(
    kind: str, entries: Sequence[tuple[str, T]], form: Callable[[T], JSON], cursor: str | None
) -> JSON:
    try:
        page = page_of(kind, entries, cursor)
    except BadCursorError:
        text = f"The cursor {cursor!r} is not from a page of this list; begin again without one"
        raise MCPError(INVALID_PARAMS, text) from None
    more = {} if page.next_cursor is None else {"nextCursor": page.next_cursor}
    return {**_UNCACHED, kind: [form(value) for _, value in page.entries], **more}


def _completes(catalogue: Catalogue) -> bool:
    """Whether the server completes arguments; the first revision had no word for that."""
    return "completions" in catalogue.capabilities or catalogue.protocol_version == "2024-11-05"


def _encoded(model: Any) -> bytes:
    return msgspec.json.encode(model.model_dump(by_alias=True, mode="json", exclude_none=True))

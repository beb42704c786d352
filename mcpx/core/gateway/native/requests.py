"""Resources, templates, prompts and completions as the protocol has them, over all servers.

Registers the handlers on the gateway's server, in both eras; none where every server is `native: false`.
Lists come from the catalogues, the last known ones for servers that are down. A read, a prompt or a
completion goes through the server's queue like any call, with the same deadlines and outcomes. Metadata and
contents are passed on as the bytes that the server gave, a blob only where it is valid base64.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import mcp_types
import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus

from mcpx.core.calls.asking import Render
from mcpx.core.calls.names import resolve_uri
from mcpx.core.calls.recording import noting_refusals
from mcpx.core.catalog.model import JSON, Catalogue
from mcpx.core.catalog.naming import offered_uri
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.events.records import Kind
from mcpx.core.gateway import sdk_path
from mcpx.core.gateway.clients.identity import origin_of
from mcpx.core.gateway.clients.subscribers import ResourceTarget, Subscribers
from mcpx.core.gateway.native import lists
from mcpx.core.gateway.native.errors import about_resource, as_protocol_error
from mcpx.core.gateway.native.lists import UNCACHED
from mcpx.core.gateway.native.lookup import ListenStreams, Lookup, kept_page
from mcpx.core.gateway.sdk_path import is_modern
from mcpx.core.policy.rules import admitted_completion
from mcpx.core.protocol.messages import Forward, Read, Request, meta_for_server
from mcpx.core.protocol.requests import Complete, GetPrompt
from mcpx.core.rendering.large_results import refuse_dense_messages
from mcpx.core.rendering.result_members import enveloped
from mcpx.core.rendering.result_reading import (
    TASK,
    UnknownResultType,
    read_members,
    read_resource_result,
    read_result,
)
from mcpx.core.rendering.results import resource_value
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import Bytes
from mcpx.errors import CallError

Context = ServerRequestContext[Any, Any]

_NO_COMPLETION: Final = {"completion": {"values": [], "total": 0, "hasMore": False}}


class ResourcesAndPrompts:
    """The handlers. `settled` waits for the servers' first listings, for a bounded time.

    `wait_to_list` does so before a list, as the client wants it, and says whether the list is paged.
    `stamp_for` gives the `_meta` of results for the client of a request, as `ResultEncoder` takes it.
    """

    def __init__(
        self,
        hub: HubView,
        subscribers: Subscribers,
        bus: InMemorySubscriptionBus,
        settled: Callable[[], Awaitable[None]],
        stamp_for: Callable[[Context], bytes | None],
        *,
        wait_to_list: Callable[[Context], Awaitable[bool]],
        lookup: type[Lookup] = Lookup,
    ) -> None:
        self._stamp_for = stamp_for
        self._hub = hub
        self._subscribers = subscribers
        self._wait_to_list = wait_to_list
        self._lookup = lookup(hub, settled)
        self._streams = ListenStreams(hub, subscribers, bus, self._lookup, lambda: self.enabled)

    @property
    def enabled(self) -> bool:
        """True if there may be anything to list."""
        return self._hub.has_native

    def register(self, server: Server[Any], *, declared: bool = True) -> None:
        """Add the handlers to the server, which then declares the capabilities; few if not `declared`."""
        add = server.add_request_handler
        add("subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, self._streams.listen)
        if not declared:
            return
        for method, (key, listed) in lists.LISTS.items():
            add(method, mcp_types.PaginatedRequestParams, partial(self._list, key, listed))
        add("resources/read", mcp_types.ReadResourceRequestParams, self._read)
        add("resources/subscribe", mcp_types.SubscribeRequestParams, self._subscribe)
        add("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, self._unsubscribe)
        add("prompts/get", mcp_types.GetPromptRequestParams, self._get_prompt)
        add("completion/complete", mcp_types.CompleteRequestParams, self._complete)

    # --- the form in which entries, results and failures are given

    def _key(self, info: lists.ListEntry) -> str:
        """Return the name of an entry of a list."""
        return lists.offered_as(info)[1]

    def _entry(self, info: lists.ListEntry) -> JSON:
        """An entry of a list."""
        return lists.list_entry(info)

    def _contents(self, _ctx: Context, target: ResourceTarget, raw: msgspec.Raw) -> JSON | list[Bytes]:
        """The result of a read."""
        server = target.upstream.name
        read = read_resource_result(raw, server=server)
        resource_value(read, uri=target.own_uri, server=server)  # every item has text, or valid base64
        return UNCACHED | lists.contents(read, target.rename)

    def _messages(self, _ctx: Context, server: str, raw: msgspec.Raw) -> JSON | list[Bytes]:
        """The result of a `prompts/get`."""
        refuse_dense_messages(raw, server)
        got = read_members(raw, lists.PROMPT, server=server)
        for resource in lists.embedded(got):
            resource_value({"contents": [resource]}, server=server)
        return lists.messages(got, lambda uri: offered_uri(server, uri))

    def _completed(self, _ctx: Context, server: str, raw: msgspec.Raw) -> JSON | list[Bytes]:
        """The result of a completion, where nothing has to be left out."""
        refuse_dense_messages(raw, server)
        return read_members(raw, server=server)

    def _about_resource(self, ctx: Context, error: CallError, uri: str, own: str) -> MCPError:
        """The error of a request about the resource that the client calls `uri`."""
        return about_resource(error, uri=uri, own=own, version=ctx.protocol_version)

    def _failure(self, error: CallError) -> MCPError:
        """The error of any other request."""
        return as_protocol_error(error)

    # --- lists

    async def _list(
        self, key: str, listed: lists.Listed, ctx: Context, params: mcp_types.PaginatedRequestParams
    ) -> JSON:
        """Give the page behind the cursor of the entries that `listed` takes out of each catalogue."""
        paged = await self._wait_to_list(ctx)
        listing = [
            (self._key(info), info)
            for _, catalogue in self._lookup.catalogues()
            for info in listed(catalogue)
        ]
        return self._enclosed(
            ctx, lists.entries_page(key, listing, params.cursor, entry=self._entry, paged=paged)
        )

    def _enclosed(self, ctx: Context, members: JSON) -> JSON:
        """A result of these members, in the envelope of the client's era."""
        return enclose([enveloped(members, self._stamp_for(ctx))])

    async def _pass_on(
        self, ctx: Context, request: Request, convert: Callable[[msgspec.Raw], JSON | list[Bytes]]
    ) -> JSON:
        """The result that `convert` makes of a server's; one of an unknown type is for the client to judge.

        Raises:
            CallError: The request failed.
        """
        render: Render[JSON | list[Bytes]] = convert
        try:
            result: JSON | list[Bytes] = await sdk_path.run(self._hub, ctx, request, render)
            return enclose(result) if isinstance(result, list) else self._enclosed(ctx, result)
        except UnknownResultType as unknown:
            if not is_modern(ctx) or unknown.kind == TASK:  # which only a call of a tool may become
                raise
            return self._enclosed(ctx, unknown.result)

    # --- resources

    async def _read(self, ctx: Context, params: mcp_types.ReadResourceRequestParams) -> JSON:
        if (kept := await self._kept_page(ctx, params.uri)) is not None:
            return self._enclosed(ctx, {**UNCACHED, "contents": kept})
        with self._noting_refusals(ctx, "resource", params.uri):
            target = await self._lookup.resource(params.uri, version=ctx.protocol_version)
        server = target.upstream.name
        convert = partial(self._contents, ctx, target)
        try:
            return await self._pass_on(ctx, Read(server, target.own_uri), convert)
        except CallError as error:
            raise self._about_resource(ctx, error, params.uri, target.own_uri) from None

    async def _kept_page(self, ctx: Context, uri: str) -> list[JSON] | None:
        """The contents of a page of a kept result; None for the URI of anything else."""
        return await kept_page(self._hub, ctx, uri)

    async def _subscribe(self, ctx: Context, params: mcp_types.SubscribeRequestParams) -> JSON:
        with self._noting_refusals(ctx, "resource", params.uri):
            target = await self._lookup.resource(params.uri, version=ctx.protocol_version)
        try:
            with self._noting_refusals(ctx, "resource", target.own_uri, target.upstream.name):
                resolve_uri(target.upstream, target.own_uri)
            await self._subscribers.subscribe(ctx.session, target, meta_for_server(ctx.params))
        except CallError as error:
            raise self._about_resource(ctx, error, params.uri, target.own_uri) from None
        return {}

    async def _unsubscribe(self, ctx: Context, params: mcp_types.UnsubscribeRequestParams) -> JSON:
        self._subscribers.unsubscribe(ctx.session, params.uri)
        return {}

    # --- prompts and completions

    async def _get_prompt(self, ctx: Context, params: mcp_types.GetPromptRequestParams) -> JSON:
        with self._noting_refusals(ctx, "prompt", params.name):
            upstream, name = await self._lookup.prompt(params.name)
        server = upstream.name
        arguments = b"" if params.arguments is None else msgspec.json.encode(params.arguments)
        convert = partial(self._messages, ctx, server)
        return await self._ask(ctx, Forward(server, GetPrompt(name, arguments)), convert)

    async def _complete(self, ctx: Context, params: mcp_types.CompleteRequestParams) -> JSON:
        ref: JSON = params.ref.model_dump(by_alias=True, mode="json", exclude_none=True)
        template: str | None = None
        if isinstance(params.ref, mcp_types.PromptReference):
            with self._noting_refusals(ctx, "completion", params.ref.name):
                upstream, ref["name"] = await self._lookup.prompt(params.ref.name)
        else:
            with self._noting_refusals(ctx, "completion", params.ref.uri):
                target = await self._lookup.resource(params.ref.uri, version=ctx.protocol_version)
            upstream, ref["uri"] = target.upstream, target.own_uri
            template = target.own_uri
        catalogue = upstream.catalogue
        if catalogue is not None and not completes(catalogue):
            return self._enclosed(ctx, dict(_NO_COMPLETION))
        context = b"" if params.context is None else _encoded(params.context)
        request = Complete(msgspec.json.encode(ref), _encoded(params.argument), context)

        def convert(raw: msgspec.Raw) -> JSON | list[Bytes]:
            if template is None or not upstream.policy.restricts_resources:
                return self._completed(ctx, upstream.name, raw)
            refuse_dense_messages(raw, upstream.name)
            read = read_result(raw, server=upstream.name)
            resolved = (params.context and params.context.arguments) or {}
            shown = admitted_completion(read, upstream.policy, template, params.argument.name, resolved)
            return self._completed(ctx, upstream.name, raw) if shown is read else shown

        return await self._ask(ctx, Forward(upstream.name, request), convert)

    async def _ask(
        self, ctx: Context, message: Forward, convert: Callable[[msgspec.Raw], JSON | list[Bytes]]
    ) -> JSON:
        """The result of a request about a prompt.

        Raises:
            MCPError: It failed.
        """
        try:
            return await self._pass_on(ctx, message, convert)
        except CallError as error:
            raise self._failure(error) from None

    def _noting_refusals(
        self, ctx: Context, kind: Kind, name: str, server: str = ""
    ) -> AbstractContextManager[None]:
        return noting_refusals(self._hub.records, kind, server, name, origin_of(ctx.session, self._hub))


def completes(catalogue: Catalogue) -> bool:
    """Return True if the server completes arguments; the first revision could not declare it."""
    return "completions" in catalogue.capabilities or catalogue.protocol_version == "2024-11-05"


def _encoded(model: Any) -> bytes:
    return msgspec.json.encode(model.model_dump(by_alias=True, mode="json", exclude_none=True))

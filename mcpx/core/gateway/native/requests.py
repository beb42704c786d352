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
from mcp.server.lowlevel import Server
from mcp_types.version import LATEST_MODERN_VERSION

from mcpx.core.calls.asking import Render
from mcpx.core.calls.names import resolve_uri
from mcpx.core.calls.recording import noting_refusals
from mcpx.core.catalog.extensions import DIRECTORIES, SKILLS, settings_of, with_files
from mcpx.core.catalog.lists import ListKind
from mcpx.core.catalog.model import JSON, Catalogue
from mcpx.core.catalog.naming import offered_uri
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.events.records import Kind
from mcpx.core.gateway import sdk_path
from mcpx.core.gateway.clients.identity import connection_of, origin_of
from mcpx.core.gateway.clients.subscribers import ResourceTarget, Subscribers
from mcpx.core.gateway.clients.tool_lists import Bus
from mcpx.core.gateway.native import lists
from mcpx.core.gateway.native.errors import about_resource, as_protocol_error, no_such_resource
from mcpx.core.gateway.native.lists import UNCACHED
from mcpx.core.gateway.native.lookup import ListenStreams, Lookup, kept_page
from mcpx.core.gateway.sdk_path import Context, is_modern
from mcpx.core.policy.rules import admitted_completion
from mcpx.core.protocol.messages import Forward, Read, Request, meta_for_server
from mcpx.core.protocol.requests import Complete, GetPrompt
from mcpx.core.rendering.large_results import refuse_dense_messages
from mcpx.core.rendering.result_members import enveloped, read_array, read_item, read_object, read_string
from mcpx.core.rendering.result_reading import (
    TASK,
    UnknownResultType,
    read_members,
    read_resource_result,
    read_result,
)
from mcpx.core.rendering.results import resource_value
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import METHOD_NOT_FOUND, Bytes, MCPError
from mcpx.errors import CallError

Convert = Callable[[ResourceTarget, msgspec.Raw], JSON | list[Bytes]]
GET_SKILL: Final = "skills/get"
DIRECTORY: Final = "resources/directory/read"
_NAMED: Final = partial(read_array, read=read_item)
_SKILL: Final = {"skill": partial(read_object, readers={"uri": read_string, "resources": _NAMED})}
_FOLDER: Final = {"resources": _NAMED}
"""Read results as far as the URIs in them."""


class FolderRequestParams(mcp_types.PaginatedRequestParams):
    """The params of `resources/directory/read`."""

    uri: str


def answers(catalogue: Catalogue, method: str) -> bool:
    """Return True if a server answers a request about skills by that method."""
    settings = settings_of(catalogue.capabilities, SKILLS)
    return settings is not None and (method != DIRECTORY or settings.get(DIRECTORIES) is True)


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
        bus: Bus,
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
        for method, kind in lists.LISTS.items():
            add(method, mcp_types.PaginatedRequestParams, partial(self._list, kind))
        add("resources/read", mcp_types.ReadResourceRequestParams, self._read)
        add(DIRECTORY, FolderRequestParams, self._read_folder)
        add(GET_SKILL, mcp_types.ReadResourceRequestParams, self._get_skill)
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

    def _about_resource(
        self, ctx: Context, error: CallError, uri: str, own: str, *, version: str | None = None
    ) -> MCPError:
        """The error of a request about the resource that the client calls `uri`, as in its revision."""
        return about_resource(error, uri=uri, own=own, version=version or ctx.protocol_version)

    def _failure(self, error: CallError) -> MCPError:
        """The error of any other request."""
        return as_protocol_error(error)

    # --- lists

    async def _list(
        self, kind: ListKind[Any], ctx: Context, params: mcp_types.PaginatedRequestParams
    ) -> JSON:
        """Give the page behind the cursor of the entries that the catalogues have of a kind."""
        paged = await self._wait_to_list(ctx)
        listing = [(self._key(info), info) for info in self._lookup.entries(kind)]
        return self._enclosed(
            ctx, lists.entries_page(kind.key, listing, params.cursor, entry=self._entry, paged=paged)
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

    async def _get_skill(self, ctx: Context, params: mcp_types.ReadResourceRequestParams) -> JSON:
        """Give the entry of one skill, listed or not, as its server has it now."""
        return await self._about_skill(ctx, params.uri, GET_SKILL, self._skill)

    async def _read_folder(self, ctx: Context, params: FolderRequestParams) -> JSON:
        """Give a page of what a folder holds."""
        return await self._about_skill(ctx, params.uri, DIRECTORY, self._folder, cursor=params.cursor)

    async def _about_skill(
        self, ctx: Context, uri: str, method: str, convert: Convert, *, cursor: str | None = None
    ) -> JSON:
        """Pass a request about a skill on; "not found" is -32602 in both eras.

        Raises:
            MCPError: No server has such requests; this one does not; or it failed.
        """
        servers = [catalogue for _, catalogue in self._lookup.catalogues()]
        if not any(answers(catalogue, method) for catalogue in servers):
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
        with self._noting_refusals(ctx, "resource", uri):
            target = await self._lookup.resource(uri, version=LATEST_MODERN_VERSION)
            known = target.upstream.catalogue
            if known is None or not answers(known, method):
                problem = f"{target.upstream.name} has no {method}"
                raise no_such_resource(uri, problem, version=LATEST_MODERN_VERSION)
        request = Read(target.upstream.name, target.own_uri, method=method, cursor=cursor)
        try:
            return await self._pass_on(ctx, request, partial(convert, target))
        except CallError as error:
            version = LATEST_MODERN_VERSION
            raise self._about_resource(ctx, error, uri, target.own_uri, version=version) from None

    def _skill(self, target: ResourceTarget, raw: msgspec.Raw) -> JSON | list[Bytes]:
        """The result of a `skills/get`: files that the client is not shown are not in the manifest."""
        refuse_dense_messages(raw, target.upstream.name)
        read = read_members(raw, _SKILL, server=target.upstream.name)
        skill = read.get("skill")
        shown = lists.skill_entry(skill, target.shown_as) if isinstance(skill, dict) else skill
        return UNCACHED | read | {"skill": shown}

    def _folder(self, target: ResourceTarget, raw: msgspec.Raw) -> JSON | list[Bytes]:
        """The result of a `resources/directory/read`: what the client is not shown is not there."""
        refuse_dense_messages(raw, target.upstream.name)
        read = read_members(raw, _FOLDER, server=target.upstream.name)
        return with_files(read, target.shown_as)

    async def _kept_page(self, ctx: Context, uri: str) -> list[JSON] | None:
        """The contents of a page of a kept result; None for the URI of anything else."""
        return await kept_page(self._hub, ctx, uri)

    async def _subscribe(self, ctx: Context, params: mcp_types.SubscribeRequestParams) -> JSON:
        with self._noting_refusals(ctx, "resource", params.uri):
            target = await self._lookup.resource(params.uri, version=ctx.protocol_version)
        try:
            with self._noting_refusals(ctx, "resource", target.own_uri, target.upstream.name):
                resolve_uri(target.upstream, target.own_uri)
            await self._subscribers.subscribe(connection_of(ctx.session), target, meta_for_server(ctx.params))
        except CallError as error:
            raise self._about_resource(ctx, error, params.uri, target.own_uri) from None
        return {}

    async def _unsubscribe(self, ctx: Context, params: mcp_types.UnsubscribeRequestParams) -> JSON:
        self._subscribers.unsubscribe(connection_of(ctx.session), params.uri)
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
        return noting_refusals(
            self._hub.records, kind, server, name, origin_of(connection_of(ctx.session), self._hub)
        )


def completes(catalogue: Catalogue) -> bool:
    """Return True if the server completes arguments; the first revision could not declare it."""
    return "completions" in catalogue.capabilities or catalogue.protocol_version == "2024-11-05"


def _encoded(model: Any) -> bytes:
    return msgspec.json.encode(model.model_dump(by_alias=True, mode="json", exclude_none=True))

"""The resource or prompt that a client names, among all servers that are offered natively.

A name is one of `mcpx.core.catalog.naming`. A server's own URI, as results of tools contain it, is accepted
too where only one server offers it. `Lookup` waits, for a bounded time, for the first listing of the server
in question. `kept_page` reads results that are kept for a client as the resources that they are, and
`ListenStreams` are the streams of `subscriptions/listen` (2026-07-28), on which a client hears of changes to
the resources that it names until it leaves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server import subscriptions as sdk

from mcpx.core.calls.names import resolve_uri
from mcpx.core.catalog.lists import SKILLS, ListKind
from mcpx.core.catalog.model import JSON, Catalogue
from mcpx.core.catalog.naming import MAX_OFFERED_CHARS, offered_prompt, offered_uri, own_prompt, own_uri
from mcpx.core.catalog.uris import is_offered, may_be_of_skill
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.identity import connection_of
from mcpx.core.gateway.clients.subscribers import ResourceTarget, Subscribers
from mcpx.core.gateway.clients.tool_lists import Bus
from mcpx.core.gateway.native.errors import UnknownNameError, about_resource, no_such_resource
from mcpx.core.protocol.result_address import KEPT_SERVER, read_address
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.text import shown_name
from mcpx.core.text.nearest import nearest
from mcpx.core.wire.envelope import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcpx.errors import CallError

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[Any, Any]


async def kept_page(hub: HubView, ctx: ServerRequestContext[Any, Any], uri: str) -> list[JSON] | None:
    """The contents of a page of a kept result; None for the URI of anything else.

    Raises:
        MCPError: It is not kept, or there is no such page.
    """
    try:
        address = read_address(uri)
        client = connection_of(ctx.session).client
        server = hub.upstreams.get(KEPT_SERVER)  # its URIs look the same
        if address is None or (server is not None and not hub.views.has(address, client)):
            return None
        return await hub.views.contents(uri, address, client)
    except CallError as error:
        raise about_resource(error, uri=uri, own=uri, version=ctx.protocol_version) from None


MAX_STREAMS: Final = 1024  # as in the SDK

MAX_SHOWN_CHARS: Final = 200  # of a URI that is too long


class Lookup:
    """Resolves names. `settled` waits for the servers' first listings, for a bounded time."""

    def __init__(self, hub: HubView, settled: Callable[[], Awaitable[None]]) -> None:
        self._hub = hub
        self._settled = settled

    def catalogues(self) -> Iterator[tuple[VisibleServer, Catalogue]]:
        """The servers that are offered natively and have been listed."""
        for upstream in self._hub.upstreams.values():
            if upstream.config.native and upstream.catalogue is not None:
                yield upstream, upstream.catalogue

    def entries(self, kind: ListKind[Any]) -> list[Any]:
        """The entries of a list, of all these servers.

        Raises:
            MCPError: It is that of skills, which there is only where a server has some.
        """
        known = [catalogue for _, catalogue in self.catalogues()]
        if kind is SKILLS and not any(each.serves_skills for each in known):
            raise MCPError(METHOD_NOT_FOUND, "Method not found", kind.method)
        return [entry for each in known for entry in kind.entries_of(each)]

    async def resource(self, uri: str, *, version: str) -> ResourceTarget:
        """The resource that a client of that protocol version names.

        Raises:
            MCPError: There is none, or several servers have it.
        """
        if len(uri) > MAX_OFFERED_CHARS:
            problem = f"The URI is longer than {MAX_OFFERED_CHARS} characters"
            raise no_such_resource(uri[:MAX_SHOWN_CHARS], problem, version=version)
        named = own_uri(uri)
        if named is None:
            return await self._by_own_uri(uri, version=version)
        server, own = named
        upstream = self._hub.upstreams.get(server)
        if upstream is None or not upstream.config.native:
            raise no_such_resource(uri, f"No server is offered as {server!r}", version=version)
        await upstream.await_catalogue()
        return self._target(upstream, own, uri, lambda its: uri if its == own else offered_uri(server, its))

    async def _by_own_uri(self, uri: str, *, version: str) -> ResourceTarget:
        await self._settled()
        known = list(self.catalogues())
        found = [upstream for upstream, catalogue in known if _has(catalogue, uri)] or [
            upstream
            for upstream, catalogue in known
            if (is_offered(uri, catalogue) or may_be_of_skill(uri, catalogue))
            and upstream.policy.admits_resource(uri)
        ]
        if len(found) == 1:
            return self._target(found[0], uri, uri, str)
        offered = [offered_uri(upstream.name, uri) for upstream in found]
        problem = (
            f"Several servers have {uri}: ask for one of {', '.join(offered)}"
            if found
            else f"No server has {uri}; resources/list has the names of all, as mcpx://SERVER/URI"
        )
        error = no_such_resource(uri, problem, version=version)
        rules = (upstream.policy.rule_against_resource(uri) for upstream, _ in known)
        error.rule = next(filter(None, rules), None)
        raise error

    def _target(
        self, upstream: VisibleServer, own: str, client_uri: str, rename: Callable[[str], str]
    ) -> ResourceTarget:
        return ResourceTarget(upstream, own, client_uri, rename, partial(self._is_shown, upstream.name))

    def _is_shown(self, server: str, own_uri: str) -> bool:
        """Return True if the clients see a resource of that server at the moment."""
        upstream = self._hub.upstreams.get(server)
        if upstream is None:
            return not self._hub.hides(server)
        known = upstream.catalogue
        listed = known is not None and own_uri in known.resources
        return upstream.policy.admits_resource(own_uri, listed=listed)

    async def prompt(self, offered: str) -> tuple[VisibleServer, str]:
        """The server of a prompt, and the server's own name for it.

        Raises:
            MCPError: There is none.
        """
        if len(offered) > MAX_OFFERED_CHARS:
            text = f"The prompt's name is longer than {MAX_OFFERED_CHARS} characters"
            raise MCPError(INVALID_PARAMS, text)
        named = own_prompt(offered)
        upstream = self._hub.upstreams.get(named[0]) if named else None
        if named is not None and upstream is not None and upstream.config.native:
            own = named[1]
            await upstream.await_catalogue(lambda known: any(info.name == own for info in known.prompts))
            catalogue = upstream.catalogue
            if catalogue is None or any(info.name == own for info in catalogue.prompts):
                return upstream, named[1]
        catalogues = self.catalogues()
        known = [offered_prompt(server.name, info.name) for server, its in catalogues for info in its.prompts]
        near = nearest(offered, known)
        hint = f"; did you mean {' or '.join(map(shown_name, near))}?" if near else ""
        text = f"Unknown prompt: {shown_name(offered)}{hint}"
        error = UnknownNameError(INVALID_PARAMS, text, {"did_you_mean": near})
        if named is not None and upstream is not None:
            error.rule = upstream.policy.rule_against_prompt(named[1])
        raise error


def _has(catalogue: Catalogue, uri: str) -> bool:
    """Return True if a URI stands in one of the lists, or is the folder of one that does."""
    folder = f"{uri}/"
    return catalogue.lists(uri) or any(each.startswith(folder) for each in catalogue.named_uris)


class ListenStreams:
    """The open streams of an endpoint. `lists_natively` says whether it lists resources and prompts."""

    def __init__(
        self,
        hub: HubView,
        subscribers: Subscribers,
        bus: Bus,
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
                return await sdk.ListenHandler(stream)(ctx, taken)
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

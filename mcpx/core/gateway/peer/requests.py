"""Resources, prompts and completions of one server, under its own names, for another MCPX."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext

from mcpx.core.catalog.model import JSON, Catalogue, PromptInfo, ResourceInfo
from mcpx.core.gateway.clients.subscribers import ResourceTarget
from mcpx.core.gateway.native.lists import ListEntry
from mcpx.core.gateway.native.lookup import Lookup
from mcpx.core.gateway.native.requests import ResourcesAndPrompts
from mcpx.core.gateway.peer.errors import as_peer_error
from mcpx.core.gateway.peer.results import PeerEncoder
from mcpx.core.rendering.suggest import unknown_server
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.wire.envelope import Bytes
from mcpx.errors import CallError

Context = ServerRequestContext[Any, Any]


class OwnLookup(Lookup):
    """Finds everything at the one server that the endpoint shows."""

    def catalogues(self) -> Iterator[tuple[VisibleServer, Catalogue]]:
        for upstream in self._hub.upstreams.values():
            if upstream.catalogue is not None:
                yield upstream, upstream.catalogue

    async def resource(self, uri: str, *, version: str) -> ResourceTarget:  # noqa: ARG002 - as of the base
        upstream = self._upstream()
        await upstream.await_catalogue()
        return ResourceTarget(upstream, uri, uri, str, partial(self._is_shown, upstream.name))

    async def prompt(self, offered: str) -> tuple[VisibleServer, str]:
        return self._upstream(), offered  # the server says which ones it has

    def _upstream(self) -> VisibleServer:
        """The server.

        Raises:
            MCPError: It is not there any more.
        """
        peer = self._hub.endpoint.peer or ""
        upstream = self._hub.upstreams.get(peer)
        if upstream is None:
            raise as_peer_error(unknown_server(peer, []))
        return upstream


class OwnResourcesAndPrompts(ResourcesAndPrompts):
    """The handlers: everything as the server has it, and what fails as `as_peer_error` has it."""

    def _key(self, info: ListEntry) -> str:
        if isinstance(info, ResourceInfo):
            return info.uri
        return info.name if isinstance(info, PromptInfo) else info.uri_template

    def _entry(self, info: ListEntry) -> JSON:
        return info.to_protocol()

    def _contents(self, ctx: Context, target: ResourceTarget, raw: msgspec.Raw) -> JSON | list[Bytes]:
        return self._as_it_came(ctx, target.upstream.name, raw)

    def _messages(self, ctx: Context, server: str, raw: msgspec.Raw) -> JSON | list[Bytes]:
        return self._as_it_came(ctx, server, raw)

    def _completed(self, ctx: Context, server: str, raw: msgspec.Raw) -> JSON | list[Bytes]:
        return self._as_it_came(ctx, server, raw)

    def _as_it_came(self, ctx: Context, server: str, raw: msgspec.Raw) -> list[Bytes]:
        return PeerEncoder(self._hub.views, self._stamp_for(ctx)).passed(raw, server=server)

    async def _kept_page(self, _ctx: Context, _uri: str) -> list[JSON] | None:
        return None  # nothing is cut here, so nothing is kept

    def _about_resource(self, _ctx: Context, error: CallError, _uri: str, _own: str) -> MCPError:
        return as_peer_error(error)

    def _failure(self, error: CallError) -> MCPError:
        return as_peer_error(error)

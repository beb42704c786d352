"""The registry: the read side over all upstream actors' catalogues.

Answers from frozen snapshots, never from the network; only `read_resource` asks an upstream. Holds no data
of its own: what it gives is what the actors' state is at that moment. Part of the public API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpx.catalog.model import ResourceInfo, ServerInfo, ToolInfo
from mcpx.catalog.naming import own_uri
from mcpx.catalog.uris import uri_rejection
from mcpx.errors import CallError, Code
from mcpx.rendering.results import read_resource_result, resource_value
from mcpx.rendering.suggest import unknown_resource, unknown_server, unknown_tool
from mcpx.upstream.actor import Upstream
from mcpx.upstream.context import Client
from mcpx.upstream.queue import RawReply
from mcpx.upstream.requests import NOBODY, Origin, ReadResource


class Registry:
    """What all servers offer, by name. Names are looked up exactly."""

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = upstreams

    # --- lookups that answer None

    def list_servers(self) -> list[ServerInfo]:
        """All configured servers as they are now, in the order of the configuration."""
        return [upstream.info() for upstream in self._upstreams.values()]

    def get_server_info(self, server_name: str) -> ServerInfo | None:
        """One server, or None."""
        upstream = self._upstreams.get(server_name)
        return upstream.info() if upstream else None

    def list_tools(self, server_name: str) -> list[ToolInfo]:
        """The tools of one server; empty for an unknown server, or before its first listing."""
        info = self.get_server_info(server_name)
        return list(info.tools.values()) if info else []

    def get_tool(self, server_name: str, tool_name: str) -> ToolInfo | None:
        """One tool, or None."""
        info = self.get_server_info(server_name)
        return info.tools.get(tool_name) if info else None

    def list_resources(self, server_name: str) -> list[ResourceInfo]:
        """The resources of one server; empty for an unknown server, or before its first listing."""
        info = self.get_server_info(server_name)
        return list(info.resources.values()) if info else []

    def list_all_resources(self) -> dict[str, list[ResourceInfo]]:
        """The resources of every server that has some, by server name."""
        found = {info.name: list(info.resources.values()) for info in self.list_servers()}
        return {name: resources for name, resources in found.items() if resources}

    def get_resource(self, server_name: str, uri: str) -> ResourceInfo | None:
        """One resource, or None."""
        info = self.get_server_info(server_name)
        return info.resources.get(uri) if info else None

    # --- lookups that must succeed

    def upstream(self, server_name: str) -> Upstream:
        """The actor's handle. Raises CallError `unknown_server`."""
        upstream = self._upstreams.get(server_name)
        if upstream is None:
            raise unknown_server(server_name, self.list_servers())
        return upstream

    def session(self, server_name: str, client: Client | None) -> Upstream:
        """What serves this client's calls: the server, or the client's own session with it.

        A program that uses MCPX as a library is no client (None).

        Raises:
            CallError: `unknown_server`, or `server_unavailable`: the client can have no session of its own.
        """
        upstream = self.upstream(server_name)
        if upstream.private is None or client is None or upstream.queue.closed:
            return upstream
        return upstream.private.get_or_open(client)

    def tool(self, server_name: str, tool_name: str) -> ToolInfo:
        """A tool that is to be used. Raises CallError: unknown server or tool, or not listed yet."""
        upstream = self.upstream(server_name)
        catalogue = upstream.catalogue
        tool = catalogue.tools.get(tool_name) if catalogue else None
        if tool is None:
            if upstream.catalogue is None:
                raise self._not_listed(upstream.info(), tool_name)
            raise unknown_tool(upstream.info(), tool_name, self.list_servers())
        return tool

    def _not_listed(self, info: ServerInfo, tool_name: str | None) -> CallError:
        text = info.refuse("has not told its tools yet")
        return CallError(Code.SERVER_UNAVAILABLE, text, server=info.name, tool=tool_name, details=info.why())

    # --- reading

    def submit_read(self, server_name: str, uri: str, reply: RawReply, origin: Origin = NOBODY) -> None:
        """Ask an upstream for a resource; `reply` gets the raw result.

        Raises:
            CallError: `unknown_server`, `unknown_resource`, `server_unavailable`, `overloaded`.
        """
        upstream = self.upstream(server_name)
        request = ReadResource(self.resolve_uri(upstream, uri), origin=origin)
        self.session(server_name, origin.client).submit(request, reply)

    def resolve_uri(self, upstream: Upstream, uri: str) -> str:
        """The URI to send to that server: as given, or its own where MCPX's name for it is given.

        Raises:
            CallError: `unknown_resource`; the URI must not be sent.
        """
        catalogue = upstream.catalogue
        if catalogue is None or (rejection := uri_rejection(uri, catalogue)) is None:
            return uri
        named = own_uri(uri)
        if named is not None and named[0] == upstream.name:
            uri = named[1]
            if (rejection := uri_rejection(uri, catalogue)) is None:
                return uri
        raise unknown_resource(upstream.info(), uri, rejection)

    async def read_resource(self, server_name: str, uri: str) -> Any:
        """A resource's content: text as a string, binary as `{uri, mime_type, blob}`, several as a list.

        Raises:
            CallError: As in `submit_read`, or whatever befell the request.
        """
        await self.upstream(server_name).await_catalogue()
        reply = RawReply()
        self.submit_read(server_name, uri, reply)
        raw = read_resource_result(await reply.wait(), server=server_name)
        return resource_value(raw, uri=uri, server=server_name)

"""The registry: the read side over all upstream actors' catalogues.

Answers from frozen snapshots, never from the network; only `read_resource` asks an upstream. Holds no data
of its own: what it gives is what the actors' state is at that moment. Public API, and so are the two lists
generated from it; the whole descriptions of the three tools, which share one budget, are made by
`mcpx.core.rendering.descriptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpx.core.calls.calls import ToolCalls
from mcpx.core.calls.names import find_server, list_servers, own_name
from mcpx.core.catalog.model import ResourceInfo, ToolInfo
from mcpx.core.catalog.naming import own_uri
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.uris import uri_rejection
from mcpx.core.protocol.messages import Read
from mcpx.core.rendering.descriptions import describe_resources, describe_tools
from mcpx.core.rendering.result_reading import read_resource_result
from mcpx.core.rendering.results import resource_value
from mcpx.core.servers.visible_server import VisibleServer


class Registry:
    """The offers of all servers, by name. Names are looked up exactly, aliases too."""

    def __init__(self, upstreams: Mapping[str, VisibleServer], calls: ToolCalls) -> None:
        self._upstreams = upstreams
        self._calls = calls

    # --- lookups that answer None

    def list_servers(self) -> list[ServerInfo]:
        """All servers as they are now, in the order of the configuration; none that is switched off."""
        return list_servers(self._upstreams)

    def get_server_info(self, server_name: str) -> ServerInfo | None:
        """One server, or None."""
        upstream = self._upstreams.get(own_name(self._upstreams, server_name))
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

    def server_with(self, uri: str) -> str:
        """The server that MCPX's form of a URI names, or the only one that lists the URI; "" for none."""
        if (named := own_uri(uri)) is not None:
            return named[0]
        listing = [info.name for info in self.list_servers() if uri in info.resources]
        return listing[0] if len(listing) == 1 else ""

    # --- lookups that must succeed

    def upstream(self, server_name: str) -> VisibleServer:
        """The actor's handle.

        Raises:
            CallError: `unknown_server`.
        """
        return find_server(self._upstreams, server_name)

    # --- reading

    def may_read(self, server_name: str, uri: str) -> bool:
        """Return True if there is such a server, and this URI may be sent to it."""
        upstream = self._upstreams.get(server_name)
        known = upstream.catalogue if upstream else None
        if upstream is None or known is None or uri_rejection(uri, known) is not None:
            return False
        return upstream.policy.admits_resource(uri, listed=uri in known.resources)

    async def read_resource(self, server_name: str, uri: str) -> Any:
        """A resource's content: text as a string, binary as `{uri, mime_type, blob}`, several as a list.

        Raises:
            CallError: `unknown_server`, `unknown_resource`, or the read failed.
        """

        def value(raw: msgspec.Raw) -> Any:
            return resource_value(read_resource_result(raw, server=server_name), uri=uri, server=server_name)

        return await self._calls.run(Read(server_name, uri), value)


DEFAULT_BUDGET: Final = 4000  # tokens


def generate_tools_description(registry: Registry, *, budget: int = DEFAULT_BUDGET) -> str:
    """Every server and its tools with a short line each, within `budget` tokens."""
    return describe_tools(registry.list_servers(), budget=budget)


def generate_resources_description(registry: Registry, *, budget: int = DEFAULT_BUDGET) -> str:
    """The resources of every server that has some, within `budget` tokens."""
    return describe_resources(registry.list_servers(), budget=budget)

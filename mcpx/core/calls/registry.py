"""The registry: the read side over all upstream actors' catalogues.

Answers from frozen snapshots, never from the network; only `read_resource` asks an upstream. Holds no data
of its own: what it gives is what the actors' state is at that moment. Public API, and so are the two lists
generated from it; the whole descriptions of the three tools, which share one budget, are made by
`mcpx.core.rendering.descriptions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mcpx.core.calls.calls import ToolCalls
from mcpx.core.calls.names import resolve_tool
from mcpx.core.catalog.model import Catalogue, ResourceInfo, ToolInfo
from mcpx.core.catalog.naming import own_uri
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.catalog.uris import UriRejection, uri_rejection
from mcpx.core.protocol.messages import Inspect, Read
from mcpx.core.rendering.descriptions import describe_resources, describe_tools
from mcpx.core.rendering.result_reading import read_resource_result
from mcpx.core.rendering.results import resource_value
from mcpx.core.rendering.suggest import unknown_resource, unknown_server, unknown_tool
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.errors import CallError


class Registry:
    """What all servers offer, by name. Names are looked up exactly, aliases too."""

    def __init__(self, upstreams: Mapping[str, VisibleServer], calls: ToolCalls) -> None:
        self._upstreams = upstreams
        self._calls = calls

    # --- lookups that answer None

    def list_servers(self) -> list[ServerInfo]:
        """All servers as they are now, in the order of the configuration; none that is switched off."""
        every = (upstream.info() for upstream in self._upstreams.values())
        return [info for info in every if info.state is not State.DISABLED]

    def get_server_info(self, server_name: str) -> ServerInfo | None:
        """One server, or None."""
        upstream = self._upstreams.get(self._calls.own_name(server_name))
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
        upstream = self._upstreams.get(self._calls.own_name(server_name))
        if upstream is None:
            raise unknown_server(server_name, self.list_servers())
        return upstream

    # --- reading

    def may_read(self, server_name: str, uri: str) -> bool:
        """Whether there is such a server, and this URI may be sent to it."""
        upstream = self._upstreams.get(server_name)
        known = upstream.catalogue if upstream else None
        if upstream is None or known is None or uri_rejection(uri, known) is not None:
            return False
        return upstream.policy.admits_resource(uri, listed=uri in known.resources)

    def resolve_uri(self, upstream: VisibleServer, uri: str) -> str:
        """The URI to send to that server: as given, or its own where MCPX's name for it is given.

        Raises:
            CallError: `unknown_resource`; the URI must not be sent.
        """
        catalogue = upstream.catalogue
        if (rejection := _rejection(upstream, catalogue, uri)) is None:
            return uri
        named = own_uri(uri)
        if named is not None and named[0] == upstream.name:
            uri = named[1]
            if (rejection := _rejection(upstream, catalogue, uri)) is None:
                return uri
        error = unknown_resource(upstream.info(), uri, rejection)
        error.rule = upstream.policy.rule_against_resource(uri)
        raise error

    async def read_resource(self, server_name: str, uri: str) -> Any:
        """A resource's content: text as a string, binary as `{uri, mime_type, blob}`, several as a list.

        Raises:
            CallError: `unknown_server`, `unknown_resource`, or the read failed.
        """

        def value(raw: msgspec.Raw) -> Any:
            return resource_value(read_resource_result(raw, server=server_name), uri=uri, server=server_name)

        return await self._calls.run(Read(server_name, uri), value)


def _rejection(upstream: VisibleServer, catalogue: Catalogue | None, uri: str) -> UriRejection | None:
    """Why this URI may not be sent to the server; None where it may."""
    if catalogue is not None:
        if uri in catalogue.resources:
            return None
        if (rejection := uri_rejection(uri, catalogue)) is not None:
            return rejection
    return None if upstream.policy.admits_resource(uri) else UriRejection.NOT_LISTED


DEFAULT_BUDGET: Final = 4000  # tokens


def generate_tools_description(registry: Registry, *, budget: int = DEFAULT_BUDGET) -> str:
    """Every server and its tools with a short line each, within `budget` tokens."""
    return describe_tools(registry.list_servers(), budget=budget)


def generate_resources_description(registry: Registry, *, budget: int = DEFAULT_BUDGET) -> str:
    """The resources of every server that has some, within `budget` tokens."""
    return describe_resources(registry.list_servers(), budget=budget)


# --- the tools that inspect is asked for, by the names that a model gave

MAX_TOOLS: Final = 20  # that are shown in one answer, and named as unchecked

Found = tuple[ServerInfo, ToolInfo]


def find_tools(registry: Registry, request: Inspect) -> tuple[list[Found], list[CallError]]:
    """The tools that are asked for, and an error for each one that there is not.

    Raises:
        CallError: There is none of them.
    """
    server, names = request.server_name, request.tool_names
    servers = registry.list_servers()
    if server and not names and registry.get_server_info(server) is None:
        names = ("",)  # it may be the name of a tool
    found: dict[tuple[str, str], Found] = {}
    problems: list[CallError] = []
    for name in names[:MAX_TOOLS]:
        for part in [name] if _is_one(servers, server, name) else name.split(","):
            try:
                info, tool = _find_tool(registry, servers, server, part.strip())
            except CallError as error:
                problems.append(error)
            else:
                found[info.name, tool.name] = info, tool
    if problems and not found:
        raise problems[0]
    return list(found.values())[:MAX_TOOLS], problems


def _is_one(servers: Sequence[ServerInfo], server: str, name: str) -> bool:
    """Whether a name is that of one tool, and not of several with commas between them."""
    return "," not in name or any(name in info.tools for info in servers if server in ("", info.name))


def _find_tool(registry: Registry, servers: Sequence[ServerInfo], server_name: str, tool_name: str) -> Found:
    try:
        server, tool = resolve_tool(servers, server_name, tool_name)
    except CallError:
        if not server_name:
            raise
        server, tool = server_name, tool_name
    upstream = registry.upstream(server)
    info = upstream.info()
    if tool not in info.tools:
        raise upstream.policy.refusal(tool) or unknown_tool(info, tool, servers)
    return info, info.tools[tool]

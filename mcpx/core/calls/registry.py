"""The faces of servers: the registry of what they offer and the calls to them; of all, or of a view.

A `Registry` answers from frozen snapshots, never from the network; only `read_resource` asks an upstream. It
holds no data of its own: what it gives is what the actors' state is at that moment. It is public API, and so
are the two lists generated from it; the whole descriptions of the three tools, which share one budget, are
made by `mcpx.core.rendering.descriptions`. `Faces` makes a registry and calls for any servers: all share one
checker of arguments, with its worker processes, and the forms that tools are shown in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from mcpx.core.calls.calls import ToolCalls
from mcpx.core.calls.inspection import CONFIG_ERROR, Inspector
from mcpx.core.calls.names import find_server, list_servers, own_name
from mcpx.core.calls.pipeline import Pipeline
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.sign_in_links import SignInLinks
from mcpx.core.catalog.model import ResourceInfo, ToolInfo
from mcpx.core.catalog.naming import own_uri
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.uris import uri_rejection
from mcpx.core.events.records import Records
from mcpx.core.events.search_history import SearchHistory
from mcpx.core.policy.approvals import Approvals
from mcpx.core.protocol.messages import Read
from mcpx.core.rendering.descriptions import describe_resources, describe_tools
from mcpx.core.rendering.result_reading import read_resource_result
from mcpx.core.rendering.results import resource_value
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.telemetry.tracing import Tracing
from mcpx.core.validation.arguments import ArgumentChecker
from mcpx.core.wire.workers.pool import WorkerPool

SEE_STATUS: Final = "mcpx status says why"  # the reason may name a server that is hidden


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
        listing = [info.name for info in self.list_servers() if info.lists(uri)]
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


class Faces:
    """Makes the registry of some servers and the calls to them; its own are those of `upstreams`, of all.

    `notes` and `history` are as for `Inspector`; `await_peers` waits until the
    servers of other MCPX are known.
    """

    def __init__(
        self,
        upstreams: Mapping[str, VisibleServer],
        results: ResultRenderer,
        *,
        approvals: Approvals,
        records: Records,
        links: SignInLinks,
        tracing: Tracing,
        notes: Callable[[], Mapping[str, str]],
        await_peers: Callable[[], Awaitable[None]],
        history: Callable[[], SearchHistory | None] = lambda: None,
    ) -> None:
        self._results = results
        self._approvals = approvals
        self._records = records
        self._links = links
        self._tracing = tracing
        self._notes = notes
        self._await_peers = await_peers
        self.workers = WorkerPool()
        """The processes for what would hold up the event loop."""
        self.checker = ArgumentChecker(self.workers)
        self.inspector = Inspector(upstreams, self.checker, results, notes=notes, history=history)
        self.calls = self._calls(upstreams, self.inspector)
        self.registry = Registry(upstreams, self.calls)

    def _hidden_notes(self) -> dict[str, str]:
        """The notes for clients who are not shown all: the problem of a file may name what is hidden."""
        return {key: SEE_STATUS if key == CONFIG_ERROR else text for key, text in self._notes().items()}

    def among(self, upstreams: Mapping[str, VisibleServer]) -> tuple[Registry, ToolCalls]:
        """Make the registry of these servers, and the calls to them and no others."""
        inspector = Inspector(
            upstreams,
            self.checker,
            self._results,
            notes=self._hidden_notes,
            forms=self.inspector.forms,
            history=self.inspector.history,
        )
        calls = self._calls(upstreams, inspector)
        return Registry(upstreams, calls), calls

    def _calls(self, upstreams: Mapping[str, VisibleServer], inspector: Inspector) -> ToolCalls:
        pipeline = Pipeline(upstreams, self.checker, self._approvals, self._records, self._tracing)
        return ToolCalls(
            upstreams,
            pipeline,
            inspector,
            self._results,
            approvals=self._approvals,
            records=self._records,
            links=self._links,
            await_peers=self._await_peers,
        )


DEFAULT_BUDGET: Final = 4000  # tokens


def generate_tools_description(registry: Registry, *, budget: int = DEFAULT_BUDGET) -> str:
    """Every server and its tools with a short line each, within `budget` tokens."""
    return describe_tools(registry.list_servers(), budget=budget)


def generate_resources_description(registry: Registry, *, budget: int = DEFAULT_BUDGET) -> str:
    """The resources of every server that has some, within `budget` tokens."""
    return describe_resources(registry.list_servers(), budget=budget)

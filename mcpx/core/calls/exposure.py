"""Exposure: the tools that clients are shown, by the three tools, natively under their own names, or both.

A client's own choice goes before the setting of a server (`expose`), and that before the one for all. What is
`pinned` is native for all clients. One `Exposure` serves all clients that have made the same choice. It is
made of the settings and catalogues in force, the last known ones for servers that are down, and made again
only when they change; looking up a native name costs one dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
import structlog

from mcpx.core.catalog.model import Diff, ToolInfo, is_read_only
from mcpx.core.catalog.naming import may_be_of, native_name, whole_name
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Config, ServerConfig
from mcpx.core.config.profiles import fits
from mcpx.core.events.costs import definitions_cost
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import NO_CONTEXT, RequestContext
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.system.endpoint import Expose

log = structlog.get_logger()


class Shown(msgspec.Struct, frozen=True):
    """The tools that clients are shown at a moment."""

    three: bool
    """Whether the three tools."""
    native: dict[str, ToolInfo]
    """The tools under their own names, in the order of their servers' names and of their own."""
    native_servers: frozenset[str]
    """The servers that are native alone: the descriptions of the three tools leave them out."""
    query_open_world: bool = True
    """Whether one of the read-only tools, which query runs, may reach beyond its server's own data."""
    apps: dict[str, ToolInfo] = {}
    """The tools for apps alone, as the native ones: of clients that show apps, and of no other."""

    def natively(self, *, with_apps: bool) -> dict[str, ToolInfo]:
        """Return the native tools, as a client is shown them that knows apps, or does not."""
        if not (with_apps and self.apps):
            return self.native
        named = {**self.native, **self.apps}
        return dict(sorted(named.items(), key=lambda each: (each[1].server_name, each[1].name)))

    def call_of(
        self,
        tool: ToolInfo,
        arguments: msgspec.Raw | bytes,
        context: RequestContext = NO_CONTEXT,
        given: msgspec.Raw | bytes = b"",
    ) -> Exec:
        """The request for `ToolCalls` that runs a native tool; `given` as in `Exec`."""
        return Exec(
            tool.server_name,
            tool.name,
            arguments,
            context,
            rest_as_resource=not self.three,
            fails_in_meta=has_output_schema(tool),
            given=given,
            for_app=tool.meta is not None and not tool.is_for_model,
        )


class Exposure:
    """The exposure of the clients of one choice; `choice` is None for those that have made none."""

    def __init__(
        self, choice: Expose | None, config: Callable[[], Config], upstreams: Mapping[str, VisibleServer]
    ) -> None:
        self._choice = choice
        self._config = config
        self._upstreams = upstreams
        self.last: Shown | None = None
        """What was shown last, unless that has changed since."""
        self._cost: tuple[dict[str, ToolInfo], int] | None = None

    @property
    def shown(self) -> Shown:
        """The tools shown now."""
        if self.last is None:
            self.last = self._make(self._config())
        return self.last

    def catalogue_changed(self, _server: str, _changed: Diff) -> None:
        """Discard what was shown: an observer of the hub, called when settings change, too."""
        self.last = None

    def described(self, servers: Iterable[ServerInfo]) -> list[ServerInfo]:
        """Select the servers that the descriptions of the three tools name."""
        aside = self.shown.native_servers
        return [server for server in servers if server.name not in aside]

    def cost_of_native(self) -> int:
        """The cost of the native tools to a client that lists them, in estimated tokens."""
        native = self.shown.native
        if self._cost is None or self._cost[0] is not native:
            tools = ((name, tool.description, tool.input_schema) for name, tool in native.items())
            self._cost = native, definitions_cost(tools)
        return self._cost[1]

    def unlisted(self, name: str) -> list[VisibleServer]:
        """The servers that have not listed yet, and may have the tool of that native name."""
        known = self._config().servers
        return [
            upstream
            for upstream in self._upstreams.values()
            if not upstream.has_listed
            and may_be_of(upstream.name, name)
            and (server := known.get(upstream.name)) is not None
            and (server.pinned or self._of(server) != "three")
        ]

    def app_tools(self, name: str) -> list[ToolInfo]:
        """Find the tools that the page of an app may mean: it knows them by their servers' own names."""
        known = (upstream.catalogue for upstream in self._upstreams.values())
        found = (each.tool(name) for each in known if each is not None and each.has_apps)
        return [tool for tool in found if tool is not None and tool.is_for_app]

    def _make(self, config: Config) -> Shown:
        enabled = [server for server in config.servers.values() if server.disabled is None]
        alone = frozenset(server.name for server in enabled if self._of(server) == "all")
        three = self._choice != "all" and (not enabled or len(alone) < len(enabled))
        named: dict[str, ToolInfo] = {}
        taken: set[str] = set()
        for tool in self._native_tools(config):
            name = native_name(tool.server_name, tool.name)
            if name in named:
                taken.add(name)
            named[name] = tool
        for name in taken:  # one in 2^48, or made on purpose: then neither has it
            log.warning("tool.name_taken", name=name, tool=named.pop(name).name)
        return Shown(
            three=three,
            native={name: tool for name, tool in named.items() if tool.is_for_model},
            apps={name: tool for name, tool in named.items() if not tool.is_for_model},
            native_servers=alone,
            query_open_world=self._read_only_open_world(config),
        )

    def _read_only_open_world(self, config: Config) -> bool:
        """Return True if some read-only tool may reach the open world, or may be listed yet."""
        for name, upstream in self._upstreams.items():
            server, known = config.servers.get(name), upstream.catalogue
            if server is None or server.disabled is not None:
                continue
            if known is None or any(_is_open_read(tool) for tool in known.tools.values()):
                return True
        return False

    def _native_tools(self, config: Config) -> Iterable[ToolInfo]:
        for name in sorted(self._upstreams):
            upstream, server = self._upstreams[name], config.servers.get(name)
            if server is None or server.disabled is not None or upstream.catalogue is None:
                continue
            tools = upstream.catalogue.every_tool()
            shows_all = self._of(server) != "three"
            chosen = [name for name, tool in tools.items() if shows_all or is_pinned(server, tool)]
            yield from (tools[each] for each in sorted(chosen))

    def _of(self, server: ServerConfig) -> Expose:
        return self._choice or server.expose


def has_output_schema(tool: ToolInfo) -> bool:
    """Return True if clients can be given the tool's output schema: theirs is always of an object."""
    return tool.output_schema is not None and tool.output_schema.get("type") == "object"


def _is_open_read(tool: ToolInfo) -> bool:
    return is_read_only(tool) and (tool.annotations or {}).get("openWorldHint") is not False


def is_pinned(server: ServerConfig, tool: ToolInfo) -> bool:
    """Return True if a tool of that server is native whatever is chosen."""
    return any(_fits(tool, pattern) for pattern in server.pinned)


def _fits(tool: ToolInfo, pattern: str) -> bool:
    """Return True if a pattern of `server.tool` fits the tool, by its server's name for it or by its own."""
    names = {tool.name, tool.own.name}
    return any(fits(whole_name(tool.server_name, name), pattern) for name in names)


def unused_pins(config: Config, upstreams: Mapping[str, VisibleServer]) -> list[str]:
    """The patterns that fit no tool, once all servers that they are for have listed."""
    fitting: dict[str, bool] = {}
    for server in config.servers.values():
        upstream = upstreams.get(server.name)
        if server.disabled is not None or upstream is None:
            continue
        known = upstream.catalogue
        for pattern in server.pinned:
            found = (
                known is None
                or known.generation == 0
                or any(_fits(tool, pattern) for tool in known.every_tool().values())
            )
            fitting[pattern] = fitting.get(pattern, False) or found
    return [pattern for pattern, found in fitting.items() if not found]


def unused_tools(config: Config, upstreams: Mapping[str, VisibleServer]) -> list[str]:
    """Remark on the tools in profiles that do not exist, once their server has listed."""
    return [
        f"profiles.{name}.tools: {server} has no tool that fits {pattern!r}"
        for name, profile in config.profiles.items()
        for server, rules in profile.servers_with_rules.items()
        if (upstream := upstreams.get(server)) is not None and upstream.catalogue is not None
        for pattern in (rules if isinstance(rules, tuple) else rules.patterns())
        if not any(
            fits(name, pattern)
            for tool in upstream.catalogue.every_tool().values()
            for name in (tool.name, tool.own.name)
        )
    ]

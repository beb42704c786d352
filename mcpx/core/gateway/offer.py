"""The offer of an endpoint to its clients before they call anything: the greeting, and the lists.

An `Offer` is made when the first client of its endpoint comes, and shared by all of them, whichever way they
came. It needs nothing of the SDK's server, whose import takes a fifth of a daemon's start and 10 MB: a client
that opens its session in the usual way is served by it alone (`mcpx.core.gateway.eras`), and the SDK's server
(`mcpx.core.gateway.server`) is loaded when a client of the endpoint asks for anything else. Both give the
same answers; a test holds them against each other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import msgspec

from mcpx.core.calls.exposure import Exposure
from mcpx.core.catalog.extensions import SKILLS, carried, united
from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.events.costs import definitions_cost
from mcpx.core.gateway.clients.handles import shows_apps
from mcpx.core.gateway.clients.identity import Connection, is_probe
from mcpx.core.gateway.clients.known_clients import chars_of, gets_structured_content_whole
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.native.lists import (
    LISTS,
    UNCACHED,
    NativeForm,
    definition,
    entries_page,
    list_entry,
    offered_as,
    tools_page,
)
from mcpx.core.gateway.native.lookup import Lookup
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.rendering.result_members import enveloped
from mcpx.core.system.endpoint import COUNTED_KEY, DEFAULT_ENDPOINT, SETTLED_KEY, Endpoint
from mcpx.core.telemetry.contained import containing
from mcpx.core.wire.envelope import SERVER_INFO_META_KEY
from mcpx.version import __version__

NAME: Final = "mcpx"
TITLE: Final = "MCPX"
SETTLED_TIMEOUT_S: Final = 60.0  # of a list that is to wait for all servers
DESCRIBED_TIMEOUT_S: Final = 3.0  # of the same list, for the descriptions of resources


if TYPE_CHECKING:
    from mcp.shared.dispatcher import DispatchContext
    from mcp.shared.transport_context import TransportContext

    Received = DispatchContext[TransportContext]
Params = Mapping[str, Any] | None


class Serving(Protocol):
    """Serves one stream connection by the SDK's server (`mcpx.core.gateway.endpoint_server`)."""

    async def request(self, context: Received, method: str, params: Params) -> dict[str, Any]: ...
    async def notification(self, context: Received, method: str, params: Params) -> None: ...
    async def modern_request(self, context: Received, method: str, params: Params) -> dict[str, Any]: ...
    async def modern_notification(self, context: Received, method: str, params: Params) -> None: ...


class SdkServer(Protocol):
    """The SDK's server of an endpoint."""

    def serving(self, connection: Connection) -> Serving:
        """Make what serves one connection."""


def declared_extensions(hub: HubView, *, modern: bool) -> dict[str, JSON]:
    """The extensions of the servers, as last listed, for clients of an era; settings where all have the same.

    Across eras only those work that MCPX carries. Skills are declared where resources are: they are read so.
    """
    found: dict[str, JSON] = {}
    for upstream in hub.upstreams.values():
        known = upstream.catalogue
        declared = {} if known is None else known.capabilities.get("extensions") or {}
        taken = declared if modern and upstream.era == "modern" else carried(declared)
        for name, settings in taken.items():
            if name != SKILLS or upstream.config.native or hub.endpoint.peer is not None:
                found[name] = united(name, found.get(name, settings), settings)
    return found


class Offer:
    """The offer of one endpoint. `load` gets the SDK's server of the same endpoint."""

    def __init__(
        self,
        hub: Hub,
        clients: ClientSessions,
        endpoint: Endpoint = DEFAULT_ENDPOINT,
        load: Callable[[Endpoint], Awaitable[SdkServer]] | None = None,
    ) -> None:
        self.clients = clients
        self.tool_list = clients.tool_list(endpoint)
        self.exposure = self.tool_list.exposure
        self.hub: HubView = self.tool_list.hub
        self.has_native = self.hub.has_native
        """Whether resources and prompts are declared, for as long as this offer lives."""
        about = {"name": NAME, "title": TITLE, "version": __version__}
        self.stamp: bytes = msgspec.json.encode({SERVER_INFO_META_KEY: about})
        """The `_meta` of results for clients of 2026-07-28."""
        self._about = about
        self._load = load
        self._server: SdkServer | None = None
        self._lookup = Lookup(self.hub, self.wait_for_servers)
        self._wait_until = self.hub.started + hub.config.startup_wait

    @property
    def opening(self) -> Offer | None:
        """Itself, if it opens sessions without the SDK's server, which has the spans of traced requests."""
        return None if self.hub.tracing.on else self

    def loaded_server(self) -> SdkServer | None:
        """Return the SDK's server of the endpoint, if it has been loaded."""
        return self._server

    async def load_server(self) -> SdkServer:
        """Return the SDK's server of the endpoint, which is imported for the first one."""
        if self._server is None:
            assert self._load is not None  # who makes an offer without it has the server already
            self._server = await self._load(self.hub.endpoint)
        return self._server

    # --- the greeting

    def greeting(self, revision: str, name: str) -> JSON:
        """The result of `initialize` for a client of that name, as the SDK's server gives it."""
        changes = self.hub.has_native
        capabilities: JSON = {"completions": {}, "logging": {}} if self.has_native else {"logging": {}}
        if self.has_native:
            capabilities["prompts"] = {"listChanged": changes}
            capabilities["resources"] = {"listChanged": changes, "subscribe": True}
        if extensions := declared_extensions(self.hub, modern=False):
            capabilities["extensions"] = extensions
        return {
            "capabilities": capabilities | {"tools": {"listChanged": True}},
            "instructions": self.tool_list.instructions(name),
            "protocolVersion": revision,
            "serverInfo": self._about,
        }

    # --- the list of tools

    async def wait_for_servers(self) -> None:
        """Wait until it is known what every server offers, or it has failed.

        But not beyond `startup_wait` after the start. Nor beyond it for the descriptions that MCPX makes of
        resources, without which the next list differs.
        """
        await self.hub.listed(self._wait_until - anyio.current_time())
        await self.hub.described(self._wait_until - anyio.current_time())

    async def wait_to_list(self, meta: Mapping[str, Any] | None) -> bool:
        """Wait for the servers before a list; whether it is paged. For a shim it is whole, to be compared."""
        asked = meta.get(SETTLED_KEY) if meta else None
        if asked:
            await self.hub.listed(SETTLED_TIMEOUT_S)
            await self.hub.described(DESCRIBED_TIMEOUT_S)
        else:
            await self.wait_for_servers()
        return asked is None

    async def list_tools(
        self, connection: Connection, meta: Mapping[str, Any] | None, cursor: str | None, stamp: bytes | None
    ) -> bytes:
        """The result of `tools/list` for the client of a connection, which is counted.

        Raises:
            MCPError: The cursor comes from no page of this list.
        """
        paged = await self.wait_to_list(meta)
        name = connection.client_name
        descriptions, native = self.tool_list.give(name, with_apps=shows_apps(connection))
        own = [] if descriptions is None else tools.tools(descriptions)
        whole = gets_structured_content_whole(self.hub.config.include_structured_content, name)
        form = NativeForm(with_output_schema=whole, mends=self.tool_list.mends(name), chars=chars_of(name))
        define = partial(definition, form=form)
        page = tools_page(own, native, cursor, define=define, paged=paged)
        if cursor is None:
            note_listing(self.hub, connection, meta, own, self.exposure)
        return enveloped(UNCACHED | page, stamp)

    # --- the lists of resources and prompts

    async def list_entries(self, method: str, meta: Mapping[str, Any] | None, cursor: str | None) -> bytes:
        """The result of a method of `LISTS` before 2026-07-28.

        Raises:
            MCPError: The cursor comes from no page of this list; or there is no such list.
        """
        paged = await self.wait_to_list(meta)
        kind = LISTS[method]
        entries = [(offered_as(info)[1], info) for info in self._lookup.entries(kind)]
        return enveloped(entries_page(kind.key, entries, cursor, entry=list_entry, paged=paged), None)


def note_listing(
    hub: HubView,
    connection: Connection,
    meta: Mapping[str, Any] | None,
    three: Iterable[JSON],
    exposure: Exposure,
) -> None:
    """Note a listing: of the three tools, where they are shown, and of all that are native.

    A shim that compares lists stands for its client: the menu of the session is what it lists now. The daemon
    before has counted that already, unless the client has read what an earlier daemon once said.
    """
    with containing("meter"):  # a fault of the meter costs no answer
        if is_probe(connection):
            return
        asked: Mapping[str, Any] = meta or {}
        cost = definitions_cost((tool["name"], tool["description"], tool["inputSchema"]) for tool in three)
        cost += exposure.cost_of_native()
        hub.meter.note_listing(
            connection.client,
            connection.client_name,
            cost,
            hub.upstreams,
            counted_before=asked.get(SETTLED_KEY) is True and asked.get(COUNTED_KEY) is not False,
        )

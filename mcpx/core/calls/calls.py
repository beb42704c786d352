"""Calls for those who wait for a result: programs, the command line, the page, and the paths of the SDK.

Each makes a request (`mcpx.core.protocol.messages`). It waits here for what a server lists first, goes down
`mcpx.core.calls.pipeline` as all requests do, and its result is rendered by the requester's function. What a
server or MCPX asks for meanwhile is obtained from the client (`mcpx.core.calls.asking`), and every failure is
a `CallError`. Who needs no task for a request, as the fast path of streams, hands it to `call`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import anyio
import msgspec
from msgspec.structs import replace

from mcpx.core.calls.asking import Render, Rounds, rendered
from mcpx.core.calls.inspection import Inspector
from mcpx.core.calls.names import (
    INSPECT_WAIT_S,
    await_first_listings,
    await_listing,
    not_listed,
    own_name,
    resolve_tool,
)
from mcpx.core.calls.pipeline import Pipeline
from mcpx.core.calls.recording import note_refused, noting_refusals
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.sign_in_links import SignInLinks
from mcpx.core.catalog.model import JSON
from mcpx.core.events.records import Records
from mcpx.core.policy.approvals import Approvals
from mcpx.core.protocol.context import ClientId, Origin
from mcpx.core.protocol.messages import Exec, Inspect, Read, Request, as_call_error, tool_of
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.rendering.results import ToolResult
from mcpx.core.servers.call_errors import SignInNeeded
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.validation.arguments import encode_arguments
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import CallError, Outcome
from supervisors import Reply

R = TypeVar("R")
ReportProgress = Callable[[float, float | None, str | None], None]
"""Called with what is done, the total where it is known, and a text. Must not raise."""


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call, as the upstream gave it and as the model gets it."""

    server_name: str
    tool_name: str
    raw: JSON
    """The upstream's result, unaltered: `{content, structuredContent?, isError?}`.

    Of one that is too large to be read, the essentials (`mcpx.core.rendering.large_results`)."""
    shaped: ToolResult

    @property
    def is_error(self) -> bool:
        """True if the tool itself reported a failure."""
        return self.shaped.is_error

    @property
    def as_it_came(self) -> ToolResult:
        """The result with the texts that the server gave."""
        return replace(self.shaped, content=self.raw.get("content") or self.shaped.content)

    @property
    def raw_data(self) -> Any:
        """The data for programs: the structured content as plain JSON, or else the text."""
        if self.shaped.structured_content is not None:
            return self.shaped.structured_content
        return _text(self.raw.get("content", []))

    @property
    def compressed_data(self) -> str:
        """The text for the model: TOON where that is smaller."""
        return _text(self.shaped.content)


class ToolCalls:
    """Sends requests down the pipeline, and turns what comes back into results and errors.

    `await_peers` waits, for a bounded time, for other MCPX that have not said yet which servers they have: a
    server that is not known may be one of theirs.
    """

    def __init__(
        self,
        upstreams: Mapping[str, VisibleServer],
        pipeline: Pipeline,
        inspector: Inspector,
        results: ResultRenderer,
        *,
        approvals: Approvals,
        records: Records,
        links: SignInLinks,
        await_peers: Callable[[], Awaitable[None]],
    ) -> None:
        self._upstreams = upstreams
        self._inspector = inspector
        self._results = results
        self._records = records
        self._await_peers = await_peers
        self.call = pipeline.send
        """Send a request, and go on: the reply gets the raw result, or a CallError."""
        self.rounds = Rounds(upstreams, approvals, records, links, self._result_of)
        """Obtains what a request lacks that was sent with `call`."""

    # --- for the paths of the gateway

    async def run(self, request: Request, render: Render[R]) -> R | JSON:
        """The rendered result; or the input requests of the server, for a client that takes them as a result.

        Waits for the server's first listing, if that is on its way.

        Raises:
            CallError: The request failed, or `render` says that it did.
            MCPError: From `render`.
        """
        try:
            try:
                return await rendered(render, await self._result_of(request))
            except InputRequired as need:
                return await self.rounds.provide_input(request, need, render)
        except (CallError, MCPError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever one result raises costs that call alone
            raise as_call_error(error, request) from None

    async def _result_of(self, request: Request) -> msgspec.Raw:
        upstream = await self._find(request.server_name)
        if upstream is not None:
            try:
                await await_listing(upstream, tool_of(request))
            except CallError as error:
                note_refused(self._records, request, error)
                raise
        reply: Reply[msgspec.Raw] = Reply()
        self.call(request, reply)
        return await reply.wait()

    async def _find(self, server_name: str) -> VisibleServer | None:
        """The server of that name, if there is one, now or as soon as the peers have said what they have."""
        if server_name not in self._upstreams:
            await self._await_peers()
        return self._upstreams.get(self.own_name(server_name))

    def own_name(self, server_name: str) -> str:
        """Return the name of the server that has this name or alias; the name as it is where none has."""
        return own_name(self._upstreams, server_name)

    async def resolve(self, server_name: str, tool_name: str) -> tuple[str, str]:
        """The server and the tool that are meant, as `resolve_tool` says; "" is a name that was not given.

        Waits for the first listing of that server, or of all that have not failed where it is not known.
        Those of a server that waits for a sign-in are returned as they are: the call itself says so.

        Raises:
            CallError: `invalid_arguments`: a name is missing, and the other one does not do;
                `server_unavailable`: the server has never listed its tools.
        """
        upstream = await self._find(server_name)
        if upstream is not None:
            server_name = upstream.name
            try:
                await await_listing(upstream, tool_name)
                if upstream.catalogue is None:
                    raise not_listed(upstream.info(), tool_name)
            except SignInNeeded:
                if not tool_name:
                    raise
                return server_name, tool_name
            if tool_name in upstream.catalogue.tools:
                return server_name, tool_name
        elif not (server_name and tool_name) or tool_name in self._upstreams:
            await await_first_listings(self._upstreams.values(), self._results.settings.startup_wait)
        servers = [each.info() for each in self._upstreams.values()]
        return resolve_tool(servers, server_name, tool_name)

    # --- for the command line and programs: each raises CallError where it fails

    async def inspect(
        self,
        server_name: str = "",
        tool_name: str | Sequence[str] | None = None,
        *,
        query: str = "",
        origin: Origin | None = None,
    ) -> ToolResult:
        """All servers, the tools of one, some of them whole, or what fits a query; from the cache.

        Waits, for a bounded time, for the first listing of the server that is named, or of all that a name
        or query may concern, while it is on its way.
        """
        names = (tool_name,) if isinstance(tool_name, str) else tuple(tool_name or ())
        await self._find(server_name)
        server_name = self.own_name(server_name)
        if server_name or names or query:
            only = server_name if server_name in self._upstreams else None
            concerned = self._upstreams.values() if only is None else [self._upstreams[only]]
            await await_first_listings(concerned, INSPECT_WAIT_S)
            if only is not None and names:
                with anyio.move_on_after(INSPECT_WAIT_S):
                    await self._upstreams[only].await_catalogue(lambda known: known.tools.keys() >= {*names})
        request = Inspect(server_name, names, query, origin)
        try:
            return await self._inspector.answer(request)
        except Exception as error:  # noqa: BLE001 - the boundary: a fault is the answer
            raise as_call_error(error, request, "router", Outcome.NOT_SENT) from None

    async def list_resources(self, server_name: str = "") -> ToolResult:
        """The resources of a server, or of all; from the cache."""
        await self._find(server_name)
        return self._inspector.resources(self.own_name(server_name))

    async def exec(
        self,
        server_name: str,
        tool_name: str,
        arguments: Any = None,
        on_progress: ReportProgress | None = None,
        *,
        client: ClientId | None = None,
        origin: Origin | None = None,
        read_only: bool = False,
        fresh: bool = False,
    ) -> ExecutionResult:
        """Run a tool; with `read_only`, one that is read-only, and no other; with `fresh`, from no cache.

        A failure that the tool itself reports is a result, not an exception.
        """

        def progressed(members: bytes) -> None:
            if on_progress is not None and (step := envelope.read_step(members)) is not None:
                on_progress(step.progress, step.total, step.message)

        with noting_refusals(self._records, "tool", server_name, tool_name, origin):
            server_name, tool_name = await self.resolve(server_name, tool_name)
            encoded = encode_arguments(arguments, server=server_name, tool=tool_name)
        on_step = progressed if on_progress else None
        context = RequestContext(client=client, on_progress=on_step, origin=origin, fresh=fresh)

        def render(result: msgspec.Raw) -> ExecutionResult:
            raw, shaped = self._results.tool(result, server=server_name, whole=True)
            return ExecutionResult(server_name=server_name, tool_name=tool_name, raw=raw, shaped=shaped)

        request = Exec(server_name, tool_name, encoded, context, read_only=read_only)
        result = await self.run(request, render)
        return cast("ExecutionResult", result)  # there is no caller that could get input requests

    async def read(
        self, server_name: str, uri: str, *, client: ClientId | None = None, origin: Origin | None = None
    ) -> ToolResult:
        """Read a resource."""

        def render(raw: msgspec.Raw) -> ToolResult:
            return self._results.resource(raw, uri=uri, server=server_name, whole=True)

        server_name = self.own_name(server_name)
        context = RequestContext(client=client, origin=origin)
        return cast("ToolResult", await self.run(Read(server_name, uri, context), render))


class Executor:
    """Runs tools for programs: a face of `ToolCalls`."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls

    async def execute(self, server_name: str, tool_name: str, arguments: Any = None) -> ExecutionResult:
        """Run one tool and wait for its result.

        `arguments` is an object, a JSON string that holds one, or None for no arguments.

        Raises:
            CallError: With code and outcome. A failure that the tool itself reports is a result.
        """
        return await self._calls.exec(server_name, tool_name, arguments)


def _text(content: list[JSON]) -> str:
    return "\n".join(block["text"] for block in content if block.get("type") == "text")

"""Calls: the one way for every request to a server.

A client on a stream (`mcpx.core.gateway.frontends.fast_path`), the SDK's server
(`mcpx.core.gateway.sdk_path`), the command line and programs each make a request
(`mcpx.core.protocol.messages`), and hand it to `ToolCalls`. From there on all take the same way: the router
actor checks the request and puts it into its server's queue, the requester's function renders the result,
input that the server requires is obtained from the client, and every failure is a `CallError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
import msgspec
from mcp import MCPError
from msgspec.structs import replace

from mcpx.core.calls.asking import input_requests, obtain_approval, obtain_input
from mcpx.core.calls.auditing import note_question, note_refused, noting_refusals
from mcpx.core.calls.execution import ExecutionResult
from mcpx.core.calls.names import (
    INSPECT_WAIT_S,
    await_first_listings,
    await_listing,
    not_listed,
    resolve_tool,
)
from mcpx.core.calls.results.large import Apart
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.sign_in_links import SignInLinks
from mcpx.core.catalog.model import JSON
from mcpx.core.events.audit.audit import Audit
from mcpx.core.policy.approvals import Approvals
from mcpx.core.policy.questions import ApprovalRequired
from mcpx.core.protocol.context import ClientId, Origin
from mcpx.core.protocol.messages import (
    Exec,
    Inspect,
    ListResources,
    Message,
    Read,
    Request,
    as_call_error,
    tool_of,
)
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.rendering.results import ToolResult
from mcpx.core.servers.call_errors import SignInNeeded, without_link
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.validation.arguments import encode_arguments
from mcpx.core.wire import envelope
from mcpx.errors import CallError, Code
from supervisors import Reply, SupervisorError

R = TypeVar("R")
ReportProgress = Callable[[float, float | None, str | None], None]
"""Called with what is done, the total where it is known, and a text. Must not raise."""

MAX_INPUT_ROUNDS: Final = 10  # as in the SDKs


class Requests(Protocol):
    """What takes requests: the reference of the router."""

    def request(self, message: Message, reply: Reply[Any]) -> object:
        """As `ActorRef.request`."""
        ...


Render = Callable[[msgspec.Raw], R | Apart[R]]
"""Makes something of a result; a large one apart."""


async def _rendered(render: Render[R], raw: msgspec.Raw) -> R:
    made = render(raw)
    return await made if isinstance(made, Apart) else made


class ToolCalls:
    """Sends requests to the router, and turns what comes back into results and errors.

    `await_peers` waits, for a bounded time, for other MCPX that have not said yet which servers they have: a
    server that is not known may be one of theirs.
    """

    def __init__(
        self,
        upstreams: Mapping[str, VisibleServer],
        router: Requests,
        results: ResultRenderer,
        approvals: Approvals,
        audit: Audit,
        *,
        links: SignInLinks,
        await_peers: Callable[[], Awaitable[None]],
    ) -> None:
        self._upstreams = upstreams
        self._router = router
        self._results = results
        self._approvals = approvals
        self._audit = audit
        self._links = links
        self._await_peers = await_peers

    # --- for the paths of the gateway

    def call(self, message: Message, reply: Reply[Any]) -> None:
        """Hand a message to the router and go on; `reply` gets the raw result, or a CallError."""
        try:
            self._router.request(message, reply)
        except SupervisorError as error:  # flooded, or on its way out
            text = f"MCPX takes no more requests ({error}); nothing was sent, try again later"
            refusal = CallError(Code.OVERLOADED, text, server=message.server_name)
            note_refused(self._audit, message, refusal)
            reply.reject(refusal)

    async def run(self, request: Request, render: Render[R]) -> R | JSON:
        """The rendered result; or the input requests of the server, for a client that takes them as a result.

        Waits for the server's first listing, if that is on its way.

        Raises:
            CallError: The request failed, or `render` says that it did.
            MCPError: From `render`.
        """
        try:
            try:
                return await _rendered(render, await self._result_of(request))
            except InputRequired as need:
                return await self.provide_input(request, need, render)
        except (CallError, MCPError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever one result raises costs that call alone
            raise as_call_error(error, request) from None

    async def provide_input(self, request: Request, need: InputRequired, render: Render[R]) -> R | JSON:
        """What follows where the server asks for input, or a person has to agree to the call.

        A client of 2026-07-28 gets the input requests as its result. An older one is asked, and the request
        repeated with its answers until there is a result; that is rendered.

        Raises:
            CallError: The client cannot be asked, refuses, or takes longer than `call_timeout` for a round;
                the server never stops asking; or the repeated request failed.
        """
        caller, upstream = request.context.caller, self._upstreams.get(request.server_name)
        if caller is None or upstream is None:
            raise need
        answers = request.context.answers
        if isinstance(need, SignInNeeded):
            return await self._when_signed_in(request, need, render)
        need = self._approvals.continued(answers, need)
        from_mcpx = upstream.config.is_remote_mcpx
        if caller.modern:
            requests = input_requests(need, caller, from_mcpx=from_mcpx)
            return dict(need.result) | ({"inputRequests": requests} if requests else {})
        for round_number in range(MAX_INPUT_ROUNDS + isinstance(need, ApprovalRequired)):
            if isinstance(need, ApprovalRequired):
                answers = await obtain_approval(self._approvals, need, caller)
            else:
                timeout = upstream.config.call_limits.call_timeout
                requests = input_requests(need, caller, from_mcpx=from_mcpx)
                answers = await obtain_input(
                    need, requests, caller, timeout_s=timeout, round_number=round_number
                )
            repeated = replace(request, context=replace(request.context, answers=answers))
            self._note_same(request, repeated)
            try:
                return await _rendered(render, await self._result_of(repeated))
            except SignInNeeded as again:
                return await self._when_signed_in(repeated, again, render)
            except InputRequired as again:
                need = self._approvals.continued(answers, again)
        rounds = f"{need.server} asked for input {MAX_INPUT_ROUNDS} times"
        text = f"{rounds} without a result; it may have taken effect"
        raise CallError(Code.UPSTREAM_ERROR, text, server=need.server)

    async def _when_signed_in(self, request: Request, need: SignInNeeded, render: Render[R]) -> R | JSON:
        """What follows where a person has to sign in first; or the link by which they can, as a result.

        Raises:
            CallError: They have not signed in, or the call that was sent then failed.
        """
        context, upstream = request.context, self._upstreams[request.server_name]
        asked = await self._links.obtain(
            need, upstream, context.caller, client=context.client, answers=context.answers
        )
        note_question(self._audit, request, is_answered=asked is None)
        if asked is not None:
            return asked
        repeated = replace(request, context=replace(context, answers=without_link(context.answers)))
        self._note_same(request, repeated)
        request = repeated
        try:
            return await _rendered(render, await self._result_of(request))
        except SignInNeeded:
            raise  # once is enough
        except InputRequired as again:
            return await self.provide_input(request, again, render)

    def _note_same(self, request: Request, repeated: Request) -> None:
        """Tell who watches that a request goes on as another one."""
        if self._audit.watch is not None:
            self._audit.watch.same(request, repeated)

    async def _result_of(self, request: Request) -> msgspec.Raw:
        upstream = await self._find(request.server_name)
        if upstream is not None:
            try:
                await await_listing(upstream, tool_of(request))
            except CallError as error:
                note_refused(self._audit, request, error)
                raise
        raw: msgspec.Raw = await self._reply_to(request)
        return raw

    async def _find(self, server_name: str) -> VisibleServer | None:
        """The server of that name, if there is one, now or as soon as the peers have said what they have."""
        if server_name not in self._upstreams:
            await self._await_peers()
        return self._upstreams.get(self.own_name(server_name))

    def own_name(self, server_name: str) -> str:
        """The name of the server that has this name or alias; the name as it is where none has."""
        if server_name in self._upstreams:
            return server_name
        return next(
            (own for own, each in self._upstreams.items() if server_name in each.policy.aliases), server_name
        )

    async def _reply_to(self, message: Message) -> Any:
        reply: Reply[Any] = Reply()
        self.call(message, reply)
        return await reply.wait()

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
        self, server_name: str = "", tool_name: str | Sequence[str] | None = None, *, query: str = ""
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
        shaped: ToolResult = await self._reply_to(Inspect(server_name, names, query))
        return shaped

    async def list_resources(self, server_name: str = "") -> ToolResult:
        """The resources of a server, or of all; from the cache."""
        await self._find(server_name)
        shaped: ToolResult = await self._reply_to(ListResources(self.own_name(server_name)))
        return shaped

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
    ) -> ExecutionResult:
        """Run a tool; with `read_only`, one that is read-only, and no other.

        A failure that the tool itself reports is a result, not an exception.
        """

        def progressed(members: bytes) -> None:
            if on_progress is not None and (step := envelope.read_step(members)) is not None:
                on_progress(step.progress, step.total, step.message)

        with noting_refusals(self._audit, "tool", server_name, tool_name, origin):
            server_name, tool_name = await self.resolve(server_name, tool_name)
            encoded = encode_arguments(arguments, server=server_name, tool=tool_name)
        context = RequestContext(
            client=client, on_progress=progressed if on_progress else None, origin=origin
        )

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

"""Which session with the server serves a request, and whether the request may be sent twice.

The first `initialize` that the server accepts settles the era of a client with a session. Before that, a
request with the envelope of 2026-07-28 goes to the session that all clients of that revision share.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.config import ServerConfig
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.events.records import Record
from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.transparent.answers import Answers, Pictures
from mcpx.core.gateway.transparent.questions import Asker, Questions, approval_request
from mcpx.core.gateway.transparent.requests import (
    AUDITED,
    NAMELESS,
    TOOLS_CALL,
    Subject,
    as_call_error,
    begin,
    error_in,
    observe,
    origin_of,
    to_answer,
    to_mcp_error,
    traced,
)
from mcpx.core.gateway.transparent.rules import Enforcement, Offered
from mcpx.core.policy.questions import ApprovalRequest
from mcpx.core.protocol.context import SESSIONLESS, ClientId, InputAnswers, Origin, Transport
from mcpx.core.protocol.requests import Passed, Peer
from mcpx.core.servers.admission import is_safe
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.client import DirectClient
from mcpx.core.servers.passthrough.messages import error_answer, members_of, result_of, value_of
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import (
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    MCPError,
    RequestId,
)
from mcpx.errors import Outcome

DISCOVER: Final = "server/discover"
_VERSION_KEY: Final = PROTOCOL_VERSION_META_KEY.encode()


def is_modern(method: str, params: msgspec.Raw | bytes) -> bool:
    """Return True for a request of 2026-07-28: it has the envelope, or asks for the server's revisions."""
    if method == DISCOVER:
        return True
    if _VERSION_KEY not in bytes(params) or method == "initialize":
        return False
    return PROTOCOL_VERSION_META_KEY in members_of(members_of(params).get("_meta", msgspec.Raw()))


def refusal_of(request: Passed, config: ServerConfig, *, modern: bool) -> MCPError | None:
    """Answer for a server that may be spoken to in one era only; None where the server is asked.

    Of another MCPX every endpoint speaks both: that it is spoken to in the modern one is our own choice.
    """
    era = "auto" if config.peer is not None and config.era == "modern" else config.era
    if era == "handshake" and modern:
        return MCPError(METHOD_NOT_FOUND, "Method not found", request.method)
    if era == "modern" and request.method == "initialize":
        supported = {"supported": list(MODERN_PROTOCOL_VERSIONS)}
        return MCPError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", supported)
    return None


SAFE: Final = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/directory/read",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "skills/get",
        "skills/list",
        "tasks/get",
        "tasks/list",
        "tools/list",
    }
)
"""Methods whose requests do no harm if they are sent once more after a lost connection."""
UNCOUNTED: Final = frozenset({"initialize", "ping", "server/discover"})
"""Methods whose requests do not count for `limits.calls_per_minute`."""


class TransparentSessions:
    """The sessions of one server, for the clients of its transparent endpoint.

    With a `bearer` they are those of its token: its profile narrows what there is, and its clients without a
    session share none with others.
    """

    def __init__(self, hub: Hub, server: str, transport: Transport, bearer: Bearer | None = None) -> None:
        self.server = server
        self._bearer = bearer
        self._sessionless = hub.fleet.direct.sessionless if bearer is None else bearer.direct
        self._hub = hub
        self._token = None if bearer is None else bearer.token
        self._transport: Transport = transport
        self._view = HubView(hub, Endpoint(profile=None if bearer is None else bearer.token.profile))
        self._questions = Questions(hub, server)
        offered = Offered(server, lambda: self._view.upstreams.get(server))
        self._pictures = Pictures(hub, server)
        self._answers = Answers(offered, partial(hub.fleet.pins_changed, server))
        self._rules = Enforcement(offered, lambda: offered.is_listed or self._answers.pinned.compared)
        self._offered = offered

    def submit(self, client: DirectClient | None, request: Passed, reply: RawReply) -> None:
        """Send or queue a request; `client` is None for one without a session. Never raises.

        The reply gets a `CallError` with the outcome `not_sent` where there is no such server, it is not
        available, or there is nothing there by the name that the request has.
        """
        if self._hub.tracing.on:
            request = self._traced(client, request, reply)
        modern = is_modern(request.method, request.raw)
        asker = Asker(request, client, self._sessionless if client is None else client, modern)
        send = partial(self._submit_or_reject, asker)
        if self._questions.may_sign_in(request):
            self._questions.submit(request, reply, send=send, asker=asker)
        else:
            send(request, reply)

    def _submit_or_reject(self, asker: Asker, request: Passed, reply: RawReply) -> None:
        try:
            self._submit(asker, request, reply)
        except Exception as error:  # noqa: BLE001 - the boundary: one request must not cost the connection
            reply.reject(as_call_error(error, self.server, request.method, Outcome.NOT_SENT))
        finally:
            self._rules.forget()

    def _submit(self, asker: Asker, request: Passed, reply: RawReply) -> None:
        client = asker.session
        if client is not None:
            client.note_request(request.method, request.raw)
        record = self._audit(client, request, reply)
        if (address := self._pictures.kept(request, self._identity(client))) is not None:
            read = partial(self._pictures.read, address, request, self._identity(client), modern=asker.modern)
            self.spawn(lambda: self._resolve(reply, self.made(request, read)))
            return
        upstream = self._view.registry.upstream(self.server)
        if upstream.queue.closed or upstream.config.disabled is not None:
            raise upstream.queue.unavailable(request)
        if (refusal := refusal_of(request, upstream.config, modern=asker.modern)) is not None:
            reply.resolve(error_answer(refusal))
            return
        session = client if client is not None and (client.greeted or not asker.modern) else None
        version = MODERN_PROTOCOL_VERSIONS[-1] if asker.modern else (client and client.version) or ""

        def send(agreed: Passed) -> None:
            guarded = self._rules.guarded(agreed, version=version, agreed=agreed is not request)
            self._send(session, guarded, reply)

        def judge(answers: InputAnswers | None = None) -> None:
            subject = self._rules.admitted(request, version=version)
            call = None if subject.tool is None else self._approval_request(asker, request, subject, answers)
            if call is None:
                send(request)
            else:
                self._questions.admit(
                    call, request, reply, send=send, again=judge, asker=asker, record=record
                )

        judge()

    def _approval_request(
        self, asker: Asker, request: Passed, subject: Subject, answers: InputAnswers | None
    ) -> ApprovalRequest | None:
        """Return a call as a person is asked about it, if they are; with the `answers` of its client."""
        upstream = self._view.registry.upstream(self.server)
        return approval_request(
            request,
            subject,
            self._offered.forms_of(subject.tool or ""),
            upstream.policy,
            asker,
            for_all=self._token is None,
            asks_likewise=upstream.config.is_remote_mcpx,
            answers=answers,
        )

    def _send(self, client: DirectClient | None, request: Passed, reply: RawReply) -> None:
        """Send or queue a request in the session of its client, or in the one of those that have none."""
        upstream = self._hub.upstreams[self.server]
        if request.method not in UNCOUNTED:
            upstream.rate.admit(request.tool)
        who = self._sessionless if client is None else client
        if client is None and upstream.per_client:
            who = who.of_name(self._origin(None, request).name or "")
        if self._token is not None:
            who.profile, who.token = self._token.profile, self._token.name
        self._hub.fleet.direct.get_or_open(upstream, who).submit(request, reply)

    def _traced(self, client: DirectClient | None, request: Passed, reply: RawReply) -> Passed:
        upstream = self._hub.upstreams.get(self.server)
        return traced(
            self._hub.tracing,
            request,
            reply,
            server=self.server,
            transport=None if upstream is None else upstream.config.transport,
            origin=self._origin(client, request),
        )

    def _origin(self, client: DirectClient | None, request: Passed) -> Origin:
        about = b"" if client is None else client.about
        return origin_of(self._transport, about, request.raw, self._token)

    def fitting(
        self, client: DirectClient | None, request: Passed, answer: msgspec.Raw
    ) -> Callable[[], Awaitable[msgspec.Raw]] | None:
        """Return what makes the pictures in an answer fit for its client; None where it goes as it is."""
        if not self._pictures.may_be_in(request, answer):
            return None
        identity = self._identity(client)
        if self._pictures.kept(request, identity) is not None:  # an original
            return None
        return self._pictures.fitting(answer, self._origin(client, request).name, identity)

    def _identity(self, client: DirectClient | None) -> ClientId:
        """The owner of kept results: without a session, all with the same token are one."""
        if client is not None:
            return client.identity
        return SESSIONLESS if self._bearer is None else self._bearer.sessionless

    async def _resolve(self, reply: RawReply, made: Awaitable[msgspec.Raw]) -> None:
        reply.resolve(await made)

    async def made(self, request: Passed, make: Callable[[], Awaitable[msgspec.Raw]]) -> msgspec.Raw:
        """The answer that is made, or why it cannot be. Never raises."""
        try:
            return await make()
        except Exception as error:  # noqa: BLE001 - the boundary: a picture may only cost its answer
            return to_answer(as_call_error(error, self.server, request.method))

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run what answers a request that no task waits for; whether it can be. It must not raise."""
        return self._hub.links.spawn(work)

    async def answer(self, client: DirectClient | None, request: Passed) -> dict[str, Any]:
        """The result of a request, enclosed (`mcpx.core.wire.enclosed`).

        Raises:
            MCPError: The server's error, or that of MCPX.
        """
        reply = RawReply()
        try:
            self.submit(client, request, reply)
            answer = self.shown(request, await reply.wait())
            if (fit := self.fitting(client, request, answer)) is not None:
                answer = await self.made(request, fit)
        except Exception as error:  # noqa: BLE001 - the boundary: one request must not cost the session
            raise to_mcp_error(as_call_error(error, self.server, request.method)) from None
        result = result_of(answer)
        if result is None:
            raise error_in(answer)
        return enclose([bytes(result)])

    def _audit(self, client: DirectClient | None, request: Passed, reply: RawReply) -> Record | None:
        """Have a request and its end written to the audit log.

        Raises:
            CallError: It must be, and cannot.
        """
        if request.method not in AUDITED:
            return None
        origin = self._origin(client, request)
        named = self._rules.named(request)
        subject = named if isinstance(named, Subject) else NAMELESS
        record = begin(
            self._hub.records, self.server, request.method, subject, origin, trace=request.context.trace
        )
        observe(record, reply, self.server)
        return record

    def shown(self, request: Passed, answer: msgspec.Raw) -> msgspec.Raw:
        """Return the answer of the server as its client gets it. Never raises."""
        try:
            return self._questions.continued(request, self._answers.shown(request, answer))
        except Exception as error:  # noqa: BLE001 - the boundary: whatever a server says may only cost its answer
            return to_answer(as_call_error(error, self.server, request.method))

    def admits_notification(self, method: str, params: msgspec.Raw) -> bool:
        """Return True if a notification of the server may go to the client."""
        return self._answers.admits(method, params)

    def schema_of(self, tool: str) -> dict[str, Any] | None:
        """The schema of a tool's arguments; None where it is not known, or the tool is not shown."""
        upstream = self._view.upstreams.get(self.server)
        if upstream is None or not upstream.policy.admits_tool(tool):
            return None
        return self._hub.fleet.direct.schemas(self.server).of(tool)

    def notify(self, client: DirectClient, method: str, params: msgspec.Raw) -> None:
        """Pass a notification of a client on; dropped where it has no session, or the server is away.

        One by the name of a request that asks for something is dropped, too.
        """
        if self._rules.drops(method):
            return
        client.note_notification(method, params)
        upstream = self._hub.upstreams.get(self.server)
        session = None if upstream is None else upstream.direct.get(client)
        if session is not None:
            session.notify(method, params)

    def leave(self, client: DirectClient) -> None:
        """End what belongs to a client that has left."""
        client.connected = False
        self._questions.client_left(client)
        self._hub.fleet.direct.leave(client)

    def request(self, method: str, params: msgspec.Raw | bytes, key: RequestId, origin: Peer) -> Passed:
        """Make the request for the session."""
        tool = None
        if method == TOOLS_CALL:
            named = value_of(members_of(params).get("name"))
            tool = named if isinstance(named, str) else None
        safe = self._is_safe(tool) if method == TOOLS_CALL else method in SAFE
        return Passed(method=method, raw=params, id=key, origin=origin, tool=tool, safe=safe)

    def _is_safe(self, tool: str | None) -> bool:
        """Return True if the tool says of itself that running it twice does no harm."""
        upstream = self._hub.upstreams.get(self.server)
        known = upstream.catalogue if upstream is not None else None
        found = known.tool(tool) if known is not None and tool is not None else None
        return found is not None and is_safe(found)

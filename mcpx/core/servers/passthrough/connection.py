"""One open connection of a direct session.

Ids and progress tokens are the client's own. Where another client's are the same, on a session that clients
share, they are replaced on the way out and restored on the way back.

It is the `Sender` of the session's calls, and takes what the server sends of its own accord. A message of the
server goes to the request that it names, or on whose stream it came; else to the client of the session, or,
where all clients of 2026-07-28 share it, to those with a request open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from mcpx.core.catalog.lists import TOOLS
from mcpx.core.config import ServerConfig
from mcpx.core.config.redaction import OwnMessages
from mcpx.core.protocol.requests import Cancel, OnAnswer, OnProgress, Passed, Peer, Request
from mcpx.core.servers.call_errors import call_error
from mcpx.core.servers.in_flight import Sent
from mcpx.core.servers.passthrough.carriers import Carrier, ToolSchemas
from mcpx.core.servers.passthrough.client import INITIALIZE, DirectClient, Standing
from mcpx.core.servers.passthrough.messages import (
    CANCELLED,
    PROGRESS,
    TOKEN,
    Prepared,
    error_answer,
    members_of,
    prepare,
    result_answer,
    subscription_of,
    value_of,
    with_member,
)
from mcpx.core.servers.relay.clients import LOG
from mcpx.core.servers.transport.exchange import StreamLeft
from mcpx.core.servers.transport.link import Link
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import (
    INTERNAL_ERROR,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    MCPError,
    RequestId,
    coerce_request_id,
)
from mcpx.core.wire.outgoing import ConnectionEnded, settling
from mcpx.core.wire.outgoing import OnAnswer as OnRawAnswer
from mcpx.errors import CallError

MAX_OPEN_REQUESTS: Final = 256
_TOO_MANY: Final = MCPError(INTERNAL_ERROR, f"{MAX_OPEN_REQUESTS} requests of this server are open")
_NO_CLIENT: Final = MCPError(METHOD_NOT_FOUND, "Method not found")


class ServerRequests:
    """Requests of the server that its client has not answered, by the server's ids."""

    def __init__(self) -> None:
        self._open: dict[RequestId, Cancel] = {}

    def __len__(self) -> int:
        return len(self._open)

    def ask(
        self, peers: Sequence[Peer], server_id: RequestId, method: str, params: msgspec.Raw, answer: OnAnswer
    ) -> None:
        """Pass a request on to the one peer that there is, and its answer back."""
        if len(peers) != 1 or len(self._open) >= MAX_OPEN_REQUESTS:
            answer(error_answer(_TOO_MANY if peers else _NO_CLIENT))
            return
        key = coerce_request_id(server_id)

        def answered(said: msgspec.Raw) -> None:
            if self._open.pop(key, None) is not None:
                answer(said)

        self._open[key] = lambda _params: None
        cancel = peers[0].ask(method, params, answered)
        if key in self._open:
            self._open[key] = cancel

    def cancel(self, params: msgspec.Raw) -> None:
        """The server has cancelled a request; `params` are those of its notification."""
        server_id = value_of(members_of(params).get("requestId"))
        if isinstance(server_id, int | str) and (
            cancel := self._open.pop(coerce_request_id(server_id), None)
        ):
            cancel(params)

    def close(self) -> None:
        """Cancel all: the connection has ended."""
        opened, self._open = self._open, {}
        for server_id, cancel in opened.items():
            cancel(msgspec.Raw(envelope.encode({"requestId": server_id, "reason": "the server has ended"})))


_LOG_LEVEL: Final = LOG_LEVEL_META_KEY.encode()
OWN_PREFIX: Final = "mcpx-"
"""The ids and tokens of MCPX's own at the server begin with it."""


class _Sent(NamedTuple):
    """A request of the client that is open at the server."""

    request: Passed
    prepared: Prepared
    on_progress: OnProgress


class DirectConnection:
    """Sends and takes messages from `open` until the link ends."""

    carrier: Carrier

    def __init__(
        self,
        client: DirectClient,
        link: Link,
        config: ServerConfig,
        schemas: ToolSchemas,
        agreed: Callable[[], None],
        *,
        own_messages: OwnMessages,
    ) -> None:
        """`agreed` is called when the server has accepted the client's `initialize`."""
        self._own_messages = own_messages
        self._client = client
        self._server = config.name
        self._link = link
        self._schemas = schemas
        self._greeting_timeout = config.call_limits.connect_timeout
        self._greeting: asyncio.TimerHandle | None = None
        self.agreed = agreed
        self.has_served = False
        """True if any request of the client had a result."""
        self._last_id = 0
        self._open: dict[RequestId, _Sent] = {}  # by the id at the server
        self._tokens: dict[int | str, RequestId] = {}
        self._standing: dict[RequestId, Standing] = {}
        self._server_requests = ServerRequests()

    @property
    def is_idle(self) -> bool:
        """True if nothing of the client is open at the server."""
        return not self._open

    @property
    def is_asking(self) -> bool:
        """True if a request of the server waits for its client."""
        return bool(len(self._server_requests))

    # --- the sender of the calls

    def send(self, request: Request, on_answer: OnRawAnswer, on_progress: OnProgress) -> Sent:
        if not isinstance(request, Passed):
            raise TypeError(f"a direct session takes no {type(request).__name__}")
        request = request.as_admitted()
        request_id = self._register(request, on_progress)

        def answered(result: msgspec.Raw | None, error: Exception | None) -> None:
            self._forget(request_id)
            if result is not None:
                self.has_served = True
                self._client.note_result(request.method, request.raw, result)
                if request.method == INITIALIZE:
                    self.agreed()
                elif request.method == TOOLS.method:
                    self._schemas.learn(result)
            answer = _answer_of(result, error)
            on_answer(answer, error if answer is None else None)

        sent = self._start(request_id, answered)
        return _Cancellable(sent, lambda: self._forget(request_id))

    def _register(self, request: Passed, on_progress: OnProgress) -> RequestId:
        """The id that a request gets at the server: the client's own, unless another one has it."""
        self._last_id += 1
        own = f"{OWN_PREFIX}{self._last_id}"
        key = coerce_request_id(request.id)
        request_id = own if key in self._open else request.id
        raw, call_trace = request.raw, request.context.trace
        if call_trace is not None:
            raw = call_trace.params(raw, str(request_id))
        prepared = prepare(raw, self._tokens, own)
        self._open[coerce_request_id(request_id)] = _Sent(request, prepared, on_progress)
        if prepared.token is not None:
            self._tokens[prepared.token] = coerce_request_id(request_id)
        if request.method == INITIALIZE:
            seconds = self._greeting_timeout
            reason = f"no answer to initialize within {seconds:g} s"
            loop = asyncio.get_running_loop()
            self._greeting = loop.call_later(seconds, self._link.give_up, reason)
        return request_id

    def _start(self, request_id: RequestId, answered: OnRawAnswer) -> Sent:
        request, prepared, _ = self._open[coerce_request_id(request_id)]
        return self.carrier.start(request_id, request.method, prepared.params, request, answered)

    def _forget(self, request_id: RequestId) -> None:
        """A request is over."""
        sent = self._open.pop(coerce_request_id(request_id), None)
        if sent is not None and sent.prepared.token is not None:
            self._tokens.pop(sent.prepared.token, None)
        if sent is not None and sent.request.method == INITIALIZE and self._greeting is not None:
            self._greeting.cancel()

    def stand(self, standing: Standing) -> None:
        """Send a request that stays open for good; the connection before may have had it, too."""
        try:
            request = standing.request.as_admitted()
        except CallError as refusal:
            standing.refuse(refusal)
            return
        request_id = self._register(request, lambda _step: None)
        key = coerce_request_id(request_id)

        def answered(result: msgspec.Raw | None, error: Exception | None) -> None:
            self._standing.pop(key, None)
            self._forget(request_id)
            if isinstance(error, StreamLeft) and not standing.over:
                self.stand(standing)
                return
            answer = _answer_of(result, error)
            if answer is not None:
                standing.answer(answer)
            elif error is not None and not isinstance(error, MCPError):
                standing.refuse(call_error(error, server=self._server, tool=None))

        self._standing[key] = standing
        sent = self._start(request_id, answered)

        def cancel() -> None:
            self._standing.pop(key, None)
            self._forget(request_id)
            sent.cancel("the client cancelled")

        standing.sent(cancel)

    async def ask(self, method: str, params: msgspec.Raw | bytes) -> msgspec.Raw:
        """Send a request of MCPX's own, and return its result.

        Raises:
            MCPError: The server's error.
            Exception: Whatever the transport raises.
        """
        self._last_id += 1
        found: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        own = f"{OWN_PREFIX}{self._last_id}"
        sent = self.carrier.start(own, method, prepare(params, (), "").params, None, settling(found))
        try:
            return await found
        except asyncio.CancelledError:
            sent.cancel("MCPX gave up waiting")
            raise

    # --- from the server

    def take_notification(self, method: str, params: msgspec.Raw, about: Passed | None) -> None:
        """Pass a notification on, without secrets unless it belongs to a call."""
        if method == PROGRESS:
            self._take_progress(params)
            return
        if method == CANCELLED:
            self._server_requests.cancel(params)
            return
        params = self._own_messages.redact.raw(params)
        if (stream := subscription_of(params)) is not None:
            key = coerce_request_id(stream) if isinstance(stream, int | str) else None
            if key is not None and key in self._standing:
                self._standing[key].notify(method, params)
        else:
            for peer in self._peers(method, about):
                peer.notify(method, params)

    def _take_progress(self, params: msgspec.Raw) -> None:
        token = value_of(members_of(params).get(TOKEN))
        request_id = self._tokens.get(token) if isinstance(token, int | str) else None
        sent = None if request_id is None else self._open.get(request_id)
        if sent is not None and sent.prepared.given is not None:
            sent.on_progress(b"")
            is_own = token == value_of(sent.prepared.given)
            given = params if is_own else with_member(params, TOKEN, sent.prepared.given)
            sent.request.origin.notify(PROGRESS, given)

    def take_request(
        self, server_id: RequestId, method: str, params: msgspec.Raw, about: Passed | None, answer: OnAnswer
    ) -> None:
        """Pass a request on without secrets, and its answer back."""
        params = self._own_messages.redact.raw(params)
        self._server_requests.ask(self._peers(method, about), server_id, method, params, answer)

    def _peers(self, method: str, about: Passed | None) -> list[Peer]:
        """Return the peers that take a message of the server."""
        if about is not None:
            return [about.origin]
        origins = {
            id(each.request.origin): each.request.origin
            for each in self._open.values()
            if method != LOG or self._client.peer is not None or _LOG_LEVEL in bytes(each.request.raw)
        }
        if self._client.peer is not None:
            return [list(origins.values())[-1]] if origins else [self._client.peer]
        if method == LOG and len(origins) != 1:
            return []  # of one client's request, and it cannot be known which
        return list(origins.values())

    def close(self) -> None:
        """The connection has ended: cancel at the client what the server takes no answer to any more."""
        if self._greeting is not None:
            self._greeting.cancel()
        self._server_requests.close()


class _Cancellable:
    __slots__ = ("_forget", "_sent")

    def __init__(self, sent: Sent, forget: Callable[[], object]) -> None:
        self._sent = sent
        self._forget = forget

    def recall(self) -> bool:
        return self._sent.recall()

    def cancel(self, reason: str) -> None:
        self._forget()
        self._sent.cancel(reason)


def _answer_of(result: msgspec.Raw | None, error: Exception | None) -> msgspec.Raw | None:
    """The server's answer, which its own error is like any other; None where there is none."""
    if result is not None:
        return result_answer(result)
    if isinstance(error, MCPError) and not isinstance(error, ConnectionEnded):
        return error_answer(error)
    return None

"""The HTTP transport under the SDK's clients: judges each exchange, and contains the damage of a broken one.

The SDK's clients end the whole session when one exchange breaks, wait for as long as a server likes, and read
every result into objects. So they keep the protocol (sessions, streams, resumption, eras), and see of each
request only its frame. One request takes this road:

1. Its sender (`session.senders`) sets an `Exchange` in a context variable, and calls the SDK without params.
2. The SDK posts the frame through an `httpx2` client whose transport is `HttpGuard`. The guard finds the
   exchange in the context that the SDK carries along, and puts the params in as bytes.
3. The request goes out through `Network`, in which redirects are followed and tokens are put on, so that the
   guard judges the outcome of both. It waits for the head of the answer within the exchange's deadline.
4. Of an answer, one JSON message or an event stream (`http_stream`), the exchange gets the result as it came
   (`http_answers`), and the SDK an empty one of the same id. The sender calls back when the SDK returns.
5. What goes wrong is reported to the exchange, with its reason, before anything else; then the SDK is given a
   JSON-RPC error in the answer's place. It never sees an exception, and its session lives on.
6. What that means for the session goes to the link (`HttpLink`): the port is closed (the server takes nothing
   new, but may finish what it has); the session is unknown (404) or refused (401, 403), so it is lost; any
   other failure is a reason to probe it.

Messages are bounded by `limit` bytes, and every other body by 64 KiB. Whatever is not a call ends after
`NON_CALL_TIMEOUT_S` at the latest. The older transport (HTTP with SSE) differs in one point: one stream has
all answers, so exchanges are found by the id of the request, and errors are delivered as if they came on it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import anyio
import anyio.abc
import httpx2
from mcp.shared._httpx_utils import redirect_location
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from mcpx.core.servers.transport import http_answers, http_bodies, http_network
from mcpx.core.servers.transport.exchange import (
    CURRENT_EXCHANGE,
    NON_CALL_TIMEOUT_S,
    PERMISSION_STATUSES,
    Answer,
    ConnectionDropped,
    Exchange,
    HttpLink,
    NotExecuted,
    PersonNeeded,
    Refused,
)
from mcpx.core.servers.transport.http_answers import SESSION_HEADER, Posted, Redact
from mcpx.core.servers.transport.http_network import Network
from mcpx.core.servers.transport.http_stream import EventStream, StandaloneStream, is_event_stream
from mcpx.core.servers.transport.refusals import MoreScopesRequired, NotAuthorized, NoTokenNow, PersonRequired
from mcpx.core.wire.envelope import RPCError
from mcpx.core.wire.intake import LargeMessage
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from mcpx.core.wire.unreachable import retry_after, unreachable

NOTIFICATION_TIMEOUT_S: Final = 5.0  # for the answer to a notification, which says nothing
TERMINATE_TIMEOUT_S: Final = 1.0  # to end the session; a server that hangs is left without
PROBE_TIMEOUT_S: Final = 2.0  # for a ping in a session that is in doubt
MAX_NOTIFICATIONS: Final = 64  # on their way to one server

_JSON: Final = {"Content-Type": "application/json"}
_FORGOTTEN: Final = httpx2.codes.NOT_FOUND  # the server does not know the session any more
_STREAMS: Final = "subscriptions/listen"  # a request that is answered for as long as the session lives
_ORDERED: Final = "notifications/initialized"  # what follows it may depend on it
_FAILURES: Final = (NotExecuted, ConnectionDropped, Refused, ResponseTooLarge, MalformedMessage)

DeliverError = Callable[[bytes], Awaitable[object]]
"""Delivers a JSON-RPC error where answers do not come with the request, but on a stream of their own."""


class HttpGuard(httpx2.AsyncBaseTransport):
    """The transport of one session. Set `observer` before anything but a first event stream is requested."""

    def __init__(
        self,
        network: Network,
        tasks: anyio.abc.TaskGroup,
        limit: int,
        redact: Redact,
        deliver_error: DeliverError | None = None,
    ) -> None:
        """Requests go to `network`; notifications in `tasks`. `limit` is the longest message in bytes.

        `deliver_error` marks the older transport (HTTP with SSE), whose one stream has all answers.
        """
        self.observer: HttpLink | None = None
        self.event_stream: EventStream | None = None  # the one of the older transport
        self.network = network
        self._send = network.send
        self._tasks = tasks
        self._limit = limit
        self._redact = redact
        self._describe = partial(http_answers.describe, redact=redact)
        self._deliver_error = deliver_error
        self._standalone = StandaloneStream(limit, redact)
        self._notifications = 0
        self._exchanges = WeakValueDictionary[str, Exchange]()  # of the older transport, by the request's id

    @property
    def _link(self) -> HttpLink:
        if self.observer is None:
            raise RuntimeError("no observer is set")
        return self.observer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of the SDK's."""
        answer = {"POST": self._post, "GET": self._get}.get(request.method, self._terminate)
        return await answer(request)

    async def _post(self, request: httpx2.Request) -> httpx2.Response:
        posted = http_answers.posted_in(request)
        if posted.id is None:
            return await self._notify(request, in_order=posted.method == _ORDERED)
        timeout_s = math.inf if posted.method == _STREAMS else NON_CALL_TIMEOUT_S
        exchange = CURRENT_EXCHANGE.get() or Exchange(timeout_s=timeout_s)
        self._exchanges[str(posted.id)] = exchange
        if exchange.encode_params is not None:
            request = http_answers.with_params(request, posted, exchange.encode_params(posted.id))
        try:
            response = await self._begin(request, exchange)
            try:
                return await self._judge(response, posted, exchange)
            except BaseException:
                with anyio.CancelScope(shield=True):  # closing does not wait for the server
                    await response.aclose()
                raise
        except _FAILURES as error:
            if self._link.last_problem is None:
                self._link.last_problem = str(error)
            exchange.fail(error)
            return await self._stand_in(posted, error)

    async def _begin(self, request: httpx2.Request, exchange: Exchange) -> httpx2.Response:
        """Send a request of an exchange, and wait for the head of the answer."""
        request.extensions = {**request.extensions, "trace": exchange.trace}
        try:
            response = await exchange.within_deadline(self._send(request))
        except NotAuthorized as error:
            raise self._not_authorized(error) from error
        except http_network.UNREACHABLE as error:
            problem = self._redact(unreachable(str(request.url), error))
            self._link.last_problem, self._link.retryable = problem, True
            if self._link.established:
                self._link.close(problem)
            raise NotExecuted(problem) from error
        except httpx2.HTTPError as error:
            self._link.mark_suspect()
            if not exchange.started:
                raise NotExecuted(f"no connection could be used: {self._describe(error)}") from error
            how = f"the connection was dropped before the answer: {self._describe(error)}"
            raise ConnectionDropped(how) from error
        if response is None:
            raise ConnectionDropped("the answer did not begin in time")
        return response

    def _not_authorized(self, error: NotAuthorized) -> NotExecuted:
        """Take in that no token counts; a session that no other will follow by itself takes nothing new."""
        reason, scopes = self._redact(str(error)), None
        if isinstance(error, NoTokenNow):
            return NotExecuted(reason)
        if isinstance(error, MoreScopesRequired):
            scopes = error.scopes
        else:
            self._link.close(reason)  # it may finish what it has
        if scopes is None or not self._link.established:
            self._link.last_problem, self._link.retryable = reason, False
            self._link.held = isinstance(error, PersonRequired)
        if not isinstance(error, PersonRequired):
            return NotExecuted(reason)
        return PersonNeeded(reason, command=error.command, scopes=scopes)

    async def _judge(self, response: httpx2.Response, posted: Posted, exchange: Exchange) -> httpx2.Response:
        if response.is_error:
            return await self._refused(response, posted, exchange)
        if response.is_redirect:
            raise http_answers.unfollowed(response, redirect_location(response), self._redact)
        self._link.mark_healthy()
        if self._deliver_error is not None:
            exchange.answer = exchange.answer or Answer(posted.id, is_error=True)  # the stream has it
            return await http_bodies.bare_response(response)
        match http_answers.content_type(response):
            case "application/json":
                data = await self._read(response, exchange)
                exchange.answer, data = http_answers.answer_to(posted, data, raw=exchange.is_raw)
                headers = http_bodies.kept_headers(response)
                return httpx2.Response(response.status_code, headers=headers, content=data)
            case "text/event-stream":
                watched = self._watched(response, exchange)
                return self.network.keep(watched) if posted.method == _STREAMS else watched
        raise http_answers.not_a_message(response)

    async def _read(self, response: httpx2.Response, exchange: Exchange) -> bytes | LargeMessage:
        try:
            data = await exchange.within_deadline(http_bodies.read_whole(response, self._limit))
        except httpx2.HTTPError as error:
            how = f"the connection was dropped in the middle of the answer: {self._describe(error)}"
            raise ConnectionDropped(how) from error
        if data is None:
            raise ConnectionDropped("the answer did not end in time")
        await response.aclose()
        return data

    async def _stand_in(self, posted: Posted, error: Exception) -> httpx2.Response:
        """Answer with a JSON-RPC error in the place of the answer that does not come."""
        code = CONNECTION_CLOSED if isinstance(error, NotExecuted | ConnectionDropped) else INTERNAL_ERROR
        message = http_answers.encode_error(posted, RPCError(code, str(error)))
        if self._deliver_error is not None:
            await self._deliver_error(message)
            return httpx2.Response(httpx2.codes.ACCEPTED)
        return httpx2.Response(httpx2.codes.OK, headers=_JSON, content=message)

    async def _refused(
        self, response: httpx2.Response, posted: Posted, exchange: Exchange
    ) -> httpx2.Response:
        """Return the server's own JSON-RPC error in an HTTP error; raise what any other means."""
        status, sent = response.status_code, response.request
        body = http_answers.read_error_body(response, await http_bodies.read_prefix(response), self._redact)
        refused = Refused(status, retry_after_s=retry_after(response), explanation=body.text)
        if status in PERMISSION_STATUSES:
            raise self._end_session(f"the server refuses the session: {refused}", retryable=False)
        unparsed = http_answers.is_unparsed(status, body)
        if SESSION_HEADER in sent.headers and (
            status == _FORGOTTEN or (unparsed and not await self._is_known(sent))
        ):
            raise self._end_session(f"the server does not know the session any more (HTTP {status})")
        if body.error is not None and http_answers.is_server_error(body, response, posted):
            exchange.answer = Answer(posted.id, is_error=True)
            content = http_answers.encode_error(posted, body.error)
            return httpx2.Response(status, headers=_JSON, content=content)
        if response.is_client_error and status != httpx2.codes.TOO_MANY_REQUESTS:
            self._link.mark_suspect()
        raise refused

    def _end_session(self, reason: str, *, retryable: bool = True) -> NotExecuted:
        """Report that the session is over; the request that found out was not run."""
        self._link.last_problem, self._link.retryable = reason, retryable
        if self._link.established:
            self._link.lose(reason)
        return NotExecuted(reason)

    async def _is_known(self, request: httpx2.Request) -> bool:
        """True if the server takes a ping in the session of a request that it did not read."""
        with anyio.move_on_after(PROBE_TIMEOUT_S), suppress(httpx2.HTTPError):
            response = await self._send(http_answers.ping_like(request))
            await response.aclose()
            return response.status_code not in {_FORGOTTEN, httpx2.codes.BAD_REQUEST}
        return True

    async def _notify(self, request: httpx2.Request, *, in_order: bool) -> httpx2.Response:
        """Send a message without an answer beside all else, but only so many at a time.

        A server may take none of the answers to its own requests, and yet go on asking.
        """
        if in_order:
            await self._deliver(request)
        elif self._notifications < MAX_NOTIFICATIONS:
            self._tasks.start_soon(self._deliver, request)
        else:
            self._link.mark_suspect()
        return httpx2.Response(httpx2.codes.ACCEPTED)

    async def _deliver(self, request: httpx2.Request) -> None:
        """Send such a message. That it does not arrive may be a sign that the session is over."""
        self._notifications += 1
        try:
            with anyio.move_on_after(NOTIFICATION_TIMEOUT_S):
                response = await self._send(request)
                await response.aclose()
                if response.status_code == _FORGOTTEN and SESSION_HEADER in request.headers:
                    self._end_session("the server does not know the session any more (HTTP 404)")
                elif response.is_error:
                    self._link.mark_suspect()
        except httpx2.HTTPError:
            self._link.mark_suspect()
        finally:
            self._notifications -= 1

    async def _get(self, request: httpx2.Request) -> httpx2.Response:
        exchange = CURRENT_EXCHANGE.get()
        if exchange is None and self._deliver_error is None:
            return self.network.keep(await self._standalone.open(self._link, partial(self._send, request)))
        exchange = exchange or Exchange()
        response = None if exchange.over else await exchange.within_deadline(self._send(request))
        if response is None:  # the call that would resume its stream is over
            return httpx2.Response(httpx2.codes.GONE)
        if not is_event_stream(response):
            return await http_bodies.bare_response(response)
        return self._watched(response, exchange)

    def _watched(self, response: httpx2.Response, exchange: Exchange) -> httpx2.Response:
        find = self._exchanges.get if self._deliver_error else None
        stream = EventStream(response, self._limit, self.observer, exchange, self._redact, find=find)
        self.event_stream = stream if find else None
        return stream.as_response()

    async def _terminate(self, request: httpx2.Request) -> httpx2.Response:
        """End the session at the server, unless it is lost anyway."""
        if not self._link.lost.happened:
            with anyio.move_on_after(TERMINATE_TIMEOUT_S), suppress(httpx2.HTTPError):
                await (await self._send(request)).aclose()
        return httpx2.Response(httpx2.codes.NO_CONTENT)

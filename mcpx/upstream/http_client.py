"""The HTTP client under the SDK's transports: it sees what each exchange comes to, and lets none end more.

The SDK's transports end the whole session when one exchange breaks, and wait for as long as a server likes.
This client gives them an answer in every case: the server's, or a JSON-RPC error in its place, and tells the
`Exchange` of the request why. To the link (`Told`) it says what an exchange means for the session:

* nobody listens, the session is not known (404), or it is not allowed (401, 403): the session is lost;
* a connection broke, or another status refused a request: there is reason to look (`suspect`).

Messages are bounded by `limit` bytes; whatever is not a call ends after `OTHERS_S` at the latest.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
import httpx2
from mcp.shared._httpx_utils import next_request_within_origin, redirect_location
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, ErrorData, JSONRPCError

from mcpx.upstream import http_answers
from mcpx.upstream.exchange import CURRENT, Dropped, Exchange, NotCarriedOut, Refused
from mcpx.upstream.faults import PERMISSION_STATUSES
from mcpx.upstream.http_answers import SESSION, Asked
from mcpx.upstream.http_body import ENCODINGS, inflated, read_whole
from mcpx.upstream.http_stream import EventBody, Listening, Told
from mcpx.wire.outgoing import ResponseTooLarge, Unreadable

CONNECT_S: Final = 10.0  # to open a connection: a host that takes longer is not there
WRITE_S: Final = 30.0  # for the server to take the next piece of a request
OTHERS_S: Final = 120.0  # for what is neither a call nor a stream, and has no deadline of its own
NOTIFY_S: Final = 5.0  # for the answer to a notification, which says nothing
LEAVE_S: Final = 1.0  # to say that the session is over; a server that hangs is left without
LOOK_S: Final = 2.0  # for a ping in a session that is in doubt
EXPLAIN_S: Final = 2.0  # for the body of an HTTP error
EXPLAIN_BYTES: Final = 65536
SSE_EVENT_BYTES: Final = 1_000_000  # the SDK takes no more over the older transport
KEEP_S: Final = 4.0  # an idle connection; many servers close theirs after 5, and a race with that is lost

_FORGOTTEN: Final = httpx2.codes.NOT_FOUND  # of a session: the server does not know it any more
_PING: Final = {"jsonrpc": "2.0", "id": "mcpx-ping", "method": "ping"}
_STREAMS: Final = "subscriptions/listen"  # a request that is answered for as long as the session lives
_ORDERED: Final = "notifications/initialized"  # what follows it may depend on it
_UNREACHABLE: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
_FAILURES: Final = (NotCarriedOut, Dropped, Refused, ResponseTooLarge, Unreadable)

Apart = Callable[[JSONRPCError], Awaitable[None]]
"""Delivers an answer where answers do not come with the request, but on a stream of their own."""
Spawn = Callable[[Callable[[], Coroutine[object, object, object]]], object]
"""Runs something beside, for as long as the session lives."""


class GuardedClient(httpx2.AsyncClient):
    """Bind `told` once there is a link; until then a failure is raised as it is."""

    def __init__(
        self, limit: int, headers: dict[str, str] | None, *, auth: httpx2.Auth | None = None
    ) -> None:
        sent = httpx2.Headers(headers)
        sent["Accept-Encoding"] = ENCODINGS
        super().__init__(
            headers=sent,
            auth=auth,
            timeout=httpx2.Timeout(None, connect=CONNECT_S, write=WRITE_S),
            limits=httpx2.Limits(keepalive_expiry=KEEP_S),
        )
        self.told: Told | None = None
        self.apart: Apart | None = None
        self.spawn: Spawn | None = None
        self.event_stream: EventBody | None = None
        """The stream that was opened first, before there was a link: that of the older transport."""
        self._limit = limit
        self._listening = Listening()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, with the options of any such client. The SDK reads all answers as streams."""
        if self.told is None:
            return self._first_stream(await super().send(request, **options))
        match request.method:
            case "POST":
                return await self._post(self.told, request, options)
            case "GET":
                return await self._get(self.told, request, options)
            case _:
                return await self._leave(self.told, request, options)

    # --- requests and notifications

    async def _post(self, told: Told, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        asked = http_answers.asked_in(request)
        if asked.id is None:
            notify = partial(self._notify, told, request, options)
            if self.spawn is None or asked.method == _ORDERED:
                return await notify()
            self.spawn(notify)
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        longest = math.inf if asked.method == _STREAMS else OTHERS_S
        exchange = CURRENT.get() or Exchange(lambda _error: None, seconds=longest)
        try:
            response = await self._reach(told, request, options, exchange)
            try:
                return await self._judge(told, response, asked, exchange)
            except BaseException:
                with anyio.CancelScope(shield=True):  # closing does not wait for the server
                    await response.aclose()
                raise
        except _FAILURES as error:
            if told.trouble is None:
                told.trouble = str(error)
            exchange.fail(error)
            return await self._stand_in(request, asked, error)

    async def _reach(
        self, told: Told, request: httpx2.Request, options: dict[str, Any], exchange: Exchange
    ) -> httpx2.Response:
        """Send it, and wait for the head of the answer."""
        request.extensions = {**request.extensions, "trace": exchange.trace}
        try:
            response = await exchange.within(super().send(request, **options))
        except _UNREACHABLE as error:
            raise _lose(told, f"the server cannot be reached: {_words(error)}") from error
        except httpx2.HTTPError as error:
            told.suspect()
            if not exchange.begun:
                raise NotCarriedOut(f"no connection could be used: {_words(error)}") from error
            raise Dropped(f"the connection was dropped before the answer: {_words(error)}") from error
        if response is None:
            raise Dropped("the answer did not begin in time")
        return response

    async def _judge(
        self, told: Told, response: httpx2.Response, asked: Asked, exchange: Exchange
    ) -> httpx2.Response:
        if response.is_error:
            return await self._refused(told, response, asked, exchange)
        if response.is_redirect:
            if next_request_within_origin(response) is not None:
                return response  # the SDK follows it
            raise http_answers.redirected(response, redirect_location(response))
        told.fine()
        if self.apart is not None:
            exchange.answered = True  # what the stream brings is not known here
            return response
        headers = http_answers.kept_headers(response)
        match http_answers.content_type(response):
            case "application/json":
                data = http_answers.answer_in(await self._read(response, exchange), asked)
                exchange.answered = True
                return httpx2.Response(
                    response.status_code, headers=headers, content=data, request=response.request
                )
            case "text/event-stream":
                body = EventBody(response, self._limit, told, exchange)
                return httpx2.Response(
                    response.status_code, headers=headers, stream=body, request=response.request
                )
        raise http_answers.unexpected(response)

    async def _read(self, response: httpx2.Response, exchange: Exchange) -> bytes:
        body = inflated(response.aiter_raw(), response.headers.get("content-encoding", ""))
        try:
            data = await exchange.within(read_whole(body, self._limit))
        except httpx2.HTTPError as error:
            raise Dropped(
                f"the connection was dropped in the middle of the answer: {_words(error)}"
            ) from error
        if data is None:
            raise Dropped("the answer did not end in time")
        await response.aclose()
        return data

    # --- refusals

    async def _refused(
        self, told: Told, response: httpx2.Response, asked: Asked, exchange: Exchange
    ) -> httpx2.Response:
        """An HTTP error: raises what it means, or returns it if it has the server's own JSON-RPC error."""
        status, sent = response.status_code, response.request
        about = http_answers.explanation(response, await self._explanation_of(response))
        refused = Refused(status, retry_after_s=http_answers.retry_after(response), said=about.said)
        if status in PERMISSION_STATUSES:
            raise _lose(told, f"the server refuses the session: {refused}", curable=False)
        if SESSION in sent.headers and (
            status == _FORGOTTEN or (http_answers.is_unread(status, about) and not await self._is_known(sent))
        ):
            raise _lose(told, f"the server does not know the session any more (HTTP {status})")
        if http_answers.is_its_own(about, response, asked):
            exchange.answered = True
            headers = {"Content-Type": "application/json"}
            return httpx2.Response(status, headers=headers, content=about.as_answer(asked), request=sent)
        if response.is_client_error and status != httpx2.codes.TOO_MANY_REQUESTS:
            told.suspect()
        raise refused

    async def _is_known(self, request: httpx2.Request) -> bool:
        """Whether the server takes a ping in the session of a request that it did not read."""
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        ping = self.build_request("POST", request.url, headers=headers, json=_PING)
        with anyio.move_on_after(LOOK_S), suppress(httpx2.HTTPError):
            response = await super().send(ping, stream=True)
            await response.aclose()
            return response.status_code not in {_FORGOTTEN, httpx2.codes.BAD_REQUEST}
        return True

    async def _explanation_of(self, response: httpx2.Response) -> bytes:
        body = b""
        with anyio.move_on_after(EXPLAIN_S):
            with suppress(httpx2.HTTPError, ResponseTooLarge, Unreadable):
                encoding = response.headers.get("content-encoding", "")
                body = await read_whole(inflated(response.aiter_raw(), encoding), EXPLAIN_BYTES)
        with anyio.CancelScope(shield=True):  # closing does not wait for the server
            await response.aclose()
        return body

    async def _stand_in(self, request: httpx2.Request, asked: Asked, error: Exception) -> httpx2.Response:
        """A JSON-RPC error in the place of the answer that does not come."""
        code = CONNECTION_CLOSED if isinstance(error, NotCarriedOut | Dropped) else INTERNAL_ERROR
        message = JSONRPCError(jsonrpc="2.0", id=asked.id, error=ErrorData(code=code, message=str(error)))
        if self.apart is not None:
            await self.apart(message)
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        return httpx2.Response(httpx2.codes.OK, json=message.model_dump(exclude_none=True), request=request)

    async def _notify(self, told: Told, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """A message that has no answer. One that does not arrive is no error, but may be a sign."""
        with anyio.move_on_after(NOTIFY_S):
            try:
                response = await super().send(request, **options)
                if next_request_within_origin(response) is not None:
                    return response
                await response.aclose()
                if response.status_code == _FORGOTTEN and SESSION in request.headers:
                    _lose(told, "the server does not know the session any more (HTTP 404)")
                elif response.is_error:
                    told.suspect()
            except httpx2.HTTPError:
                told.suspect()
        return httpx2.Response(httpx2.codes.ACCEPTED, request=request)

    # --- streams, and the end

    async def _get(self, told: Told, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        exchange = CURRENT.get()
        if exchange is None:
            opening = partial(super().send, request, **options)
            return await self._listening.open(told, self._limit, opening)
        if exchange.over:  # a stream to be taken up again that nobody waits for
            return httpx2.Response(httpx2.codes.GONE, request=request)
        response = await exchange.within(super().send(request, **options))
        if response is None:
            return httpx2.Response(httpx2.codes.GONE, request=request)
        if not response.is_success:
            return response
        body = EventBody(response, self._limit, told, exchange)
        headers = http_answers.kept_headers(response)
        return httpx2.Response(response.status_code, headers=headers, stream=body, request=request)

    def _first_stream(self, response: httpx2.Response) -> httpx2.Response:
        """The one stream of the older transport, which is there before the link is."""
        if not response.is_success or http_answers.content_type(response) != "text/event-stream":
            return response
        self.event_stream = EventBody(response, min(self._limit, SSE_EVENT_BYTES), None, None)
        headers = http_answers.kept_headers(response)
        return httpx2.Response(
            response.status_code, headers=headers, stream=self.event_stream, request=response.request
        )

    async def _leave(self, told: Told, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """End the session at the server, if it is there to be told."""
        if not told.lost.is_set():
            with anyio.move_on_after(LEAVE_S):
                with suppress(httpx2.HTTPError):
                    await (await super().send(request, **options)).aclose()
        return httpx2.Response(httpx2.codes.NO_CONTENT, request=request)


def _lose(told: Told, reason: str, *, curable: bool = True) -> NotCarriedOut:
    """The session is over, and a request that met with this was not run."""
    told.trouble, told.curable = reason, curable
    if told.established:
        told.lose(reason)
    return NotCarriedOut(reason)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__

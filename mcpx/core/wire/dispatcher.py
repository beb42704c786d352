"""A JSON-RPC peer over a channel, behind the SDK's `Dispatcher` protocol.

Sessions with servers and the SDK's server runner drive handshakes, listings and all that is rare on it;
calls on the hot path go through as bytes (`outgoing.call`, and the `fast` hook for requests that come in).
One task group serves the slow path (`incoming`); the fast path has no task at all.

Semantics follow the SDK's own `JSONRPCDispatcher`: a request that the peer cancelled is never answered,
`initialize` holds back what follows it, abandoning a request cancels it at the peer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc
import msgspec

from mcpx.core.wire import envelope
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.envelope import INTERNAL_ERROR, Bytes, MCPError, RequestId
from mcpx.core.wire.outgoing import MalformedMessage, Outgoing, ResponseTooLarge, decode_result
from mcpx.core.wire.receiver import OnMalformed, Receiver
from supervisors import Signal

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest

LOSSY: Final = frozenset({"notifications/message", "notifications/progress"})
"""Notifications that are dropped for a peer that does not read."""
UPDATED: Final = "notifications/resources/updated"
NO_HEADERS: Final[Mapping[str, str]] = {}
HeadersOf = Callable[[str, Bytes, Any], Mapping[str, str]]
"""The headers that repeat parts of a message, by its method, its params and what it is `about`."""


class WireDispatcher:
    """One peer. `run` it once; it ends with the channel, or when `end` is called.

    With `mends`, what strict readers refuse and the official clients take is mended (`wire.malformed`).
    """

    is_stream = True
    """False where each request has a connection of its own (HTTP)."""

    def __init__(
        self,
        channel: Channel,
        *,
        limit: int,
        on_malformed: OnMalformed,
        on_end: Callable[[], None] | None = None,
        mends: bool = False,
        request_limit: int | None = None,
        refuses: bool = False,
        outgoing: Outgoing | None = None,
    ) -> None:
        """`limit` is the most bytes of a line, `request_limit` of a request or notification (else `limit`).

        With `refuses`, what is no message is answered with an error, as servers do and clients do not.
        `outgoing` sends requests, if not as lines of the channel.
        """
        self.channel = channel
        self.outgoing = outgoing or Outgoing(channel)
        self.receiver: Receiver[WireDispatcher] = Receiver(
            self,
            channel,
            self.outgoing,
            limit=limit,
            request_limit=limit if request_limit is None else request_limit,
            mends=mends,
            refuses=refuses,
            on_malformed=on_malformed,
        )
        self.fast_cancels = self.receiver.fast_cancels
        self.version: str | None = None
        """The revision of the protocol that was agreed on, where messages have headers (HTTP)."""
        self.headers_of: HeadersOf = lambda _method, _params, _about: NO_HEADERS
        """Asked for the headers of requests and of clients' notifications, where messages have such."""
        self.on_drained: Callable[[], None] = lambda: None
        """Called when the peer reads again. Must not raise."""
        self.on_dropped: Callable[[], None] = lambda: None
        """Called for each lossy notification that is dropped. Must not raise."""
        self._writable = Signal()  # pulsed when the peer reads again, and at the end
        self._ended = anyio.Event()
        channel.on_data = self.receiver.feed
        channel.on_end = on_end or self.end
        channel.on_drained = self._drained

    @property
    def has_backlog(self) -> bool:
        """True if the peer has sent messages that have not been taken yet."""
        return self.receiver.has_backlog

    @property
    def busy(self) -> bool:
        """True if requests of the peer are unanswered, but for those that stay open for good."""
        return self.receiver.busy

    # --- out

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        Raises:
            MCPError: An error answer, one that cannot be read, a timeout, the end.
        """
        try:
            return decode_result(await self._request(method, params, opts, is_raw=False))
        except (MalformedMessage, ResponseTooLarge) as error:  # the SDK knows its own errors only
            raise MCPError(INTERNAL_ERROR, str(error)) from error

    async def send_for_bytes(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> msgspec.Raw:
        """Send a request and wait for its result, encoded as it came.

        Raises:
            MCPError: An error answer, a timeout, the end.
            MalformedMessage: The line that answers it cannot be read.
            ResponseTooLarge: That line is over the limit.
        """
        return await self._request(method, params, opts, is_raw=True)

    async def _request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None, *, is_raw: bool
    ) -> msgspec.Raw:
        opts = opts or {}
        on_progress = opts.get("on_progress")  # the SDK's is a coroutine function

        def in_task(members: bytes) -> None:
            if on_progress is not None and (step := envelope.read_step(members)) is not None:
                self.spawn(on_progress, step.progress, step.total, step.message)

        handler = in_task if on_progress else None
        return await self.outgoing.request(method, params, opts, handler, is_raw=is_raw)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002 - the protocol's signature; a stream needs none
    ) -> None:
        """Send a notification; after the end it is dropped.

        While the peer does not read, lossy ones are dropped, and updates of resources wait: their sender
        merges what is new meanwhile.
        """
        encoded = None if params is None else envelope.encode(params)
        if method in LOSSY:
            self.notify_lossy(method, encoded)
            return
        while method == UPDATED and self.channel.congested and not self._ended.is_set():
            await self._writable.wait()
        self.channel.write(*envelope.notification(method, encoded))

    def send_notification(self, method: str, params: bytes | None) -> None:
        """Send a notification of somebody else's, whatever it is. `params` is encoded."""
        self.channel.write(*envelope.notification(envelope.escaped(method), params))

    def notify_lossy(self, method: str, params: Bytes | None) -> None:
        """Send a progress or log message, or drop it if the peer does not read. `params` is encoded."""
        if self.channel.congested:
            self.on_dropped()
        else:
            self.channel.write(*envelope.notification(method, params))

    def notify_progress(self, token: RequestId, members: bytes) -> None:
        """Send progress on a request of the peer, under the token that it chose (`OnProgress`)."""
        self.notify_lossy("notifications/progress", envelope.progress(token, members))

    def _drained(self) -> None:
        self._writable.pulse()
        self.on_drained()

    def take_slowly(self, request_id: RequestId, method: str, params: msgspec.Raw) -> None:
        """Have the SDK's handlers serve a request that the fast path has had."""
        self.receiver.incoming.take_request(request_id, method, params)

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function for as long as the connection lives; what it raises is logged."""
        self.receiver.incoming.spawn(function, *arguments)

    # --- its life

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until the channel ends; then what is open fails and what is being served is cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                self.receiver.incoming.start(tasks, on_request, on_notify, on_notify_intercept)
                try:
                    self.channel.start_reading()
                    task_status.started()
                    await self._ended.wait()
                finally:
                    self._close()
                    tasks.cancel_scope.cancel()
        finally:
            self._close()

    def end(self) -> None:
        """No more messages will come."""
        self._ended.set()
        self._writable.pulse()

    def _close(self) -> None:
        self.receiver.stop()
        self.outgoing.close()

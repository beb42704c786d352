"""One request that was posted, until it is answered: as JSON, as one event, or on a stream of events.

A `Posted` is what the request came over, for whatever serves it (`mcpx.core.gateway.fast.call.Wire`): its
answer is one write where nothing was sent before. It becomes a stream, where the client takes one, with the
first message of the server that belongs to it, or when it has taken long: on a session so soon that the
client can come again for the answer (`events`), without one when a proxy might end the silent connection,
because until then the answer can still have a status of its own. A client that takes no stream gets the
answer alone.

A client that leaves ends its request where it has no session (2026-07-28). On a session it does not: that
takes `notifications/cancelled`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import anyio
import anyio.abc
import msgspec
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS

from mcpx.core.gateway.frontends.http.events import KeptEvents, Ticker
from mcpx.core.gateway.frontends.http.exchange import COMMENT
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.wire import envelope
from mcpx.core.wire.dispatcher import LOSSY
from mcpx.core.wire.enclosed import encode_restored
from mcpx.core.wire.envelope import Bytes, NoBackChannelError, RequestId
from mcpx.core.wire.incoming import contained
from mcpx.core.wire.outgoing import Outgoing

PING_S: Final = 15.0  # of silence in a response, after which a proxy may end it
SOON_S: Final = 0.1  # before a request of a session has a stream; up to twice that
PATIENCE: Final = 3  # ticks of silence before a request without a session, or a batch, has a stream
_OK: Final = 200
_ERROR: Final = b'"error":'


class _Code(msgspec.Struct):
    code: int = 0


_decode_code: Final = msgspec.json.Decoder(_Code).decode


class Common:
    """The parts that the requests of a frontend share. `max_bytes` bounds a message, and a batch's answer."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.kept = KeptEvents()
        self.soon = Ticker(SOON_S)
        """Of the requests of sessions that are not answered yet."""
        self.silence = Ticker(PING_S)
        """Of the streams that are open."""
        self.patience = Ticker(PING_S / PATIENCE)
        """Of the requests without a session, and the batches, that are not answered yet."""
        self.tasks: anyio.abc.TaskGroup | None = None
        """Runs what takes a task; None while nothing is served."""

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function for as long as the frontend serves; what it raises is logged."""
        if self.tasks is not None:
            self.tasks.start_soon(contained, function, *arguments)


class Slow(Protocol):
    """Serves requests that the fast path gives back."""

    def take_slowly(self, posted: Posted, request_id: RequestId, method: str, raw: msgspec.Raw, /) -> None:
        """Serve one."""


class Speaker:
    """Sends a client what the server says of itself, as `say` does."""

    __slots__ = ("common",)
    common: Common

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message; what belongs to a request is dropped after its answer."""
        raise NotImplementedError

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function."""
        self.common.spawn(function, *arguments)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification, which belongs to what this is."""
        del opts
        encoded = None if params is None else encode_restored(params)
        self.say(*envelope.notification(envelope.escaped(method), encoded), lossy=method in LOSSY)


class Posted(Speaker):
    """A request that was posted. `fast_cancels` is as of a `WireDispatcher`, of this request alone."""

    __slots__ = ("_ticks", "client", "exchange", "fast_cancels", "id", "is_over")

    outgoing: Outgoing | None = None
    """The requests to the client; None for one that cannot be asked."""

    def __init__(self, common: Common, exchange: HttpExchange, request_id: RequestId) -> None:
        self.common = common
        self.id = request_id
        self.exchange = exchange
        self.fast_cancels: dict[RequestId, Callable[[], None]] = {}
        self.is_over = False
        self.client: Slow | None = None
        """Serves it, where the fast path gives it back."""
        self._ticks = 0

    @property
    def channel(self) -> Posted:
        """The channel for the answer."""
        return self

    def write(self, *pieces: Bytes) -> None:
        """Answer the request, after which nothing more belongs to it."""
        if not self.is_over:
            self.is_over = True
            self.fast_cancels.clear()
            self._answer(pieces)

    def _answer(self, pieces: tuple[Bytes, ...]) -> None:
        raise NotImplementedError

    def take_slowly(self, request_id: RequestId, method: str, params: msgspec.Raw) -> None:
        """Have the SDK's server serve the request."""
        if self.client is not None:
            self.client.take_slowly(self, request_id, method, params)

    # --- from the server to the client

    def notify_lossy(self, method: str, params: Bytes | None) -> None:
        """Send a progress or log message."""
        self.say(*envelope.notification(method, params), lossy=True)

    def notify_progress(self, token: RequestId, members: bytes) -> None:
        """Send progress on the request, under the token that the client chose."""
        self.notify_lossy("notifications/progress", envelope.progress(token, members))

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the client.

        Raises:
            MCPError: It refused, or cannot be asked.
        """
        del params, opts
        raise NoBackChannelError(method)

    # --- its end

    def cancel(self) -> None:
        """Stop what is done for it."""
        cancels = list(self.fast_cancels.values())
        self.fast_cancels.clear()
        for cancel in cancels:
            cancel()


def status_of(pieces: tuple[Bytes, ...]) -> int:
    """Return the status of an answer of 2026-07-28: the head of a message, its contents, and its end."""
    head, contents = pieces[:2]
    if bytes(contents[: len(_ERROR)]) == _ERROR:  # of a server at a transparent endpoint
        contents = contents[len(_ERROR) :]
    elif not bytes(head).endswith(_ERROR):
        return _OK
    try:
        return ERROR_CODE_HTTP_STATUS.get(_decode_code(contents).code, _OK)
    except (msgspec.DecodeError, RecursionError):  # an error of its own kind
        return _OK


class Sessionless(Posted):
    """A request of 2026-07-28. A client that leaves has it cancelled."""

    __slots__ = ("_is_stream",)

    def __init__(self, common: Common, exchange: HttpExchange, request_id: RequestId) -> None:
        super().__init__(common, exchange, request_id)
        self._is_stream = False
        exchange.on_gone(self._gone)
        common.patience.add(self)

    def _gone(self) -> None:
        self.is_over = True
        self.common.patience.discard(self)
        self.cancel()

    def tick(self) -> None:
        """Keep the connection alive."""
        self._ticks += 1
        if self._ticks >= PATIENCE:
            self._ticks = 0
            if self._begin():
                self.exchange.put(COMMENT)

    def _begin(self) -> bool:
        """Make the response a stream; False if it cannot be one."""
        if not self._is_stream and self.exchange.head.accepts[1]:
            self._is_stream = True
            self.exchange.begin_events()
        return self._is_stream

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message that belongs to the request."""
        if not self.is_over and self._begin():
            self.exchange.event(pieces, lossy=lossy)

    def _answer(self, pieces: tuple[Bytes, ...]) -> None:
        self.common.patience.discard(self)
        exchange = self.exchange
        if self._is_stream:
            exchange.end(pieces)
        else:
            exchange.respond_message(pieces, status=status_of(pieces))

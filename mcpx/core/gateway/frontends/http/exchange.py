"""One HTTP request and its response, as the endpoints see it, whatever has parsed it and will write it.

The endpoints of `/mcp` are given an `Exchange` once its request is whole and was let in: the head and the
body came in time and within their bounds, `Host`, `Origin`, the token, and the `Content-Type` of a POST fit.
They respond at once or later, by plain calls, which never wait and never raise because of the client: what
goes to one that has left goes nowhere. An exchange that is cut off (its client left, its token ended, MCPX
ends) is over for them when `on_gone` is called; what is still owed to the client is then said by whoever has
cut it off.

Two things are exchanges: a request on a connection of MCPX's own (`http_exchange`), and one that an ASGI
application has taken on its way (`asgi.over_asgi`), as that of a replica does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.envelope import Bytes

HeaderPairs = tuple[tuple[bytes, bytes], ...]
JSON: Final[HeaderPairs] = ((b"content-type", b"application/json"),)
TEXT: Final[HeaderPairs] = ((b"content-type", b"text/plain; charset=utf-8"),)
EVENTS: Final[HeaderPairs] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
PEERS: Final = "/mcp/peers/"
"""What the endpoints of other MCPX begin with."""
COMMENT: Final = b": ping\r\n\r\n"


class Refusal(NamedTuple):
    """A short response, as to a request that is not let in."""

    status: int
    text: bytes
    headers: HeaderPairs = TEXT


class Exchange(Protocol):
    """A request that came whole, and the one response to it."""

    method: str
    path: str
    """Decoded, without the query."""
    query: bytes
    """As it came, without the question mark."""
    headers: Mapping[bytes, bytes]
    """By their names in lower case; of one that came more than once, the last (see `repeated`)."""
    body: bytes
    bearer: Bearer | None
    """The token with a name that let it in."""

    @property
    def repeated(self) -> bool:
        """True if any header came more than once."""
        ...

    @property
    def pairs(self) -> Iterable[tuple[bytes, bytes]]:
        """All headers as they came, the names in lower case; looked at where one may have been repeated."""
        ...

    @property
    def accepts(self) -> tuple[bool, bool]:
        """Return if the client takes JSON, and if it takes a stream of events."""
        ...

    @property
    def is_local(self) -> bool:
        """True if it came from this machine, and was passed on by none of another."""
        ...

    @property
    def is_over(self) -> bool:
        """True if nothing more can be sent: the response is whole, or the exchange was cut off."""
        ...

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Have this called, once, if the exchange is cut off before the response is whole.

        A callback that was set before is called no more.
        """
        ...

    def respond(self, status: int, headers: HeaderPairs = (), pieces: Iterable[Bytes] = ()) -> None:
        """Send a whole response, with its length."""
        ...

    def begin_events(self, headers: HeaderPairs = EVENTS) -> None:
        """Begin a response of 200 that is a stream of events."""
        ...

    def event(
        self, pieces: Iterable[Bytes], *, event_id: str = "", retry_ms: int | None = None, lossy: bool = False
    ) -> bool:
        """Send an event of the stream, whose data is one JSON text in pieces, or nothing.

        False if it was not sent: the exchange is over, or it is `lossy` and the client does not read.
        """
        ...

    def comment(self) -> None:
        """Send a comment of the stream, so that nobody on the way takes it for dead."""
        ...

    def end(self, pieces: Iterable[Bytes] | None = None, *, event_id: str = "") -> None:
        """End the stream, with a last event if there are `pieces`, in one write."""
        ...

    async def wait_taken(self) -> None:
        """Wait while the client leaves too much unread."""
        ...


Serve = Callable[[Exchange], None]
"""Responds to an exchange, at once or later."""


def as_event(pieces: Iterable[Bytes], event_id: str = "", retry_ms: int | None = None) -> bytes:
    """Return a message, whose text comes in pieces, as one event; without pieces, an event without data.

    A response of one event is `respond(200, EVENTS, [as_event(...)])`.
    """
    data = one_line(b"".join(pieces).rstrip())
    head = b"event: message\r\n" if data else b""
    if event_id:
        head = b"id: %s\r\n%s" % (event_id.encode(), head)
    if retry_ms is not None:
        head += b"retry: %d\r\n" % retry_ms
    return b"%sdata: %s\r\n\r\n" % (head, data)


@lru_cache(maxsize=64)
def accepted(accept: bytes) -> tuple[bool, bool]:
    """Return if a value of Accept takes JSON, and if it takes events."""
    kinds = {each.partition(b";")[0].strip().lower() for each in accept.split(b",")}
    everything = b"*/*" in kinds
    return (
        everything or bool(kinds & {b"application/json", b"application/*"}),
        everything or bool(kinds & {b"text/event-stream", b"text/*"}),
    )


@lru_cache(maxsize=64)
def prefers_events(accept: bytes) -> bool:
    """Return True if a value of Accept asks for events rather than JSON: by weight, and then by order."""
    weights = {b"application/json": -1.0, b"text/event-stream": -1.0}
    for place, each in enumerate(accept.split(b",")):
        kind, *parameters = (part.strip().lower() for part in each.split(b";"))
        weight = next((part[2:] for part in parameters if part.startswith(b"q=")), b"1")
        if kind in weights and weight.replace(b".", b"", 1).isdigit():
            weights[kind] = float(weight) - place / 1e6
    return weights[b"text/event-stream"] > weights[b"application/json"]

"""The heads of requests, and the parts of responses: headers, refusals, events. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple
from urllib.parse import unquote

from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.envelope import Bytes

HeaderPairs = tuple[tuple[bytes, bytes], ...]
Pairs = list[tuple[bytes, bytes]]
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
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)


class Refusal(NamedTuple):
    """A short response, as to a request that is not let in."""

    status: int
    text: bytes
    headers: HeaderPairs = TEXT


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


class RequestHead:
    """The head of a request; one object for all of a connection that say the same but for their length."""

    __slots__ = (
        "accepts",
        "bearer",
        "headers",
        "is_http_1_0",
        "is_steady",
        "keep_alive",
        "method",
        "more_headers",
        "pairs",
        "path",
        "query",
        "repeated",
        "takes_json",
        "target",
    )

    def __init__(
        self, method: str, target: bytes, pairs: Pairs, *, is_http_1_0: bool, keep_alive: bool
    ) -> None:
        self.method = intern(method)
        if (absolute := _ABSOLUTE.match(target)) is not None:  # its host counts (RFC 9112, 3.2.2)
            target = target[absolute.end() :]
            pairs = [(name, absolute[1] if name == b"host" else value) for name, value in pairs]
        path, _, self.query = target.partition(b"?")
        self.target = path
        """The path as it came."""
        self.path = intern(unquote(path.decode("latin-1")) if b"%" in path else path.decode("latin-1"))
        """Decoded, without the query."""
        self.pairs = pairs
        """The headers as they came, their names in lower case."""
        self.headers: Mapping[bytes, bytes] = dict(pairs)
        """By their names; of one that came more than once, the last (see `repeated`)."""
        self.repeated = len(self.headers) != len(pairs)
        """True if any header came more than once."""
        accept = b",".join([value for name, value in pairs if name == b"accept"])
        self.accepts = accepted(accept)
        """If the client takes JSON, and if it takes a stream of events."""
        self.takes_json = self.accepts[0] and not prefers_events(accept)
        """True if a single message is better sent as JSON than as an event."""
        self.is_http_1_0 = is_http_1_0
        self.keep_alive = keep_alive and not is_http_1_0
        self.bearer: Bearer | None = None
        """The token with a name that let it in."""
        self.more_headers = b""
        """Lines for the head of each response."""
        self.is_steady = False
        """True if it is let in for as long as its bearer is, whatever else happens."""

"""One connection to an HTTP/1.1 server: requests out, one after the other, and their responses in.

`HttpConnection` is an asyncio protocol around httptools. A request goes out in one write, in the turn of the
event loop in which it was sent; what comes back is told to its `Reply`. There is no task, and nothing waits.
Servers send the same head again and again, but for a date that changes once a second: its headers are taken
apart once for all that are the same.
What a server may send without an end is bounded here: heads, trailers and the extensions of chunks by
`MAX_HEAD_BYTES`, requests that it does not read by `WRITE_TIMEOUT_S`. Bodies are bounded by who takes them.
A response that does not end where it says costs the connection, so that no byte of it is taken for the next.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import httptools

from mcpx.core.servers.transport.exchange import Dropped

READ_BYTES: Final = 65536
MAX_HEAD_BYTES: Final = 65536  # of a head, or of anything else between two pieces of a body
MAX_HEADERS: Final = 256  # of one response
WRITE_TIMEOUT_S: Final = 30.0  # for a server to read anything of what it is sent
_FINAL: Final = 200  # the first status that is not interim
_END: Final = b"\r\n\r\n"  # of a head

_BUFFER: Final = bytearray(READ_BYTES)  # of all connections: what is read is parsed before anything else runs
_VIEW: Final = memoryview(_BUFFER)


class Headers(dict[str, str]):
    """The headers of a message by their names in lower case; of one that was given twice, all its values."""

    def get_list(self, name: str) -> list[str]:
        """The values of a header."""
        return [self[name]] if name in self else []


class Head:
    """The status and the headers of a response; not to be changed once it was read."""

    __slots__ = ("content_type", "cookies", "headers", "status_code")

    def __init__(self, status_code: int = 0) -> None:
        self.status_code = status_code
        self.headers = Headers()
        self.cookies: list[str] = []
        """The values of Set-Cookie."""
        self.content_type = ""
        """The MIME type, without parameters."""

    def add(self, name: bytes, value: bytes) -> None:
        """Add a header as it came."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        if key == "set-cookie":
            self.cookies.append(text)
        elif key in self.headers:
            self.headers[key] = f"{self.headers[key]}, {text}"
        else:
            self.headers[key] = text
            if key == "content-type":
                self.content_type = text.partition(";")[0].strip().lower()


class Reply(Protocol):
    """Told of the response to one request. Nothing may raise; nothing comes after `dropped` or `ended`."""

    def begun(self, head: Head, connection: HttpConnection) -> None:
        """The final head has come."""

    def came(self, piece: bytes) -> None:
        """Another piece of the body has come, as it was sent; more may follow."""

    def ended(self, piece: bytes) -> None:
        """The last piece has come, which may be empty. The connection is free, or closed."""

    def dropped(self, error: Dropped) -> None:
        """The connection has ended before."""


class HttpConnection(asyncio.BufferedProtocol):
    """One connection. `on_free` is called when it can take another request, `on_closed` once, at its end."""

    def __init__(
        self, on_free: Callable[[HttpConnection], None], on_closed: Callable[[HttpConnection], None]
    ) -> None:
        self._on_free = on_free
        self._on_closed = on_closed
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._transport: asyncio.Transport
        self._poll: select.poll
        self._loop = asyncio.get_running_loop()
        self._reply: Reply | None = None
        self._head = Head()
        self._known: tuple[bytes, Head] | None = None  # the last head, as it came
        self._is_known = False  # the head that comes is that one
        self._is_new = True  # nothing has come since the request was sent
        self._had_interim = False
        self._pieces: list[bytes] = []
        self._has_head = self._is_told = self._is_complete = self._is_odd = False
        self._silent_bytes = 0  # since the last piece of a body
        self._stalled: asyncio.TimerHandle | None = None
        self._unsent = 0
        self.reusable = True
        """To be set to False for a connection that is to take no more requests."""
        self.closed = False
        self._is_held = False
        self.through: Any = None
        """The URL of the proxy at its end, which passes on requests that go to it as they are."""
        self.tunnel: object = None
        """The writer of asyncio's under it, which would close it when nothing refers to it any more."""

    # --- asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=1)  # anything that is left unsent
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return _VIEW

    def buffer_updated(self, nbytes: int) -> None:
        self._silent_bytes += nbytes
        if is_new := self._is_new:
            self._is_new = False
            self._is_known = self._known is not None and _BUFFER.startswith(self._known[0], 0, nbytes)
            self._head = self._known[1] if self._is_known and self._known is not None else Head()
        try:
            self._parser.feed_data(_VIEW[:nbytes])
        except httptools.HttpParserUpgrade:
            if not self._is_complete:
                self.abort(Dropped("it wants to speak another protocol"))
                return
            self.reusable = False
        except httptools.HttpParserError as error:
            if not self._is_complete:
                reason = str(error.__context__ or error) or type(error).__name__
                self.abort(Dropped(f"what it sends is no HTTP: {reason}"))
                return
            self.reusable = False
        if is_new and self._has_head and not self._is_known:
            self._remember(nbytes)
        self._deliver()

    def _remember(self, nbytes: int) -> None:
        """Remember a head that has come in one piece, and first."""
        end = _BUFFER.find(_END, 0, nbytes)
        is_first = not self._had_interim and end > 0
        self._known = (bytes(_VIEW[: end + len(_END)]), self._head) if is_first else None

    def connection_lost(self, exc: Exception | None) -> None:
        reply, self._reply = self._reply, None
        self.closed = True
        self._written()
        self._on_closed(self)
        if reply is None:
            return
        if exc is None and self._has_head and not self._is_delimited():
            reply.ended(b"")
            return
        error = Dropped(str(exc) if exc is not None else "the server closed it")
        error.__cause__ = exc
        reply.dropped(error)

    def _is_delimited(self) -> bool:
        headers = self._head.headers
        return "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()

    def pause_writing(self) -> None:
        self._unsent = self._transport.get_write_buffer_size()
        self._stalled = self._loop.call_later(WRITE_TIMEOUT_S, self._look_at_unsent)

    def resume_writing(self) -> None:
        self._written()

    def _written(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _look_at_unsent(self) -> None:
        unsent = self._transport.get_write_buffer_size()
        if unsent >= self._unsent:
            self.abort(Dropped(f"it read nothing of the request for {WRITE_TIMEOUT_S:g} s"))
        else:
            self.pause_writing()

    # --- httptools'

    def on_message_begin(self) -> None:
        if self._reply is None or self._is_complete:
            self._is_odd = True  # a response to nothing

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head or self._is_known:
            return  # a trailer, or one of a head that is known
        if len(self._head.headers) >= MAX_HEADERS:
            raise ValueError(f"more than {MAX_HEADERS} headers")
        self._head.add(name, value)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= _FINAL and not self._is_odd:
            self._head.status_code = status
            self._has_head = True

    def on_body(self, body: bytes) -> None:
        if not self._is_odd:
            self._pieces.append(body)
            self._silent_bytes = 0

    def on_message_complete(self) -> None:
        if self._is_odd:
            return
        if self._has_head:
            self._is_complete = True
            self.reusable = self.reusable and self._parser.should_keep_alive()
        else:
            self._head, self._had_interim = Head(), True

    def _deliver(self) -> None:
        """Tell what was read: only now, since whoever is told may send the next request."""
        reply = self._reply
        if reply is None:
            self.close()
            return
        if self._is_odd and self._is_complete:
            self.reusable = False  # what came too much is for nobody
        elif self._is_odd:
            self.abort(Dropped("it sends more than it was asked for"))
            return
        if self._has_head and not self._is_told:
            self._is_told = True
            reply.begun(self._head, self)
            if self._reply is not reply:
                return
        piece = b""
        if self._pieces:
            piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces.clear()
        if self._is_complete:
            self._free()
            reply.ended(piece)
        elif piece:
            reply.came(piece)
        elif self._silent_bytes > MAX_HEAD_BYTES:
            self.abort(Dropped(f"it sends over {MAX_HEAD_BYTES} bytes of head"))

    def _free(self) -> None:
        self._reply = None
        if not self.reusable or self._transport.get_write_buffer_size():  # it answered before it had read all
            self.close()
            return
        self.release()
        self._on_free(self)

    # --- for its owner

    def is_usable(self) -> bool:
        """True if the server has not closed it, which the event loop may not have seen yet."""
        if self.closed or not self.reusable:
            return False
        return not self._poll.poll(0)  # else it is closed, or sends what nobody has asked for

    def send(self, data: bytes, reply: Reply) -> None:
        """Send a request, whole."""
        self._reply = reply
        self._is_new = True
        self._has_head = self._is_told = self._is_complete = self._had_interim = False
        self._silent_bytes = 0
        self._pieces.clear()
        self._transport.write(data)

    def hold(self) -> None:
        """Read no further for now."""
        self._is_held = True
        self._transport.pause_reading()

    def release(self) -> None:
        """Read on."""
        if self._is_held and not self.closed:
            self._is_held = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Close it; whose response is not over is told nothing."""
        self._reply = None
        self.reusable = False
        with suppress(OSError):
            self._transport.abort()

    def abort(self, error: Dropped) -> None:
        """Close it; whose response is not over is told so."""
        reply = self._reply
        self.close()
        if reply is not None:
            reply.dropped(error)

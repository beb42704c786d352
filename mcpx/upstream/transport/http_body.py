"""The body of an HTTP answer, read with a bound on its size, whatever the server sends.

`inflated` undoes the compression in small steps, so that a small body cannot become a huge one at once;
`read_whole` is for one message; `read_beginning` for a body that only explains, `without_body` for one that
nobody needs; `Events` finds the messages in an event stream as its bytes go by.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import suppress
from typing import Final

import anyio
import anyio.lowlevel
import httpx2

from mcpx.wire.outgoing import MalformedMessage, ResponseTooLarge

ENCODINGS: Final = "gzip"  # what is asked for; servers do not agree on what `deflate` means
BEGINNING_BYTES: Final = 65536  # of a body that only explains, or that nobody needs
BEGINNING_S: Final = 2.0  # to read them
_OF_ONE_HOP: Final = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})
CHUNKS_A_TURN: Final = 32  # of one body, before others have their turn: 1 to 3 ms
SHOWN: Final = 200  # characters of what a server says in its own words
_STEP: Final = 65536  # bytes that come out of the decompressor at a time
_ANY_HEADER: Final = 32 + zlib.MAX_WBITS  # gzip or zlib, whichever it is
_LINE_BREAK: Final = re.compile(rb"\r\n|\n|\r")


async def inflated(body: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The body without its Content-Encoding. Raises MalformedMessage.

    Others have their turn now and then: thousands of chunks may come in one read.
    """
    taken = 0
    async for chunk in _inflated(body, encoding):
        taken += 1
        if taken % CHUNKS_A_TURN == 0:
            await anyio.lowlevel.checkpoint()
        yield chunk


async def _inflated(body: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        async for chunk in body:
            yield chunk
        return
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise MalformedMessage(f"the answer is compressed with {encoding[:SHOWN]}, which was not asked for")
    inflate = zlib.decompressobj(_ANY_HEADER)
    async for chunk in body:
        rest = chunk
        while rest:
            try:
                yield inflate.decompress(rest, _STEP)
            except zlib.error as error:
                raise MalformedMessage(f"the answer's compression is broken: {error}") from error
            rest = inflate.unconsumed_tail
        if inflate.eof:
            return  # what follows would only be kept
    yield inflate.flush()


async def read_whole(body: AsyncIterable[bytes], limit: int) -> bytes:
    """All of it. Raises ResponseTooLarge."""
    read = bytearray()  # a list of its chunks would hold forty times their size where they are of one byte
    async for chunk in body:
        read += chunk
        if len(read) > limit:
            raise too_large(limit)
    return bytes(read)


async def read_beginning(response: httpx2.Response) -> bytes:
    """What can be had of a body with a small bound on size and time; the response is closed. Never raises.

    A body that is read to its end leaves the connection for the next request.
    """
    read = bytearray()
    encoding = response.headers.get("content-encoding", "")
    with anyio.move_on_after(BEGINNING_S), suppress(httpx2.HTTPError, MalformedMessage):
        async for chunk in inflated(response.aiter_raw(), encoding):
            read += chunk
            if len(read) > BEGINNING_BYTES:
                break
    with anyio.CancelScope(shield=True), suppress(httpx2.HTTPError):  # closing does not wait for the server
        await response.aclose()
    return bytes(read[:BEGINNING_BYTES])


async def without_body(response: httpx2.Response) -> httpx2.Response:
    """The response with its headers, and where it redirects to, but no body: that is read no further."""
    await read_beginning(response)
    bare = httpx2.Response(response.status_code, headers=kept_headers(response), request=response.request)
    bare.next_request = response.next_request
    return bare


def kept_headers(response: httpx2.Response) -> httpx2.Headers:
    """The headers of an answer whose body was read and unpacked."""
    pairs = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_ONE_HOP]
    return httpx2.Headers(pairs)


def too_large(limit: int) -> ResponseTooLarge:
    """The error for an answer of more than `limit` bytes."""
    return ResponseTooLarge(f"the answer is over {limit} bytes")


class Events:
    """The events of a stream; of one that is not complete yet at most `limit` bytes are held."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()  # the last line, as far as it has come
        self._data = bytearray()  # the data fields of the event so far, each with a line break
        self._kind = b""
        self._held = 0
        self.ended = 0
        """How many events have ended, those without data too."""
        self._ended_in_cr = False
        self.resumable = False
        """Whether an event had an id, so that the stream can be taken up again after it."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of each message that is complete with this chunk. Raises ResponseTooLarge."""
        if self._ended_in_cr:
            chunk = b"\r" + chunk
        self._ended_in_cr = chunk.endswith(b"\r")
        if self._ended_in_cr:
            chunk = chunk[:-1]
        first, *others = _LINE_BREAK.split(chunk)
        self._hold(first)
        for line in others:
            if (data := self._end_of_line()) is not None:
                yield data
            self._hold(line)
        self._check()

    def _check(self) -> None:
        if self._held > self._limit:
            raise too_large(self._limit)

    def _hold(self, part: bytes) -> None:
        self._line += part
        self._held += len(part)

    def _end_of_line(self) -> bytes | None:
        line = bytes(self._line)
        self._line.clear()
        if not line:
            return self._end_of_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data += value + b"\n"
            return None
        self._held -= len(line)  # only data is kept
        if field == b"event":
            self._kind = value
        elif field == b"id" and value:
            self.resumable = True
        return None

    def _end_of_event(self) -> bytes | None:
        self._check()
        self.ended += 1
        data = bytes(self._data[:-1])
        kind, self._kind = self._kind, b""
        self._data.clear()
        self._held = 0
        return data if data and kind in {b"", b"message"} else None

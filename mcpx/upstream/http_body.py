"""The body of an HTTP answer, read with a bound on its size, whatever the server sends.

`inflated` undoes the compression in small steps, so that a small body cannot become a huge one at once;
`read_whole` is for one message; `Events` finds the messages in an event stream as its bytes go by.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Final

from mcpx.wire.outgoing import ResponseTooLarge, Unreadable

ENCODINGS: Final = "gzip, deflate"  # what `inflated` can undo, as the Accept-Encoding header says it
_STEP: Final = 65536  # bytes that come out of the decompressor at a time
_ANY_HEADER: Final = 32 + zlib.MAX_WBITS  # gzip or zlib, whichever it is
_LINE_BREAK: Final = re.compile(rb"\r\n|\n|\r")


async def inflated(body: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The body without its Content-Encoding. Raises Unreadable."""
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        async for chunk in body:
            yield chunk
        return
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise Unreadable(f"the answer is compressed with {encoding}, which was not asked for")
    inflate = zlib.decompressobj(_ANY_HEADER)
    async for chunk in body:
        rest = chunk
        while rest:
            try:
                yield inflate.decompress(rest, _STEP)
            except zlib.error as error:
                raise Unreadable(f"the answer's compression is broken: {error}") from error
            rest = inflate.unconsumed_tail
    yield inflate.flush()


async def read_whole(body: AsyncIterable[bytes], limit: int) -> bytes:
    """All of it. Raises ResponseTooLarge."""
    chunks = []
    size = 0
    async for chunk in body:
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def too_large(limit: int) -> ResponseTooLarge:
    """The error for an answer of more than `limit` bytes."""
    return ResponseTooLarge(f"the answer is over {limit} bytes")


class Events:
    """The events of a stream; of one that is not complete yet at most `limit` bytes are held."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line: list[bytes] = []  # the last line, as far as it has come
        self._data: list[bytes] = []  # the data fields of the event so far
        self._kind = b""
        self._held = 0
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
        self._line.append(part)
        self._held += len(part)

    def _end_of_line(self) -> bytes | None:
        line = b"".join(self._line)
        self._line.clear()
        if not line:
            return self._end_of_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            return None
        self._held -= len(line)  # only data is kept
        if field == b"event":
            self._kind = value
        elif field == b"id" and value:
            self.resumable = True
        return None

    def _end_of_event(self) -> bytes | None:
        self._check()
        data = b"\n".join(self._data)
        kind, self._kind = self._kind, b""
        self._data.clear()
        self._held = 0
        return data if data and kind in {b"", b"message"} else None

"""Bodies of HTTP answers within bounds, in size and time.

`inflated` decompresses a body in small steps, so that a small one cannot become a huge one at once;
`read_whole` reads one message, `read_prefix` a body that only explains, and `bare_response` drops one.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from typing import Final

import anyio
import anyio.lowlevel
import httpx2

from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.intake import LARGE_BYTES, LargeMessage, Reader
from mcpx.core.wire.malformed import Mender
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge

MAX_PREFIX_BYTES: Final = 65536  # read of a body that is no message
PREFIX_TIMEOUT_S: Final = 2.0  # to read them
CHUNKS_PER_TURN: Final = 32  # of one body, before other tasks have their turn: 1 to 3 ms
MAX_QUOTE_LEN: Final = 200  # characters of a text of the server's in a message
_INFLATE_STEP_BYTES: Final = 65536  # that come out of the decompressor at a time
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_NOT_PASSED_ON: Final = frozenset(
    {"content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"}
)


async def inflated(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the body without its Content-Encoding.

    Other tasks have their turn now and then: thousands of chunks may come in one read.

    Raises:
        MalformedMessage: The encoding is unknown, or broken.
        httpx2.HTTPError: The connection was dropped.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    taken = 0
    async for chunk in _inflated(response.aiter_raw(), encoding):
        taken += 1
        if taken % CHUNKS_PER_TURN == 0:
            await anyio.lowlevel.checkpoint()
        yield chunk


async def _inflated(body: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    if encoding in {"", "identity"}:
        async for chunk in body:
            yield chunk
        return
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        shown = encoding[:MAX_QUOTE_LEN]
        raise MalformedMessage(f"the answer is compressed with {shown}, which was not asked for")
    inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
    async for chunk in body:
        rest = chunk
        while rest:
            try:
                yield inflate.decompress(rest, _INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise MalformedMessage(f"the answer's compression is broken: {error}") from error
            rest = inflate.unconsumed_tail
        if inflate.eof:
            return  # what follows would only be kept
    yield inflate.flush()


class Body(Reader):
    """A body that is not read on while it is not its turn (`mcpx.core.wire.intake`)."""

    def __init__(self) -> None:
        self._turn = anyio.Event()
        self._turn.set()

    def hold(self) -> None:
        """Read no further."""
        self._turn = anyio.Event()

    def release(self) -> None:
        """Read on."""
        self._turn.set()

    async def turn(self) -> None:
        """Wait for its turn."""
        await self._turn.wait()

    def large(self, begun: bytes | bytearray) -> LargeMessage:
        """A large message that has begun so; on one line, and without half surrogate pairs."""
        mend = Mender()
        message = LargeMessage(self, lambda piece: mend(one_line(piece)))
        message.add(bytes(begun))
        return message


async def read_whole(response: httpx2.Response, limit: int) -> bytes | LargeMessage:
    """Read a body of at most `limit` bytes.

    Raises:
        ResponseTooLarge: It is longer.
        MalformedMessage, httpx2.HTTPError: As for `inflated`.
    """
    read = bytearray()  # a list of its chunks would hold forty times their size where they are of one byte
    body, large = Body(), None
    try:
        async for chunk in inflated(response):
            if large is not None:
                large.add(chunk)
            else:
                read += chunk
                if len(read) > LARGE_BYTES:
                    large, read = body.large(read), bytearray()
            if len(read if large is None else large) > limit:
                raise too_large(limit)  # noqa: TRY301 - what is held is let go of here
            await body.turn()
            if large is not None and large.given_up:
                raise stalled()  # noqa: TRY301 - as above
    except BaseException:
        if large is not None:
            large.released()
        raise
    if large is None:
        return bytes(read)
    large.end()
    return large


async def read_prefix(response: httpx2.Response) -> bytes:
    """Read what can be had of a body within small bounds, and close the response. Never raises.

    A body that is read to its end leaves the connection for the next request.
    """
    read = bytearray()
    with anyio.move_on_after(PREFIX_TIMEOUT_S), suppress(httpx2.HTTPError, MalformedMessage):
        async for chunk in inflated(response):
            read += chunk
            if len(read) > MAX_PREFIX_BYTES:
                break
    with anyio.CancelScope(shield=True), suppress(httpx2.HTTPError):  # closing does not wait for the server
        await response.aclose()
    return bytes(read[:MAX_PREFIX_BYTES])


async def bare_response(response: httpx2.Response) -> httpx2.Response:
    """Close a response, and return its status and headers without a body."""
    await read_prefix(response)
    return httpx2.Response(response.status_code, headers=kept_headers(response))


def kept_headers(response: httpx2.Response) -> httpx2.Headers:
    """Return the headers that still hold for a body that was read and decompressed."""
    pairs = [pair for pair in response.headers.multi_items() if pair[0] not in _NOT_PASSED_ON]
    return httpx2.Headers(pairs)


def stalled() -> ResponseTooLarge:
    """The error for an answer whose sender stopped in the middle of it, while others waited."""
    return ResponseTooLarge("the answer is not sent to its end in time")


def too_large(limit: int) -> ResponseTooLarge:
    """The error for an answer of more than `limit` bytes."""
    return ResponseTooLarge(f"the answer is over {limit} bytes")

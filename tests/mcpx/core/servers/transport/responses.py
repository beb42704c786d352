"""Bodies of responses, piece by piece, to what takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from mcpx.core.servers.transport.http_bodies import Events, Prefix, Whole
from mcpx.core.servers.transport.http_connection import Head


class Connection:
    """A connection, as far as a body knows one: it may be told to read no further."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.closed = False

    def hold(self) -> None:
        self.open.clear()

    def release(self) -> None:
        self.open.set()

    def close(self) -> None:
        self.closed = True
        self.open.set()


async def cut(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def read(
    kind: type[Whole | Events | Prefix],
    body: bytes | AsyncIterator[bytes],
    *,
    limit: int = 1 << 30,
    piece: int = 65536,
    headers: Iterable[tuple[bytes, bytes]] = (),
    connection: Connection | None = None,
) -> Any:
    """What a body of that kind makes of these bytes: a message, events, or its beginning.

    Raises:
        Exception: What it failed with.
    """
    head = Head(200)
    for name, value in headers:
        head.add(name, value)
    over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection = connection or Connection()
    events: list[Any] = []

    def found(made: Any) -> None:
        over.set_result(made)

    near: Any = connection
    if issubclass(kind, Whole):
        taken: Any = Whole(head, near, limit, on_message=found, on_failure=over.set_exception)
    elif issubclass(kind, Prefix):
        taken = Prefix(head, near, found)
    else:
        taken = kind(
            head,
            near,
            limit,
            on_event=events.append,
            on_end=lambda: found(events),
            on_failure=over.set_exception,
        )
    async for each in cut(body, piece) if isinstance(body, bytes) else body:
        await connection.open.wait()
        if over.done():
            break
        taken.feed(each)
    if not over.done():
        taken.end(b"")
    return await over

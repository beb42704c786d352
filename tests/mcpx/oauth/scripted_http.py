"""Small HTTP servers of several origins, in a thread of their own, whose every answer a test can spoil.

`ScriptedHttp` listens on as many ports of loopback as it has origins. `answer`, of whoever inherits, gives
the right answer to a `Seen` request; `faults` says by step what happens in its place. All requests are in
`requests`.
Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import anyio

PATIENCE_S = 50.0
_PIECE = b" " * 16384  # of a body without end


@dataclass(frozen=True)
class Seen:
    """One request. `step` is what it asks for, after a colon in more detail; `origin` whom it asks."""

    step: str
    origin: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form."""
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def is_at(self, step: str) -> bool:
        """Whether it is of that step, or of one in it: `token:refresh_token` is at `token`."""
        return self.step == step or self.step.startswith(f"{step}:")


@dataclass
class Answer:
    """What is answered; a body that is no bytes goes as JSON."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> tuple[dict[str, str], bytes]:
        if isinstance(self.body, bytes | str):
            data = self.body.encode() if isinstance(self.body, str) else self.body
            return self.headers, data
        return {"content-type": "application/json", **self.headers}, json.dumps(self.body).encode()


@dataclass
class Fault:
    """What happens to requests of a step, `times` of them (None: all).

    With `works` the right work is done first, and only its answer is lost. `delay_s` comes before all else.
    `hold` waits for `ScriptedHttp.release`, and then answers rightly, unless nothing is done and the client
    is gone. The others are in place of the answer:
    `drop` cuts the connection; `endless` sends a body without end; `redirect` sends to another address;
    `status`, `body` and `headers` are an answer of their own (`slowly` sends a byte of it every 50 ms).
    """

    status: int | None = None
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    redirect: str | None = None
    delay_s: float = 0.0
    hold: bool = False
    drop: bool = False
    endless: bool = False
    slowly: bool = False
    works: bool = False
    times: int | None = None


class ScriptedHttp:
    """Servers on loopback, one for each of `origins`: their names; `url` has where each listens."""

    origins: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.faults: dict[str, Fault] = {}
        """By step; the most detailed name goes first. Clear it to have all work again."""
        self.requests: list[Seen] = []
        self._ports: dict[str, int] = {}
        self._servers: dict[str, asyncio.Server] = {}
        self._writers: dict[asyncio.StreamWriter, str] = {}
        self._loop = asyncio.new_event_loop()
        self._news = threading.Condition()
        self._released = asyncio.Event()

    def answer(self, seen: Seen) -> Answer:
        """The right answer. Runs in the servers' thread."""
        raise NotImplementedError

    def step(self, seen: Seen) -> str:
        """What a request asks for; its own `step` is empty yet."""
        raise NotImplementedError

    # --- for tests

    def url(self, origin: str, path: str = "") -> str:
        """The address of an origin, without a slash at its end, and a path there."""
        return f"http://127.0.0.1:{self._ports[origin]}{path}"

    def seen(self, step: str = "", *, origin: str | None = None) -> list[Seen]:
        """The requests of a step so far (of all, without one), to one origin or any."""
        wanted = [each for each in list(self.requests) if not step or each.is_at(step)]
        return [each for each in wanted if origin is None or each.origin == origin]

    def wait_for(self, step: str, count: int = 1, *, within_s: float = PATIENCE_S) -> list[Seen]:
        """Wait until so many requests of a step have come; those. Fails where they do not."""
        with self._news:
            came = self._news.wait_for(lambda: len(self.seen(step)) >= count, within_s)
        assert came, (
            f"{len(self.seen(step))} of {count} requests of {step!r}: {[s.step for s in self.requests]}"
        )
        return self.seen(step)

    async def reached(self, step: str, count: int = 1, *, within_s: float = PATIENCE_S) -> list[Seen]:
        """As `wait_for`, in a coroutine."""
        return await anyio.to_thread.run_sync(
            lambda: self.wait_for(step, count, within_s=within_s), abandon_on_cancel=True
        )

    def release(self) -> None:
        """Answer what is held, and hold no more."""
        for step in [step for step, fault in self.faults.items() if fault.hold]:
            del self.faults[step]
        self._loop.call_soon_threadsafe(self._let_go)

    def go_down(self, origin: str) -> None:
        """Refuse connections to an origin from now on, and end those that there are."""
        self._call(self._close(origin))

    def come_up(self, origin: str) -> None:
        """Listen again, where it was."""
        self._call(self._listen(origin))

    # --- its life

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Listen, in a thread, until the end of the context."""
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        try:
            for origin in self.origins:
                self._call(self._listen(origin))
            yield self
        finally:
            self._call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(PATIENCE_S)
            self._loop.close()

    def _call(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    def _let_go(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    async def _listen(self, origin: str) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(origin, reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", self._ports.get(origin, 0), backlog=512)
        self._servers[origin] = server
        self._ports[origin] = server.sockets[0].getsockname()[1]

    async def _close(self, origin: str) -> None:
        self._servers.pop(origin).close()
        for writer in [each for each, whom in self._writers.items() if whom == origin]:
            writer.transport.abort()

    async def _end(self) -> None:
        for origin in list(self._servers):
            await self._close(origin)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- connections

    async def _serve(self, origin: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = origin
        try:
            while await self._exchange(origin, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            del self._writers[writer]
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(
        self, origin: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer the next request of a connection; whether there may be more."""
        seen = await self._read(origin, reader)
        fault = self._fault(seen)
        with self._news:
            self.requests.append(seen)
            self._news.notify_all()
        released = self._released
        answer = self.answer(seen) if fault is None or fault.works else None
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
            if fault.hold:
                await released.wait()
                if answer is None and reader.at_eof():
                    return False
            elif not await self._spoil(fault, writer):
                return False
            elif fault.status is not None or fault.redirect is not None:
                return True
        await self._send(answer if answer is not None else self.answer(seen), writer)
        return True

    async def _read(self, origin: str, reader: asyncio.StreamReader) -> Seen:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines if x)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        asked = urlsplit(target)
        query = dict(parse_qsl(asked.query, keep_blank_values=True))
        seen = Seen("", origin, method, asked.path, query, headers, body)
        return Seen(self.step(seen), origin, method, asked.path, query, headers, body)

    def _fault(self, seen: Seen) -> Fault | None:
        for step in (seen.step, seen.step.partition(":")[0]):
            if (fault := self.faults.get(step)) is not None and fault.times != 0:
                fault.times = None if fault.times is None else fault.times - 1
                return fault
        return None

    async def _spoil(self, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """Do what a fault has in place of the answer; whether the connection is good after it."""
        if fault.drop:
            writer.transport.abort()
            return False
        if fault.endless:
            writer.write(b"HTTP/1.1 200 .\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                writer.write(_PIECE)
                await writer.drain()
            return False
        if fault.redirect is not None:
            location = {"location": fault.redirect, **fault.headers}
            await self._send(Answer(fault.status or 307, b"", location), writer)
        elif fault.status is not None:
            await self._send(Answer(fault.status, fault.body, fault.headers), writer, slowly=fault.slowly)
        return True

    async def _send(self, answer: Answer, writer: asyncio.StreamWriter, *, slowly: bool = False) -> None:
        headers, data = answer.encoded()
        headers = {"content-length": str(len(data)), **headers}
        lines = [f"HTTP/1.1 {answer.status} .", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        for piece in [data[i : i + 1] for i in range(len(data))] if slowly else [data]:
            writer.write(piece)
            await writer.drain()
            if slowly:
                await asyncio.sleep(0.05)

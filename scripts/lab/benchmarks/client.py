"""The raw client, the same for every target: blocking reads and writes on pipes, lines made beforehand.

One call costs it a few microseconds: a write, a read, one msgspec decode to check the id and the text. It
speaks the handshake of 2025-06-18. Whatever is not the answer that was due raises Unmeasured.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
from process import Process, Unmeasured, deadline
from targets import Target

CHUNK = 1 << 16
START_S = 60.0  # until a target has listed its tools
SHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class _Block(msgspec.Struct):
    text: str = ""


class _Result(msgspec.Struct):
    content: list[_Block] = []
    isError: bool = False  # noqa: N815 - the protocol's name


class Answer(msgspec.Struct):
    """The answer to a call, as far as it is checked; a notification has a method."""

    id: int | None = None
    method: str | None = None
    result: _Result | None = None


_decode = msgspec.json.Decoder(Answer).decode


class Client:
    """One session with one target."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self.target = target
        self.process = Process(target.name, target.command, target.env)
        self._id = 0
        self._rest = b""

    def open(self, tools: set[str]) -> None:
        """Shake hands and list, until all `tools` are there."""
        with self.bounded(START_S, "start"):
            self.shake()
            names = {tool["name"] for tool in self.request("tools/list", {})["tools"]}
            if missing := tools - names:
                raise Unmeasured(f"{self.name} does not list {', '.join(missing)} but {', '.join(names)}")

    def shake(self) -> None:
        """Shake hands."""
        self.request("initialize", SHAKE)
        self._write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    @contextmanager
    def bounded(self, seconds: float, what: str) -> Iterator[None]:
        """Within this time, the collector out of the way, and with the target's last words on failure."""
        gc.collect()
        gc.disable()
        try:
            with deadline(seconds, f"{self.name}, {what}"):
                yield
        except (Unmeasured, OSError) as error:
            raise Unmeasured(f"{error}\n{self.process.log()[-600:]}".rstrip()) from error
        finally:
            gc.enable()

    def request(self, method: str, params: object) -> dict:
        """Any request; its result as plain data."""
        self._id += 1
        line = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self._write(msgspec.json.encode(line) + b"\n")
        while True:
            answer = msgspec.json.decode(self._line())
            if answer.get("id") == self._id and "method" not in answer:
                if "result" not in answer:
                    raise Unmeasured(f"{self.name} refuses {method}: {answer.get('error')}")
                return answer["result"]

    def lines(self, count: int, tool: str, arguments: dict) -> list[tuple[int, bytes]]:
        """`count` calls of a tool, ready to be written, each with its id."""
        params = msgspec.json.encode(self.target.call(tool, arguments))
        first = self._id + 1
        self._id += count
        head, tail = b'{"jsonrpc":"2.0","id":', b',"method":"tools/call","params":' + params + b"}\n"
        return [(i, head + str(i).encode() + tail) for i in range(first, first + count)]

    def one_by_one(self, calls: list[tuple[int, bytes]], text: str | None, seconds: float) -> list[float]:
        """Seconds that each call took, one in flight; ends early after `seconds`. `text` None: any."""
        took: list[float] = []
        clock = time.perf_counter
        stop = clock() + seconds
        for request_id, line in calls:
            start = clock()
            self._write(line)
            answer = self._line()
            now = clock()
            while self._check(answer, request_id, text) is None:
                answer = self._line()
                now = clock()
            took.append(now - start)
            if now > stop:
                break
        return took

    def many(
        self, calls: list[tuple[int, bytes]], text: str, seconds: float, window: int
    ) -> tuple[int, float]:
        """Calls done and the seconds taken, `window` in flight, for `seconds` or while `calls` last."""
        waiting = {request_id for request_id, _ in calls[:window]}
        following, done, clock = window, 0, time.perf_counter
        start = clock()
        stop = start + seconds
        self._write(b"".join([line for _, line in calls[:window]]))
        while waiting:
            *lines, self._rest = (self._rest + self._read()).split(b"\n")
            more: list[bytes] = []
            for line in lines:
                answered = self._check(line, None, text)
                if answered is None:
                    continue
                waiting.remove(answered)
                done += 1
                if following < len(calls) and clock() < stop:
                    request_id, outgoing = calls[following]
                    waiting.add(request_id)
                    more.append(outgoing)
                    following += 1
            if more:
                self._write(b"".join(more))
        return done, clock() - start

    def _check(self, line: bytes, request_id: int | None, text: str | None) -> int | None:
        """The id of a right answer; None for a notification."""
        answer = _decode(line)
        if answer.method is not None:
            return None
        result = answer.result
        right = result is not None and not result.isError and (text is None or result.content[0].text == text)
        if not right or (request_id is not None and answer.id != request_id):
            raise Unmeasured(f"{self.name} gave a wrong answer: {line[:300]!r}")
        return answer.id

    def _line(self) -> bytes:
        """The next line; a long one is put together once."""
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            parts.append(self._read())
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _read(self) -> bytes:
        data = os.read(self.process.stdout, CHUNK)
        if not data:
            raise Unmeasured(f"{self.name} has left")
        return data

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.process.stdin, view) :]

    def close(self) -> None:
        """End the session and the target."""
        with suppress(OSError):
            self.process.close()


@contextmanager
def shaken(target: Target) -> Iterator[Client]:
    """A client of the target that has shaken hands and not listed anything."""
    client = Client(target)
    try:
        with client.bounded(START_S, "start"):
            client.shake()
        yield client
    finally:
        client.close()


@contextmanager
def opened(*targets: Target) -> Iterator[list[Client]]:
    """Clients of the targets, ready to call; all are seen off at the end."""
    clients: list[Client] = []
    try:
        for target in targets:
            clients.append(Client(target))
            clients[-1].open(target.tools)
        yield clients
    finally:
        for client in clients:
            client.close()

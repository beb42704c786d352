"""The clients of a measured daemon: a connection each, raw lines, many requests in flight over all of them.

One thread serves all, so that a thousand clients cost little beside what is measured. They speak the
handshake of 2025-06-18.
"""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from scripts.lab.benchmarks.process import Unmeasured

CHUNK = 1 << 16
SHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
SHOWN = 300  # characters of a wrong answer


class _Result(msgspec.Struct):
    isError: bool = False  # noqa: N815 - the protocol's name


class _Answer(msgspec.Struct):
    id: int | None = None
    method: str | None = None
    result: _Result | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class Person:
    """One client. `waiting` are its requests without an answer, each with the time at which it was sent."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.waiting: dict[int, float] = {}
        self._id = 0
        self._rest = b""

    def request(self, method: str, params: dict[str, Any]) -> None:
        """Send a request."""
        self._id += 1
        self.waiting[self._id] = time.perf_counter()
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})

    def call(self, server: str, tool: str, arguments: dict[str, Any]) -> None:
        """Call a tool of a server with `exec`."""
        given = {"server_name": server, "tool_name": tool, "arguments": arguments}
        self.request("tools/call", {"name": "exec", "arguments": given})

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method})

    def _send(self, message: dict[str, Any]) -> None:
        self.socket.sendall(msgspec.json.encode(message) + b"\n")

    def read(self) -> list[float]:
        """Read what has come; the seconds that each answered request took.

        Raises:
            Unmeasured: An answer is an error, or the connection has ended.
        """
        data = self.socket.recv(CHUNK)
        if not data:
            raise Unmeasured("the daemon has closed a connection")
        now = time.perf_counter()
        *lines, self._rest = (self._rest + data).split(b"\n")
        took = []
        for line in lines:
            answer = _decode(line)
            if answer.method is not None or answer.id is None:
                continue
            if answer.result is None or answer.result.isError:
                raise Unmeasured(f"a wrong answer: {line[:SHOWN].decode(errors='replace')}")
            took.append(now - self.waiting.pop(answer.id))
        return took


class People:
    """All clients of a measurement."""

    def __init__(self, path: str, number: int) -> None:
        self.all: list[Person] = []
        self._selector = selectors.DefaultSelector()
        for _ in range(number):
            person = Person(path)
            self.all.append(person)
            self._selector.register(person.socket, selectors.EVENT_READ, person)

    def shake(self, seconds: float) -> None:
        """Shake hands, all of them."""
        for person in self.all:
            person.request("initialize", SHAKE)
        self.finish(seconds)
        for person in self.all:
            person.notify("notifications/initialized")

    def finish(self, seconds: float) -> list[float]:
        """Wait until every request is answered; the seconds that each took.

        Raises:
            Unmeasured: Not within `seconds`, or one was not answered well.
        """
        took: list[float] = []
        until = time.monotonic() + seconds
        open_requests = sum(len(person.waiting) for person in self.all)
        while len(took) < open_requests:
            took += [each for _, more in self._arrived(until) for each in more]
        return took

    def keep_calling(
        self, servers: list[str], tool: str, arguments: dict[str, Any], seconds: float
    ) -> list[float]:
        """Have each call its servers in turn, one call in flight each; the seconds of each call."""
        took: list[float] = []
        number = 0
        stop = time.monotonic() + seconds
        for person in self.all:
            person.call(servers[number % len(servers)], tool, arguments)
            number += 1
        while any(person.waiting for person in self.all):
            for person, more in self._arrived(stop + 60):
                took += more
                if more and time.monotonic() < stop:
                    person.call(servers[number % len(servers)], tool, arguments)
                    number += 1
        return took

    def _arrived(self, until: float) -> Iterable[tuple[Person, list[float]]]:
        if time.monotonic() > until:
            missing = sum(len(person.waiting) for person in self.all)
            raise Unmeasured(f"{missing} requests were not answered in time")
        for key, _ in self._selector.select(1.0):
            yield key.data, key.data.read()

    def close(self) -> None:
        """Leave, all at once."""
        for person in self.all:
            person.socket.close()
        self._selector.close()


@contextmanager
def connected(path: str, number: int) -> Iterator[People]:
    """So many clients that are connected and have not shaken hands; they leave at the end."""
    people = People(path, number)
    try:
        yield people
    finally:
        people.close()


def allow_many() -> None:
    """Let this process open as many files as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))

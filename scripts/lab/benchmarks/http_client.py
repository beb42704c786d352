"""The raw client of HTTP, the same for every target: one session, requests made beforehand, blocking sockets.

One call costs it about fifteen microseconds: a write, a read, the end of the response, one msgspec decode to
check the id and the text. A connection carries one call at a time and is kept alive; with 32 in flight there
are 32. It speaks 2025-11-25, with the handshake, and 2026-07-28, where each request stands for itself.
"""

from __future__ import annotations

import gc
import select
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
from client import Answer
from process import Unmeasured, cpu_of_tree, deadline

LEGACY, MODERN = "2025-11-25", "2026-07-28"
EITHER, EVENTS = "application/json, text/event-stream", "text/event-stream, application/json"
CHUNK = 1 << 16
ANSWER_S = 20.0  # until one answer counts as none
MOST_ERRORS = 50  # of one measurement; more, and it is none
FIRST_ID = 1_000_000  # so that all ids, and so all bodies, have one length
ABOUT = {"name": "bench", "version": "1"}
_END_OF_HEAD, _END_OF_CHUNKS = b"\r\n\r\n", b"\r\n0\r\n\r\n"
_decode = msgspec.json.Decoder(Answer).decode


@dataclass(frozen=True)
class Way:
    """One way to ask a target: the revision of the protocol, and the kinds of answer that are accepted."""

    era: str
    accept: str = EITHER

    def __str__(self) -> str:
        return f"{self.era}, {'SSE or JSON' if self.accept == EVENTS else 'JSON or SSE'}"


@dataclass
class Address:
    """Where a target listens, and what each request says besides."""

    port: int
    path: str = "/mcp"
    headers: tuple[str, ...] = ()


class HttpError(Exception):
    """An answer that is not what was asked for; the text says what came."""


class Connection:
    """One connection, with one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._length: int | None = None  # of the whole response; -1 for one in chunks
        self.fileno = self._socket.fileno
        self.write = self._socket.sendall
        self.close = self._socket.close

    def read(self) -> tuple[bytes, bytes] | None:
        """Head and body of the response, once it is whole; blocks for one read.

        Raises:
            HttpError: The target has closed the connection.
        """
        data = self._socket.recv(CHUNK)
        if not data:
            raise HttpError(f"the connection was closed, after {self._rest[:300]!r}")
        self._rest = rest = self._rest + data
        if self._length is None:
            if (end := rest.find(_END_OF_HEAD)) < 0:
                return None
            self._length = _length(rest[: end + 2].lower(), end + 4)
        if (len(rest) < self._length) if self._length >= 0 else not rest.endswith(_END_OF_CHUNKS):
            return None
        in_chunks = self._length < 0
        self._rest, self._length = b"", None
        head, _, body = rest.partition(_END_OF_HEAD)
        return head, _without_chunks(body) if in_chunks else body

    def ask(self, request: bytes) -> tuple[bytes, bytes]:
        """Head and body of the response to a request."""
        self.write(request)
        while (answer := self.read()) is None:
            pass
        return answer


def _length(head: bytes, start: int) -> int:
    """The length of a response whose head, in lower case, ends at `start`; -1 where it comes in chunks."""
    if (at := head.find(b"\r\ncontent-length:")) >= 0:
        return start + int(head[at + 17 : head.index(b"\r\n", at + 17)])
    if b"\r\ntransfer-encoding: chunked" in head:
        return -1
    return start  # as of 202 and 204


def _without_chunks(body: bytes) -> bytes:
    parts, at = [], 0
    while size := int(body[at : (end := body.index(b"\r\n", at))], 16):
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size
    return b"".join(parts)


class HttpClient:
    """One session with one target, asked in one way. `answers` is the kind of content that came last."""

    def __init__(self, name: str, address: Address, way: Way) -> None:
        self.name, self.way = name, way
        self.answers = ""
        self._address = address
        self._session: str | None = None
        self._id = FIRST_ID

    # --- requests

    def request(self, method: str, params: dict, *, is_notification: bool = False) -> bytes:
        """A whole request, with the next id."""
        self._id += not is_notification
        given = {**params, "_meta": self._envelope()} if self.way.era == MODERN else params
        message = {"jsonrpc": "2.0", "method": method, "params": given}
        if not is_notification:
            message["id"] = self._id
        return self._posted(msgspec.json.encode(message), method, params.get("name"))

    def calls(self, params: dict) -> tuple[bytes, bytes]:
        """A call of a tool as what is before its id, and after it."""
        whole = self.request("tools/call", params)
        before, found, after = whole.rpartition(b'"id":%d' % self._id)
        assert found
        return before + b'"id":', after

    def stream(self) -> bytes:
        """The request for the stream of what the server says unasked."""
        return (self._head("GET", EVENTS) + "\r\n").encode()

    def _posted(self, body: bytes, method: str, name: str | None) -> bytes:
        head = self._head("POST", self.way.accept)
        if self.way.era == MODERN:
            head += f"Mcp-Method: {method}\r\n" + (f"Mcp-Name: {name}\r\n" if name else "")
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def _head(self, method: str, accept: str) -> str:
        address = self._address
        lines = [f"{method} {address.path} HTTP/1.1", f"Host: 127.0.0.1:{address.port}", f"Accept: {accept}"]
        lines += address.headers
        if self._session is not None:
            lines.append(f"Mcp-Session-Id: {self._session}")
        if self._session is not None or self.way.era == MODERN:
            lines.append(f"MCP-Protocol-Version: {self.way.era}")
        return "\r\n".join(lines) + "\r\n"

    def _envelope(self) -> dict:
        prefix = "io.modelcontextprotocol/"
        return {
            f"{prefix}protocolVersion": self.way.era,
            f"{prefix}clientInfo": ABOUT,
            f"{prefix}clientCapabilities": {},
        }

    # --- the session

    def connect(self) -> Connection:
        """A new connection to the target."""
        return Connection(self._address.port)

    def open(self, connection: Connection) -> None:
        """Shake hands, where the revision has a handshake."""
        if self.way.era == MODERN:
            return
        about = {"protocolVersion": self.way.era, "capabilities": {}, "clientInfo": ABOUT}
        head, body = connection.ask(self.request("initialize", about))
        agreed = self._result(head, body)["protocolVersion"]
        if agreed != self.way.era:
            raise HttpError(f"speaks {agreed}, not {self.way.era}")
        for line in head.decode("latin-1").split("\r\n"):
            if line.lower().startswith("mcp-session-id:"):
                self._session = line.partition(":")[2].strip()
        connection.ask(self.request("notifications/initialized", {}, is_notification=True))

    def tools(self, connection: Connection) -> set[str]:
        """The names of the tools that are listed."""
        head, body = connection.ask(self.request("tools/list", {}))
        return {tool["name"] for tool in self._result(head, body)["tools"]}

    def _result(self, head: bytes, body: bytes) -> dict:
        if head[9:12] != b"200":
            raise HttpError(f"status {head[9:12].decode()}: {body[:300]!r}")
        answer = msgspec.json.decode(_message(body))
        if "result" not in answer:
            raise HttpError(f"refused: {answer.get('error')}")
        return answer["result"]

    # --- load

    def check(self, answer: tuple[bytes, bytes], request_id: int, text: str) -> None:
        """Raise HttpError unless this is the right answer to a call."""
        head, body = answer
        if head[9:12] != b"200":
            raise HttpError(f"status {head[9:12].decode()}: {body[:300]!r}")
        said = _decode(_message(body))
        result = said.result
        if said.id != request_id or result is None or result.isError or result.content[0].text != text:
            raise HttpError(f"a wrong answer: {body[:300]!r}")

    def note_answer(self, head: bytes) -> None:
        """Remember the kind of content of an answer."""
        self.answers = "SSE" if b"text/event-stream" in head.lower() else "JSON"


def _message(body: bytes) -> bytes:
    """The JSON of a body: all of it, or the data of its last event that has any."""
    if body.startswith(b"{"):
        return body
    found = [
        line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > len("data: ")
    ]
    if not found:
        raise HttpError(f"no answer among the events: {body[:300]!r}")
    return found[-1]


@contextmanager
def bounded(what: str, seconds: float) -> Iterator[None]:
    """Within this time, with the collector out of the way; what goes wrong is Unmeasured."""
    gc.collect()
    gc.disable()
    try:
        with deadline(seconds, what):
            yield
    except (HttpError, OSError, msgspec.DecodeError) as error:
        raise Unmeasured(f"{what}: {error}") from error
    finally:
        gc.enable()


def one_by_one(client: HttpClient, params: dict, text: str, seconds: float) -> tuple[list[float], int]:
    """Seconds that each call took, one in flight on one connection, and how many went wrong."""
    done, errors, clock = [], 0, time.perf_counter
    with _connections(client, 1) as opened:
        before, after = client.calls(params)
        start = clock()
        stop, request_id = start + seconds, FIRST_ID
        while start < stop:
            request_id += 1
            request = before + b"%d" % request_id + after
            start = clock()
            try:
                answer = opened[-1].ask(request)
                now = clock()
                client.check(answer, request_id, text)
                done.append(now - start)
            except (HttpError, OSError) as error:
                errors += 1
                opened.append(_another(client, errors, error))
        if done:
            client.note_answer(answer[0])
    return done, errors


@dataclass
class Load:
    """What came of many calls: how many were right and wrong, the time in seconds, and what each took."""

    done: int
    errors: int
    elapsed: float
    took: list[float]


def many(client: HttpClient, params: dict, text: str, seconds: float, window: int) -> Load:
    """Calls for so long on `window` connections, each with one in flight."""
    took: list[float] = []
    errors, clock = 0, time.perf_counter
    poll = select.epoll()
    with _connections(client, window) as opened, poll:
        before, after = client.calls(params)
        request_id = FIRST_ID
        flights: dict[int, tuple[Connection, int, float]] = {}

        def send(connection: Connection) -> None:
            nonlocal request_id
            request_id += 1
            flights[connection.fileno()] = connection, request_id, clock()
            connection.write(before + b"%d" % request_id + after)

        start = clock()
        stop = start + seconds
        for connection in opened:
            poll.register(connection, select.EPOLLIN)
            send(connection)
        while flights:
            for number, _ in poll.poll(ANSWER_S) or _silent(client):
                connection, sent, since = flights[number]
                try:
                    if (answer := connection.read()) is None:
                        continue
                    client.check(answer, sent, text)
                    took.append(clock() - since)
                    del flights[number]
                except (HttpError, OSError) as error:
                    errors += 1
                    del flights[number]
                    poll.unregister(number)
                    connection.close()
                    connection = _another(client, errors, error)
                    opened.append(connection)
                    poll.register(connection, select.EPOLLIN)
                if clock() < stop:
                    send(connection)
        elapsed = clock() - start
    return Load(len(took), errors, elapsed, took)


def _silent(client: HttpClient) -> list[tuple[int, int]]:
    raise HttpError(f"{client.name} has not answered for {ANSWER_S:g} s")


def _another(client: HttpClient, errors: int, error: Exception) -> Connection:
    if errors > MOST_ERRORS:
        raise HttpError(f"{errors} calls went wrong, the last: {error}") from error
    return client.connect()


@contextmanager
def _connections(client: HttpClient, count: int) -> Iterator[list[Connection]]:
    found: list[Connection] = []
    try:
        found.extend(client.connect() for _ in range(count))
        yield found
    finally:
        for connection in found:
            connection.close()


def measured(client: HttpClient, pid: int, params: dict, text: str, *, seconds: float, window: int) -> dict:
    """Figures of one round: with one in flight `p50_ms` and `p99_ms`, with `window` in flight the others.

    `cpu_us` is the processor time of a call in the target's processes, `client_us` that in this one.
    """
    with bounded(f"{client.name}, {client.way}", 4 * seconds + 2 * ANSWER_S):
        one_by_one(client, params, text, seconds / 4)
        took, errors = one_by_one(client, params, text, seconds)
        many(client, params, text, seconds / 4, window)
        theirs, ours = cpu_of_tree([pid]), time.process_time()
        load = many(client, params, text, seconds, window)
        theirs, ours = cpu_of_tree([pid]) - theirs, time.process_time() - ours
    return {
        **percentiles(took),
        "per_s": load.done / load.elapsed,
        **{f"{name}_at_{window}": value for name, value in percentiles(load.took).items()},
        "cpu_us": theirs / load.done * 1e6,
        "client_us": ours / load.done * 1e6,
        "errors": float(errors + load.errors),
    }


def percentiles(took: list[float]) -> dict[str, float]:
    """`p50_ms` and `p99_ms` of times in seconds."""
    if len(took) < 2:  # noqa: PLR2004 - one has no percentiles
        raise Unmeasured("fewer than two calls were answered in time")
    return {
        "p50_ms": statistics.median(took) * 1000,
        "p99_ms": statistics.quantiles(took, n=100)[98] * 1000,
    }

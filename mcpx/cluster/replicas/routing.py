"""The way of a request of 2026-07-28 to the replica that holds what it brings.

Stands between who may come in and the endpoints: tokens, `Host` and `Origin` were checked before anything is
passed on, and are again by the holder, which gets the client's own headers. The request goes over a
connection of its own, which nobody has used before: where that cannot be opened, the holder has provably read
nothing. It is sent once. A stream comes back event by event; any other answer is taken whole before its first
byte goes on, so that one that is lost on the way becomes an error that says so. What goes out is sealed, what
comes back is opened or passed on, once: the mark on a request that was passed on is signed, says whether the
client was on the machine of the replica that it came to, and is never passed on again.

Where the holder cannot be reached, nothing was sent now. A question of MCPX's own is then asked anew by this
replica, and a server's state goes to the server as it is here, as 2026-07-28 means states; what only the
holder has ends with an error: `unknown` for a call that had been sent to its server.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
import structlog
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mcpx.cluster.replicas.seals import AlteredError, Incoming, Kind, Seals, read, seal
from mcpx.core.config.certificates import ssl_context
from mcpx.core.daemon.ports import Serve
from mcpx.core.gateway.frontends.http.exchange import JSON, PEERS, Pairs
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.gateway.http_headers import VERSION
from mcpx.core.gateway.peer.results import encoded_error
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.protocol.result_address import SERVER
from mcpx.core.servers.transport.exchange import Dropped, HttpFailure
from mcpx.core.servers.transport.http_connection import Head, HttpConnection
from mcpx.core.servers.transport.http_pool import Url, open_socket, read_url, start
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import INTERNAL_ERROR, INVALID_PARAMS
from mcpx.core.wire.incoming import contained
from mcpx.errors import CallError, Code, MCPXError, Outcome

log = structlog.get_logger()
MARK: Final = b"mcpx-passed-on"
_LOCAL: Final = b"1"
_AFAR: Final = b"0"
_GOES_ON_HERE: Final = frozenset({Kind.APPROVAL, Kind.STATE, Kind.STATELESS})
_HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)


class Replica:
    """One replica among several: the port `Forwarder`, for the HTTP frontend."""

    def __init__(self, url: str, secret: str) -> None:
        self.seals = Seals(url, secret)
        self.seal_kept = self.seals.seal_kept
        self._tasks: anyio.abc.TaskGroup | None = None

    def around(self, serve: Serve) -> Serve:
        """Return what serves the requests of this replica by `serve`, and passes others on."""
        return partial(self._serve, serve)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Pass requests on; at the end, those that are under way are left."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    def _serve(self, serve: Serve, exchange: HttpExchange) -> None:
        """Serve one HTTP request, or have it passed on."""
        version = exchange.headers.get(VERSION)
        if exchange.method != "POST" or version is None or version in _HANDSHAKE:
            serve(exchange)
            return
        is_marked = self._has_mark(exchange)
        exchange.is_from_afar = is_marked and exchange.headers[MARK].startswith(_AFAR)
        try:
            request = read(exchange.body, self.seals)
        except AlteredError as error:
            answer_failure(exchange, altered(error))
            return
        if request is None or request.holder is None:
            self._serve_here(serve, exchange, request)
        elif is_marked:
            answer_failure(exchange, looping(request))
        elif self._tasks is not None:
            self._tasks.start_soon(contained, self._pass_on, serve, exchange, request)

    def _serve_here(self, serve: Serve, exchange: HttpExchange, request: Incoming | None) -> None:
        """Serve a request here; what its response gives out is sealed."""
        method = ""
        if request is not None:
            exchange.body, method = request.body, request.method
        exchange.rewrite = lambda part: seal(part, method, self.seals)
        serve(exchange)

    # --- elsewhere

    async def _pass_on(self, serve: Serve, exchange: HttpExchange, request: Incoming) -> None:
        failure: CallError | None = None
        passing = Passing(exchange)
        try:
            await self._exchange(exchange, request, passing)
        except HolderGoneError as gone:
            log.warning("replica.gone", holder=request.holder, why=str(gone))
            failure = holder_gone(request)
        except AnswerLostError as lost:
            log.warning("replica.answer_lost", holder=request.holder, why=str(lost))
            failure = answer_lost(request)
        if failure is None or exchange.is_over:
            return
        if failure.code is Code.SERVER_UNAVAILABLE and request.kind in _GOES_ON_HERE:
            self._serve_here(serve, exchange, request)
        elif passing.is_begun:
            exchange.end([error_of(exchange.path, request, failure)])
        else:
            answer_failure(exchange, failure)

    async def _exchange(self, exchange: HttpExchange, request: Incoming, passing: Passing) -> None:
        """Send a request to its holder, and the answer to the client.

        Raises:
            HolderGoneError: The holder has read nothing.
            AnswerLostError: It may have, and the answer is lost.
        """
        holder, local = request.holder or "", _LOCAL if exchange.is_local else _AFAR
        mark = local + self._mark(holder, local, exchange.body)
        passed = [(name, value) for name, value in exchange.pairs if name != MARK]
        await passing.run(holder, [*passed, (MARK, mark)])

    def _mark(self, holder: str, local: bytes, body: bytes) -> bytes:
        parts = b"passed on", holder.encode(), local, sha256(body).digest()
        return self.seals.mac(*parts).hex().encode()

    def _has_mark(self, exchange: HttpExchange) -> bool:
        """Return True if another replica has passed the request on to this one."""
        mark = exchange.headers.get(MARK, b"")
        if mark[:1] not in {_LOCAL, _AFAR}:
            return False
        return compare_digest(mark[1:], self._mark(self.seals.url, mark[:1], exchange.body))


_SHOWN: Final = {
    Kind.APPROVAL: "the question about this call",
    Kind.HELD: "this call, which waits for answers",
    Kind.STATE: "the state of this call",
    Kind.STATELESS: "the state of this call",
    Kind.TASK: "this task",
    Kind.KEPT: "this result",
}
CONNECT_TIMEOUT_S: Final = 3.0
_NOT_PASSED_ON: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade"
    b" host content-length accept-encoding expect".split()
)
_NOT_PASSED_BACK: Final = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"date", b"server", b"vary"}
)
_CORS: Final = b"access-control-"  # each replica adds its own


def holder_gone(request: Incoming) -> CallError:
    """The holder cannot be reached, and has read nothing now."""
    what, kind = _SHOWN[request.kind or Kind.STATE], request.kind
    text = f"The replica that holds {what} cannot be reached"
    if kind is Kind.HELD:
        text = f"{text}; the call had been sent to its server, and may have taken effect"
        return CallError(Code.CANCELLED, text, server=SERVER)
    if kind is Kind.TASK:
        text = f"{text}, and the task may be gone; what it did may have taken effect"
        return CallError(Code.SERVER_UNAVAILABLE, text, server=SERVER, outcome=Outcome.UNKNOWN)
    return CallError(Code.SERVER_UNAVAILABLE, f"{text}; nothing was sent: call again", server=SERVER)


def answer_lost(request: Incoming) -> CallError:
    """The holder may have read the request, and its answer is lost."""
    what = _SHOWN[request.kind or Kind.STATE]
    text = f"The connection to the replica that holds {what} was lost before its answer came"
    if request.kind is Kind.KEPT:
        return CallError(Code.SERVER_UNAVAILABLE, f"{text}: read it again", server=SERVER)
    return CallError(Code.SERVER_DIED, f"{text}; it may have taken effect", server=SERVER)


def looping(request: Incoming) -> CallError:
    """The request was passed on already."""
    what = _SHOWN[request.kind or Kind.STATE]
    text = f"Another replica has passed this on for {what}, which is not here either; nothing was sent"
    return CallError(Code.INTERNAL_ERROR, text, server=SERVER, outcome=Outcome.NOT_SENT)


def altered(error: AlteredError) -> CallError:
    """The request brings something that no replica has given out so."""
    text = f"What this request brings back cannot be used: {error}; nothing was sent"
    return CallError(Code.INVALID_ARGUMENTS, text, server=SERVER)


def error_of(path: str, request: Incoming | None, failure: CallError) -> bytes:
    """Answer a failure: as a call of a tool does, where that is what failed at an ordinary endpoint.

    At a peer endpoint it is as all failures there, so that another MCPX reads its outcome.
    """
    head = {"jsonrpc": "2.0", "id": None if request is None else request.id}
    if path.startswith(PEERS):
        return envelope.encode(head | {"error": msgspec.Raw(encoded_error(failure))})
    is_own = not path.startswith("/mcp/servers/")
    if request is not None and request.method == "tools/call" and is_own:
        result = {"resultType": "complete"} | tools.failure(failure, structured=True)
        return envelope.encode(head | {"result": result})
    code = INVALID_PARAMS if failure.code is Code.INVALID_ARGUMENTS else INTERNAL_ERROR
    data = {name: value for name, value in failure.to_dict().items() if name != "error"}
    return envelope.encode(head | {"error": {"code": code, "message": str(failure), "data": data}})


def answer_failure(exchange: HttpExchange, failure: CallError) -> None:
    """Answer a request with a failure."""
    answer = error_of(exchange.path, _as_sent(exchange.body), failure)
    is_for_client = b'"result"' not in answer[:64] and not exchange.path.startswith(PEERS)
    status = 400 if is_for_client and failure.code is Code.INVALID_ARGUMENTS else 200
    exchange.respond(status, JSON, [answer])


def _as_sent(body: bytes) -> Incoming | None:
    """The id and the method of a request, whatever it brings."""
    try:
        message: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return None
    return Incoming(message.get("id"), message["method"], b"")


class HolderGoneError(MCPXError):
    """No connection could be opened: the holder has read nothing."""


class AnswerLostError(MCPXError):
    """The connection was lost after the request had been sent, or while it was."""


class Passing:
    """One request that is passed on, and the answer on its way back (a `Reply`).

    `is_begun` is set when the client has the beginning of it, which is so for a stream alone.
    """

    def __init__(self, exchange: HttpExchange) -> None:
        self.is_begun = False
        self._exchange = exchange
        self._head = Head()
        self._rest = bytearray()  # half an event, or what there is of an answer that is no stream
        self._connection: HttpConnection | None = None
        self._changed = anyio.Event()
        self._lost: Dropped | None = None

    async def run(self, origin: str, headers: Pairs) -> None:
        """Send the request with these headers to the replica at `origin`, once, and pass its answer back.

        Raises:
            HolderGoneError: The holder has read nothing.
            AnswerLostError: It may have.
        """
        exchange = self._exchange
        self._connection = connection = await _connected(origin)
        exchange.on_gone(self._left)
        if exchange.is_over:  # while the connection was made
            connection.close()
            return
        connection.send(_encoded(read_url(origin), exchange, headers), self)
        try:
            while not exchange.is_over and self._lost is None:
                await self._changed.wait()
                self._changed = anyio.Event()
                # else the holder would not see that the client does not read
                await exchange.carrier.wait_taken()
                connection.release()
        finally:
            connection.close()
        if self._lost is not None:
            raise AnswerLostError(str(self._lost))

    def _left(self) -> None:
        self._changed.set()

    # --- the answer, as it comes

    def begun(self, head: Head, _connection: HttpConnection) -> None:
        self._head = head
        if head.headers.get("content-type", "").startswith("text/event-stream"):
            self._exchange.begin(head.status_code, self._headers())
            self.is_begun = True

    def came(self, piece: bytes) -> None:
        self._rest += piece
        if self.is_begun and (end := _end_of_events(self._rest, len(self._rest) - len(piece))):
            self._exchange.put(bytes(self._rest[:end]))
            del self._rest[:end]
            if self._connection is not None:
                self._connection.hold()
            self._changed.set()

    def ended(self, piece: bytes) -> None:
        self.came(piece)
        if self.is_begun:
            self._exchange.finish()
        else:
            self._exchange.respond(self._head.status_code, self._headers(), [bytes(self._rest)])
        self._changed.set()

    def dropped(self, error: Dropped) -> None:
        self._lost = error
        self._changed.set()

    def _headers(self) -> tuple[tuple[bytes, bytes], ...]:
        given = [(name.encode(), value.encode("latin-1")) for name, value in self._head.headers.items()]
        return tuple(
            (name, value)
            for name, value in given
            if name not in _NOT_PASSED_BACK and not name.startswith(_CORS)
        )


def _encoded(url: Url, exchange: HttpExchange, headers: Pairs) -> bytes:
    """A request as it is sent: its target is the client's own text, and never part of a URL."""
    head = exchange.head
    target = head.target + b"?" + head.query if head.query else head.target
    passed = [(name, value) for name, value in headers if name not in _NOT_PASSED_ON]
    own = (b"host", url.authority.encode()), (b"accept-encoding", b"identity")
    lines = b"".join([b"%b: %b\r\n" % pair for pair in (*own, *passed)])
    length = len(exchange.body)
    return b"POST %b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n%b" % (target, lines, length, exchange.body)


async def _connected(origin: str) -> HttpConnection:
    """A connection to a replica that nobody has used before.

    Raises:
        HolderGoneError: It cannot be had.
    """
    made = HttpConnection(lambda connection: connection.close(), lambda _connection: None)
    context: ssl.SSLContext | None = None
    try:
        url = read_url(origin)
        if url.scheme == "https":
            context = await anyio.to_thread.run_sync(ssl_context)
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            await start(made, await open_socket(*url.origin[1:]), url, context)
    except (OSError, HttpFailure) as error:
        raise HolderGoneError(str(error) or type(error).__name__) from error
    return made


def _end_of_events(data: bytearray, seen: int) -> int:
    """Return the end of the last whole event: half of one would spoil what follows if the rest is lost."""
    start = max(0, seen - 3)
    ends = ((mark, data.rfind(mark, start)) for mark in (b"\r\n\r\n", b"\n\n"))
    return max((at + len(mark) for mark, at in ends if at >= 0), default=0)

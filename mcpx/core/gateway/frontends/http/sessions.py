"""Streamable HTTP at one endpoint: its sessions, and the requests that have none.

Before 2026-07-28 a client opens a session with `initialize`; its id comes with each request from then on, and
the client ends it with DELETE, or leaves it for `IDLE_S`. It may have one stream open for what the server
sends by itself (GET), and comes again with `Last-Event-ID` for what a broken one had. Requests of 2026-07-28
are whole in themselves. Which of the two a request is, `MCP-Protocol-Version` says.

What a message means, a `Client` knows: of the SDK's server (`mcpx.core.gateway.over_http`), or transparent
(`mcpx.core.gateway.transparent.clients`). Bodies are decoded as the lines of a stream are, and offered to it
as bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol
from uuid import uuid4

import anyio.lowlevel
import msgspec
import structlog
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.frontends.http.bodies import read_message, refuse, refuse_body
from mcpx.core.gateway.frontends.http.exchange import JSON
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.gateway.frontends.http.in_session import Asked, BatchMember, InSession
from mcpx.core.gateway.frontends.http.posted import Common, Posted, Sessionless
from mcpx.core.telemetry.contained import contain
from mcpx.core.text.json_work import takes_long, work_of
from mcpx.core.wire import batch, envelope, malformed
from mcpx.core.wire.batch import Batch
from mcpx.core.wire.envelope import INTERNAL_ERROR, RPCMessage
from mcpx.core.wire.incoming import FAILED, IN_USE, spellings
from mcpx.core.wire.intake import LARGE_BYTES

log = structlog.get_logger()
MAX_SESSIONS: Final = 10_000  # of one endpoint
IDLE_S: Final = 1800.0  # without a request or a stream, after which a session ends
PRIMED_FROM: Final = "2025-11-25"  # the revision whose clients take an event without data
TOO_DENSE: Final = "it holds too many values; send fewer at a time, or as one text"
INITIALIZE: Final = "initialize"
LISTEN: Final = "subscriptions/listen"
VERSION: Final = b"mcp-protocol-version"
SESSION: Final = b"mcp-session-id"
_LAST_EVENT: Final = b"last-event-id"
_HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)
_REPEATED: Final = "another request of the batch has the same id"
_ONE_MESSAGE: Final = "Body must be a single JSON-RPC request or notification object"
_ALLOW: Final = ((b"allow", b"GET, POST, DELETE"),)


class Client(Protocol):
    """Serves the messages of one session, or those of all requests that have none."""

    @property
    def version(self) -> str | None:
        """The revision that was agreed on, once `initialize` is answered."""

    def take(self, posted: Posted, message: RPCMessage, /) -> None:
        """Serve a request; `posted` must get its answer, now or later."""

    def notice(self, exchange: HttpExchange, message: RPCMessage, /) -> None:
        """Take a notification."""

    def close(self) -> None:
        """End what belongs to the client: its session is over."""


class Service(Protocol):
    """One endpoint, behind its sessions."""

    def open(self, session: Session) -> Client:
        """Serve one more session."""

    @property
    def sessionless(self) -> Client:
        """Serves the requests without a session."""


class Session(Asked):
    """One session. `end` takes it out of the endpoint's."""

    __slots__ = ("_is_agreed", "_sessions", "bearer", "client", "id", "idle")

    def __init__(self, sessions: Sessions) -> None:
        self.id = uuid4().hex
        super().__init__(sessions.common, ((SESSION, self.id.encode()),))
        self.bearer = sessions.bearer
        self.client = sessions.service.open(self)
        self.idle = 0
        """How often it was found idle, one time after the other."""
        self._is_agreed = False  # on a revision
        self._sessions = sessions

    def over(self, posted: InSession) -> None:
        """A request is answered; a session whose `initialize` has failed is none."""
        if self.open.get(posted.id) is posted:
            del self.open[posted.id]
            if not self.open:
                self.open.clear()  # which frees what it has grown to: a session may be idle for long
        self.idle = 0
        if self._is_agreed:
            return
        version = self.client.version
        if version is None:
            self.headers = ()
            self._sessions.end(self)
        else:
            self._is_agreed, self.is_primed = True, version >= PRIMED_FROM


class Sessions:
    """The sessions of one endpoint, for the clients of one token. `idle` looks for those that are idle."""

    def __init__(self, common: Common, bearer: Bearer | None, service: Service) -> None:
        self.common = common
        self.bearer = bearer
        self.service = service
        self.is_choice = False
        """True if the endpoint shows a choice of the servers, of which there may be any number."""
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def end(self, session: Session) -> None:
        """End a session."""
        if self._sessions.pop(session.id, None) is not None:
            session.close()
            session.client.close()

    def end_all(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            self.end(session)

    def end_idle(self, most: float) -> None:
        """End the sessions that were found idle so often; to be called at equal times."""
        for session in list(self._sessions.values()):
            session.idle = 0 if session.is_busy else session.idle + 1
            if session.idle > most:
                log.info("http.session_idle")
                self.end(session)

    # --- requests

    def serve(self, exchange: HttpExchange, *, is_checked: bool = False) -> None:
        """Serve a request. Never raises."""
        headers = exchange.headers
        version, session_id, session = headers.get(VERSION), headers.get(SESSION), None
        try:
            if len(exchange.body) > LARGE_BYTES and not is_checked:
                self.common.spawn(self._check_large, exchange)
            elif version is not None and version not in _HANDSHAKE:
                self._serve_sessionless(exchange)
            elif session_id is not None and (session := self._used(session_id)) is None:
                refuse(exchange, 404, "Session not found")
            elif exchange.method == "POST":
                self._post(exchange, session)
            else:
                self._follow(exchange, session)
        except Exception as error:  # noqa: BLE001 - the boundary: its sender is answered, whatever it sent
            contain(error, "request")
            refuse(exchange, 500, "MCPX failed while it read this request", code=INTERNAL_ERROR)

    async def _check_large(self, exchange: HttpExchange) -> None:
        body, work = exchange.body, 0
        for at in range(0, len(body), LARGE_BYTES):
            work += work_of(body[at : at + LARGE_BYTES])
            await anyio.lowlevel.checkpoint()
        if takes_long(body, work):
            refuse_body(exchange, malformed.invalid(body, TOO_DENSE), 413)
        else:
            self.serve(exchange, is_checked=True)

    def _used(self, session_id: bytes) -> Session | None:
        """The session of that id, which is not idle now."""
        session = self._sessions.get(session_id.decode("latin-1"))
        if session is not None:
            session.idle = 0
        return session

    def _follow(self, exchange: HttpExchange, session: Session | None) -> None:
        """Serve a stream, or the end of a session."""
        if exchange.method not in {"GET", "DELETE"}:
            refuse(exchange, 405, "Method Not Allowed", headers=_ALLOW)
        elif exchange.method == "GET" and not exchange.head.accepts[1]:
            refuse(exchange, 406, "Not Acceptable: Client must accept text/event-stream")
        elif session is None:
            refuse(exchange, 400, "Bad Request: Missing session ID")
        elif exchange.method == "DELETE":
            self.end(session)
            exchange.respond(200, JSON + session.headers)
        elif last := exchange.headers.get(_LAST_EVENT):
            session.events.resume(last.decode("latin-1"), exchange)
        elif not session.events.listen(exchange):
            refuse(exchange, 409, "Conflict: Only one SSE stream is allowed per session")

    def _post(self, exchange: HttpExchange, session: Session | None) -> None:
        if not any(exchange.head.accepts):
            refuse(exchange, 406, "Not Acceptable: Client must accept application/json or text/event-stream")
            return
        message = read_message(exchange, partial(self._take_batch, exchange, session))
        if message is None:
            return
        if message.method is None or message.id is None:
            if session is None:
                refuse(exchange, 400, "Bad Request: Missing session ID")
                return
            exchange.respond(202, JSON + session.headers)
            if message.method is None:
                session.outgoing.take_answer(message)
            else:
                self._notice(exchange, session, message)
        elif session is not None or (session := self._opened(exchange, message)) is not None:
            _take_in(session, InSession(session, exchange, message.id), message)

    def _opened(self, exchange: HttpExchange, message: RPCMessage) -> Session | None:
        """Open a session for `initialize`; None if there can be none."""
        if message.method != INITIALIZE:
            refuse(exchange, 400, "Bad Request: Missing session ID")
            return None
        if len(self._sessions) >= MAX_SESSIONS:
            log.warning("http.sessions_full", sessions=MAX_SESSIONS)
            refuse(exchange, 503, "Too many open sessions", code=INTERNAL_ERROR)
            return None
        session = Session(self)
        self._sessions[session.id] = session
        return session

    @staticmethod
    def _notice(exchange: HttpExchange, session: Session, message: RPCMessage) -> None:
        try:
            if message.method == "notifications/progress":
                session.outgoing.take_progress(message.params)
            if message.method == "notifications/cancelled":
                cancelled = envelope.decode_cancelled(message.params).request_id
                found = (session.open.get(each) for each in spellings(cancelled))
                if (posted := next((each for each in found if each is not None), None)) is not None:
                    posted.cancelled()
        except (msgspec.DecodeError, RecursionError):
            return
        session.client.notice(exchange, message)

    # --- batches

    def _take_batch(self, exchange: HttpExchange, session: Session | None, lines: list[bytes]) -> None:
        """Serve a batch, or refuse it as a whole."""
        problem = batch.NOT_IN_REVISION
        if session is not None and session.client.version == batch.BATCH_REVISION:
            problem = batch.why_refused(lines) or ""
        if problem or session is None:
            refuse_body(exchange, malformed.invalid(b"[]", problem), 400)
            return
        carrier = InSession(session, exchange, "", is_batch=True)
        whole = Batch(carrier.write, self.common.max_bytes)
        used: set[str] = set()
        for line in lines:
            self._take_member(session, carrier, whole, line, used)
        whole.close()
        if not whole.is_open:
            carrier.write()  # nothing, where nothing was asked

    def _take_member(
        self, session: Session, carrier: InSession, whole: Batch, line: bytes, used: set[str]
    ) -> None:
        problem = malformed.unreadable(line)
        message = None if problem else batch.read(line)
        if message is not None and message.id is not None and message.method is not None:
            if str(message.id) in used:
                problem = malformed.refusal(malformed.invalid(line, _REPEATED))
            used.add(str(message.id))
        if problem or message is None:
            whole.add(None, problem)
        elif message.method is None:
            session.outgoing.take_answer(message)
        elif message.id is None:
            self._notice(carrier.exchange, session, message)
        else:
            _take_in(session, BatchMember(session, carrier, whole, message.id), message)

    # --- requests without a session

    def _serve_sessionless(self, exchange: HttpExchange) -> None:
        if exchange.method != "POST":
            exchange.respond(405, ((b"allow", b"POST"),))
            return
        if not any(exchange.head.accepts):
            exchange.respond(406)
            return
        message = read_message(exchange, lambda _lines: refuse(exchange, 400, _ONE_MESSAGE))
        if message is None:
            return
        if message.method is None:
            refuse(exchange, 400, _ONE_MESSAGE)
        elif message.id is None:
            self.service.sessionless.notice(exchange, message)
        elif message.method == LISTEN and not exchange.head.accepts[1]:
            exchange.respond(406)
        else:
            _take(self.service.sessionless, Sessionless(self.common, exchange, message.id), message)


def _take_in(session: Session, posted: InSession, message: RPCMessage) -> None:
    """Have a request of a session served, unless its id is in use."""
    if session.open.setdefault(posted.id, posted) is posted:
        _take(session.client, posted, message)
    else:
        posted.write(*envelope.failure(posted.id, IN_USE))


def _take(client: Client, posted: Posted, message: RPCMessage) -> None:
    try:
        client.take(posted, message)
    except Exception as error:  # noqa: BLE001 - as where the lines of streams are received
        contain(error, "request", method=message.method)
        posted.write(*envelope.failure(posted.id, FAILED))

"""A session with a server, whatever its mode: what the fleet gives it, and what its server is to it.

`Host` is the fleet's side and `Owner` the server's, so that a session needs to know neither of the two. What
sessions of all modes have in common is `Supervised`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from mcpx.core.catalog.model import Catalogue, Diff
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Http, ServerConfig, Sse
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.protocol.requests import Passed, Request
from mcpx.core.running import Inherited
from mcpx.core.servers.call_queue import CallQueue, RawReply
from mcpx.core.servers.call_rate import CallRate
from mcpx.core.servers.causes import cause_of
from mcpx.core.servers.credentials import Credentials, Renew
from mcpx.core.servers.health import Health
from mcpx.core.servers.offers.catalogue_store import CatalogueStore
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.server_info import Elsewhere, server_info
from mcpx.core.servers.session.handshake import KnownEras
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.servers.transport.link import Link, MalformedLog
from mcpx.core.servers.transport.placement import Placement, Placing
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.core.telemetry.metrics import Activity, Counters
from mcpx.core.text import one_line
from mcpx.errors import CallError
from supervisors import Event, Incarnation, Supervisor

if TYPE_CHECKING:
    from mcpx.core.servers.accounts import Account, Authorizer
    from mcpx.core.servers.transport.program import Program

    Connect = Callable[[ServerConfig, Program | None], Awaitable[None]]

SLOW_START_S: Final = 2.0  # of which more is said than that it starts
SILENT_START_S: Final = 10.0  # the same where the server says nothing
MAX_SAID_CHARS: Final = 200
VANISHED_IDLE_STOP_S: Final = 900.0
"""Seconds without use after which the session of a client ends that does not say when it leaves."""


class Mode(Enum):
    """For whom a session is; `mcpx.core.servers.actor` says what each means."""

    SHARED = auto()
    OTHER_ERA = auto()
    PER_CLIENT = auto()
    PER_PROJECT = auto()
    PASSTHROUGH = auto()


@dataclass(kw_only=True)
class Host:
    """Things that the fleet gives to its servers and their sessions."""

    supervisor: Supervisor
    ledger: Ledger
    clients: ConnectedClients
    start: Callable[[Supervised], None]
    """Has a session supervised."""
    dismiss: Callable[[Supervised, str], None]
    """Ends a session for the reason given, and does not wait for that."""
    max_message_bytes: int
    catalogues: CatalogueStore
    """Of the last offers of servers."""
    activity: Activity
    """Of all servers together."""
    elsewhere: Elsewhere
    """Has the view of servers of other MCPX."""
    placement: Placement | None
    """Says on which node a session is, where its server is placed on one."""
    renew: Renew
    """Reads the entry of a server again, with the values of now."""
    refusal_of: Callable[[ServerConfig], CallError | None] = lambda _server: None
    """Says why a server that the file of a project names must not run, or not any more."""
    _made: Counter[str] = field(default_factory=Counter)  # children of each name so far

    def child_name(self, server: str) -> str:
        """The supervisor's name for the next session with a server: its predecessor may still be leaving."""
        self._made[server] += 1
        number = self._made[server]
        return server if number == 1 else f"{server}\x1f{number}"  # no server's name holds such a character


class Reads(Protocol):
    """Keeps results of a server's read-only tools (`mcpx.core.servers.fleet.read_cache`)."""

    def submit(self, request: Request, reply: RawReply) -> None:
        """Answer a request with a result that was kept, or send or queue it; as `Server.submit`."""

    def passes(self, request: Passed, reply: RawReply) -> None:
        """Take in a request at the transparent endpoint, which is sent."""

    def forget(self, session: str | None = None) -> None:
        """Forget what is kept, of one session or of all."""

    def note_question(self) -> None:
        """Take in that the server asks a client something."""


class Owner(Protocol):
    """The server of a session, with what all sessions with it share."""

    config: ServerConfig
    policy: ServerPolicy
    account: Account | None
    credentials: Credentials
    counters: Counters
    rate: CallRate
    known_eras: KnownEras
    server_log: ServerLog
    has_open_tasks: Callable[[], bool]
    per_project: bool
    wants_project: bool
    reads: Reads | None

    def info(self) -> ServerInfo:
        """The server as clients are shown it."""

    async def await_program(self) -> Program | None:
        """Wait for the program that the main session runs, and has it start if need be; None if in vain."""

    def is_kept_awake_by(self, session: Supervised) -> bool:
        """True if `session` must not rest, because another one with the server is in use."""

    def note_listing(self, session: Supervised, listed: Catalogue) -> None:
        """Take in what a session has listed, before it is known."""

    def changed(self, session: Supervised, changed: Diff, *, is_first: bool) -> None:
        """Take in that the catalogue of a session was replaced, and what differs."""

    def takes(self, event: Event, session: Supervised) -> bool:
        """Take in an event of a session; True if it says nothing of the server, and is not to be reported."""

    def resource_updated(self, uri: str) -> None:
        """Take in that a session beside the shared one heard of a changed resource."""


class Supervised:
    """A session of any mode, as the fleet has it: a child of its supervisor, with a queue of requests.

    The actor of each kind of session adds how it is opened and served (`run`), and how a request is sent.
    """

    queue_kind: type[CallQueue] = CallQueue

    def __init__(self, server: Owner, host: Host, mode: Mode) -> None:
        self.server = server
        self.mode: Final = mode
        self.config = config = self._as_opened(server.config)
        self.name = config.name
        """The server's."""
        self.child = host.child_name(config.name)
        """Its own, at the supervisor and in the ledger."""
        self.account = server.account
        self.credentials = server.credentials
        self.pid: int | None = None
        self.inherited: Inherited | None = None
        """Variables of the environment that its process was given, or its last one."""
        self.environment: Mapping[str, str] | None = None
        """Variables of the client that it belongs to, as that has said them; None where it is not of one."""
        self.process_began = 0.0
        """When its process was first connected to, by `time.monotonic()`."""
        self.is_connected_again = False
        """True if there was a connection to the same process before."""
        self.program: Program | None = None
        """Program of a server over HTTP, while MCPX runs one for this session."""
        self._starting: tuple[Link, float] | None = None  # with the time when it was opened
        self.health: Health | None = None
        """The health check, while it serves."""
        self.last_error: str | None = None
        """Cause of its last failure, also after it has recovered; set by the fleet, which sees failures."""
        self.rests = 0
        """Number of times that it was put to sleep; counted by the fleet."""
        self.queue = self.queue_kind(
            config, host.supervisor, server.counters, self.info, child=self.child, refusal=self.refusal_of
        )
        self._host = host
        self._limit = host.max_message_bytes
        self._leaving: str | None = None
        self._malformed = MalformedLog(config, server.counters)
        self._placing = Placing(host.placement, config, self.child)

    @property
    def is_busy(self) -> bool:
        """True if anything runs, waits, or is to be gone on with."""
        raise NotImplementedError

    @property
    def catalogue(self) -> Catalogue | None:
        """The last listing, as clients are shown it; None before there is one, and where none is made."""
        return None

    def _as_opened(self, entry: ServerConfig) -> ServerConfig:
        """The entry as this session is opened: by its mode, with the project and variables of its client."""
        raise NotImplementedError

    async def run(self, incarnation: Incarnation) -> None:
        """Connect and serve, until the connection ends or the supervisor asks to leave."""
        raise NotImplementedError

    @property
    def is_guest(self) -> bool:
        """True if it connects to the program that the main session runs."""
        transport = self.config.transport
        if transport.program is None or self.mode in {Mode.SHARED, Mode.PER_PROJECT}:
            return False
        runs_once = isinstance(transport, Http | Sse) and not transport.names_port
        return runs_once or self.mode is Mode.OTHER_ERA

    async def serve(self, incarnation: Incarnation, connect: Connect) -> None:
        """Serve by `connect`, over HTTP with the program that the entry has beside its URL, if it has one.

        Raises:
            Exception: What `connect` has raised; or there is no program to connect to.
        """
        config = self.config
        if config.ages:
            config = self._as_opened(await self.credentials.current())
        try:
            if isinstance(config.transport, Http | Sse) and config.transport.program is not None:
                from mcpx.core.servers.transport.program import serve  # noqa: PLC0415 - for who has such

                await serve(self, incarnation, config, connect, partial(cause_of, config=config))
            else:
                await connect(config, None)
        finally:  # only now: the process has been terminated
            self._ended()

    def refusal_of(self, request: Request) -> CallError | None:
        """Say why a request may not be sent, or not any more; None where it may be."""
        raise NotImplementedError

    def check_project(self) -> None:
        """Check that the server may run, where the file of a project names it.

        Raises:
            CallError: It may not.
        """
        if self.config.project is not None and (refused := self._host.refusal_of(self.config)) is not None:
            raise refused

    def info(self) -> ServerInfo:
        """A frozen view of the server by this session alone."""
        return server_info(
            self.config, self.queue, self.catalogue, self._leaving, self.account, doing=self._doing()
        )

    def _doing(self) -> str | None:
        """Say how long its process has been starting, and its last words, if it is slow to start."""
        if self._starting is None or (took_s := time.monotonic() - self._starting[1]) < SLOW_START_S:
            return None
        said = one_line(self._starting[0].last_line(), MAX_SAID_CHARS)
        if not said and took_s < SILENT_START_S:
            return None
        return f"it has been starting for {took_s:.0f} s" + (f"; its last line: {said}" if said else "")

    def policy_changed(self) -> None:
        """Hold what waits, and what is subscribed to, against the policy in force."""
        self.queue.recheck()

    def retire(self, why: str) -> None:
        """Refuse new requests and fail the waiting ones, because of `why`; the running ones may finish."""
        self._leaving = why
        self.queue.close()

    @property
    def _authorizer(self) -> Authorizer | None:
        """Puts on requests over HTTP what lets them in, where that changes."""
        return self.credentials if self.credentials.signs else self.account

    def _opened(self, link: Link) -> None:
        """Note the process of a connection, before anything is sent."""
        self.is_connected_again = link.pid is not None and link.pid == self.pid
        self.pid, self.inherited = link.pid, link.inherited
        if not self.is_connected_again:
            self.process_began = time.monotonic()
        if link.pid is not None:
            self._starting = link, time.monotonic()
            self._host.ledger.add(self.child, link.pid, link.mark, link.container)

    def _ended(self) -> None:
        """Forget the process: it has been terminated."""
        self.pid = self._starting = None
        self._host.ledger.remove(self.child)

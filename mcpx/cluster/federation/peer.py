"""One other MCPX: a session with it, in which it says which servers it has and how they are.

A child of the federation's supervisor, which restarts it like a server. It asks for the directory again and
again; the answer comes when something has changed there. What it last said stays known while it is away.
The servers themselves have sessions of their own, with which this one has nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio
import msgspec
import structlog
from msgspec.structs import replace

from mcpx.cluster.federation.directory import (
    LOG,
    RESTART,
    SERVERS,
    Directory,
    LogRequest,
    LogTail,
    PeerServer,
    read_directory,
)
from mcpx.cluster.federation.expansion import MAX_OF_PEER, Known, offered_by
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config import Era, PeerConfig, redactor_of
from mcpx.core.servers.accounts import Account
from mcpx.core.servers.call_errors import call_error
from mcpx.core.servers.causes import cause_of
from mcpx.core.servers.fleet.supervision import TEARDOWN_S, restart_policy
from mcpx.core.servers.in_flight import InFlight
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.relay.session_relay import SessionRelay
from mcpx.core.servers.relay.suspended import SuspendedCalls
from mcpx.core.servers.server_info import said_elsewhere
from mcpx.core.servers.session.handshake import Attempts, Handshake
from mcpx.core.servers.session.upstream_session import UpstreamSession, open_session
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.servers.transport.link import ConnectionLost, Hooks, Link
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.core.text import cut, paragraphs
from mcpx.core.wire.envelope import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MCPError
from mcpx.errors import CallError, Code, MCPXError
from supervisors import (
    ChildFailed,
    ChildHeld,
    ChildParked,
    ChildReady,
    ChildSpec,
    ChildState,
    Event,
    Incarnation,
    Shutdown,
    Signal,
)

log = structlog.get_logger()
WAIT_S: Final = 25.0  # for a change; some proxies end what is silent for 30 s
ANSWER_S: Final = 15.0  # beyond that, for the answer itself
PAUSE_S: Final = 0.25  # between two questions, however fast the other side answers
RESTART_S: Final = 60.0  # for a server that is started again there
LOG_S: Final = 10.0
REST: Final = 40.0  # times what it took to take an answer in, before the next question: it may be huge
MAX_BYTES: Final = 16 << 20  # of a message of the session with it: a directory of 10,000 servers has 7 MB
SERVED: Final = frozenset({"ready", "asleep"})
"""The states, as a peer says them, in which calls are served."""
_JUDGED: Final = frozenset({State.READY, State.ASLEEP, State.WAITING, State.PARKED})
"""The states of a session here behind which the reason may be there."""
_STATES: Final = frozenset(State) - {State.DISABLED, State.STOPPED}
MAX_TEXT: Final = 2000  # characters of what it says of a server
_UNKNOWN: Final = frozenset({METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS})


class PeerError(MCPXError):
    """A peer could not be asked, or refused."""


class Peer:
    """One peer. `known` is what is remembered of it; `on_news` is called when it has said something new.

    `on_news` gets whether it has other servers now, and not the same ones in another state.
    """

    def __init__(
        self,
        config: PeerConfig,
        *,
        known: Known | None,
        limit: int,
        account: Account | None,
        ledger: Ledger,
        server_log: ServerLog,
        child: str,
        on_news: Callable[[Peer, bool], None],
    ) -> None:
        self.config = config
        self.child = child
        self.known = known
        self.account = account
        self.said: dict[str, PeerServer] = {}
        """What it says of its servers, by their names there; empty while it is away."""
        self.served: set[str] = set()
        """Of these, those that serve calls, for the federation, which notices the others."""
        self.is_up = False
        """Whether it answers."""
        self.pid: int | None = None
        self.last_error: str | None = None
        self._limit = min(limit, MAX_BYTES)
        self._ledger = ledger
        self._log = server_log
        self._on_news = on_news
        self._session: UpstreamSession | None = None
        self._said_at = 0.0
        self._pause_s = PAUSE_S
        eras: tuple[Era, ...] = ("modern",) if config.era == "auto" else (config.era,)
        self._attempts = Attempts(config.name, lambda: eras)
        self._redact = redactor_of(config)

    async def run(self, incarnation: Incarnation) -> None:
        """Follow its directory, until the connection ends or the supervisor asks to leave."""

        async def live(handshake: Handshake) -> None:
            await self._live(incarnation, handshake)

        await self._attempts.run(incarnation, live)

    async def _live(self, incarnation: Incarnation, handshake: Handshake) -> None:
        clients = ConnectedClients()
        suspended = SuspendedCalls(self.config.name, ANSWER_S)
        relay = SessionRelay(
            self.config.name, _NoCalls(), clients, suspended, self._log, entry=lambda: self.config
        )
        try:
            async with open_session(
                self.config,
                handshake=handshake,
                limit=self._limit,
                hooks=Hooks(self._on_open, lambda *_: None, self._log.write, lambda: None),
                changes=Signal(),
                relay=relay,
                account=self.account,
            ) as session:
                version = await self._hear(session, None)
                session.established()
                self._session = session
                incarnation.ready()
                await incarnation.while_wanted(lambda: self._follow(session, incarnation, version))
        finally:
            self._session, self.pid = None, None
            self._ledger.remove(self.child)
            self._log.close()
            if self.is_up:
                self.is_up, self.said = False, {}
                self._on_news(self, False)  # noqa: FBT003 - how they are is not known now

    async def _follow(self, session: UpstreamSession, incarnation: Incarnation, version: int) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_with, session)
            while True:
                await anyio.sleep(self._pause_s)
                version = await self._hear(session, version)
                incarnation.proven()

    async def _end_with(self, session: UpstreamSession) -> None:
        """Fail as soon as the connection is lost, not only when the next answer is due."""
        await session.link.lost.wait()
        raise session.link.failure()

    async def _hear(self, session: UpstreamSession, since: int | None) -> int:
        """Take in the directory: now, or when it is another one than `since`. Its version.

        Raises:
            ConnectionLost: It does not answer, or says none, or it is no MCPX that has one.
        """
        params: dict[str, Any] = {} if since is None else {"since": since, "wait_s": WAIT_S}
        result = await self._ask(session, SERVERS, params, (0 if since is None else WAIT_S) + ANSWER_S)
        began = anyio.current_time()
        try:
            return self._take(read_directory(result))
        except (msgspec.MsgspecError, RecursionError) as error:
            text = f"what it says of its servers cannot be used: {error}"
            raise ConnectionLost(paragraphs(cut(text, MAX_TEXT))) from None
        finally:
            self._pause_s = PAUSE_S + REST * (anyio.current_time() - began)

    async def _ask(
        self, session: UpstreamSession, method: str, params: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        try:
            with anyio.fail_after(seconds):
                return await session.client.ask_raw(method, params)
        except TimeoutError:
            raise ConnectionLost(f"no answer to {method} within {seconds:g} s") from None
        except MCPError as error:
            if error.code in _UNKNOWN and method == SERVERS:
                said = paragraphs(cut(error.message, MAX_TEXT))
                text = f'it is no MCPX that tells its servers ({said}); "mcpx": true is for an MCPX'
                raise ConnectionLost(text, retryable=False) from None
            raise

    def _take(self, directory: Directory) -> int:
        """Take in what it says; its version."""
        known = offered_by(directory)
        said = {each.name: _bounded(each) for each in directory.servers[:MAX_OF_PEER]}
        differs, was_up = known != self.known, self.is_up
        news = differs or not was_up or said != self.said
        self.known, self.said, self.is_up = known, said, True
        self._said_at = anyio.current_time()
        if news:
            self._on_news(self, differs or not was_up)
        return directory.version

    def age_s(self) -> float:
        """For how long what it has `said` is known, in seconds."""
        return anyio.current_time() - self._said_at

    def _on_open(self, link: Link) -> None:
        self.pid = link.pid
        if link.pid is not None:
            self._ledger.add(self.child, link.pid, link.mark)

    # --- what is asked of it

    async def restart(self, server: str) -> None:
        """Have it start one of its servers again.

        Raises:
            PeerError: It is away, or refuses.
        """
        await self._request(RESTART, {"server": server}, RESTART_S)

    async def log_tail(self, server: str, lines: int) -> list[str]:
        """The last lines of the log that it keeps of one of its servers.

        Raises:
            PeerError: It is away, or refuses.
        """
        params = msgspec.to_builtins(LogRequest(server, max(1, min(lines, 1000))))
        try:
            found = msgspec.convert(await self._request(LOG, params, LOG_S), LogTail)
        except msgspec.MsgspecError as error:
            raise PeerError(f"{self.config.name}: {error}") from None
        return found.lines[-lines:]

    async def _request(self, method: str, params: dict[str, Any], seconds: float) -> dict[str, Any]:
        session, name = self._session, self.config.name
        if session is None:
            raise PeerError(f"{name} cannot be asked: there is no connection with it")
        try:
            return await self._ask(session, method, params, seconds)
        except ConnectionLost as lost:
            raise PeerError(f"{name}: {lost}") from None
        except Exception as error:  # noqa: BLE001 - the boundary: what the SDK raises for an answer may be anything
            failure = call_error(error, server=name, tool=None, redact=self._redact)
            raise PeerError(f"{name}: {paragraphs(cut(str(failure), MAX_TEXT))}") from None


def _bounded(server: PeerServer) -> PeerServer:
    """Cut what it says of a server: nobody reads such texts to their end."""
    error = None if server.last_error is None else cut(server.last_error, MAX_TEXT)
    return replace(server, described=cut(server.described, MAX_TEXT), last_error=error)


class _NoCalls:
    """No call is ever in flight on this session."""

    def running(self) -> list[InFlight]:
        """None."""
        return []

    def renew(self, call: InFlight) -> None:
        """There is none."""


def as_call_error(error: PeerError, server: str) -> CallError:
    """For who asked for a restart or a log of that server."""
    return CallError(Code.SERVER_UNAVAILABLE, str(error), server=server)


def child_spec(peer: Peer) -> ChildSpec:
    """Return what the supervisor runs for this peer, and how it restarts it."""
    return ChildSpec(
        name=peer.child,
        run=peer.run,
        policy=restart_policy(peer.config),
        shutdown=Shutdown(grace=1.0, limit=TEARDOWN_S),
        classify=lambda error: cause_of(error, peer.config),
    )


def log_event(event: Event, peer: str) -> None:
    """Log an event of the peer of that name."""
    match event:
        case ChildReady(_, generation, took):
            log.info("peer.ready", peer=peer, took_s=round(took, 3), incarnation=generation)
        case ChildFailed(_, _, cause, failures, retry_in):
            fields = {"cause": cause.text, "failures": failures, "retry_in_s": round(retry_in, 2)}
            log.warning("peer.failed", peer=peer, **fields)
        case ChildParked(_, _, cause, failures, probe_in):
            fields = {"cause": cause.text, "failures": failures, "probe_in_s": round(probe_in, 2)}
            log.warning("peer.parked", peer=peer, **fields)
        case ChildHeld(_, _, cause):
            log.warning("peer.held", peer=peer, cause=cause.text)
        case _:
            pass


def as_peer_says(peer: Peer, life: ChildState, name_there: str, info: ServerInfo) -> ServerInfo:
    """Return a server as its own session has it and, where that is well or waits, as its peer does."""
    if info.state not in _JUDGED:
        return info
    if not peer.is_up:
        return _without(peer, life, info) if info.ready else info
    said = peer.said.get(name_there)
    if said is None or said.state in SERVED or said.state not in _STATES:
        return info
    due = None if said.next_attempt_in_s is None else said.next_attempt_in_s - peer.age_s()
    return said_elsewhere(info, peer.config.name, said.state, said.last_error or said.described, due)


def _without(peer: Peer, life: ChildState, info: ServerInfo) -> ServerInfo:
    """Return a server as it is while its peer does not answer."""
    if peer.last_error is None:
        return info  # it has not been tried yet
    cause = f"{peer.config.name} does not answer: {peer.last_error}"
    return replace(info, state=State.WAITING, cause=cause, retry_in_s=due_in_s(life), call_in_s=None)


def due_in_s(life: ChildState) -> float | None:
    """Return the seconds until the next attempt; None if there is none."""
    at = life.next_attempt_at
    return None if at is None else max(0.0, at - anyio.current_time())

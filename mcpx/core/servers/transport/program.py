"""The program of a server over HTTP, where an entry has a command and a URL: MCPX starts it, then connects.

A program lives as long as the incarnation of its session, as a child that speaks on its standard streams
does: its death ends the incarnation, with its exit code and last words, and so does a hang. A connection may
be lost without that, by a session that the server has forgotten for instance. Then a new one is made to the
same program (`Program.keep_connected`), at once or after growing pauses. Once that has failed for
`connect_timeout`, or more than `MAX_QUICK_LOSSES` connections in a row were lost soon, before any call was
answered, the incarnation fails, and the next one starts the program anew.

Whatever else the server's clients need (a session in the other era, one of a transparent client) is a
connection to the same program, unless the entry has MCPX choose the port (`${port}`): then the sessions of
single clients have programs of their own.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

import anyio
from msgspec.structs import replace

from mcpx.core.config import Http, ServerConfig, Sse, redactor_of
from mcpx.core.config.urls import PORT, split_url
from mcpx.core.servers.transport.exchange import HttpLink, Refused, failure_of
from mcpx.core.servers.transport.link import ConnectionLost, Link
from mcpx.core.servers.transport.process import NOT_FOUND, ChildProcess, running
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.core.wire.tls_channel import connected_to
from mcpx.errors import leaves
from supervisors import Backoff, Cause, Incarnation, delay

MAX_QUICK_LOSSES: Final = 5
QUICK_S: Final = 10.0  # a connection that lived longer was a good one
PAUSES: Final = Backoff(cap=2.0)  # a connection to this machine costs little
TAKEN_TIMEOUT_S: Final = 2.0  # to find out if somebody else listens
NOT_AGAIN_S: Final = 60.0  # for which a port is not chosen again
_USUAL_PORTS: Final = {"http": 80, "https": 443}
_chosen: dict[int, float] = {}  # ports, and when


class Program:
    """One that runs. `transport` is how it is reached: its port is filled in.

    It `is_lent` where it belongs to another session.
    """

    def __init__(self, child: ChildProcess, transport: Http | Sse, *, is_lent: bool = False) -> None:
        self.child = child
        self.transport = transport
        self._is_lent = is_lent

    @asynccontextmanager
    async def watched(self, link: HttpLink) -> AsyncIterator[None]:
        """Have a link lost when the program ends; that of its own session answers for the process as well."""
        child, link.by_program = self.child, True
        vars(link).update(stderr_tail=child.last_words.tail, is_exiting=child.is_exiting)
        if not self._is_lent:
            link.take_process(child)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._lose_at_exit, link)
            try:
                yield
            except Exception:  # perhaps because the process is ending: that is the better reason
                await child.has_exited()
                self._note_exit(link)
                raise
            tasks.cancel_scope.cancel()

    async def _lose_at_exit(self, link: Link) -> None:
        await self.child.exited.wait()
        self._note_exit(link)

    def _note_exit(self, link: Link) -> None:
        if self.child.exited.is_set():
            link.program_ended = True
            link.lost.set(f"the server process {self.child.describe_exit()}")

    async def keep_connected(
        self,
        incarnation: Incarnation,
        connect: Callable[[], Awaitable[None]],
        cause_of: Callable[[Exception], Cause],
        *,
        patience_s: float,
    ) -> None:
        """Serve over one connection after the other, each by `connect`, while that helps.

        Raises:
            Exception: What `connect` has raised, where it does not.
        """
        failures, failing_since = 0, math.inf
        while True:
            began = time.monotonic()
            try:
                return await connect()
            except Exception as error:
                cause, now, was_up = cause_of(error), time.monotonic(), incarnation.was_ready
                served = incarnation.was_proven or now - began > QUICK_S
                failures = 1 if was_up and served else failures + 1
                failing_since = now if was_up else min(now, failing_since)
                may_help = cause.retryable and not cause.held and _may_pass(error)
                if await self.child.has_exited() or not self.child.is_alive():
                    raise self._end() from error
                if not may_help or incarnation.stopping.is_set():
                    raise
                if (was_up and failures > MAX_QUICK_LOSSES) or now - failing_since > patience_s:
                    raise
            incarnation.interrupted(cause)
            await incarnation.while_wanted(partial(anyio.sleep, delay(failures, 1.0, PAUSES)))
            if incarnation.stopping.is_set():
                return None

    def _end(self) -> ConnectionLost:
        """The end of the process as an exception."""
        child = self.child
        reason, words = f"the server process {child.describe_exit()}", child.last_words.tail()
        return ConnectionLost(reason, words, lacks_command=child.returncode == NOT_FOUND)


def _may_pass(error: Exception) -> bool:
    """True if it is the connection that has failed, or the server is not quite there."""
    for leaf in leaves(error):
        failure = failure_of(leaf) if isinstance(leaf, Exception) else None
        if isinstance(failure, Refused):
            return failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if failure is not None or isinstance(leaf, ConnectionLost):
            return True
    return False


class Running(Protocol):
    """A session, as far as it has to do with its program."""

    program: Program | None

    @property
    def server(self) -> Owning:
        """Its server."""

    @property
    def is_guest(self) -> bool:
        """True if it connects to the program that the main session runs."""


class Owning(Protocol):
    """The server of a session."""

    server_log: ServerLog

    async def await_program(self) -> Program | None:
        """Wait for the program that the main session runs; None if it is in vain."""


async def serve(
    session: Running,
    incarnation: Incarnation,
    config: ServerConfig,
    connect: Callable[[ServerConfig, Program], Awaitable[None]],
    cause_of: Callable[[Exception], Cause],
) -> None:
    """Start the program of an entry that has one, connect to it, and stop it at the end.

    A guest connects to the program that there is.

    Raises:
        ConnectionLost: There is none; or somebody else listens at its port already.
        OSError: It cannot be started.
        Exception: What `connect` has raised.
    """
    transport = config.transport
    assert isinstance(transport, Http | Sse) and transport.program is not None  # who calls this has looked
    if session.is_guest:
        if (running_here := await session.server.await_program()) is None:
            raise ConnectionLost("its program does not run")
        program = Program(running_here.child, running_here.transport, is_lent=True)
        await connect(replace(config, transport=replace(transport, url=program.transport.url)), program)
        return
    if transport.names_port:
        transport = transport.on_port(_free_port(transport.url))
    else:
        await _check_free(transport.url)
    assert transport.program is not None
    redact = redactor_of(config)
    async with running(transport.program, session.server.server_log.write, redact, speaks=False) as child:
        program = session.program = Program(child, transport)
        located = replace(config, transport=transport)
        try:
            await program.keep_connected(
                incarnation,
                partial(connect, located, program),
                cause_of,
                patience_s=config.call_limits.connect_timeout,
            )
        finally:
            session.program = None


def _free_port(url: str) -> int:
    """A port that nobody uses, nor was given to another program just now."""
    now = time.monotonic()
    for old in [port for port, at in _chosen.items() if now - at > NOT_AGAIN_S]:
        del _chosen[old]
    family = socket.AF_INET6 if "[" in url else socket.AF_INET
    while True:
        with socket.socket(family) as bound:
            bound.bind(("", 0))
            port: int = bound.getsockname()[1]
        if port not in _chosen:
            _chosen[port] = now
            return port


async def _check_free(url: str) -> None:
    """Make sure that it is the program that will be spoken to, and not whoever listens at its port.

    Raises:
        ConnectionLost: Somebody does.
    """
    parts = split_url(url)
    if parts is None or parts.hostname is None:
        return
    port = parts.port or _USUAL_PORTS.get(parts.scheme, 80)
    try:
        with anyio.move_on_after(TAKEN_TIMEOUT_S):
            (await connected_to(parts.hostname, port)).close()
            raise ConnectionLost(
                f"the program was not started, because another one listens at port {port} of {parts.hostname}"
                f" already: end that one, or write {PORT} in place of the port, in url and in args or env"
            )
    except OSError:
        return

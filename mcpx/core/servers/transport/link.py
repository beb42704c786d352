"""A connection to an upstream server, whatever carries it: a child process, a node of a cluster, or HTTP.

There is one way in which a connection is lost: whatever finds it over (the exit of a process, a refused HTTP
session, a failed health check) sets `lost` with the reason, and that ends the body of `open_link`
(`transport.connecting`) with `ConnectionLost`, even while no call is in flight. Those in flight are settled
while the body unwinds (`Calls.close`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import msgspec
import structlog

from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.running import Inherited
from mcpx.core.servers.transport.containers import Container
from mcpx.core.servers.transport.process import ChildProcess
from mcpx.core.telemetry.metrics import Counters
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.receiver import OnMalformed
from supervisors import Signal

log = structlog.get_logger()
MAX_MALFORMED_LOGGED: Final = 3  # lines of one session


class ConnectionLost(Exception):
    """The connection ended by itself. `stderr` is the tail of what the server wrote to standard error.

    `retryable` says whether connecting again can help, `held` whether a person has to sign in before it can,
    `lacks_command` whether the server's program ended because it did not find another one.
    """

    def __init__(
        self,
        reason: str,
        stderr: str = "",
        *,
        retryable: bool = True,
        held: bool = False,
        lacks_command: bool = False,
    ) -> None:
        super().__init__(reason)
        self.stderr = stderr
        self.retryable = retryable
        self.held = held
        self.lacks_command = lacks_command


class Ending:
    """An event that happens once, for a reason. The first reason counts."""

    __slots__ = ("_event", "happened", "reason")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self.happened = False
        """To be set by `set` only; each call looks at it."""
        self.reason = ""
        """Empty until it has happened."""

    def set(self, reason: str) -> None:
        """It has happened. Callbacks may call this: it never raises, and calls nothing back."""
        if not self.happened:
            self.happened, self.reason = True, reason
            self._event.set()

    async def wait(self) -> str:
        """Wait until it happens; its reason."""
        await self._event.wait()
        return self.reason


class Link:
    """One open connection. None of its methods waits or raises.

    As it stands here, its server is no child of this process: the kernel cannot be asked how it is.
    """

    def __init__(self, wire: WireDispatcher) -> None:
        self.wire = wire
        """Carrier of the SDK's session, and of bytes."""
        self.reach: Callable[[], Awaitable[None]] | None = None
        """Makes a connection to the server and closes it again, or raises OSError; None where one lasts."""
        self.by_pipe = False
        """True if it leads to the standard streams of a child process."""
        self.by_program = False
        """True if it leads to a port of one, of this session or of another one with the server."""
        self.program_ended = False
        """True if that is why it was lost."""
        self._child: ChildProcess | None = None
        self.pid: int | None = None
        """The child process, where there is one."""
        self.mark = ""
        """Value of `MCPX_CHILD` that the process was started with."""
        self.container: Container | None = None
        """What the process is the client of."""
        self.inherited: Inherited | None = None
        """Variables that it was given of the environment."""
        self.lost = Ending()
        """Set when the connection has ended."""
        self.closing = Ending()
        """Set when the server takes nothing new, but may finish what it has."""
        self.suspicion = Signal()
        """Set when there is reason to check that the session still lives."""
        self.established = False
        """True once the handshake is over."""

    def take_process(self, child: ChildProcess) -> None:
        """Have the child process answer for what is asked of it.

        These are the child's own methods: calls in flight ask them, and a call in between would cost each.
        """
        self._child, self.pid, self.mark = child, child.pid, child.mark
        self.inherited, self.container = child.inherited, child.container
        vars(self).update(
            is_doomed=child.is_doomed,
            is_exiting=child.is_exiting,
            is_stopped=child.is_stopped,
            stderr_tail=child.last_words.tail,
            last_line=child.last_words.last,
            has_worked=child.has_worked,
            note_descendants=child.note_descendants,
        )

    def establish(self) -> None:
        """Note that the handshake is over."""
        self.established = True

    async def await_listener(self) -> None:
        """Wait until connections can be made to a program that has just been started; no other is waited for.

        Who waits sets the limit.
        """

    def is_alive(self) -> bool:
        """True if it makes sense to send; for a child process this asks the kernel."""
        return not self.lost.happened

    def is_doomed(self) -> bool:
        """True if the server is about to die, though it may still take what is sent; asks the kernel."""
        return False

    def is_exiting(self) -> bool:
        """True if the server's process is on its way out, where that is known."""
        return False

    def is_stopped(self) -> bool:
        """True if the kernel has stopped the server (SIGSTOP), where that is known: it works on nothing."""
        return False

    def first_unread(self) -> int | None:
        """The position in what was sent from which on the server has read nothing, where that is known."""
        return None

    def stderr_tail(self) -> str:
        """The last lines that the server wrote to standard error; empty without a child process."""
        return ""

    def last_line(self) -> str:
        """The last of these lines."""
        return ""

    async def has_worked(self) -> bool:
        """Return True if the server's process has worked since this was last asked, where there is one."""
        return False

    def failure(self) -> ConnectionLost:
        """The loss as an exception, once `lost` is set."""
        return ConnectionLost(self.lost.reason, self.stderr_tail())

    def handshake_failure(self) -> ConnectionLost | None:
        """Reason of a failed handshake, where the transport knows better than the SDK's exception."""
        return ConnectionLost(f"{self.lost.reason}, during the handshake") if self.lost.happened else None

    def note_descendants(self) -> None:
        """Note what a child process has started by now, so that it is ended with it."""

    def renew(self) -> None:
        """Use new connections from now on, where there are several, except for calls that are in flight."""

    def give_up(self, reason: str) -> None:
        """End the connection to a server that hangs; a child process is killed, one on a node stays."""
        self.lost.set(reason)
        if self._child is not None:
            self._child.kill()


class Hooks(msgspec.Struct, frozen=True):
    """Callbacks of a link. None of them may wait or raise."""

    on_open: Callable[[Link], None]
    """Called once it is open, before anything is sent: a child process is running."""
    on_malformed: OnMalformed
    """Called for each line that is no message."""
    on_stderr: Callable[[bytes], None]
    """Given what a child writes to standard error, in whole lines."""
    on_events_missed: Callable[[], None]
    """Called when notifications may have been missed, of changed lists for instance."""


class MalformedLog:
    """Logs and counts the lines of one session that are no message: the first few, for there may be many."""

    def __init__(self, config: ServerConfig, counters: Counters) -> None:
        self._server = config.name
        self._redact = redactor_of(config)
        self._counters = counters
        self._lines = 0

    def record(self, line: bytes, problem: str) -> None:
        """Note a line, of which this is the beginning."""
        self._counters.malformed += 1
        self._lines += 1
        if self._lines <= MAX_MALFORMED_LOGGED:
            shown = self._redact(line.decode(errors="replace"))
            log.warning("upstream.rubbish", server=self._server, problem=problem, line=shown)

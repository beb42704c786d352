"""A child process: started, watched, and terminated. It speaks on its standard streams, or over HTTP.

Owns the process, its group, its mark and the last lines of its standard error. `exited` is set as soon as the
kernel reports the exit (`mcpx.core.system.reaping`), whether or not anything is read or written. `stop`
leaves nothing behind of the process group, and of what carries the mark elsewhere, in a bounded time: less
than the two seconds that clients commonly give MCPX itself.

Its standard error is split into whole lines for the log file of the server, for a secret that came in two
pieces would be found in neither; the last ones are kept for error messages (`LastWords`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from mcpx.core.config import Stdio
from mcpx.core.servers.transport.containers import stop
from mcpx.core.servers.transport.spawning import EARLY, REAP_TIMEOUT_S, Spawned, spawn
from mcpx.core.system.marked import Family, Marks, look
from mcpx.core.system.processes import WorkWatch
from mcpx.core.system.reaping import ChildWatch, is_running, kill_group
from mcpx.core.text import cut
from mcpx.core.wire.channel import Channel

NOT_FOUND: Final = 127  # the exit code of env(1) and shells that do not find a command
EXIT_WAIT_S: Final = 0.05  # the connections of a process end a moment before it does
BLIND_EXIT_WAIT_S: Final = 1.0  # the same, where the kernel does not say that it is ending
EXITING_TIMEOUT_S: Final = 5.0  # for one that is on its way out, by what the kernel says
MAX_KEPT_LINES: Final = 100
MAX_LINE_CHARS: Final = 300
MAX_TAIL_LINES: Final = 5  # in an error message
MAX_TAIL_CHARS: Final = 1000
MAX_UNENDED_BYTES: Final = 65536  # of a line without an end; then it counts as one
STDERR_CHUNK_BYTES: Final = 65536
EOF_TIMEOUT_S: Final = 1.0  # a server that behaves ends when its standard input does
TERM_TIMEOUT_S: Final = 0.7
LOOK_TOGETHER_S: Final = 0.003  # servers often end together, and each looks for what is left of it


class LastWords:
    """The last lines of one process. `redact` removes secrets from a text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._lines: deque[str] = deque(maxlen=MAX_KEPT_LINES)
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next piece of output; return the whole lines that end in it.

        A flood costs little: only its last lines are looked at.
        """
        said = self._rest + data
        end = said.rfind(b"\n") + 1
        if not end and len(said) > MAX_UNENDED_BYTES:
            end = len(said)
        whole, self._rest = said[:end], said[end:]
        self._keep(whole)
        return whole

    def finish(self) -> bytes:
        """Note the end of the output; return the last line, if it had no end."""
        whole, self._rest = self._rest, b""
        self._keep(whole)
        return whole

    def _keep(self, whole: bytes) -> None:
        _, *lines = (b"\n" + whole.rstrip()).rsplit(
            b"\n", MAX_KEPT_LINES
        )  # the first of more is all before them
        for line in lines:
            if text := self._redact(line.decode(errors="replace")).rstrip():
                self._lines.append(cut(text, MAX_LINE_CHARS))

    def last(self) -> str:
        """The last line; empty if there is none."""
        return self._lines[-1] if self._lines else ""

    def tail(self) -> str:
        """The last lines, for an error message; the empty string if there are none."""
        tail: list[str] = []
        left = MAX_TAIL_CHARS
        for line in reversed(list(self._lines)[-MAX_TAIL_LINES:]):
            if len(line) > left:
                break
            tail.insert(0, line)
            left -= len(line) + 1
        return "\n".join(tail)


class ChildProcess:
    """One running child, made by `running`. `channel` is its standard output and input, if it speaks so."""

    def __init__(
        self, spawned: Spawned, on_stderr: Callable[[bytes], None], redact: Callable[[str], str]
    ) -> None:
        popen, self.mark, self.inherited, self.container = spawned
        assert popen.stdin and popen.stdout  # spawned with pipes
        self._popen = popen
        self._log = popen.stderr or popen.stdout
        self._loop = asyncio.get_running_loop()
        self.pid: int = popen.pid
        self._said_bytes = self._said_before = 0  # on standard error
        self._work = WorkWatch(popen.pid)
        self._family = Family([self.mark], group=self.pid)
        self.exited = anyio.Event()
        self.last_words = LastWords(redact)
        self._on_stderr = on_stderr
        for stream in (popen.stdin, popen.stdout, self._log):
            os.set_blocking(stream.fileno(), False)
        speaks = popen.stderr is not None
        self.channel = Channel(popen.stdout.fileno(), popen.stdin.fileno()) if speaks else None
        self._loop.add_reader(self._log.fileno(), self._read_stderr)
        self._watch = ChildWatch(self.pid, self._reap, self._loop)
        self.is_stopped = self._watch.is_stopped
        self.is_doomed = self._watch.is_doomed

    # --- its state

    @property
    def returncode(self) -> int | None:
        """The exit code as in `subprocess`: negative for a signal, None while it runs."""
        return self._popen.poll()

    def is_alive(self) -> bool:
        """True if it runs according to the kernel, which knows of an exit before `exited` is set."""
        return is_running(self._popen)

    def is_exiting(self) -> bool:
        """True if it is on its way out: its files are closed, or will be at once; False if nobody says."""
        return self._watch.is_leaving() or not self.is_alive() or self.is_doomed()

    async def has_exited(self) -> bool:
        """Wait a moment for its exit, and longer if it is on its way out; whether it has come."""
        self._watch.hurry()
        with anyio.move_on_after(EXIT_WAIT_S if self._watch.tells_of_leaving else BLIND_EXIT_WAIT_S):
            await self.exited.wait()
        if not self.exited.is_set() and self.is_exiting():
            with anyio.move_on_after(EXITING_TIMEOUT_S):
                await self.exited.wait()
        return self.exited.is_set()

    def _reap(self) -> None:
        if self._popen.poll() is None:
            return
        self._watch.unwatch()
        self._read_stderr()  # the last lines count
        self.exited.set()

    def describe_exit(self) -> str:
        """Say how it ended: `exited with code 3`, `was killed by SIGKILL`; or that it closed its output."""
        code = self._popen.returncode
        if code is None:
            return "closed its standard output"
        if code < 0:
            with suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
            return f"was killed by signal {-code}"
        return f"exited with code {code}"

    # --- its standard error

    def _read_stderr(self) -> None:
        """Keep the last lines, and pass whole lines on; a flood costs no more than the reading."""
        stream = self._log
        if stream.closed:
            return
        try:
            data = os.read(stream.fileno(), STDERR_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._said_bytes += len(data)
        if not data:
            self._loop.remove_reader(stream.fileno())
        if said := self.last_words.feed(data) if data else self.last_words.finish():
            self._on_stderr(said)

    async def has_worked(self) -> bool:
        """Return True if it, or what it has started, has worked or complained since this was last asked."""
        before, self._said_before = self._said_before, self._said_bytes
        return await anyio.to_thread.run_sync(self._work.look) or before != self._said_before

    # --- its end

    def note_descendants(self) -> None:
        """Note what it has started by now: some of that may throw its mark away, and leave the group."""
        self._family.note(self.pid)

    def kill(self) -> None:
        """Send SIGKILL to the group, for a child that hangs."""
        self.note_descendants()
        kill_group(self.pid)

    async def _end_others(self) -> None:
        """End the group, and whatever carries the mark elsewhere: SIGTERM, then SIGKILL."""
        steps = self._family.ending(TERM_TIMEOUT_S)
        pause = next(steps)
        with suppress(StopIteration):
            while True:
                await anyio.sleep(pause)
                pause = steps.send(self._family.living(await shared_look()))

    async def stop(self) -> None:
        """Close its input, wait, send SIGTERM, then SIGKILL: nothing of it is left."""
        self.note_descendants()
        if self.channel is not None:
            self.channel.on_data = lambda _data: None  # a child that flushes can leave
            self.channel.flush()
            self.channel.release_writer()
        self._close(self._popen.stdin)
        if self.channel is not None:  # to one that speaks elsewhere, the end of its input says nothing
            with anyio.move_on_after(EOF_TIMEOUT_S):
                await self.exited.wait()
        if self.container is not None:  # its client, when it is killed, leaves it
            await anyio.to_thread.run_sync(stop, self.container)
        await self._end_others()  # also if the child itself has exited: it may have left others behind
        with anyio.move_on_after(REAP_TIMEOUT_S):
            await self.exited.wait()
        self._watch.close()
        if self.channel is not None:
            self.channel.close()
        if said := self.last_words.finish():  # a grandchild may hold the pipe open
            self._on_stderr(said)
        if not self._log.closed:
            self._loop.remove_reader(self._log.fileno())
        self._close(self._popen.stdout)
        self._close(self._log)

    @staticmethod
    def _close(stream: object) -> None:
        with suppress(OSError):
            stream.close()  # type: ignore[attr-defined]  # one of Popen's three


_looks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[Marks]] = WeakKeyDictionary()


async def shared_look() -> Marks:
    """Look at the process table from now on, in a thread: one look for all who ask at about the same time."""
    loop = asyncio.get_running_loop()
    if (shared := _looks.get(loop)) is None:
        shared = _looks[loop] = loop.create_future()
        loop.call_later(LOOK_TOGETHER_S, _look, loop, shared)
    return await asyncio.shield(shared)


def _look(loop: asyncio.AbstractEventLoop, shared: asyncio.Future[Marks]) -> None:
    del _looks[loop]  # who asks from now on needs the next one
    looked = loop.run_in_executor(None, partial(look, exact=False))
    looked.add_done_callback(lambda done: None if shared.done() else shared.set_result(done.result()))


@asynccontextmanager
async def running(
    stdio: Stdio,
    on_stderr: Callable[[bytes], None],
    redact: Callable[[str], str] = str,
    *,
    speaks: bool = True,
) -> AsyncIterator[ChildProcess]:
    """Run the command in a process group of its own; at exit it is stopped, whatever happens.

    It may have been started early (`spawning.EARLY`), if it `speaks` on its standard streams. If not, its
    standard output is taken as its standard error is.

    `on_stderr` is called with whole lines, and must not raise. `redact` removes secrets from the last ones,
    which go into errors.

    Raises:
        OSError: It cannot be started (not found, no permission, no such folder).
    """
    spawned = (speaks and EARLY.take(stdio)) or spawn(stdio, speaks=speaks)
    child = ChildProcess(spawned, on_stderr, redact)  # no await up to here: else it could be lost
    try:
        yield child
    finally:
        with anyio.CancelScope(shield=True):  # bounded: every wait in stop() is
            await child.stop()

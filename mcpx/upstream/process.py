"""A child process that speaks on its standard streams: started, watched, and seen off.

Owns the process, its group and the last lines of its standard error. Death is pushed: `exited` is set
within milliseconds, because the kernel says so (a pidfd on Linux), whether or not anybody reads or writes.
`stop` leaves nothing of the process group behind, and takes a bounded time.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree

from mcpx.config import Stdio

STDERR_LINES: Final = 100
LEAVE_AFTER_EOF_S: Final = 2.0  # a server that behaves ends when its standard input does
LEAVE_AFTER_TERM_S: Final = 2.0
REAP_S: Final = 2.0  # until the event loop has seen a kill; only an unkillable process outlasts it
EXIT_POLL_S: Final = 0.005  # while a death is certain but not yet collected
WATCH_POLL_S: Final = 0.1  # where the kernel has no pidfd

_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


class ChildProcess:
    """One running child. Made by `running`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid: int = process.pid
        self.exited = anyio.Event()
        self.stderr: deque[str] = deque(maxlen=STDERR_LINES)

    @property
    def stdin(self) -> ByteSendStream:
        """The child's standard input."""
        assert self._process.stdin is not None  # noqa: S101 - spawned with pipes
        return self._process.stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        """The child's standard output."""
        assert self._process.stdout is not None  # noqa: S101 - spawned with pipes
        return self._process.stdout

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`: negative for a signal, None while it runs."""
        return self._process.returncode

    def alive(self) -> bool:
        """Whether the kernel says that it runs, which may be before anybody was told that it does not."""
        if self.returncode is not None:
            return False
        try:  # looks without collecting: that is the event loop's
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    async def read(self) -> bytes:
        """The next chunk of standard output; empty at its end."""
        try:
            return await self.stdout.receive(65536)
        except _GONE:
            return b""

    def describe_exit(self) -> str:
        """`exited with code 3`, `was killed by SIGKILL`, or that it closed its output and still runs."""
        code = self.returncode
        if code is None:
            return "closed its standard output"
        if code < 0:
            with suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
            return f"was killed by signal {-code}"
        return f"exited with code {code}"

    def stderr_tail(self, lines: int = 5) -> str:
        """The last lines of standard error, for an error message; empty if there are none."""
        return "\n".join(list(self.stderr)[-lines:])

    async def watch(self) -> None:
        """Set `exited` when the process is dead. To be run in a task."""
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or dead and collected already
            await self._poll(WATCH_POLL_S)
        else:
            try:
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
            await self._poll(EXIT_POLL_S)
        self.exited.set()

    async def _poll(self, interval: float) -> None:
        """Wait for the exit code. Not `Process.wait`: that waits for the pipes too, which others may hold."""
        while self.returncode is None:  # noqa: ASYNC110 - nothing else tells
            await anyio.sleep(interval)

    async def collect_stderr(self) -> None:
        """Keep the last lines of standard error. To be run in a task; never ends before the stream does."""
        assert self._process.stderr is not None  # noqa: S101 - spawned with pipes
        rest = b""
        with suppress(*_GONE):
            while True:
                *lines, rest = (rest + await self._process.stderr.receive(65536)).split(b"\n")
                self.stderr.extend(line.decode(errors="replace").rstrip() for line in lines if line.strip())
                rest = rest[-65536:]
        if rest.strip():
            self.stderr.append(rest.decode(errors="replace").rstrip())

    async def drain(self) -> None:
        """Read standard output and throw it away, so that a child which flushes can leave."""
        while await self.read():
            pass

    async def stop(self) -> None:
        """End it: close its input, wait, TERM to the group, KILL. Nothing of the group is left."""
        with suppress(*_GONE):
            await self.stdin.aclose()
        with anyio.move_on_after(LEAVE_AFTER_EOF_S):
            await self.exited.wait()
        # also where the child itself has left: it may have left others behind
        await terminate_posix_process_tree(self._process, LEAVE_AFTER_TERM_S)
        with anyio.move_on_after(REAP_S):
            await self._poll(EXIT_POLL_S)
        await self._close()

    async def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(*_GONE):
                    await stream.aclose()
        # asyncio keeps the transport open (and warns) while somebody else holds a pipe end; there is no
        # public way to it (python/cpython gh-88050 and the SDK's stdio client do the same walk)
        transport = getattr(getattr(self._process, "_process", None), "_transport", None)
        if transport is not None:
            with suppress(ProcessLookupError, PermissionError):
                transport.close()


@asynccontextmanager
async def running(stdio: Stdio) -> AsyncIterator[ChildProcess]:
    """Run the command in a process group of its own; at exit it is stopped, whatever happens.

    It inherits the SDK's short list of harmless variables and what is configured, never the whole
    environment of this process.

    Raises:
        OSError: It cannot be started (not found, no permission, no such folder).
    """
    process = await anyio.open_process(
        [stdio.command, *stdio.args],
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=get_default_environment() | stdio.env,
        cwd=stdio.cwd,
        start_new_session=True,
    )
    child = ChildProcess(process)  # no await up to the task group: a cancellation here would lose the child
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.watch)
        tasks.start_soon(child.collect_stderr)
        try:
            yield child
        finally:
            with anyio.CancelScope(shield=True):  # bounded: every wait in stop() is
                async with anyio.create_task_group() as draining:
                    draining.start_soon(child.drain)
                    await child.stop()
                    draining.cancel_scope.cancel()
            tasks.cancel_scope.cancel()

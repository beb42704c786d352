"""`open_python`: what `anyio.open_process` is, for Python programs that are forked off the fork server.

For tests that speak with an MCPX over its streams, or send it signals: the process id is the program's own.
As in `tests.forking.client`, it is started for real where a fork would not be the same, or `real` says so.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.abc
from anyio.streams.stapled import StapledByteStream

from tests.forking.client import Python


class PipeReader(anyio.abc.ByteReceiveStream):
    """The read end of a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        os.set_blocking(file.fileno(), False)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        while not self._file.closed:
            with suppress(BlockingIOError):
                if chunk := os.read(self._file.fileno(), max_bytes):
                    return chunk
                raise anyio.EndOfStream
            await anyio.wait_readable(self._file)
        raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        if not self._file.closed:
            anyio.notify_closing(self._file)
            self._file.close()


class PipeWriter(anyio.abc.ByteSendStream):
    """The write end of a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        os.set_blocking(file.fileno(), False)

    async def send(self, item: bytes) -> None:
        rest = memoryview(item)
        while rest:
            if self._file.closed:
                raise anyio.ClosedResourceError
            try:
                rest = rest[os.write(self._file.fileno(), rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._file)
            except BrokenPipeError:
                raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        if not self._file.closed:
            anyio.notify_closing(self._file)
            self._file.close()


class PythonProcess(anyio.abc.Process):
    """A `Python` whose streams and end are awaited. Leaving its context closes them and waits."""

    def __init__(self, process: Python) -> None:
        self._process = process
        self._stdin = PipeWriter(process.stdin) if process.stdin else None
        self._stdout = PipeReader(process.stdout) if process.stdout else None
        self._stderr = PipeReader(process.stderr) if process.stderr else None

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True) as scope:
            for stream in (self._stdin, self._stdout, self._stderr):
                if stream is not None:
                    await stream.aclose()
            scope.shield = False
            try:
                await self.wait()
            except BaseException:
                scope.shield = True
                self.kill()
                await self.wait()
                raise

    async def wait(self) -> int:
        return await self._process.ended()

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, signal: int) -> None:
        self._process.send_signal(signal)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def stdin(self) -> anyio.abc.ByteSendStream | None:
        return self._stdin

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream | None:
        return self._stdout

    @property
    def stderr(self) -> anyio.abc.ByteReceiveStream | None:
        return self._stderr

    @property
    def streams(self) -> StapledByteStream:
        """Its standard input and output as one stream."""
        assert self._stdin is not None
        assert self._stdout is not None
        return StapledByteStream(self._stdin, self._stdout)


async def open_python(
    args: Sequence[str],
    *,
    stdin: Any = subprocess.PIPE,
    stdout: Any = subprocess.PIPE,
    stderr: Any = subprocess.PIPE,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
    real: bool = False,
) -> PythonProcess:
    """Start `python ARGUMENTS`, given with its interpreter as for `anyio.open_process`."""
    return PythonProcess(
        Python(
            [*args],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            cwd=cwd,
            env=env,
            start_new_session=start_new_session,
            real=real,
        )
    )

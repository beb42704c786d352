"""One Ray process as the gateway sees it: started, asked, listened to, and ended. `ray_client` keeps one.

Lines go both ways over its standard streams; what it writes to standard error is for the log, and its last
lines explain an end. Every request is answered, by the process, by its end or by its deadline.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from mcpx.cluster.ray_process import protocol as say
from mcpx.core.text import one_line
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.lines import LineSplitter, TooLong
from mcpx.errors import MCPXError

log = structlog.get_logger()

END_TIMEOUT_S: Final = 2.0  # for the process to end when its input has ended: it does so at once
LAST_LINES: Final = 5  # of its standard error
MAX_ERROR_LINE: Final = 4_096  # bytes


class RayProcessEnded(MCPXError):
    """The process has ended. With `is_final`, starting it again cannot help."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class RayChild:
    """One process. `joined` is set when it has said all its nodes, or has ended; `over` when it has ended."""

    def __init__(self, command: tuple[str, ...], on_line: Callable[[say.Say], None]) -> None:
        self.joined = anyio.Event()
        self.over = anyio.Event()
        self.ended: RayProcessEnded | None = None
        self._on_line = on_line
        self._waiting: dict[int, asyncio.Future[say.Answer]] = {}
        self._lines = LineSplitter(say.MAX_LINE_BYTES)
        self._errors = LineSplitter(MAX_ERROR_LINE)
        self._last_words: deque[str] = deque(maxlen=LAST_LINES)
        self._decoder: msgspec.json.Decoder[say.Say] = msgspec.json.Decoder(say.Say)
        try:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # a signal from the terminal is for the gateway, which ends it
            )
        except OSError as error:
            raise RayProcessEnded(f"the Ray process cannot be started: {error.strerror}") from error
        popen = self._popen
        assert popen.stdin and popen.stdout and popen.stderr  # spawned with pipes
        for stream in (popen.stdin, popen.stdout, popen.stderr):
            os.set_blocking(stream.fileno(), False)
        self._channel = Channel(popen.stdout.fileno(), popen.stdin.fileno())
        self._channel.on_data = self._take_in
        self._channel.on_end = lambda: self.end("the Ray process ended" + self._words())
        self._channel.on_broken = lambda error: self.end(f"the Ray process does not listen: {error}")
        self._ear = Channel(popen.stderr.fileno(), popen.stderr.fileno())
        self._ear.on_data = self._hear
        self._channel.start_reading()
        self._ear.start_reading()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    async def ask(self, request: say.Request, seconds: float) -> say.Answer:
        """Its answer, or one that says that there is none."""
        future: asyncio.Future[say.Answer] = asyncio.get_running_loop().create_future()
        if self.ended is not None:
            return say.Answer(request.id, error=str(self.ended), code="unavailable")
        self._waiting[request.id] = future
        try:
            self._channel.write(msgspec.json.encode(request) + b"\n")
            with anyio.move_on_after(seconds):
                return await future
        finally:
            self._waiting.pop(request.id, None)
        return say.Answer(request.id, error=f"Ray did not answer within {seconds:g} s", code="unavailable")

    def end(self, reason: str, *, is_final: bool = False) -> None:
        """Note why it is over, and have those who wait told; the first reason counts."""
        if self.ended is not None:
            return
        self.ended = RayProcessEnded(reason, is_final=is_final)
        for number, future in self._waiting.items():
            if not future.done():
                future.set_result(say.Answer(number, error=reason, code="unavailable"))
        self.over.set()
        self.joined.set()

    async def close(self) -> None:
        """End the process, and wait until it is gone."""
        self.end("the Ray process is being ended")
        self._channel.close()
        self._ear.close()
        popen = self._popen
        for stream in (popen.stdin, popen.stdout, popen.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        await anyio.to_thread.run_sync(_reap, popen)

    def _take_in(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if isinstance(line, TooLong):
                self.end("the Ray process said a line that is too long")
                return
            try:
                message = self._decoder.decode(line)
            except msgspec.DecodeError as error:
                self.end(f"what the Ray process says cannot be read: {error}")
                return
            self._handle(message)

    def _handle(self, message: say.Say) -> None:
        match message:
            case say.Answer():
                future = self._waiting.pop(message.id, None)
                if future is not None and not future.done():
                    future.set_result(message)
            case say.Ended(reason=reason, final=final):
                self.end(reason, is_final=final)
            case _:
                self._on_line(message)
                if isinstance(message, say.Nodes):
                    self.joined.set()

    def _hear(self, data: bytes) -> None:
        for line in self._errors.feed(data):
            if isinstance(line, bytes):
                text = one_line(line.decode(errors="replace"), MAX_ERROR_LINE)
                self._last_words.append(text)
                log.debug("ray.says", text=text)

    def _words(self) -> str:
        return ": " + " ".join(self._last_words) if self._last_words else ""


def _reap(popen: subprocess.Popen[bytes]) -> None:
    try:
        popen.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()

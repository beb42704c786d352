"""One worker process, seen from the event loop: its pipes, its job, its timers. Owned by the pool."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from mcpx.core.system.linux import grow_pipe
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.envelope import Bytes
from mcpx.core.wire.workers.process import LENGTH_BYTES, Header, encode_header

IDLE_TIMEOUT_S: Final = 60.0  # without a job, after which a process gives its 25 to 50 MB back
START_TIMEOUT_S: Final = 5.0  # for a process to import what it needs: 0.2 s on a quiet machine
SLOW_S: Final = 0.05  # of one job, after which another process is made ready for the others

P = TypeVar("P")


class Owner(Protocol):
    """The pool."""

    def end(self, worker: Any, reason: str, *, slow: bool = False) -> None: ...
    def on_slow(self, task: str) -> None: ...
    def on_idle(self) -> None: ...
    def on_answer(self, pending: Any, answer: Bytes) -> None: ...


class Worker(Generic[P]):
    """One process; its `job` is what it works on. `first_task` is imported before it is ready."""

    def __init__(self, popen: subprocess.Popen[bytes], pool: Owner, first_task: str) -> None:
        assert popen.stdin and popen.stdout  # spawned with pipes
        self.popen = popen
        self.is_ready = False
        self.job: P | None = None
        self.first_task = first_task
        self._imported = {first_task}
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._began = 0.0  # by the loop's clock
        self._deadline_s = 0.0
        self._max_answer_bytes = 0
        for stream in (popen.stdin, popen.stdout):
            os.set_blocking(stream.fileno(), False)
            grow_pipe(stream.fileno())
        self._channel = Channel(popen.stdout.fileno(), popen.stdin.fileno())
        self._channel.on_data = self._take_in
        self._channel.on_end = lambda: pool.end(self, "the process that worked on it ended")
        self._channel.start_reading()
        late = f"no process was ready in {START_TIMEOUT_S:g} s"
        self._timer = self._loop.call_later(START_TIMEOUT_S, pool.end, self, late)
        self._slow: asyncio.TimerHandle | None = None

    def take(
        self, job: P, task: str, payload: Sequence[Bytes], deadline_s: float, max_answer_bytes: int
    ) -> None:
        """Start a job."""
        self.job = job
        self._deadline_s, self._max_answer_bytes = deadline_s, max_answer_bytes
        header = encode_header(Header(task, deadline_s))
        head = len(header).to_bytes(LENGTH_BYTES) + header
        length = len(head) + sum(map(len, payload))
        self._begin()
        if task not in self._imported:  # until it says that it has
            self._imported.add(task)
            self._deadline(START_TIMEOUT_S + deadline_s, f"it took over {deadline_s:g} s")
        self._slow = self._loop.call_later(SLOW_S, self._pool.on_slow, self.first_task)
        self._channel.write(length.to_bytes(LENGTH_BYTES) + head, *payload)

    def end_after(self, deadline_s: float, reason: str) -> None:
        """End the job when it has run for so long, if that is earlier than its own deadline."""
        if deadline_s < self._deadline_s:
            self._deadline_s = deadline_s
            self._deadline(max(0.0, self._began + deadline_s - self._loop.time()), reason)

    def _begin(self) -> None:
        self._began = self._loop.time()
        self._deadline(self._deadline_s, f"it took over {self._deadline_s:g} s")

    def _deadline(self, seconds: float, reason: str) -> None:
        self._timer.cancel()
        slow = self.job is not None
        self._timer = self._loop.call_later(seconds, lambda: self._pool.end(self, reason, slow=slow))

    def _take_in(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH_BYTES:
            length = int.from_bytes(self._received[:LENGTH_BYTES])
            if length > self._max_answer_bytes:
                self._pool.end(self, "its answer is too long")
                return
            if len(self._received) < LENGTH_BYTES + length:
                return
            received, self._received = self._received, self._received[LENGTH_BYTES + length :]
            frame = memoryview(received)[LENGTH_BYTES : LENGTH_BYTES + length]  # which may be large: no copy
            if frame or self.job is None:
                self._answered(frame)
            else:
                self._begin()

    def _answered(self, frame: Bytes) -> None:
        """The process has started, or its job is done."""
        job, self.job = self.job, None
        self.is_ready = True
        if self._slow is not None:
            self._slow.cancel()
        self._deadline(IDLE_TIMEOUT_S, "it was idle")
        if job is not None:
            self._pool.on_answer(job, frame)
        self._pool.on_idle()

    def kill(self) -> None:
        """Kill the process and close its pipes."""
        self._timer.cancel()
        if self._slow is not None:
            self._slow.cancel()
        self._channel.close()
        self.popen.kill()
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

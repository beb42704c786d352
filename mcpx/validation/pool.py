"""The processes that check arguments: at most `MAX_WORKERS`, started when first needed.

The jobs of one server take one worker at a time, so that slow schemas of one do not delay the others. A job
that has run for `DEADLINE_S`, or has waited that long for its turn, is given up, and its process is killed.
An idle process is ended after `IDLE_TIMEOUT_S`; `close` leaves none behind. Every job is answered exactly
once, unless it was cancelled.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from mcpx.observe.contained import contain
from mcpx.validation.protocol import DEADLINE_S, LENGTH_BYTES, Job, Verdict, decode_verdict, encode_job
from mcpx.wire.channel import Channel

MAX_WORKERS: Final = 2
MAX_WAITING: Final = 64  # jobs; more are refused
MAX_WAITING_BYTES: Final = 16 << 20  # of those jobs; the one that exceeds it is taken
START_TIMEOUT_S: Final = 5.0  # for a process to be ready: 0.2 s on a quiet machine
SLOW_S: Final = 0.05  # of one job, after which another process is made ready for the other servers
IDLE_TIMEOUT_S: Final = 60.0  # without a job, after which a process gives its 25 MB back
RETRY_DELAY_S: Final = 10.0  # after a process could not be started
REAP_POLL_S: Final = 0.01  # a killed process is gone within a turn or two
REAP_TIMEOUT_S: Final = 2.0  # at the end; only an unkillable process outlasts it
MAX_VERDICT_BYTES: Final = 1 << 20  # a good one has 10 problems and a type
_HOME: Final = str(Path(__file__).parents[2])
_MAIN: Final = "import sys; sys.path.append(sys.argv[1]); from mcpx.validation.worker import main; main()"
"""Not `-m`, to find this very package wherever it is; not multiprocessing, which runs the main module."""


class NoVerdict(msgspec.Struct, frozen=True):
    """Why a job has no verdict. `began` says that a process was working on it."""

    reason: str
    began: bool = False


Done = Callable[[Verdict | NoVerdict], None]


class Pending:
    """One job that waits or runs."""

    __slots__ = ("done", "frame", "server", "timer")

    def __init__(self, server: str, frame: bytes, done: Done) -> None:
        self.server = server
        self.frame = frame
        self.done: Done | None = done
        self.timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Drop the job; `done` is not called."""
        self.done = None
        if self.timer is not None:
            self.timer.cancel()

    def finish(self, verdict: Verdict | NoVerdict) -> None:
        """Call `done`, once."""
        done = self.done
        self.cancel()
        if done is not None:
            try:
                done(verdict)
            except Exception as error:  # noqa: BLE001 - one request's end must not keep the others from theirs
                contain(error, "arguments checked", server=self.server)


class CheckPool:
    """Runs jobs for one event loop. No process is started before the first."""

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._dying: list[subprocess.Popen[bytes]] = []
        self._waiting: deque[Pending] = deque()
        self._closed = False
        self._not_before = 0.0  # by the loop's clock

    def submit(self, server: str, job: Job, done: Done) -> Pending:
        """Queue a job. `done` is not called before this returns."""
        pending = Pending(server, encode_job(job), done)
        loop = asyncio.get_running_loop()
        self._waiting = deque(each for each in self._waiting if each.done is not None)
        if self._closed or self._is_full() or loop.time() < self._not_before:
            loop.call_soon(pending.finish, NoVerdict("no process was free to check them"))
            return pending
        self._waiting.append(pending)
        cold = not any(worker.is_ready for worker in self._workers)
        patience = START_TIMEOUT_S if cold else DEADLINE_S
        late = NoVerdict(f"no process was free in {patience:g} s")
        pending.timer = loop.call_later(patience, pending.finish, late)
        self._hand_out()
        return pending

    def _is_full(self) -> bool:
        held = sum(len(each.frame) for each in self._waiting)
        return len(self._waiting) >= MAX_WAITING or held > MAX_WAITING_BYTES

    def close(self) -> None:
        """End the processes, and wait until they have ended."""
        self._closed = True
        for worker in list(self._workers):
            self.end(worker, "MCPX is stopping")
        for pending in self._waiting:
            pending.finish(NoVerdict("MCPX is stopping"))
        self._waiting.clear()
        for popen in self._dying:
            with suppress(subprocess.TimeoutExpired):
                popen.wait(REAP_TIMEOUT_S)
        self._dying.clear()

    def _hand_out(self) -> None:
        """Give waiting jobs to idle processes, one of each server at a time."""
        for pending in list(self._waiting):
            if pending.done is None:
                self._waiting.remove(pending)
                continue
            if any(
                worker.job is not None and worker.job.server == pending.server for worker in self._workers
            ):
                continue
            idle = next((worker for worker in self._workers if worker.is_ready and worker.job is None), None)
            if idle is not None:
                self._waiting.remove(pending)
                idle.take(pending)
            elif all(worker.is_ready for worker in self._workers) and len(self._workers) < MAX_WORKERS:
                self._start()
                return

    def _start(self) -> None:
        if self._closed:
            return
        try:
            popen = subprocess.Popen(
                [sys.executable, "-P", "-c", _MAIN, _HOME],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # a signal from the terminal is for MCPX, which ends it
            )
        except OSError as error:
            self._fail(f"no process can be started ({error.strerror})")
            return
        self._workers.append(_Worker(popen, self))

    def _fail(self, reason: str) -> None:
        self._not_before = asyncio.get_running_loop().time() + RETRY_DELAY_S
        waiting, self._waiting = self._waiting, deque()
        for pending in waiting:
            pending.finish(NoVerdict(reason))

    # --- for the workers

    def keep_one_ready(self) -> None:
        """Start another process while all have jobs, for those that come meanwhile."""
        if all(worker.job is not None for worker in self._workers) and len(self._workers) < MAX_WORKERS:
            self._start()

    def on_idle(self) -> None:
        """Give a process that is idle again its next job."""
        self._hand_out()

    def end(self, worker: _Worker, reason: str) -> None:
        """Kill a process; its job, if any, fails for this reason."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        never_ready = not worker.is_ready
        worker.kill()
        self._dying.append(worker.popen)
        self._reap()
        if worker.job is not None:
            worker.job.finish(NoVerdict(reason, began=not self._closed))
        if self._closed:
            return
        if never_ready:
            self._fail(reason)
            return
        self._hand_out()
        if worker.job is not None:
            self.keep_one_ready()

    def _reap(self) -> None:
        self._dying = [popen for popen in self._dying if popen.poll() is None]
        if self._dying and not self._closed:
            asyncio.get_running_loop().call_later(REAP_POLL_S, self._reap)


class _Worker:
    """One process; its `job` is what it works on."""

    def __init__(self, popen: subprocess.Popen[bytes], pool: CheckPool) -> None:
        assert popen.stdin and popen.stdout  # noqa: PT018, S101 - spawned with pipes
        self.popen = popen
        self.is_ready = False
        self.job: Pending | None = None
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        for stream in (popen.stdin, popen.stdout):
            os.set_blocking(stream.fileno(), False)
        self._channel = Channel(popen.stdout.fileno(), popen.stdin.fileno())
        self._channel.on_data = self._take_in
        self._channel.on_end = lambda: pool.end(self, "the process that checked them ended")
        self._channel.start_reading()
        late = f"no process was ready in {START_TIMEOUT_S:g} s"
        self._timer = self._loop.call_later(START_TIMEOUT_S, pool.end, self, late)
        self._slow: asyncio.TimerHandle | None = None

    def take(self, pending: Pending) -> None:
        """Start a job."""
        self.job = pending
        self._end_after(DEADLINE_S, f"checking them took over {DEADLINE_S:g} s")
        self._slow = self._loop.call_later(SLOW_S, self._pool.keep_one_ready)
        if pending.timer is not None:
            pending.timer.cancel()
        self._channel.write(len(pending.frame).to_bytes(LENGTH_BYTES), pending.frame)

    def _end_after(self, seconds: float, reason: str) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._pool.end, self, reason)

    def _take_in(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH_BYTES:
            length = int.from_bytes(self._received[:LENGTH_BYTES])
            if length > MAX_VERDICT_BYTES:
                self._pool.end(self, "the verdict is too long")
                return
            if len(self._received) < LENGTH_BYTES + length:
                return
            frame = bytes(self._received[LENGTH_BYTES : LENGTH_BYTES + length])
            del self._received[: LENGTH_BYTES + length]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        job, self.job = self.job, None
        self.is_ready = True
        if self._slow is not None:
            self._slow.cancel()
        self._end_after(IDLE_TIMEOUT_S, "it was idle")
        if job is not None:
            try:
                verdict = decode_verdict(frame)
            except msgspec.DecodeError as error:
                job.finish(NoVerdict(f"the verdict cannot be read ({error})", began=True))
            else:
                job.finish(verdict)
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

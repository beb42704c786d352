"""The processes that check arguments, seen from the event loop: at most `WORKERS`, started when first needed.

Jobs of one server take one worker at a time, so that a server whose schemas take long keeps no other's
waiting. A job that has run for `DEADLINE_S`, or has waited that long for its turn, is given up, and a process
that runs it is killed. An idle process is ended after `IDLE_S`. `close` leaves none behind. Every job is
answered exactly once, unless it was cancelled.
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

import mcpx
from mcpx.observe.contained import contain
from mcpx.validation.protocol import DEADLINE_S, LENGTH, Job, Verdict, decode_verdict, encode_job
from mcpx.wire.channel import Channel

WORKERS: Final = 2
WAITING: Final = 64  # jobs; more are not taken
WAITING_BYTES: Final = 16 << 20  # of those jobs; the one that exceeds it is taken
STARTING_S: Final = 5.0  # for a process to be ready: 0.2 s on a quiet machine
SLOW_S: Final = 0.05  # of one job, after which another process is made ready for the other servers
IDLE_S: Final = 60.0  # without a job, after which a process gives its 25 MB back
AGAIN_S: Final = 10.0  # after a process could not be started
REAP_POLL_S: Final = 0.01  # a killed process is gone within a turn or two
REAP_S: Final = 2.0  # at the end; only an unkillable process outlasts it
LARGEST_VERDICT: Final = 1 << 20  # bytes; a good one has 10 problems and a type
_HOME: Final = str(Path(mcpx.__file__).parent.parent)
_MAIN: Final = "import sys; sys.path.append(sys.argv[1]); from mcpx.validation.worker import main; main()"
"""Not `-m`, to find this very package wherever it is; not multiprocessing, which runs the main module."""


class Unjudged(msgspec.Struct, frozen=True):
    """There is no verdict. `began` says that a process was at work on it: then it is the job's own doing."""

    reason: str
    began: bool = False


Done = Callable[[Verdict | Unjudged], None]


class Pending:
    """One job on its way."""

    __slots__ = ("done", "frame", "server", "timer")

    def __init__(self, server: str, frame: bytes, done: Done) -> None:
        self.server = server
        self.frame = frame
        self.done: Done | None = done
        self.timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Nobody waits for it any more; `done` is not called."""
        self.done = None
        if self.timer is not None:
            self.timer.cancel()

    def finish(self, verdict: Verdict | Unjudged) -> None:
        """Tell whoever waits, once."""
        done = self.done
        self.cancel()
        if done is not None:
            try:
                done(verdict)
            except Exception as error:  # noqa: BLE001 - one request's end must not keep the others from theirs
                contain(error, "arguments checked", server=self.server)


class CheckPool:
    """Takes jobs on one event loop. Nothing is started before the first."""

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._dying: list[subprocess.Popen[bytes]] = []
        self._waiting: deque[Pending] = deque()
        self._closed = False
        self._not_before = 0.0  # by the loop's clock

    def submit(self, server: str, job: Job, done: Done) -> Pending:
        """Have a job done. `done` is not called before this returns."""
        pending = Pending(server, encode_job(job), done)
        loop = asyncio.get_running_loop()
        self._waiting = deque(each for each in self._waiting if each.done is not None)
        if self._closed or self._is_full() or loop.time() < self._not_before:
            loop.call_soon(pending.finish, Unjudged("no process was free to check them"))
            return pending
        self._waiting.append(pending)
        cold = not any(worker.is_ready for worker in self._workers)
        patience = STARTING_S if cold else DEADLINE_S
        late = Unjudged(f"no process was free in {patience:g} s")
        pending.timer = loop.call_later(patience, pending.finish, late)
        self._hand_out()
        return pending

    def _is_full(self) -> bool:
        held = sum(len(each.frame) for each in self._waiting)
        return len(self._waiting) >= WAITING or held > WAITING_BYTES

    def close(self) -> None:
        """End the processes, and wait until they have ended."""
        self._closed = True
        for worker in list(self._workers):
            self.end(worker, "MCPX is stopping")
        for pending in self._waiting:
            pending.finish(Unjudged("MCPX is stopping"))
        self._waiting.clear()
        for popen in self._dying:
            with suppress(subprocess.TimeoutExpired):
                popen.wait(REAP_S)
        self._dying.clear()

    def _hand_out(self) -> None:
        """Give idle processes what waits, a server's jobs one at a time."""
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
            elif all(worker.is_ready for worker in self._workers) and len(self._workers) < WORKERS:
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
        self._not_before = asyncio.get_running_loop().time() + AGAIN_S
        waiting, self._waiting = self._waiting, deque()
        for pending in waiting:
            pending.finish(Unjudged(reason))

    # --- for the workers

    def keep_one_ready(self) -> None:
        """A job takes long: have a process for those that come meanwhile."""
        if all(worker.job is not None for worker in self._workers) and len(self._workers) < WORKERS:
            self._start()

    def freed(self) -> None:
        """A process is ready for another job."""
        self._hand_out()

    def end(self, worker: _Worker, reason: str) -> None:
        """Kill a process; its job, if it has one, has no verdict for this reason."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        never_ready = not worker.is_ready
        worker.kill()
        self._dying.append(worker.popen)
        self._reap()
        if worker.job is not None:
            worker.job.finish(Unjudged(reason, began=not self._closed))
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
        late = f"no process was ready in {STARTING_S:g} s"
        self._timer = self._loop.call_later(STARTING_S, pool.end, self, late)
        self._slow: asyncio.TimerHandle | None = None

    def take(self, pending: Pending) -> None:
        """Work on that job."""
        self.job = pending
        self._rest(DEADLINE_S, f"checking them took over {DEADLINE_S:g} s")
        self._slow = self._loop.call_later(SLOW_S, self._pool.keep_one_ready)
        if pending.timer is not None:
            pending.timer.cancel()
        self._channel.write(len(pending.frame).to_bytes(LENGTH), pending.frame)

    def _rest(self, seconds: float, reason: str) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._pool.end, self, reason)

    def _take_in(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH:
            length = int.from_bytes(self._received[:LENGTH])
            if length > LARGEST_VERDICT:
                self._pool.end(self, "the verdict is too long")
                return
            if len(self._received) < LENGTH + length:
                return
            frame = bytes(self._received[LENGTH : LENGTH + length])
            del self._received[: LENGTH + length]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        job, self.job = self.job, None
        self.is_ready = True
        if self._slow is not None:
            self._slow.cancel()
        self._rest(IDLE_S, "it was idle")
        if job is not None:
            try:
                verdict = decode_verdict(frame)
            except msgspec.DecodeError as error:
                job.finish(Unjudged(f"the verdict cannot be read ({error})", began=True))
            else:
                job.finish(verdict)
        self._pool.freed()

    def kill(self) -> None:
        """End it, and let go of its pipes."""
        self._timer.cancel()
        if self._slow is not None:
            self._slow.cancel()
        self._channel.close()
        self.popen.kill()
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

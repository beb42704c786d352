"""The pool of worker processes, and whose turn it is: at most `MAX_WORKERS`, started when first needed.

Whatever may take long comes here: checks of arguments, projections, large results. Turns go round by client:
of the jobs that may begin, the one whose client was served longest ago does. Jobs that share a name in
`exclusive` run one at a time, so that one client's expressions, or one server's schemas, take one process.
Jobs that may take long leave one process to quick ones. While somebody waits for a process, a job that has a
`shared_deadline_s` gets no more than that.

A job that has run for its deadline, or has waited for its patience, is given up, and its process is killed.
An idle process is ended after `IDLE_TIMEOUT_S`; `close` leaves none behind. Every job is answered exactly
once, unless it was cancelled.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Final

import msgspec

from mcpx.core.system.environment import python_running
from mcpx.core.telemetry.contained import containing
from mcpx.core.wire.envelope import Bytes
from mcpx.core.wire.workers.worker import START_TIMEOUT_S, Worker

MAX_WORKERS: Final = 3
MAX_LONG: Final = 2  # of them with a job that may take longer than `LONG_S`
LONG_S: Final = 1.0
MAX_WAITING: Final = 512  # jobs of all clients; more are refused
MAX_WAITING_OF_CLIENT: Final = 64
MAX_TURNS: Final = 1024  # clients of which it is known when they were served
MAX_WAITING_BYTES: Final = 16 << 20  # of the jobs of a client that wait; the one that exceeds it is taken
RETRY_DELAY_S: Final = 10.0  # after a process could not be started
REAP_POLL_S: Final = 0.01  # a killed process is gone within a turn or two
REAP_TIMEOUT_S: Final = 2.0  # at the end; only an unkillable process outlasts it
_MAIN: Final = "from mcpx.core.wire.workers.process import main; main()"


class Job(msgspec.Struct, frozen=True, eq=False):
    """Something to do in a worker: `task` is `module:function`, given the payload as one `memoryview`."""

    task: str
    payload: tuple[Bytes, ...]
    deadline_s: float
    """For the work itself."""
    patience_s: float
    """For its turn."""
    client: Hashable = None
    """Whose turn it takes."""
    exclusive: tuple[Hashable, ...] = ()
    """Names of which only one job runs at a time."""
    shared_deadline_s: float | None = None
    """In place of the deadline, while others wait for a process."""
    max_answer_bytes: int = 1 << 20
    counted: bool = True
    """Whether its payload is memory of its own: not that of a message that is counted elsewhere."""

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return sum(map(len, self.payload))


class NoAnswer(msgspec.Struct, frozen=True):
    """The reason why a job has no answer."""

    reason: str
    began: bool = False
    """Whether a process was working on it."""
    slow: bool = False
    """Whether that took too long."""
    late: bool = False
    """Whether others had the turns."""


Done = Callable[[Bytes | NoAnswer], None]


class Pending:
    """One job that waits or runs."""

    __slots__ = ("_pool", "done", "job", "timer")

    def __init__(self, job: Job, done: Done, pool: WorkerPool) -> None:
        self.job = job
        self.done: Done | None = done
        self.timer: asyncio.TimerHandle | None = None
        self._pool = pool

    def cancel(self) -> None:
        """Drop the job; `done` is not called."""
        self._forget()
        self._pool.on_cancelled(self)

    def finish(self, answer: Bytes | NoAnswer) -> None:
        """Call `done`, once."""
        done = self.done
        self._forget()
        if done is not None:
            with containing("job of a worker", task=self.job.task):  # the others are to have their ends
                done(answer)

    def _forget(self) -> None:
        self.done = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class WorkerPool:
    """Runs jobs for one event loop. No process is started before the first."""

    def __init__(self) -> None:
        self.workers: list[Worker[Pending]] = []
        self._dying: list[subprocess.Popen[bytes]] = []
        self._waiting: list[Pending] = []  # in order of arrival
        self._turns: dict[Hashable, int] = {}  # when each client was last served, the longest ago first
        self._count = itertools.count(1)
        self._closed = False
        self._not_before = 0.0  # by the loop's clock

    def submit(self, job: Job, done: Done) -> Pending:
        """Queue a job. `done` is not called before this returns."""
        pending = Pending(job, done, self)
        loop = asyncio.get_running_loop()
        self._waiting = [each for each in self._waiting if each.done is not None]
        if self._closed or self._is_full(job) or loop.time() < self._not_before:
            loop.call_soon(pending.finish, NoAnswer("no process was free for it", late=not self._closed))
            return pending
        self._waiting.append(pending)
        cold = not any(worker.is_ready for worker in self.workers)
        patience = max(job.patience_s, START_TIMEOUT_S) if cold else job.patience_s
        late = NoAnswer(f"no process was free in {patience:g} s", late=True)
        pending.timer = loop.call_later(patience, pending.finish, late)
        self._hand_out()
        return pending

    async def run(self, job: Job) -> Bytes | NoAnswer:
        """Run a job and wait for its answer; a caller that leaves takes the job along."""
        answer: asyncio.Future[Bytes | NoAnswer] = asyncio.get_running_loop().create_future()
        pending = self.submit(job, lambda each: None if answer.done() else answer.set_result(each))
        try:
            return await answer
        finally:
            pending.cancel()

    def _is_full(self, job: Job) -> bool:
        own = [each.job for each in self._waiting if each.job.client == job.client]
        held = sum(each.size for each in own if each.counted)
        return (
            len(self._waiting) >= MAX_WAITING
            or len(own) >= MAX_WAITING_OF_CLIENT
            or (job.counted and held > MAX_WAITING_BYTES)
        )

    def close(self) -> None:
        """End the processes, and wait until they have ended."""
        self._closed = True
        for worker in list(self.workers):
            self.end(worker, "MCPX is stopping")
        for pending in self._waiting:
            pending.finish(NoAnswer("MCPX is stopping"))
        self._waiting.clear()
        for popen in self._dying:
            with suppress(subprocess.TimeoutExpired):
                popen.wait(REAP_TIMEOUT_S)
        self._dying.clear()

    # --- turns

    def _hand_out(self) -> None:
        """Give waiting jobs to idle processes, and start one where there is none."""
        self._waiting = [each for each in self._waiting if each.done is not None]
        while ready := [each for each in self._waiting if self._may_begin(each)]:
            pending = min(ready, key=lambda each: self._turns.get(each.job.client, 0))
            worker = next((each for each in self.workers if each.is_ready and each.job is None), None)
            if worker is not None:
                self._give(pending, worker)
                continue
            if len(self.workers) >= MAX_WORKERS:
                self._press(pending)
            elif all(each.is_ready for each in self.workers):
                self._start(pending.job.task)
            break
        for pending in self._waiting:
            if pending.job.deadline_s > LONG_S and not self._shares_a_name(pending):
                self._press(pending)

    def _running(self) -> list[Pending]:
        return [worker.job for worker in self.workers if worker.job is not None]

    def _may_begin(self, pending: Pending) -> bool:
        long = sum(each.job.deadline_s > LONG_S for each in self._running())
        if pending.job.deadline_s > LONG_S and long >= MAX_LONG:
            return False
        return not self._shares_a_name(pending)

    def _shares_a_name(self, pending: Pending) -> bool:
        """Return True if what runs excludes a job."""
        names = set(pending.job.exclusive)
        return any(not names.isdisjoint(each.job.exclusive) for each in self._running())

    def _press(self, waiting: Pending) -> None:
        """Somebody waits for a process: others' jobs get no more than their shared deadline."""
        for worker in self.workers:
            job = worker.job and worker.job.job
            if job and job.shared_deadline_s is not None and job.client != waiting.job.client:
                reason = f"it took over {job.shared_deadline_s:g} s while others waited"
                worker.end_after(job.shared_deadline_s, reason)

    def _give(self, pending: Pending, worker: Worker[Pending]) -> None:
        self._waiting.remove(pending)
        self._turns.pop(pending.job.client, None)
        self._turns[pending.job.client] = next(self._count)
        if len(self._turns) > MAX_TURNS:
            del self._turns[next(iter(self._turns))]
        if pending.timer is not None:
            pending.timer.cancel()
        job = pending.job
        worker.take(pending, job.task, job.payload, job.deadline_s, job.max_answer_bytes)

    # --- processes

    def _start(self, task: str) -> None:
        if self._closed:
            return
        try:
            popen = subprocess.Popen(
                python_running(_MAIN, task),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # a signal from the terminal is for MCPX, which ends it
            )
        except OSError as error:
            self._fail(f"no process can be started ({error.strerror})")
            return
        self.workers.append(Worker(popen, self, task))

    def _fail(self, reason: str) -> None:
        self._not_before = asyncio.get_running_loop().time() + RETRY_DELAY_S
        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            pending.finish(NoAnswer(reason))

    def _reap(self) -> None:
        self._dying = [popen for popen in self._dying if popen.poll() is None]
        if self._dying and not self._closed:
            asyncio.get_running_loop().call_later(REAP_POLL_S, self._reap)

    # --- for the workers, and for jobs

    def on_cancelled(self, pending: Pending) -> None:
        """End the process of a job that may take long, and that nobody waits for any more."""
        for worker in self.workers:
            if worker.job is pending and pending.job.deadline_s > LONG_S:
                self.end(worker, "it was cancelled")
                return

    def on_slow(self, task: str) -> None:
        """Start another process while all have jobs, for those that come meanwhile."""
        if all(worker.job is not None for worker in self.workers) and len(self.workers) < MAX_WORKERS:
            self._start(task)

    def on_idle(self) -> None:
        """Give a process that is idle again its next job."""
        self._hand_out()

    def on_answer(self, pending: Pending, answer: Bytes) -> None:
        """A job is done."""
        pending.finish(answer)

    def end(self, worker: Worker[Pending], reason: str, *, slow: bool = False) -> None:
        """Kill a process; its job, if any, fails for this reason."""
        if worker not in self.workers:
            return
        self.workers.remove(worker)
        never_ready = not worker.is_ready
        worker.kill()
        self._dying.append(worker.popen)
        self._reap()
        if worker.job is not None:
            worker.job.finish(NoAnswer(reason, began=not self._closed, slow=slow))
        if self._closed:
            return
        if never_ready:
            self._fail(reason)
            return
        self._hand_out()
        if worker.job is not None:
            self.on_slow(worker.first_task)

"""What one MCPX process carries: sessions of single clients with one kind of server, opened all at once.

The yardstick of the start rate is the same command started without MCPX, as many at a time as MCPX starts.
All figures of a session are differences: with all sessions open, less with the clients connected and the
servers' own sessions (which give the catalogue) running.
"""

from __future__ import annotations

import os
import selectors
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

from mcpx.core.config.model import MAX_STARTING, MIN_STARTING, PER_PROCESSOR
from mcpx.core.system.processes import processors
from scripts.lab.benchmarks.process import Process, Unmeasured, deadline
from scripts.lab.nodebench import processes
from scripts.lab.nodebench.daemon import Daemon, running
from scripts.lab.nodebench.people import SHAKE, People, connected
from scripts.lab.nodebench.servers import Kind

PATIENCE_S = 900.0
SETTLE_S = 1.0  # before memory is read
POLL_S = 0.05
BARE = 64  # processes of which the bare start rate is taken, at most


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one kind of server, in bytes and seconds.

    `server_...` is the mean of its processes; `mcpx_pss`, `descriptors` and `tasks` are what MCPX needs for a
    session.
    """

    kind: str
    sessions: int
    people: int
    starts_per_s: float
    bare_starts_per_s: float
    first_call_s: float
    """Of one client at a quiet node: start, handshake, listing and call (the median of a few)."""
    last_call_s: float
    """Of the last one, when all ask at once."""
    server_pss: float
    server_rss: float
    server_threads: float
    server_descriptors: float
    mcpx_pss: float
    mcpx_cpu_per_start_s: float
    descriptors: float
    tasks: float
    threads: int
    base_pss: int
    """Of MCPX itself with its clients, before their sessions."""
    idle_cpu: float
    """The share of a core that MCPX takes with all these sessions open and nothing called."""
    calls_per_s: float
    call_cpu_s: float
    """Processor time of MCPX a call."""
    call_p50_s: float
    ended_s: float
    """From the leaving of all clients until their servers' processes have ended."""


def measure(kind: Kind, folder: Path, *, sessions: int, people: int, seconds: float, idle_s: float) -> Node:
    """Open `sessions` of that kind for so many people, call over all of them, and end them.

    Raises:
        Unmeasured: Something did not go as it should; the text says what.
    """
    number = -(-sessions // people)
    names = [f"{each:02}" for each in range(number)]
    config = {
        "mcpServers": {name: kind.entry() for name in names},
        "queue_timeout": PATIENCE_S,
        "connect_timeout": PATIENCE_S,
        "result_token_budget": 0,
    }
    bare = bare_rate(kind, min(BARE, sessions))
    with running(folder, config) as daemon, connected(daemon.socket, people) as clients:
        _make_ready(daemon, clients, number)
        first = _few_first_calls(kind, clients, daemon, names)
        before = _look(daemon)
        there = set(daemon.servers())
        began, cpu = time.perf_counter(), processes.cpu_s(daemon.pid)
        for person in clients.all[1:]:
            for name in names:
                person.call(name, kind.tool, kind.arguments)
        took = clients.finish(PATIENCE_S)
        opened_s, opened = time.perf_counter() - began, len(took)
        cpu = processes.cpu_s(daemon.pid) - cpu
        time.sleep(SETTLE_S)
        after = _look(daemon)
        own = [pid for pid in daemon.servers() if pid not in there]
        if len(own) < opened:
            raise Unmeasured(f"{len(own)} processes for {opened} sessions")
        memory = sum(map(processes.pss, own)) / opened
        resident = sum(map(processes.rss, own)) / opened
        its_threads = sum(map(processes.threads, own)) / opened
        its_files = sum(map(processes.descriptors, own)) / opened
        idle = _idle(daemon, idle_s)
        calls, call_cpu, p50 = _calls(kind, clients, daemon, names, seconds)
        threads = processes.threads(daemon.pid)
        clients.close()
        ended = _until_ended(daemon, there, number)
    return Node(
        kind=kind.name,
        sessions=opened + number,
        people=people,
        starts_per_s=opened / opened_s,
        bare_starts_per_s=bare,
        first_call_s=first,
        last_call_s=max(took),
        server_pss=memory,
        server_rss=resident,
        server_threads=its_threads,
        server_descriptors=its_files,
        mcpx_pss=(after[0] - before[0]) / opened,
        mcpx_cpu_per_start_s=cpu / opened,
        descriptors=(after[1] - before[1]) / opened,
        tasks=(after[2] - before[2]) / opened,
        threads=threads,
        base_pss=before[0],
        idle_cpu=idle,
        calls_per_s=calls,
        call_cpu_s=call_cpu,
        call_p50_s=p50,
        ended_s=ended,
    )


def _make_ready(daemon: Daemon, clients: People, servers: int) -> None:
    """Have all hands shaken, and the servers' own sessions listed."""
    clients.shake(PATIENCE_S)
    for person in clients.all:
        person.request("tools/list", {})
    clients.finish(PATIENCE_S)
    until = time.monotonic() + PATIENCE_S
    while len(daemon.servers()) < servers:
        if time.monotonic() > until:
            raise Unmeasured(f"the servers do not start\n{daemon.log()}")
        time.sleep(POLL_S)
    time.sleep(SETTLE_S)


def _few_first_calls(kind: Kind, clients: People, daemon: Daemon, names: list[str]) -> float:
    """The first calls of the first client, one after the other: the median seconds of each."""
    took = []
    for name in names:
        clients.all[0].call(name, kind.tool, kind.arguments)
        took += clients.finish(PATIENCE_S)
    if daemon.tasks() < len(names):
        raise Unmeasured("the daemon has fewer tasks than sessions")
    return statistics.median(took)


def _look(daemon: Daemon) -> tuple[int, int, int]:
    """Memory, descriptors and tasks of MCPX now."""
    return processes.pss(daemon.pid), processes.descriptors(daemon.pid), daemon.tasks()


def _idle(daemon: Daemon, seconds: float) -> float:
    began, cpu = time.perf_counter(), processes.cpu_s(daemon.pid)
    time.sleep(seconds)
    return (processes.cpu_s(daemon.pid) - cpu) / (time.perf_counter() - began)


def _calls(
    kind: Kind, clients: People, daemon: Daemon, names: list[str], seconds: float
) -> tuple[float, float, float]:
    """Calls a second over all sessions; for a call, processor seconds of MCPX and the median seconds."""
    began, cpu = time.perf_counter(), processes.cpu_s(daemon.pid)
    took = clients.keep_calling(names, kind.tool, kind.arguments, seconds)
    elapsed = time.perf_counter() - began
    cpu = processes.cpu_s(daemon.pid) - cpu
    return len(took) / elapsed, cpu / len(took), statistics.median(took)


def _until_ended(daemon: Daemon, there: set[int], servers: int) -> float:
    """The seconds until only the servers' own sessions are left."""
    began = time.perf_counter()
    while len(left := daemon.servers()) > servers:
        if time.perf_counter() - began > PATIENCE_S:
            raise Unmeasured(f"{len(left) - servers} processes are left of sessions that have ended")
        time.sleep(POLL_S)
    if not set(left) <= there:
        raise Unmeasured("a server's own session was started again")
    return time.perf_counter() - began


def at_once() -> int:
    """How many servers MCPX starts at the same time here."""
    return min(max(MIN_STARTING, int(PER_PROCESSOR * processors())), MAX_STARTING)


def bare_rate(kind: Kind, number: int) -> float:
    """Starts a second of the command without MCPX: up to the answer to the handshake, as many at a time."""
    shake = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": SHAKE}
    line = msgspec.json.encode(shake) + b"\n"
    with ExitStack() as stack, deadline(PATIENCE_S, "the servers alone"):
        waiting = selectors.DefaultSelector()
        stack.callback(waiting.close)
        began = time.perf_counter()
        started = answered = 0
        while answered < number:
            while started < number and len(waiting.get_map()) < at_once():
                process = Process(kind.name, kind.command)
                stack.callback(process.close)
                os.write(process.stdin, line)
                waiting.register(process.stdout, selectors.EVENT_READ)
                started += 1
            for key, _ in waiting.select():
                if not os.read(key.fd, 1 << 16):
                    raise Unmeasured(f"{kind.name} has left")
                waiting.unregister(key.fileobj)
                answered += 1
        return number / (time.perf_counter() - began)

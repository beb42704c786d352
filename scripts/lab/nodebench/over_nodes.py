"""What a cluster of nodes on this machine carries: sessions over all of them, and what each costs.

A real Ray cluster, a gateway (a daemon in the foreground) that has joined it, and clients at its socket. The
second measurement calls a server that waits rather than computes, over one node, two, and so on, with as
many sessions on each: so far as calls a second grow with the nodes, the gateway does not limit them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from scripts.lab.benchmarks.process import Unmeasured
from scripts.lab.nodebench import processes
from scripts.lab.nodebench.daemon import HERE, Daemon, running
from scripts.lab.nodebench.people import People, connected

PATIENCE_S = 900.0
RAY_S = 90.0
SETTLE_S = 3.0
POLL_S = 0.05
WAIT_S = 0.05  # that the second server takes for a call
SMALL = [sys.executable, "-I", str(HERE / "small_server.py")]
NODE = "cluster node"  # in the command line of a node's process


class Group(msgspec.Struct, frozen=True):
    """Processes of one kind: how many, their memory (PSS) and their descriptors."""

    processes: int
    pss: int
    descriptors: int


class OverNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions over the nodes of a cluster, in bytes and seconds. `groups` are with all sessions open."""

    nodes: int
    sessions: int
    people: int
    on_each: list[int]
    """Servers' processes on each node, the fewest first."""
    starts_per_s: float
    first_call_s: float
    """Of one client, the others quiet."""
    last_call_s: float
    groups: dict[str, Group]
    before: dict[str, Group]
    calls_per_s: float
    call_p50_s: float
    gateway_cpu_per_start_s: float
    gateway_cpu_per_call_s: float
    node_cpu_per_call_s: float
    ended_s: float


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of a server that waits: over so many nodes, with so many sessions on each."""

    nodes: int
    sessions: int
    calls_per_s: float
    most_per_s: float
    """If nothing but the waiting took time."""
    call_p50_s: float


class RayNodes:
    """The cluster's process."""

    def __init__(self, folder: Path, number: int) -> None:
        folder.mkdir(parents=True)
        self._log = (folder / "log").open("wb")
        self._popen = subprocess.Popen(
            [sys.executable, str(HERE / "ray_nodes.py"), str(folder / "ray"), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        assert self._popen.stdout is not None
        self.address = self._popen.stdout.readline().decode().strip()
        if not self.address:
            raise Unmeasured(f"no Ray cluster\n{(folder / 'log').read_text(errors='replace')[-2000:]}")

    def nodes(self) -> list[int]:
        """The nodes' processes."""
        return [pid for pid in self.all() if NODE in processes.command(pid)]

    def all(self) -> list[int]:
        """All processes of the cluster."""
        return [self._popen.pid, *processes.descendants(self._popen.pid)]

    def close(self) -> None:
        """End it, and wait for that."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(RAY_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._popen.stdout.close()
        self._log.close()


class Gateway:
    """A daemon in that cluster, with its nodes up."""

    def __init__(self, ray: RayNodes, daemon: Daemon) -> None:
        self.ray = ray
        self.daemon = daemon

    def servers(self) -> dict[int, list[int]]:
        """The servers' processes by their nodes'."""
        return {node: processes.descendants(node) for node in self.ray.nodes()}

    def groups(self) -> dict[str, Group]:
        """All processes by what they are."""
        servers = self.servers()
        theirs = {pid for pids in servers.values() for pid in pids}
        of_ray = [pid for pid in self.ray.all() if pid not in servers and pid not in theirs]
        return {
            "servers": _group(theirs),
            "nodes": _group(servers),
            "gateway": _group([self.daemon.pid]),
            "Ray": _group([*of_ray, *self.daemon.servers()]),
        }


def _group(pids: Any) -> Group:
    there = [pid for pid in pids if processes.pss(pid)]
    return Group(len(there), sum(map(processes.pss, there)), sum(processes.descriptors(pid) for pid in there))


@contextmanager
def cluster(folder: Path, nodes: int, servers: dict[str, Any]) -> Iterator[Gateway]:
    """A gateway over so many nodes, with those entries; ended at the end of the block."""
    ray = RayNodes(folder / "r", nodes)
    config = {
        "mcpServers": servers,
        "cluster": {"address": ray.address, "allow_open": True},
        "queue_timeout": PATIENCE_S,
        "connect_timeout": PATIENCE_S,
        "result_token_budget": 0,
    }
    try:
        with running(folder / "g", config) as daemon:
            gateway = Gateway(ray, daemon)
            _until(lambda: len(ray.nodes()) == nodes, daemon, "the nodes do not start")
            yield gateway
    finally:
        ray.close()


def _until(holds: Any, daemon: Daemon, problem: str, seconds: float = RAY_S) -> None:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise Unmeasured(f"{problem}\n{daemon.log()}")
        time.sleep(POLL_S)


def entry(**more: Any) -> dict[str, Any]:
    """A private server of everybody's."""
    return {"command": SMALL[0], "args": SMALL[1:], "sessions": "per_client", **more}


def _ready(clients: People, names: list[str]) -> None:
    """Have all hands shaken, and each server listed: the first client calls each once."""
    clients.shake(PATIENCE_S)
    for name in names:
        clients.all[0].call(name, "echo", {"text": "x"})
    clients.finish(PATIENCE_S)


def measure_sessions(folder: Path, *, nodes: int, sessions: int, people: int, seconds: float) -> OverNodes:
    """Open so many sessions over the nodes, call over all of them, and end them.

    Raises:
        Unmeasured: Something did not go as it should; the text says what.
    """
    names = [f"{number:02}" for number in range(-(-sessions // people))]
    with cluster(folder, nodes, {name: entry() for name in names}) as gateway:
        daemon = gateway.daemon
        with connected(daemon.socket, people) as clients:
            _ready(clients, names)
            clients.all[1].call(names[0], "echo", {"text": "x"})
            [first] = clients.finish(PATIENCE_S)
            time.sleep(SETTLE_S)
            before = gateway.groups()
            began, cpu = time.perf_counter(), processes.cpu_s(daemon.pid)
            for person in clients.all[1:]:
                for name in names:
                    person.call(name, "echo", {"text": "x"})
            took = clients.finish(PATIENCE_S)
            opened_s, start_cpu = time.perf_counter() - began, processes.cpu_s(daemon.pid) - cpu
            time.sleep(SETTLE_S)
            groups = gateway.groups()
            on_each = sorted(map(len, gateway.servers().values()))
            of_nodes = gateway.ray.nodes()
            cpus = processes.cpu_s(daemon.pid), sum(map(processes.cpu_s, of_nodes))
            called_at = time.perf_counter()
            calls = clients.keep_calling(names, "echo", {"text": "x"}, seconds)
            elapsed = time.perf_counter() - called_at
            call_cpu = processes.cpu_s(daemon.pid) - cpus[0]
            node_cpu = sum(map(processes.cpu_s, of_nodes)) - cpus[1]
        left_at = time.perf_counter()
        own = sum(on_each) - len(names) * people  # the servers' own sessions, for their lists
        _until(
            lambda: sum(map(len, gateway.servers().values())) <= own, daemon, "sessions are left", PATIENCE_S
        )
        ended = time.perf_counter() - left_at
    if own < 0:
        raise Unmeasured(f"{sum(on_each)} processes for {sessions} sessions")
    return OverNodes(
        nodes=nodes,
        sessions=len(names) * people,
        people=people,
        on_each=on_each,
        starts_per_s=len(took) / opened_s,
        first_call_s=first,
        last_call_s=max(took),
        groups=groups,
        before=before,
        calls_per_s=len(calls) / elapsed,
        call_p50_s=sorted(calls)[len(calls) // 2],
        gateway_cpu_per_start_s=start_cpu / len(took),
        gateway_cpu_per_call_s=call_cpu / len(calls),
        node_cpu_per_call_s=node_cpu / len(calls),
        ended_s=ended,
    )


def measure_waiting(folder: Path, *, nodes: int, on_each: int, seconds: float) -> list[Waiting]:
    """Calls a second of a server that waits, over one node, two, and so on.

    Raises:
        Unmeasured: Something did not go as it should; the text says what.
    """
    names = [f"upto-{number}" for number in range(1, nodes + 1)]
    servers = {name: entry(place={"node": f"{name}=yes"}) for name in names}
    found = []
    with cluster(folder, nodes, servers) as gateway:
        for number, name in enumerate(names, 1):
            sessions = on_each * number
            with connected(gateway.daemon.socket, sessions) as clients:
                _ready(clients, [name])
                for person in clients.all:
                    person.call(name, "echo", {"text": "x"})
                clients.finish(PATIENCE_S)
                began = time.perf_counter()
                took = clients.keep_calling([name], "wait", {"seconds": WAIT_S}, seconds)
                elapsed = time.perf_counter() - began
            found.append(
                Waiting(
                    nodes=number,
                    sessions=sessions,
                    calls_per_s=len(took) / elapsed,
                    most_per_s=sessions / WAIT_S,
                    call_p50_s=sorted(took)[len(took) // 2],
                )
            )
    return found


def as_json(figures: OverNodes, waiting: list[Waiting]) -> str:
    """All figures."""
    return json.dumps(msgspec.to_builtins({"sessions": figures, "waiting": waiting}), indent=2)

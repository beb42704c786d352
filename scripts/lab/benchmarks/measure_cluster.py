"""Small calls through a cluster of one node, beside the same over a peer by hand, and Ray's own actor call.

All before the same child, with the same client, in turns. A cluster puts one more MCPX in the way of a call,
as a peer by hand does; so what it may cost is measured against that. Besides the times there is the processor
time of all processes on the way, which the load of the machine hardly touches.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from client import Client, opened
from measure_calls import MOST, WARM_UP, WINDOW
from measure_hops import chain, entry_of, target_before
from payloads import SMALL
from process import Unmeasured, cpu_of_tree, deadline
from targets import HERE, SERVER, Target

ALONE, HTTP, ATTACH, CLUSTER = "MCPX alone", "a peer over HTTP", "a peer over attach", "a cluster"
SYNC, ASYNC = "Ray's actor", "Ray's async actor"
START_S = 60
STOP_S = 30


def measure_cluster(work: Path, child: list[str], *, rounds: int, seconds: float) -> dict:
    """For each way a value a round: `p50_ms`, `p95_ms`, `cpu_us` with one in flight, and `per_s` with 32."""
    names = ("p50_ms", "p95_ms", "cpu_us", "per_s")
    with ExitStack() as stack:
        address, roots = stack.enter_context(_one_node())
        plain = target_before(ALONE, work, {SERVER: entry_of(child)}, SERVER)
        ways: list[tuple[Target, list[int]]] = [(plain, [])]
        for name, way in ((HTTP, "http"), (ATTACH, "attach")):
            found, daemons = stack.enter_context(chain(way, work, child, hops=1))
            found[0].name = name
            ways.append((found[0], daemons))
        ways.append((_through(address, work, child), roots))
        ways += [(_actor(name, address, kind), roots) for name, kind in ((SYNC, "sync"), (ASYNC, "async"))]
        figures = {target.name: {name: [] for name in names} for target, _ in ways}
        clients = stack.enter_context(opened(*(target for target, _ in ways)))
        turns = [(client, paths) for client, (_, paths) in zip(clients, ways, strict=True)]
        for number in range(rounds):
            first = number % len(turns)
            for client, also in turns[first:] + turns[:first]:
                for name, value in _round(client, also, seconds).items():
                    figures[client.name][name].append(value)
    return figures


def _round(client: Client, also: list[int], seconds: float) -> dict[str, float]:
    given = {"text": SMALL}
    with client.bounded(seconds * 3 + 20, "small calls"):
        client.one_by_one(client.lines(WARM_UP, "echo", given), SMALL, seconds)
        calls, before = (
            client.lines(int(MOST * seconds), "echo", given),
            cpu_of_tree([client.process.pid, *also]),
        )
        took = client.one_by_one(calls, SMALL, seconds)
        cpu = cpu_of_tree([client.process.pid, *also]) - before
        calls = client.lines(int(MOST * seconds) + WINDOW, "echo", given)
        done, elapsed = client.many(calls, SMALL, seconds, WINDOW)
    points = statistics.quantiles(took, n=20)
    return {
        "p50_ms": statistics.median(took) * 1000,
        "p95_ms": points[18] * 1000,
        "cpu_us": cpu / len(took) * 1e6,
        "per_s": done / elapsed,
    }


def _through(address: str, work: Path, child: list[str]) -> Target:
    """MCPX as a gateway of the cluster."""
    return target_before(CLUSTER, work, {SERVER: entry_of(child)}, SERVER, cluster={"address": address})


def _actor(name: str, address: str, kind: str) -> Target:
    def call(tool: str, given: dict) -> dict:
        return {"name": tool, "arguments": given}

    return Target(name, [sys.executable, str(HERE / "ray_echo.py"), address, kind], call, {"echo"})


@contextmanager
def _one_node() -> Iterator[tuple[str, list[int]]]:
    """A Ray cluster of one node: its address, and the processes whose descendants do the work."""
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:  # short: Ray has sockets in it
        running = subprocess.Popen(
            [sys.executable, str(HERE / "ray_node.py"), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            with deadline(START_S, "the start of Ray"):
                address = running.stdout.readline().strip()
            if not address:
                raise Unmeasured("Ray does not start; is it installed?")
            yield address, [running.pid]
        finally:
            running.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                running.wait(STOP_S)
            if running.poll() is None:
                running.kill()
                running.wait()

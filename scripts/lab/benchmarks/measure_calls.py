"""Small calls: latency with one in flight, calls a second with 32, in interleaved rounds; and idle memory.

All targets live through all rounds, and take turns that start one further on in each round, so that a noisy
minute hits everybody.
"""

from __future__ import annotations

import statistics
import time

from client import Client, opened
from payloads import SMALL
from targets import Target

WINDOW = 32
MOST = 60_000  # calls a second that are prepared: more than anything here can carry
SETTLE_S = 0.5  # before memory is read
WARM_UP = 100


def measure_calls(targets: list[Target], *, rounds: int, seconds: float) -> dict[str, dict[str, list[float]]]:
    """For each target a value a round: `p50_ms`, `p99_ms`; at 32 in flight `per_s`, `cpu_us` a call."""
    names = ("p50_ms", "p99_ms", "per_s", "cpu_us")
    figures = {target.name: {name: [] for name in names} for target in targets}
    with opened(*targets) as clients:
        for number in range(rounds):
            turn = number % len(clients)
            for client in clients[turn:] + clients[:turn]:
                for name, value in _round(client, seconds).items():
                    figures[client.name][name].append(value)
    return figures


def _round(client: Client, seconds: float) -> dict[str, float]:
    given = {"text": SMALL}
    with client.bounded(seconds * 3 + 20, "small calls"):
        client.one_by_one(client.lines(WARM_UP, "echo", given), SMALL, seconds)
        took = client.one_by_one(client.lines(int(MOST * seconds), "echo", given), SMALL, seconds)
        calls, before = client.lines(int(MOST * seconds) + WINDOW, "echo", given), client.process.cpu_s()
        done, elapsed = client.many(calls, SMALL, seconds, WINDOW)
        cpu = client.process.cpu_s() - before
    p99 = statistics.quantiles(took, n=100)[98] if len(took) > 1 else took[0]
    latency = {"p50_ms": statistics.median(took) * 1000, "p99_ms": p99 * 1000}
    return {**latency, "per_s": done / elapsed, "cpu_us": cpu / done * 1e6}


def measure_idle(targets: list[Target]) -> dict[str, dict[str, int]]:
    """For each gateway its `rss` and `pss` in bytes, with one upstream, after its first call."""
    figures = {}
    for target in targets:
        with opened(target) as (client,):
            with client.bounded(30, "first call"):
                client.one_by_one(client.lines(1, "echo", {"text": SMALL}), SMALL, 1)
            time.sleep(SETTLE_S)
            memory = client.process.memory()
            figures[target.name] = {"rss": memory["rss"], "pss": memory["pss"]}
    return figures

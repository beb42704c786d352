"""Small calls over HTTP: MCPX before a stdio child and before an HTTP server, its peers, and that server.

All targets live through all rounds, and take turns that start one further on in each round, as the calls on
stdio do. Each is asked in both revisions of the protocol where it speaks both; MCPX also by clients that
name streams of events first. Then 1,000 idle clients, and one that works beside them.
"""

from __future__ import annotations

import resource
import time
from contextlib import ExitStack
from pathlib import Path

from http_client import (
    EITHER,
    LEGACY,
    MODERN,
    Connection,
    HttpClient,
    Way,
    bounded,
    measured,
    one_by_one,
    percentiles,
)
from http_targets import HttpTarget, before_http, before_stdio, mcpx, opened, started
from measure_calls import WINDOW
from measure_hops import entry_of
from payloads import SMALL
from process import Process, Unmeasured

CLIENTS = 1000
FILES = 4096  # that this process must be able to open
SETTLE_S = 2.0  # before memory is read
OPENING_S = 120.0  # for all the idle clients
CALLS_S = 60.0
SESSION, STREAM, CONNECTION = (
    "session, 2025-11-25",
    "session and stream, 2025-11-25",
    "connection, 2026-07-28",
)


def measure_http(work: Path, child: list[str], *, rounds: int, seconds: float) -> dict[str, dict]:
    """For each target and way what `measured` says, a value a round, with `target`, `era` and `answers`.

    A way that a target does not speak, and a target that is not installed, has just `missing`, the reason.
    """
    figures: dict[str, dict] = {}
    turns: list[tuple[HttpTarget, Process, HttpClient, dict]] = []
    with ExitStack() as stack:
        for target in [*before_stdio(work, child), *before_http(work)]:
            if not target.installed:
                figures[target.name] = {"missing": "not installed, run scripts/bench"}
                continue
            process = stack.enter_context(started(target))
            for way in target.ways:
                name = f"{target.name}, {way}"
                try:
                    client = opened(target, way)
                except Unmeasured as error:
                    figures[name] = {"missing": str(error).partition(": ")[2]}
                    continue
                figures[name] = {"target": target.name, "era": way.era, "accept": way.accept}
                turns.append((target, process, client, figures[name]))
        for number in range(rounds):
            first = number % len(turns)
            for target, process, client, its in turns[first:] + turns[:first]:
                params = target.params(SMALL)
                found = measured(client, process.pid, params, SMALL, seconds=seconds, window=WINDOW)
                for name, value in found.items():
                    its.setdefault(name, []).append(value)
                its["answers"] = client.answers
    return figures


def measure_idle_http(work: Path, child: list[str], *, rounds: int, seconds: float) -> dict[str, dict]:
    """For each kind of idle client `bytes` of RSS each, and of the one that works `p50_ms` and `p99_ms`.

    Two processes take turns, one with the idle clients (`beside`) and one without (`alone`): a value a round.
    """
    _allow_files(FILES)
    figures: dict[str, dict] = {}
    for number, kind in enumerate((SESSION, STREAM, CONNECTION)):
        way = Way(MODERN if kind == CONNECTION else LEGACY, EITHER)
        with ExitStack() as stack:
            clients = {}
            for place in ("alone", "beside"):
                target = mcpx(f"mcpx {place}", work / f"idle {number} {place}", entry_of(child))
                process = stack.enter_context(started(target))
                clients[place] = opened(target, way)
                _work(clients[place], target, seconds)
            before = process.memory()["rss"]
            with bounded(f"{CLIENTS} idle clients", OPENING_S):
                for connection in _idle(target, way, with_stream=kind == STREAM):
                    stack.callback(connection.close)
            time.sleep(SETTLE_S)
            its: dict = {"bytes": (process.memory()["rss"] - before) / CLIENTS}
            for _ in range(rounds):
                for place, client in clients.items():
                    for name, value in _work(client, target, seconds).items():
                        its.setdefault(place, {}).setdefault(name, []).append(value)
            figures[kind] = its
    return figures


def _work(client: HttpClient, target: HttpTarget, seconds: float) -> dict[str, float]:
    with bounded(f"{client.name}, one that works", CALLS_S):
        took, errors = one_by_one(client, target.params(SMALL), SMALL, seconds)
    if errors:
        raise Unmeasured(f"{client.name}: {errors} calls went wrong")
    return percentiles(took)


def _idle(target: HttpTarget, way: Way, *, with_stream: bool) -> list[Connection]:
    """Clients that have said what a client says first, and then nothing: their connections stay open."""
    found = []
    for _ in range(CLIENTS):
        client = HttpClient(target.name, target.address, way)
        connection = client.connect()
        found.append(connection)
        client.open(connection)
        client.tools(connection)
        if with_stream:
            found.append(client.connect())
            found[-1].write(client.stream())
    return found


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))

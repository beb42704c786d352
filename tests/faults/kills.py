"""One server killed again and again, in a call: what each death costs, and what adds up."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from tests.faults import traces
from tests.faults.load import MAY_ADD_S, MAY_TELL_S, RESTART, Gauge, Load, Tally, effects_in, load_of
from tests.faults.served import ANSWER_S, HELLO, Served, entry, open_served


class Kills(msgspec.Struct, frozen=True, kw_only=True):
    """What a series of kills showed: the load, and times in seconds."""

    load: Load
    own_start_s: float
    """From starting the bare child to its list of tools; the median."""
    told_s: tuple[float, float]
    """From the kill to the caller's error: median and 99th percentile."""
    ready_s: tuple[float, float]
    """From the kill to the next answer: median and 99th percentile."""


async def kill_again_and_again(cycles: int) -> Kills:
    """Kill the one server with calls in flight, wait until it is back, and so on."""
    mark = uuid.uuid4().hex
    tally, told, ready, begun = Tally(), [], [], time.monotonic()
    with TemporaryDirectory(prefix="mcpx-kills-") as name:
        folder = Path(name)
        server = folder / "server"
        entries = {"s": entry("good", server, mark, restart=RESTART)}
        async with open_served(entries, folder, log_level="error", watch_config=False) as served:
            for _ in range(max(5, cycles // 20)):
                await _cycle(served, tally)
            gauge = Gauge(served)
            for _ in range(cycles):
                times = await _cycle(served, tally)
                told.append(times[0])
                ready.append(times[1])
                gauge.sample()
            growth = gauge.growth(per=1)
            zombies = len(traces.zombies(served.pid))
        left = (len(await traces.left_over(mark)), zombies)
        load = load_of(begun, len(told), tally, effects=effects_in([server]), left=left, growth=growth)
        own = await anyio.to_thread.run_sync(own_start, folder / "bare", mark)
    return Kills(load=load, own_start_s=own, told_s=_spread(told), ready_s=_spread(ready))


async def _cycle(served: Served, tally: Tally) -> tuple[float, float]:
    """Kill the server in a call: the seconds until its caller knew, and until the next call was answered."""
    before = set(served.children())
    told = 0.0

    async def hang() -> None:
        nonlocal told
        tally.note(None, await served.call("s", "hang"))
        told = time.monotonic() - killed

    async def count() -> None:
        key = uuid.uuid4().hex
        tally.note(key, await served.call("s", "count", key=key))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hang)
        await anyio.lowlevel.checkpoint()  # it writes before it first waits
        await _echo(served, tally)  # answered in turn: so the server has read the other
        tasks.start_soon(count)
        await anyio.sleep(random.uniform(0, 0.002))  # before, during or after it
        killed = time.monotonic()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
    await _echo(served, tally)
    return told, time.monotonic() - killed


async def _echo(served: Served, tally: Tally) -> None:
    tally.note(None, await served.call("s", "echo"))


def _spread(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def own_start(folder: Path, mark: str, times: int = 15) -> float:
    """What the bare child takes from its start to its list of tools: the median, in seconds."""
    command = entry("good", folder, mark)
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    taken = []
    for _ in range(times):
        begun = time.monotonic()
        with subprocess.Popen(
            [sys.executable, *command["args"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            for line in lines:
                child.stdin.write(msgspec.json.encode(line) + b"\n")
                if "id" in line:
                    child.stdin.flush()
                    child.stdout.readline()
            taken.append(time.monotonic() - begun)
            child.stdin.close()
            child.wait(ANSWER_S)
    return statistics.median(taken)


def judge_times(kills: Kills) -> list[str]:
    """What takes longer than is promised, by the medians."""
    found = []
    if kills.told_s[0] > MAY_TELL_S:
        found.append(f"the caller knew after {kills.told_s[0] * 1000:.0f} ms")
    if kills.ready_s[0] - kills.own_start_s > MAY_ADD_S:
        added = kills.ready_s[0] - kills.own_start_s
        found.append(f"recovery added {added * 1000:.0f} ms to the child's own start")
    return found

"""The soak: random children killed under load from many callers."""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.lowlevel
import anyio.to_thread

from tests.faults import traces
from tests.faults.load import RESTART, WORK_S, Gauge, Load, Tally, effects_in, load_of
from tests.faults.served import Served, entry, open_served


async def soak(seconds: float, *, callers: int = 16, servers: int = 5, every: float = 1.0) -> Load:
    """Kill a random child about every `every` seconds under load from so many callers."""
    mark = uuid.uuid4().hex
    tally, begun, kills = Tally(), time.monotonic(), 0
    with TemporaryDirectory(prefix="mcpx-soak-") as name:
        folder = Path(name)
        folders = [folder / f"server{number}" for number in range(servers)]
        entries = {each.name: entry("good", each, mark, restart=RESTART) for each in folders}
        async with open_served(entries, folder, log_level="error", watch_config=False) as served:
            await _calls_until(served, list(entries), tally, time.monotonic() + min(2.0, seconds / 4))
            gauge = Gauge(served)
            end = time.monotonic() + seconds
            async with anyio.create_task_group() as tasks:
                for _ in range(callers):
                    tasks.start_soon(_calls_until, served, list(entries), tally, end)
                while (now := time.monotonic()) < end - every:
                    await anyio.sleep(min(every * random.uniform(0.5, 1.5), end - now))
                    gauge.sample()
                    kills += _kill_one(served)
            for server in entries:
                tally.note(None, await served.call(server, "echo"))
            growth = gauge.growth(per=60 / every)
            zombies = len(traces.zombies(served.pid))
        left = (len(await traces.left_over(mark)), zombies)
        return load_of(begun, kills, tally, effects=effects_in(folders), left=left, growth=growth)


async def _calls_until(served: Served, servers: list[str], tally: Tally, end: float) -> None:
    """One caller, who never waits between two calls."""
    while time.monotonic() < end:
        server = random.choice(servers)
        if random.random() < 0.3:
            tally.note(None, await served.call(server, "echo"))
        else:
            key = uuid.uuid4().hex
            tally.note(key, await served.call(server, "count", key=key, seconds=WORK_S))


def _kill_one(served: Served) -> int:
    """Kill a random child that lives; how many were killed."""
    living = list(set(served.children()) - set(traces.zombies(served.pid)))
    if not living:
        return 0
    with suppress(ProcessLookupError):
        os.kill(random.choice(living), signal.SIGKILL)
    return 1

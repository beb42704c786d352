"""What a server meets in a long life: memory that it never gives back, and a token that expires all the time.

`leaks` has a server leak at each call, with `limits.memory`, for an hour's worth of calls. It is played so
many times faster than it happens, with MCPX's own times. `expiries` has a server over HTTP answer 401 to a
token that is a few seconds old, before it does anything, and counts how often the command behind `${cmd:...}`
was run. Calls come at a steady rate, from several callers.

Both hold what the callers were told against what the servers noted. Started by `scripts/faults --leaks` and
`--expiries`; short forms are in `test_long_lives.py`.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from mcpx.core.config import load
from mcpx.errors import CallError
from mcpx.parts import open_hub
from tests.faults import traces
from tests.faults.load import Tally, effects_in
from tests.faults.served import Answer, entry

HERE: Final = Path(__file__).parent
CALLS_A_SECOND: Final = 10
CALLERS: Final = 8
LEAK: Final = 10_000_000
LIMIT: Final = 400_000_000
STARTED_S: Final = 30.0


class LongLife(msgspec.Struct, frozen=True, kw_only=True):
    """What one run showed."""

    seconds: float
    calls: int
    answered: int
    failed: dict[str, int]
    """By code and outcome."""
    starts: int
    """Processes of the server that leaks; values that were fetched."""
    expected: int
    """Values that there were; 0 where nothing is expected."""
    duplicated: int
    lost: int
    denied: int
    slowest_s: float
    peak_mb: float
    left: int

    @property
    def problems(self) -> list[str]:
        """What falls short of the promises."""
        found = {
            "calls without an outcome": self.calls - self.answered - sum(self.failed.values()),
            "calls failed": sum(self.failed.values()),
            "effects are there twice": self.duplicated,
            "answered calls were never done": self.lost,
            "calls were done that were said not to be sent": self.denied,
            "processes are left": self.left,
            "values were fetched beyond one for each expiry": max(0, self.starts - self.expected)
            if self.expected
            else 0,
        }
        return [f"{number:,} {what}" for what, number in found.items() if number]


class _Callers:
    """Calls at a steady rate, each with a key of its own."""

    def __init__(self, hub: Any, arguments: dict[str, Any]) -> None:
        self._hub = hub
        self._arguments = arguments
        self.tally = Tally()
        self.slowest_s = 0.0

    async def run(self, number: int, rate: float) -> None:
        """Make so many calls at that rate; more slowly if the server does not keep up with all callers."""
        begun, numbers = time.monotonic(), iter(range(number))

        async def caller() -> None:
            for each in numbers:
                await anyio.sleep(max(0.0, begun + each / rate - time.monotonic()))
                await self._call()

        async with anyio.create_task_group() as tasks:
            for _ in range(CALLERS):
                tasks.start_soon(caller)

    async def _call(self) -> None:
        key, begun = uuid.uuid4().hex, time.monotonic()
        answer = Answer("")
        try:
            await self._hub.calls.exec("s", "count", {"key": key, **self._arguments})
        except CallError as error:
            answer = Answer(str(error), str(error.code), str(error.outcome))
        self.tally.note(key, answer)
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

    def life(self, seconds: float, effects: Counter[str], **more: Any) -> LongLife:
        tally = self.tally
        return LongLife(
            seconds=seconds,
            calls=tally.calls,
            answered=len(tally.answered),
            failed=dict(tally.failed),
            duplicated=sum(times - 1 for times in effects.values()),
            lost=len(tally.answered - effects.keys()),
            denied=len(tally.not_sent & effects.keys()),
            slowest_s=self.slowest_s,
            **more,
        )


# --- leaks


async def leaks(calls: int = 36_000, *, factor: float = 10.0, limit: int = LIMIT) -> LongLife:
    """Have a server leak 10 MB at each of so many calls, ten a second, but `factor` times faster."""
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-leaks-") as name:
        folder = Path(name)
        server = entry("good", folder / "s", mark, limits={"memory": limit})
        async with open_hub(await _config(folder, server), state=folder / "state") as hub:
            await hub.settled(STARTED_S)
            callers, begun, peak = _Callers(hub, {"hoard": LEAK}), time.monotonic(), [0.0]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_watch_peak, lambda: hub.upstreams["s"].pid, peak)
                await callers.run(calls, CALLS_A_SECOND * factor)
                tasks.cancel_scope.cancel()
            seconds = time.monotonic() - begun
        return callers.life(
            seconds,
            effects_in([folder / "s"]),
            starts=(folder / "s" / "starts").stat().st_size,
            expected=0,
            peak_mb=peak[0],
            left=len(await traces.left_over(mark)),
        )


async def _watch_peak(pid_of: Callable[[], int | None], peak: list[float]) -> None:
    while True:
        with suppress(OSError, LookupError):  # it may just have ended
            if (pid := pid_of()) is not None:
                peak[0] = max(peak[0], traces.memory(pid) / 1e6)
        await anyio.sleep(0.05)


async def _config(folder: Path, server: dict[str, Any]) -> Any:
    file = folder / "config.json"
    file.write_text(json.dumps({"login_shell": False, "shutdown_grace": 1, "mcpServers": {"s": server}}))
    return await anyio.to_thread.run_sync(lambda: load(file))


# --- expiries


async def expiries(seconds: float = 120.0, *, life_s: float = 5.0, rate: float = 20.0) -> LongLife:
    """Call a server so often, whose tokens expire after `life_s`, for so long."""
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-expiries-") as name:
        folder = Path(name)
        vault = [sys.executable, "-S", "-E", str(HERE / "expiring_server.py"), str(folder), str(life_s)]
        token = " ".join([*vault, "token"])
        server = {
            "command": vault[0],
            "args": [*vault[1:], "${port}"],
            "env": {traces.MARK: mark},
            "url": "http://127.0.0.1:${port}/mcp",
            "headers": {"Authorization": f"Bearer ${{cmd:{token}}}"},
        }
        async with open_hub(await _config(folder, server), state=folder / "state") as hub:
            await hub.settled(STARTED_S)
            callers, begun = _Callers(hub, {}), time.monotonic()
            await callers.run(round(seconds * rate), rate)
            seconds = time.monotonic() - begun
        return callers.life(
            seconds,
            effects_in([folder]),
            starts=len((folder / "asked").read_text().split()),
            expected=len((folder / "issued").read_text().split()),
            peak_mb=0.0,
            left=len(await traces.left_over(mark)),
        )

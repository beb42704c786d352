"""The stage on which a fault is played: a hub with a wicked server and a good neighbour, and what was seen.

`stage` opens one; a row of the table plays on it, and notes with `caught`, `answered`, `recovered` and
`check` what its caller saw, when, and what falls short. The neighbour is called all the while: it must not
notice. CallLimits are generous (a loaded machine is no fault of MCPX); what was measured is in the result.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import Config
from mcpx.errors import CallError, Code
from tests.faults import traces
from tests.mcpx.scripted import STARTED_QUICKLY, Ears, Watch, config_of, open_watched

SERVER = Path(__file__).with_name("wicked_server.py")
PATIENCE_S = 15.0
SOON_S = 5.0  # for what takes milliseconds
PACE_S = 0.02  # between two calls of the neighbour
PROBING = {"health_check_interval": 0.4, "health_check_timeout": 0.2}
RESTART = {"initial": 0.05, "cap": 0.2}


@dataclass
class Seen:
    """What one row has shown; without problems it holds."""

    fault: str
    caller_saw: str = ""
    error_s: float | None = None
    """From the fault to the caller's error or answer."""
    recovery_s: float | None = None
    """From the fault to the next `ready`."""
    ended: str = ""
    neighbour_s: float = 0.0
    """The neighbour's slowest call."""
    left: int = 0
    """Processes, zombies."""
    error_within_s: float | None = None
    """What is promised, on a machine that is not loaded: for `error_s`."""
    recovery_within_s: float | None = None
    """The same for `recovery_s`."""
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.brief = False
        """Whether less of it is enough: of what only takes time."""

    def late(self) -> list[str]:
        """Where it took longer than is promised."""
        found = []
        for what, took, promised in (
            ("the error", self.error_s, self.error_within_s),
            ("the recovery", self.recovery_s, self.recovery_within_s),
        ):
            if promised is not None and (took is None or took > promised):
                found.append(f"{what} took longer than {promised * 1000:.0f} ms")
        return found

    def check(self, holds: object, problem: str) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.problems.append(problem)


def wicked(mode: str, folder: Path, mark: str, *, times: int = 1, **settings: Any) -> dict[str, Any]:
    """A config entry for the wicked server."""
    args = [*STARTED_QUICKLY, str(SERVER), mode, str(folder), str(times)]
    env = {traces.MARK: mark}
    return {"command": sys.executable, "args": args, "env": env, "restart": RESTART, **settings}


class Playing:
    """One fault being played on a server, and what its caller sees."""

    name: str

    def __init__(self, watch: Watch, seen: Seen) -> None:
        self.watch = watch
        self.seen = seen
        self.check = seen.check
        self.fault_at = time.monotonic()

    @property
    def upstream(self) -> Any:
        return self.watch.hub.upstreams[self.name]

    def incarnation(self) -> int:
        return self.watch.hub.supervisor.state(self.name).generation

    def now(self) -> None:
        """The fault happens now."""
        self.fault_at = time.monotonic()

    def saw(self, what: str, within: float = math.inf) -> None:
        """Note what the caller was told first, and when."""
        if not self.seen.caller_saw or self.seen.error_s is None:
            self.seen.caller_saw = self.seen.caller_saw or what
            self.seen.error_s = took = time.monotonic() - self.fault_at
            self.check(took < within, f"the caller was told after {took:.2f} s")

    def back(self) -> None:
        """Note that it is ready again."""
        self.seen.recovery_s = time.monotonic() - self.fault_at
        self.seen.ended = "ready"

    def check_says(self, what: str, text: object, *contains: str) -> None:
        for each in contains:
            self.check(each in str(text or ""), f"{what} does not say {each!r}: {text}")

    async def answer_of(self, tool: str, arguments: Any = None, *, within: float = math.inf) -> str | None:
        """The text that a call is answered with; None, and a problem, where it is not."""
        try:
            text = await self.watch.text(tool, arguments, server=self.name)
        except CallError as error:
            self.saw(f"{error.code}, {error.outcome}")
            self.check(False, f"{tool} was not answered: {error}")
            return None
        self.saw("the answer", within)
        return text

    async def error_of(
        self, code: Code, *says: str, tool: str, arguments: Any = None, within: float = math.inf
    ) -> CallError:
        """A call fails, with this code, and a text that says these things."""
        error = await self.watch.failure(tool, arguments, server=self.name)
        self.saw(f"{error.code}, {error.outcome}", within)
        self.check(error.code is code, f"the code is {error.code}, not {code}: {error}")
        self.check_says("the error", error, *says)
        return error

    async def parked(self, *says: str) -> None:
        """It is given up for now, and says why and when it is tried again."""
        await self.watch.becomes(State.PARKED, self.name)
        self.seen.ended = "parked"
        info = self.upstream.info()
        self.check_says("the cause", info.cause, *says)
        self.check(info.retry_in_s is not None, "there is no next probe")


class Stage(Playing):
    """One fault being played on the server `s`."""

    name = "s"

    def __init__(self, watch: Watch, ears: Ears, folder: Path, seen: Seen) -> None:
        super().__init__(watch, seen)
        self.ears = ears
        self.folder = folder
        self._fault_incarnation = 0
        self.notices = 0
        self.config: Config
        self.state: Path
        self.known_at_first = self.tools()
        watch.hub.observe(self._noticed)

    def _noticed(self, name: str, _diff: object) -> None:
        self.notices += name == "s"

    # --- doing

    def now(self) -> None:
        """The fault happens now."""
        super().now()
        self._fault_incarnation = self.incarnation()

    def signal(self, number: signal.Signals) -> None:
        """Send the server's process a signal: the fault."""
        self.now()
        os.kill(self.upstream.pid, number)

    def cure(self) -> None:
        """Let the server behave from its next start on."""
        (self.folder / "cured").touch()

    # --- seeing

    def tools(self) -> set[str]:
        """The tools that are listed now."""
        return {tool.name for tool in self.watch.hub.registry.list_tools("s")}

    async def answered(self, tool: str = "act", *, contains: str = "", **arguments: Any) -> None:
        """A call is answered."""
        text = await self.answer_of(tool, arguments)
        self.check(text is None or contains in text, f"the answer of {tool} is {(text or '')[:200]!r}")

    async def caught(self, code: Code, *contains: str, tool: str = "act", **arguments: Any) -> CallError:
        """A call fails, with this code, its outcome, and a text that says these things."""
        return await self.error_of(code, *contains, tool=tool, arguments=arguments)

    async def answered_or_caught(self, code: Code, *, contains: str) -> None:
        """A call is answered, or fails with this code."""
        try:
            text = await self.watch.text("act")
        except CallError as error:
            self.saw(f"{error.code}, {error.outcome}")
            self.check(error.code is code, f"the code is {error.code}, not {code}: {error}")
            return
        self.saw("the answer")
        self.check(contains in text, f"the answer is {text[:200]!r}")

    async def during(self, call: Callable[[], Awaitable[Any]], fault: Callable[[], None]) -> None:
        """Do `fault` once the server has read the next call, which `call` makes and judges."""
        before = len(self.ears.of("call"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await self.ears.hear("call", count=before + 1)
            fault()

    async def recovered(self) -> None:
        """Another incarnation is ready, and answers."""
        await self.watch.until(
            lambda: self.watch.state() is State.READY and self.incarnation() > self._fault_incarnation
        )
        self.back()
        text = await self.watch.text("echo")
        self.check(text.startswith("echo"), f"after the fault it says {text!r}")

    async def untouched(self) -> None:
        """The same incarnation goes on, and answers."""
        self.check(self.incarnation() == 1, "it was restarted")
        self.check((await self.watch.text("echo")).startswith("echo"), "it does not answer any more")
        self.seen.ended = "untouched"

    async def parked(self, *says: str) -> None:
        """It is given up for now, and says why and when it is tried again; so does inspect."""
        await super().parked(*says)
        shown = (await self.watch.hub.calls.inspect("s")).structured_content or {}
        self.check(shown.get("state") == f"parked: {self.upstream.info().cause}", f"inspect shows {shown}")
        self.check(shown.get("retry_in_s") is not None, "inspect names no next probe")

    def starts(self) -> int:
        """How many incarnations there have been."""
        return (self.folder / "starts").stat().st_size

    def counted(self) -> list[str]:
        """The keys of the counting tool's effects, in order."""
        file = self.folder / "counted"
        return file.read_text().split() if file.exists() else []


class Neighbour:
    """The good server beside it, called all the while."""

    def __init__(
        self, watch: Watch, seen: Seen, *, server: str = "neighbour", soon: float = SOON_S, **arguments: Any
    ) -> None:
        self.watch = watch
        self.seen = seen
        self.server = server
        self.soon = soon
        self.arguments = arguments
        self.calls = 0

    async def call_on(self) -> None:
        while await self.call():  # noqa: ASYNC110 - a caller with a pace, not a wait
            await anyio.sleep(PACE_S)

    async def call(self) -> bool:
        """Call it once; whether it answered."""
        begun = time.monotonic()
        try:
            await self.watch.text("echo", self.arguments, server=self.server)
        except CallError as error:
            self.seen.problems.append(f"the neighbour noticed: {error}")
            return False
        self.seen.neighbour_s = max(self.seen.neighbour_s, time.monotonic() - begun)
        self.calls += 1
        return True

    async def judge(self) -> None:
        await self.call()
        incarnation = self.watch.hub.supervisor.state(self.server).generation
        self.seen.check(incarnation == 1, "the neighbour was restarted")
        self.seen.check(self.calls, "the neighbour was never called")
        self.seen.check(self.seen.neighbour_s < self.soon, "the neighbour had to wait")


@asynccontextmanager
async def beside(neighbour: Neighbour) -> AsyncIterator[None]:
    """Call the neighbour meanwhile, once it is ready, and judge it."""
    async with anyio.create_task_group() as tasks:
        await neighbour.watch.becomes(State.READY, neighbour.server)
        tasks.start_soon(neighbour.call_on)
        yield
        tasks.cancel_scope.cancel()
    await neighbour.judge()


@asynccontextmanager
async def nothing_added(seen: Seen) -> AsyncIterator[None]:
    """See that no descriptor and no task of the loop is added."""
    before = traces.descriptors(), len(asyncio.all_tasks())
    yield
    after = traces.descriptors(), len(asyncio.all_tasks())
    seen.check(after[0] <= before[0], f"{after[0] - before[0]} file descriptors are left")
    seen.check(after[1] <= before[1], f"{after[1] - before[1]} tasks are left")


@asynccontextmanager
async def stage(
    seen: Seen,
    mode: str = "good",
    *,
    times: int = 1,
    entry: dict[str, Any] | None = None,
    last_time: Callable[[Path], None] | None = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A running stage; `settings` of MCPX for both servers, `entry` more for the wicked one.

    With `last_time`, another MCPX has run with the same servers before, to its end; it is called then with
    the folder of what was remembered.
    """
    mark = uuid.uuid4().hex
    before = traces.descriptors()
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        folder, next_one = Path(name, "s"), Path(name, "neighbour")
        for each in (folder, next_one):
            each.mkdir()
        servers = {
            "s": {**wicked(mode, folder, mark, times=times), **(entry or {})},
            "neighbour": wicked("good", next_one, mark),
        }
        config, state = config_of(servers, **settings), Path(name, "state")
        with Ears(folder / "ears") as ears:
            if last_time is not None:
                async with open_watched(config, state=state):
                    pass
                last_time(state / "catalogues")
            seen_at = time.monotonic()
            async with open_watched(config, settled=False, state=state) as watch:
                played = Stage(watch, ears, folder, seen)
                played.config, played.state = config, state
                played.fault_at = seen_at
                async with beside(Neighbour(watch, seen)):
                    yield played
    await _nothing_left(seen, mark, before)


async def _nothing_left(seen: Seen, mark: str, descriptors: int) -> None:
    left = await traces.left_over(mark)
    dead = traces.zombies(os.getpid())
    seen.left = len(left) + len(dead)
    seen.check(not left, f"processes are left: {left}")
    seen.check(not dead, f"zombies are left: {dead}")
    grown = traces.descriptors() - descriptors
    seen.check(grown <= 0, f"{grown} file descriptors are left")


def show(seen: Seen) -> str:
    """For the message of a test that fails."""
    return json.dumps(seen.__dict__, indent=2)

"""The faults of servers that do not run because nobody needs them."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from msgspec.structs import replace

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code
from tests.faults import traces
from tests.faults.served import entry, open_served
from tests.faults.stage import SOON_S, Seen, stage
from tests.faults.table import Faults

faults = Faults()
LOOK_S = 0.02
AWAKE = {"start": "eager"}  # for the neighbour
ASLEEP = {"start": "on_demand"}


def _rests(folder: Path, mark: str) -> bool:
    """Whether its server was listed, and has left."""
    return any(folder.glob("state/catalogues/*.json")) and not traces.marked(mark)


def as_it_is(_catalogues: Path) -> None:
    """What was remembered is left alone."""


@faults.row("SIGKILL while it falls asleep")
async def killed_as_it_goes_to_sleep(seen: Seen) -> None:
    """It ignores the end of its input, so that it is still there when it is killed, and a call comes."""
    async with stage(seen, "stubborn", entry=ASLEEP) as on:
        with anyio.fail_after(SOON_S):
            while on.watch.state() is not State.ASLEEP:  # noqa: ASYNC110 - no event tells that it is leaving
                await anyio.sleep(LOOK_S)
        seen.check(on.upstream.pid is not None, "it has left already: this shows nothing")
        on.signal(signal.SIGKILL)
        await on.answered("echo", contains="incarnation 2")
        await on.recovered()


@faults.row("MCPX is killed with SIGKILL while its servers are asleep")
async def mcpx_killed(seen: Seen) -> None:
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        folder = Path(name)
        servers = {"s": entry("good", folder / "s", mark) | ASLEEP}
        async with open_served(servers, folder) as first:
            with anyio.fail_after(SOON_S):
                while not _rests(folder, mark):  # noqa: ASYNC110 - it is another process
                    await anyio.sleep(LOOK_S)
            os.kill(first.pid, signal.SIGKILL)
            await first.process.wait()
        async with open_served(servers, folder) as second:
            seen.check(not traces.marked(mark), "it was started, though nobody needs it")
            answer = await second.call("s", "echo")
            seen.caller_saw = "the answer"
            seen.check("incarnation 2" in answer.text, f"the answer is {answer.text[:200]!r}")
        seen.ended = "ready"
    left = await traces.left_over(mark)
    seen.check(not left, f"processes are left: {left}")


@faults.row("starts no more when it is needed")
async def starts_no_more(seen: Seen) -> None:
    def break_it(catalogues: Path) -> None:
        (catalogues.parents[1] / "s" / "broken").touch()

    once = {"restart": {"park_after": 1, "park_probe": 300}}
    async with stage(seen, "breakable", times=100, last_time=break_it, entry=ASLEEP | once, **AWAKE) as on:
        seen.check(on.watch.state() is State.ASLEEP, "it is not asleep")
        on.now()
        await on.caught(Code.SERVER_UNAVAILABLE, "exited with code 5", "my last words")
        await on.parked("exited with code 5")
        seen.check("echo" in on.upstream.info().tools, "its tools are listed no more")
        on.cure()
        await on.answered("echo", contains="incarnation 3")
        await on.recovered()


@faults.row("its entry changes while it is asleep")
async def changes_while_asleep(seen: Seen) -> None:
    async with stage(seen, "new_tools", last_time=as_it_is, entry=ASLEEP, **AWAKE) as on:
        seen.check("tool_1" in on.upstream.info().tools, "it is not remembered")
        server = on.config.servers["s"]
        transport = replace(server.transport, env=server.transport.env | {"VARIANT": "other"})
        servers = on.config.servers | {"s": replace(server, transport=transport)}
        on.now()
        await on.watch.hub.reload(replace(on.config, servers=servers))
        shown = on.upstream.info().tools
        seen.check("tool_1" not in shown, "what another entry offered is listed")
        await on.answered("tool_2", contains="tool_2 by incarnation 2")
        await on.caught(Code.UNKNOWN_TOOL, "tool_1", tool="tool_1")
        await on.watch.becomes(State.READY)
        seen.recovery_s, seen.ended = time.monotonic() - on.fault_at, "ready"

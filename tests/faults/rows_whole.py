"""The faults of MCPX itself, of its clients, and of a server it has given up; a whole MCPX, as a process."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from tests.faults import traces
from tests.faults.served import entry, open_served
from tests.faults.stage import SOON_S, Seen
from tests.faults.table import Faults

faults = Faults()
MODES = ["good", "good", "good", "stubborn", "stubborn"]
LOOP = {"restart": {"initial": 0.05, "cap": 0.2, "park_after": 4, "park_probe": 300}}
WATCHED_S = 2.0
LOOK_S = 0.05
HANDFUL = 5
IDLE = 0.05  # of one core: what a parked server may cost


@faults.row("MCPX is killed with SIGKILL, five children")
async def killed_itself(seen: Seen) -> None:
    """Two of the children ignore the end of their input; the next MCPX ends them."""
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        folder = Path(name)
        servers = {f"s{n}": entry(mode, folder / f"s{n}", mark) for n, mode in enumerate(MODES)}
        async with open_served(servers, folder) as first:
            old = set(traces.marked(mark))
            seen.check(len(old) == len(MODES), f"there were {len(old)} children")
            os.kill(first.pid, signal.SIGKILL)
            await first.process.wait()
        left = old & set(traces.marked(mark))
        seen.check(len(left) >= 2, "no child stayed behind: this shows nothing")
        seen.caller_saw = f"its end; {len(left)} orphans"
        begun = time.monotonic()
        async with open_served(servers, folder) as second:
            seen.recovery_s = time.monotonic() - begun
            seen.check(not old & set(traces.marked(mark)), "old children live on")
            seen.check((await second.call("s0", "echo")).code is None, "it does not answer")
        seen.ended = "ready"
    await _nothing_left(seen, mark)


@faults.row("a client vanishes mid-call")
async def client_vanishes(seen: Seen) -> None:
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        folder = Path(name)
        servers = {"s": entry("good", folder / "s", mark), "stubborn": entry("stubborn", folder / "t", mark)}
        async with open_served(servers, folder, shutdown_grace=1) as served:
            asked: dict[str, Any] = {"server_name": "s", "tool_name": "count", "arguments": {"key": "k"}}
            await served.tell(
                "tools/call", {"name": "exec", "arguments": asked | {"tool_name": "hang"}}, id=98
            )
            await served.request("tools/call", {"name": "exec", "arguments": asked})
            begun = time.monotonic()
            assert served.process.stdin is not None
            assert served.process.stdout is not None
            await served.process.stdin.aclose()
            await served.process.stdout.aclose()
            with anyio.move_on_after(10 * SOON_S):
                await served.process.wait()
            seen.error_s = time.monotonic() - begun
            seen.caller_saw, seen.ended = "-", "MCPX leaves"
            seen.check(served.process.returncode == 0, f"it ended with {served.process.returncode}")
            seen.check(seen.error_s < 2 * SOON_S, "it took too long to leave")
    await _nothing_left(seen, mark)


@faults.row("1,000 list_changed in a second, at the client")
async def storm_at_the_client(seen: Seen) -> None:
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        folder = Path(name)
        async with open_served({"s": entry("storm", folder / "s", mark)}, folder) as served:
            begun = time.monotonic()
            answer = await served.call("s", "act")
            seen.error_s = time.monotonic() - begun
            seen.check("after a storm" in answer.text, f"it says {answer.text}")
            with anyio.fail_after(SOON_S):
                # what is being waited for is that the call is known
                while (await served.call("s", "came_with_the_storm")).code is not None:  # noqa: ASYNC110
                    await anyio.sleep(LOOK_S)
            await anyio.sleep(WATCHED_S)
            heard = served.notified["notifications/tools/list_changed"]
            seen.caller_saw, seen.ended = f"the answer; {heard} list_changed", "untouched"
            seen.check(1 <= heard <= HANDFUL, f"the client heard of {heard} changes")
    await _nothing_left(seen, mark)


@faults.row("a parked server, MCPX idle")
async def parked_and_idle(seen: Seen) -> None:
    """A crash loop that was given up costs no processor time."""
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        folder = Path(name)
        servers = {"s": entry("exit_at_start", folder / "s", mark, **LOOP)}
        async with open_served(servers, folder) as served:
            begun = time.monotonic()
            error = await served.call("s", "echo")
            with anyio.fail_after(SOON_S):
                while "state" not in error.text and "parked" not in error.text:
                    error = await served.call("s", "echo")
            seen.error_s = time.monotonic() - begun
            seen.caller_saw = f"{error.code}, {error.outcome}"
            seen.check("exited with code 3" in error.text, f"the cause is not told: {error.text}")
            starts = (folder / "s" / "starts").stat().st_size
            before = traces.cpu_s(served.pid)
            await anyio.sleep(WATCHED_S)  # the time over which it is watched, not a wait
            used = (traces.cpu_s(served.pid) - before) / WATCHED_S
            seen.ended = "parked"
            seen.check(used <= IDLE, f"MCPX used {used:.0%} of a core")
            seen.check((folder / "s" / "starts").stat().st_size == starts, "it was tried again meanwhile")
    await _nothing_left(seen, mark)


async def _nothing_left(seen: Seen, mark: str) -> None:
    left = await traces.left_over(mark)
    seen.left += len(left)
    seen.check(not left, f"processes are left: {left}")

"""The faults of MCPX itself, of its clients, and of a server it has given up; a whole MCPX, as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from mcpx.core.store.paths import DaemonPaths, connect, daemon_paths
from tests.faults import traces
from tests.faults.served import entry, open_served
from tests.faults.stage import SOON_S, Seen
from tests.faults.table import Faults
from tests.forking.processes import open_python

faults = Faults()
VANISHING = Path(__file__).with_name("vanishing_client.py")
CROWD = 10_000
CROWD_IN_BRIEF = 2_000
STILL = 3  # looks in a row without a change
WORDS = (b"", b'{"jsonrpc":"2.0"', b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
MEGABYTE = 1 << 20
MAY_GROW = 200  # bytes a client
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
    """A client of its own process is killed; its MCPX notices, and leaves without waiting for the answer."""
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        folder = Path(name)
        servers = {"s": entry("good", folder / "s", mark), "stubborn": entry("stubborn", folder / "t", mark)}
        config = folder / "config.json"
        config.write_text(json.dumps({"mcpServers": servers}))
        command = [sys.executable, str(VANISHING), str(config)]
        environment = os.environ | {"MCPX_STATE_DIR": str(folder / "state")}
        async with await open_python(command, stderr=subprocess.DEVNULL, env=environment) as client:
            assert client.stdout is not None
            with anyio.fail_after(2 * SOON_S):
                gateway = int(await client.stdout.receive())
            begun = time.monotonic()
            client.kill()
            await client.wait()
        await traces.gone(gateway)
        seen.error_s = time.monotonic() - begun
        seen.caller_saw, seen.ended = "-", "MCPX leaves"
        seen.check(seen.error_s < SOON_S, "it took too long to leave")
    await _nothing_left(seen, mark)


@faults.row("10,000 clients connect to the daemon and vanish")
async def clients_come_and_go(seen: Seen) -> None:
    """Some say nothing, some half a line, some begin a session."""
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        folder = Path(name)
        config = folder / "config.json"
        config.write_text(json.dumps({"mcpServers": {"s": entry("good", folder / "s", mark)}}))
        place = daemon_paths(config)
        command = [sys.executable, "-m", "mcpx", "daemon", "run", "--config", str(config)]
        async with await open_python(command, stderr=subprocess.DEVNULL) as daemon:
            with anyio.fail_after(4 * SOON_S):
                while not serves(place):  # noqa: ASYNC110 - as a client would
                    await anyio.sleep(LOOK_S)
            many = CROWD_IN_BRIEF if seen.brief else CROWD
            crowd(place, many // 10)  # what is made once is made
            await at_rest(daemon.pid)
            files, memory = traces.descriptors(daemon.pid), traces.memory(daemon.pid)
            begun = time.monotonic()
            crowd(place, many)
            await has_closed(daemon.pid, files)
            seen.error_s = time.monotonic() - begun
            grown = traces.memory(daemon.pid) - memory
            seen.caller_saw, seen.ended = "-", f"memory + {grown / MEGABYTE:.1f} MB"
            seen.check(traces.descriptors(daemon.pid) <= files, "file descriptors are left")
            seen.check(grown < max(MAY_GROW * many, MEGABYTE), f"memory grew by {grown} bytes")
            daemon.terminate()
            await daemon.wait()
    await _nothing_left(seen, mark)


def serves(place: DaemonPaths) -> bool:
    """Whether the daemon is there, and its server ready: then it opens no more files."""
    joined = connect(place)
    if joined is None:
        return False
    with joined, joined.makefile("rw") as lines:
        lines.write('{"mcpx":"status"}\n')
        lines.flush()
        return bool(json.loads(lines.readline())["servers"][0]["state"] == "ready")


def crowd(place: DaemonPaths, count: int) -> None:
    for number in range(count):
        joined = connect(place)
        if joined is not None:
            with joined, suppress(OSError):
                joined.sendall(WORDS[number % len(WORDS)])


async def at_rest(pid: int) -> None:
    """Wait until the number of the daemon's descriptors changes no more: it has seen the last of them off."""
    before, same = -1, 0
    with anyio.move_on_after(SOON_S):
        while same < STILL:
            await anyio.sleep(10 * LOOK_S)
            now = traces.descriptors(pid)
            before, same = now, same + 1 if now == before else 0


async def has_closed(pid: int, files: int) -> None:
    """Wait until the daemon has no more descriptors than that; what is left in the end, the row will see."""
    with anyio.move_on_after(4 * SOON_S):
        while traces.descriptors(pid) > files:  # noqa: ASYNC110 - the kernel tells nobody
            await anyio.sleep(10 * LOOK_S)


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

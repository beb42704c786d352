"""The faults of a child process: how it starts, dies, hangs and leaves."""

from __future__ import annotations

import signal
import time
from functools import partial

import anyio

from mcpx.core.catalog.snapshot import State
from mcpx.core.servers.calls import IDLE_AFTER_S
from mcpx.errors import Code
from tests.faults import traces
from tests.faults.stage import PROBING, RESTART, SOON_S, Seen, stage
from tests.faults.table import Faults

faults = Faults()
MAY_TELL_S = 0.1  # from a death until the caller knows
MAY_ADD_S = 0.15  # to the child's own start, from its death until it is ready
OWN_START_S = 0.05  # of the wicked server: 15 to 40 ms
NOTICED_S = 0.4 + 2 * 0.2 + MAY_ADD_S  # an interval and two misses, as PROBING has them, and the telling


@faults.row("exits at start")
async def exits_at_start(seen: Seen) -> None:
    async with stage(seen, "exit_at_start") as on:
        await on.answered("echo", contains="incarnation 2")
        await on.recovered()


@faults.row("exits during the handshake")
async def exits_in_handshake(seen: Seen) -> None:
    async with stage(seen, "exit_in_handshake") as on:
        await on.answered("echo", contains="incarnation 2")
        await on.recovered()


@faults.row("never answers the handshake")
async def silent_handshake(seen: Seen) -> None:
    async with stage(seen, "silent_handshake", entry={"connect_timeout": 1.0}) as on:
        await on.answered("echo", contains="incarnation 2")
        await on.recovered()


@faults.row("SIGKILL between calls")
async def killed_between_calls(seen: Seen) -> None:
    async with stage(seen) as on:
        await on.answered("echo")
        seen.error_s = None
        await anyio.sleep(IDLE_AFTER_S)  # the kernel is not asked before
        on.signal(signal.SIGKILL)
        await on.answered("echo", contains="incarnation 2")
        await on.recovered()
        seen.recovery_within_s = OWN_START_S + MAY_ADD_S


@faults.row("SIGKILL mid-call")
async def killed_mid_call(seen: Seen) -> None:
    async with stage(seen) as on:
        await on.answered("echo")
        seen.caller_saw, seen.error_s = "", None

        async def call() -> None:
            error = await on.caught(Code.SERVER_DIED, "SIGKILL", "my last words", tool="hang")
            seen.check(error.to_dict()["outcome"] == "unknown", "the outcome is not unknown")

        await on.during(call, lambda: on.signal(signal.SIGKILL))
        await on.recovered()
        seen.error_within_s, seen.recovery_within_s = MAY_TELL_S, OWN_START_S + MAY_ADD_S


async def replayed(seen: Seen, tool: str) -> None:
    """A call that is safe to repeat is answered by the next incarnation."""
    async with stage(seen) as on:
        await on.answered("echo")
        seen.caller_saw, seen.error_s = "", None
        await on.during(
            lambda: on.answered(tool, contains="incarnation 2"), lambda: on.signal(signal.SIGKILL)
        )
        await on.recovered()


@faults.row("SIGKILL mid-call, tool is read-only")
async def killed_mid_read(seen: Seen) -> None:
    await replayed(seen, "hang_read_only")


@faults.row("SIGKILL mid-call, tool is idempotent")
async def killed_mid_idempotent(seen: Seen) -> None:
    await replayed(seen, "hang_idempotent")


@faults.row("exits mid-call")
async def exits_mid_call(seen: Seen) -> None:
    async with stage(seen, "exit_mid_call") as on:
        await on.watch.becomes(State.READY)
        on.now()
        await on.caught(Code.SERVER_DIED, "exited with code 7", "my last words")
        await on.recovered()


@faults.row("SIGSTOP between calls")
async def stopped_between_calls(seen: Seen) -> None:
    async with stage(seen, **PROBING) as on:
        await on.watch.becomes(State.READY)
        on.signal(signal.SIGSTOP)
        await on.watch.until(lambda: on.watch.state() is not State.READY)
        seen.caller_saw, seen.error_s = "nothing", time.monotonic() - on.fault_at
        await on.recovered()
        seen.error_within_s = NOTICED_S


@faults.row("SIGSTOP mid-call")
async def stopped_mid_call(seen: Seen) -> None:
    async with stage(seen, **PROBING) as on:
        await on.answered("echo")
        seen.caller_saw, seen.error_s = "", None
        await on.during(
            lambda: on.caught(Code.SERVER_DIED, "hangs", tool="hang"), lambda: on.signal(signal.SIGSTOP)
        )
        await on.recovered()
        seen.error_within_s = NOTICED_S


@faults.row("SIGSTOP, then a call")
async def stopped_before_a_call(seen: Seen) -> None:
    async with stage(seen, **PROBING) as on:
        await on.watch.becomes(State.READY)
        on.signal(signal.SIGSTOP)
        await traces.frozen(on.upstream.pid)
        await on.answered("count", contains="incarnation 2", key="once")
        await on.recovered()
        seen.check(on.counted() == ["once"], f"the count is {on.counted()}")


@faults.row("busy for three health intervals")
async def busy(seen: Seen) -> None:
    async with stage(seen, **PROBING) as on:
        await on.watch.becomes(State.READY)
        on.now()
        await on.answered("busy", seconds=1.5)
        await on.untouched()


@faults.row("busy, with other calls waiting")
async def busy_and_wanted(seen: Seen) -> None:
    async with stage(seen, **PROBING) as on:
        await on.watch.becomes(State.READY)
        on.now()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(on.answered, "busy", seconds=1.5, progress=True))
            await on.ears.hear("call", tool="busy")
            await on.answered("echo", contains="incarnation 1")  # not read before the other is done
        await on.untouched()


@faults.row("hangs after an answer, then a call")
async def wedged(seen: Seen) -> None:
    async with stage(seen, "wedge", **PROBING) as on:
        await on.answered("act", contains="nothing any more")
        on.now()
        seen.caller_saw, seen.error_s = "", None
        await on.answered("count", contains="incarnation 2", key="once")
        await on.recovered()
        seen.check(on.counted() == ["once"], f"the count is {on.counted()}")


@faults.row("crash loop")
async def crash_loop(seen: Seen) -> None:
    restart = {**RESTART, "park_after": 4, "park_probe": 0.5}
    async with stage(seen, "exit_at_start", times=1_000_000, entry={"restart": restart}) as on:
        await on.parked("exited with code 3", "my last words")
        starts = on.starts()
        on.now()
        seen.error_within_s = 1.0
        with anyio.fail_after(SOON_S):
            error = await on.caught(Code.SERVER_UNAVAILABLE, "exited with code 3")
        seen.check(on.starts() == starts + 1, f"it was tried {on.starts() - starts} times for the call")
        seen.check(error.details.get("state") == "parked", f"the state is {error.details}")
        on.cure()
        on.now()
        await on.recovered()


@faults.row("command not found")
async def not_found(seen: Seen) -> None:
    async with stage(seen, entry={"command": "/no/such/command"}) as on:
        await on.caught(Code.SERVER_UNAVAILABLE, "command not found: /no/such/command")
        await on.parked("command not found: /no/such/command")


@faults.row("ignores the end of stdin and SIGTERM")
async def stubborn(seen: Seen) -> None:
    async with stage(seen, "stubborn") as on:
        await on.answered()
        await on.untouched()


@faults.row("leaves a grandchild")
async def grandchild(seen: Seen) -> None:
    await _leaves(seen, "grandchild")


@faults.row("leaves a grandchild in a session of its own, as a browser is")
async def browser(seen: Seen) -> None:
    await _leaves(seen, "browser")


async def _leaves(seen: Seen, mode: str) -> None:
    """One that is killed while a child of it stays, which ignores SIGTERM."""
    async with stage(seen, mode) as on:
        await on.answered("echo")
        seen.caller_saw, seen.error_s = "", None
        await on.during(
            lambda: on.caught(Code.SERVER_DIED, "SIGKILL", tool="hang"), lambda: on.signal(signal.SIGKILL)
        )
        await on.recovered()


@faults.row("forks at once and leaves")
async def forks(seen: Seen) -> None:
    async with stage(seen, "forks_at_once") as on:
        await on.answered("echo", contains="incarnation")
        await on.recovered()


@faults.row("changes its tools at a restart")
async def new_tools(seen: Seen) -> None:
    async with stage(seen, "new_tools") as on:
        await on.watch.becomes(State.READY)
        notices = on.notices
        on.signal(signal.SIGKILL)
        await on.recovered()
        await on.answered("tool_2", contains="tool_2 by incarnation 2")
        await on.caught(Code.UNKNOWN_TOOL, "tool_1", tool="tool_1")
        seen.check(on.notices == notices + 1, f"{on.notices - notices} notices")

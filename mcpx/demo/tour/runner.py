"""The demonstration from start to end: a hub of its own, the steps one by one, and no process left.

`run` owns the signals meanwhile: the first one ends it in order, a second one at once. A step that fails ends
it too, and stands in the report.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import anyio.abc

from mcpx.core.system.reaping import group_exists, kill_group
from mcpx.demo.tour.report import Failure, Report, Step, StepFailed
from mcpx.demo.tour.steps import STEPS, Context, demo_config
from mcpx.errors import MCPXError, leaves
from mcpx.parts import open_hub

STEP_TIMEOUT_S: Final = 30.0  # none takes a second on an idle machine
REAP_TIMEOUT_S: Final = 2.0  # for the kernel to forget a process that has ended

Show = Callable[[Step], None]
"""Called with each step that has worked; what it raises ends the demonstration and comes out of `run`."""


def run(show: Show) -> Report:
    """Run the steps until one fails or a signal comes."""
    return anyio.run(_run, show)


async def _run(show: Show) -> Report:
    started, context, report, not_shown = time.monotonic(), Context(), Report(), None
    context.capture_log()
    try:
        with TemporaryDirectory() as state:  # nothing of a demonstration is to be kept
            async with anyio.create_task_group() as tasks:
                steps = anyio.CancelScope()
                await tasks.start(_obey_signals, context, report, steps)
                async with open_hub(demo_config(), state=Path(state)) as context.hub:
                    with steps:
                        not_shown = await _run_steps(context, report, show)
                tasks.cancel_scope.cancel()
    except Exception as error:  # noqa: BLE001 - the boundary: a broken hub is reported like a failed step
        report.failed = report.failed or _failure("hub", error, context)
    if not_shown is not None:
        raise not_shown
    report.took_s = round(time.monotonic() - started, 2)
    pids = {record["pid"] for record in context.records("upstream.ready")}
    report.processes, report.left = len(pids), await _left(pids)
    return report


async def _run_steps(context: Context, report: Report, show: Show) -> Exception | None:
    """Run the steps; what `show` raises is returned, because the hub has to stop first."""
    for name, run_step in STEPS.items():
        try:
            with anyio.fail_after(STEP_TIMEOUT_S):
                step = await run_step(context)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever a step meets is reported
            report.failed = _failure(name, error, context)
            return None
        report.steps.append(step)
        try:
            show(step)
        except Exception as error:  # noqa: BLE001 - as the docstring says
            return error
    return None


def _failure(step: str, error: Exception, context: Context) -> Failure:
    return Failure(step, "; ".join(map(_text, leaves(error))), context.last_warnings(5))


def _text(error: BaseException) -> str:
    if isinstance(error, StepFailed | MCPXError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"not done within {STEP_TIMEOUT_S:g} s"
    return f"{type(error).__name__}: {error}"


async def _obey_signals(
    context: Context, report: Report, steps: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if report.signal is not None:
                for upstream in context.hub.upstreams.values():
                    if upstream.pid is not None:
                        kill_group(upstream.pid)
                os._exit(128 + number)
            report.signal = int(number)
            steps.cancel()


async def _left(groups: set[int]) -> list[int]:
    """The process groups that still have a member, after a moment."""
    with anyio.move_on_after(REAP_TIMEOUT_S):
        while any(map(group_exists, groups)):  # noqa: ASYNC110 - the kernel notifies nobody but the parent
            await anyio.sleep(0.02)
    return sorted(filter(group_exists, groups))

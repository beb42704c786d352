"""The demonstration from its start to its end: a hub of its own, the scenes one by one, and no process left.

`perform` owns the signals while it runs: the first one ends it in order, a second one at once. It never
raises for what goes wrong in a scene; only what `show` raises comes out of it, after everything has ended.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import anyio.abc

from mcpx.core.hub import Hub, open_hub
from mcpx.demo.tour import living, offering, stage
from mcpx.demo.tour.scene import DemoFailed, Ending, Failure, Scene
from mcpx.demo.tour.stage import Journal, Stage
from mcpx.errors import MCPXError
from mcpx.upstream.errors import leaves

SCENE_S: Final = 30.0  # no scene takes a second on an idle machine; one that takes this long hangs
GONE_S: Final = 2.0  # for the kernel to forget a process that has ended
COMPLAINTS: Final = 5

SCENES: Final[dict[str, Callable[[Stage], Awaitable[Scene]]]] = {
    "start": offering.start,
    "catalogue": offering.catalogue,
    "inspect": offering.inspect,
    "exec": offering.run_tool,
    "resource": offering.read,
    "change": living.change,
    "recovery": living.recover,
}


def perform(show: Callable[[Scene], None]) -> Ending:
    """Play the scenes until one fails; each that has worked goes to `show`, whose exceptions come out."""

    async def play() -> Ending:
        return await _Performance(show).run()

    return anyio.run(play)


class _Performance:
    def __init__(self, show: Callable[[Scene], None]) -> None:
        self._show = show
        self._journal = Journal()
        self._scenes: list[Scene] = []
        self._failed: Failure | None = None
        self._show_failed: Exception | None = None
        self._signal: int | None = None
        self._playing = anyio.CancelScope()
        self._hub: Hub | None = None

    async def run(self) -> Ending:
        started = time.monotonic()
        self._journal.install()
        try:
            with TemporaryDirectory() as state:  # nothing of a demonstration is to be kept
                async with anyio.create_task_group() as tasks:
                    await tasks.start(self._obey_signals)
                    async with open_hub(stage.demo_config(), state=Path(state)) as self._hub:
                        with self._playing:
                            await self._play(Stage(self._hub, self._journal))
                    tasks.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - the boundary: a hub that broke is told like a scene that did
            self._fail("hub", error)
        if self._show_failed is not None:
            raise self._show_failed
        pids = {record.fields["pid"] for record in self._journal.of("upstream.ready")}
        return Ending(
            scenes=tuple(self._scenes),
            took_s=round(time.monotonic() - started, 2),
            processes=len(pids),
            left=await _left(pids),
            failed=self._failed,
            signal=self._signal,
        )

    async def _play(self, on: Stage) -> None:
        for name, act in SCENES.items():
            try:
                with anyio.fail_after(SCENE_S):
                    scene = await act(on)
            except Exception as error:  # noqa: BLE001 - the boundary: whatever a scene meets is told
                self._fail(name, error)
                return
            self._scenes.append(scene)
            try:
                self._show(scene)
            except Exception as error:  # noqa: BLE001 - carried past the hub, which must be stopped first
                self._show_failed = error
                return

    def _fail(self, scene: str, error: Exception) -> None:
        told = "; ".join(map(_told, leaves(error)))
        self._failed = self._failed or Failure(scene, told, self._journal.complaints(COMPLAINTS))

    async def _obey_signals(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                if self._signal is not None:
                    self._end_at_once(number)
                self._signal = int(number)
                self._playing.cancel()

    def _end_at_once(self, number: int) -> None:
        for upstream in self._hub.upstreams.values() if self._hub else ():
            if upstream.pid is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(upstream.pid, signal.SIGKILL)
        os._exit(128 + number)


def _told(error: BaseException) -> str:
    if isinstance(error, DemoFailed | MCPXError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"not done within {SCENE_S:g} s"
    return f"{type(error).__name__}: {error}"


async def _left(pids: set[int]) -> tuple[int, ...]:
    """Those of the process groups that still have a member, after a moment."""
    with anyio.move_on_after(GONE_S):
        while any(map(_exists, pids)):  # noqa: ASYNC110 - the kernel tells nobody but the parent
            await anyio.sleep(0.02)
    return tuple(sorted(filter(_exists, pids)))


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's by now, or about to be forgotten
        return False
    return True

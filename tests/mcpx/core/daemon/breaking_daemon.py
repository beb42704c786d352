"""`mcpx daemon run CONFIG` in which each part fails for as long as FOLDER has a file of its name."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio

from mcpx.app import serve_daemon
from mcpx.core.config import load
from mcpx.core.store.listening import listening
from mcpx.core.store.paths import acquire_lock, daemon_paths
from mcpx.core.telemetry.log import configure
from supervisors import ChildSpec, Incarnation, Supervisor

LOOK_S = 0.02


def breaking(spec: ChildSpec, mark: Path) -> Callable[[Incarnation], Awaitable[None]]:
    """The part's own run, and a fault before it, or beside it, as any of its tasks may have one."""

    def look() -> None:
        if mark.exists():
            raise ValueError(f"{spec.name} is broken")

    async def keep_looking() -> None:
        while True:
            await anyio.sleep(LOOK_S)
            look()

    async def run(incarnation: Incarnation) -> None:
        look()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_looking)
            await spec.run(incarnation)
            tasks.cancel_scope.cancel()

    return run


if __name__ == "__main__":
    configure()
    place, folder = daemon_paths(sys.argv[1]), Path(sys.argv[2])
    add = Supervisor.add
    Supervisor.add = lambda self, spec: add(self, replace(spec, run=breaking(spec, folder / spec.name)))  # type: ignore[method-assign]
    lock = acquire_lock(place)
    with listening(place) as listener:
        sys.exit(anyio.run(partial(serve_daemon, load(place.config), place, listener)))

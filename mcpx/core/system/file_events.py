"""Events of the files in folders, for a configuration that changes and for servers that are being developed.

The kernel gives them (inotify on Linux, FSEvents on macOS); where Linux's are hidden, the files are looked at
again and again. An event is only a reason to look: a network file system has none, and a system has limits on
what is watched.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from mcpx.core.system.linux import HIDDEN

EVENT_STEP_MS: Final = 250  # that events are collected for: watchfiles looks so often


@contextmanager
def events_in(
    folders: Collection[Path],
    concerns: Callable[[str], bool],
    on_event: Callable[[], None],
    on_failure: Callable[[Exception], None],
    *,
    recursive: bool = False,
) -> Iterator[None]:
    """Call `on_event` on the event loop after each event of a file whose path `concerns`.

    `on_failure` is called once, with the reason, if nothing can be watched any more.
    """
    loop, stopping = asyncio.get_running_loop(), threading.Event()

    def on_loop(callback: Callable[..., None], *given: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it
            loop.call_soon_threadsafe(callback, *given)

    def follow() -> None:
        try:
            for _ in _events(folders, concerns, stopping, recursive=recursive):
                on_loop(on_event)
        except Exception as error:  # noqa: BLE001 - the boundary: watching may fail in every way that a system has
            on_loop(on_failure, error)

    # not a daemon thread: those must not be in foreign code when Python ends; and not waited for here
    threading.Thread(target=follow, name="file-events").start()
    try:
        yield
    finally:
        stopping.set()


def _events(
    folders: Collection[Path], concerns: Callable[[str], bool], stopping: threading.Event, *, recursive: bool
) -> Iterator[object]:
    """Yield after each event, until `stopping` is set: blocks, in a thread of its own.

    Raises:
        Exception: The system refuses to watch, or there is nothing to watch with.
    """
    from watchfiles import watch  # noqa: PLC0415 - for those who watch

    there = [folder for folder in folders if folder.is_dir()]
    if not there:
        raise FileNotFoundError(f"there is no folder {next(iter(folders), '')}")
    yield from watch(
        *there,
        watch_filter=lambda _change, path: concerns(path),
        step=EVENT_STEP_MS,
        stop_event=stopping,
        raise_interrupt=False,
        recursive=recursive,
        force_polling=HIDDEN or None,
        ignore_permission_denied=True,
    )

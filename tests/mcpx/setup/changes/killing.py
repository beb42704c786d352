"""Killing what is under test, with SIGKILL, at each of its steps: whatever it does to files, one at a time.

`kill_everywhere` forks a child for every step that `act` takes. Python's audit hook sees each file that is
opened, renamed, removed and so on, however it is called; writes and syncs, which have no audit event, are
wrapped. A write is cut in half as well. What a kill leaves is in the kernel, so nothing is really synced. Run
in a process without threads.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Self

os.fsync = lambda _: None  # type: ignore[assignment]
EVENTS = {
    "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown",
    "os.utime", "os.truncate", "os.setxattr", "fcntl.flock", "subprocess.Popen",
}  # fmt: skip


class _Fuse:
    """Kills this process when the step with the given number is reached."""

    def __init__(self, step: int) -> None:
        self.left = step

    def step(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


class _Cut:
    """A file whose writes are two steps, with half of the bytes in between."""

    def __init__(self, file: Any, fuse: _Fuse) -> None:
        self._file = file
        self._fuse = fuse

    def write(self, data: bytes) -> int:
        self._fuse.step()
        self._file.write(data[: len(data) // 2])
        self._file.flush()
        self._fuse.step()
        return int(self._file.write(data[len(data) // 2 :]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def kill_self_at(step: int) -> None:
    """Have this process kill itself at that step."""
    fuse = _Fuse(step)

    def seen(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and not (event == "open" and _reads(arguments)):
            fuse.step()

    fdopen = os.fdopen

    def cut(descriptor: int, mode: str = "r", *rest: Any, **named: Any) -> Any:
        file = fdopen(descriptor, mode, *rest, **named)
        return _Cut(file, fuse) if "w" in mode else file

    os.fdopen, os.fsync = cut, lambda _: fuse.step()  # type: ignore[assignment]
    sys.addaudithook(seen)


def _reads(arguments: tuple[Any, ...]) -> bool:
    _, _, flags = arguments
    return not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)


def kill_everywhere(
    prepare: Callable[[], None], act: Callable[[], None], check: Callable[[bool], None]
) -> int:
    """For each step of `act`: `prepare`, kill `act` there, `check` what it has left; return their number.

    `check` is given whether `act` came to its end, which the last of them did.
    """
    step = 0
    while True:
        prepare()
        ended = kill_at(step, act)
        check(ended)
        if ended:
            return step
        step += 1


def kill_at(step: int, act: Callable[[], None]) -> bool:
    """Have a child do `act`, and die at that step, counted from 0; whether it came to its end."""
    child = os.fork()
    if not child:
        _die_at(step, act)
    _, status = os.waitpid(child, 0)
    ended = os.WIFEXITED(status)
    assert not ended or os.WEXITSTATUS(status) == 0, f"step {step}: it failed, where nothing killed it"
    return ended


def _die_at(step: int, act: Callable[[], None]) -> None:
    try:
        kill_self_at(step)
        act()
        code = 0
    except BaseException as error:  # noqa: BLE001 - the parent is told by the exit code, and the reader here
        io.FileIO(2, "w", closefd=False).write(f"{type(error).__name__}: {error}\n".encode())
        code = 1
    os._exit(code)

"""Programs that are asked for something, for a bounded time and a bounded output.

Each has its own session, no standard input, and a standard error that nobody reads, for it may show secrets.
`running` is the way to run one: whatever happens meanwhile, the program is ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from mcpx.core.system.polling import readable

LEAVE_TIMEOUT_S: Final = 2.0  # for its last scripts, after it has answered
_CHUNK_BYTES: Final = 65536


class OutOfBounds(Exception):  # noqa: N818 - a condition
    """The program did not answer in time, or prints too much; the text says which."""


def start(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a program in the home folder of that environment. The caller ends it.

    Raises:
        OSError: It cannot be started.
    """
    home = environ.get("HOME", "")
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        cwd=home if os.path.isdir(home) else "/",  # noqa: PTH112 - text to text
        start_new_session=True,
    )


@contextmanager
def running(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, and kill it with its process group at the end, unless it was left to `end` before.

    Raises:
        OSError: It cannot be started.
        ValueError: Likewise: there is a null character in the command or in a variable.
    """
    process = start(command, environ)
    try:
        yield process
    finally:
        end(process, wait_s=0.0)


def read(
    process: subprocess.Popen[bytes],
    *,
    timeout_s: float,
    max_bytes: int,
    is_enough: Callable[[bytes | bytearray], bool] = lambda _: False,
) -> bytes:
    """Return what it prints, to the end or until that is enough.

    Raises:
        OutOfBounds: It took too long, or printed too much.
    """
    assert process.stdout is not None  # noqa: S101 - `start` gives it a pipe
    deadline, output = time.monotonic() + timeout_s, bytearray()
    descriptor = os.dup(process.stdout.fileno())  # `end` in another thread may close that one meanwhile
    try:
        while (left := deadline - time.monotonic()) > 0:
            if not readable([descriptor], left):
                break
            data = os.read(descriptor, _CHUNK_BYTES)
            output += data
            if len(output) > max_bytes:
                raise OutOfBounds("prints too much")
            if not data or is_enough(output):
                return bytes(output)
    finally:
        os.close(descriptor)
    raise OutOfBounds(f"did not answer within {timeout_s:g} s")


def end(process: subprocess.Popen[bytes], *, wait_s: float = LEAVE_TIMEOUT_S) -> int | None:
    """Let it leave, or kill it with its process group; its exit code, None if it was killed for this.

    The children of a program that has left keep running.
    """
    try:
        return process.wait(wait_s)
    except BaseException as error:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_TIMEOUT_S)
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()

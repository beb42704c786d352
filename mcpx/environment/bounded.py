"""Programs that are asked for something, for a bounded time and a bounded output.

Each has its own session, no standard input, and a standard error that nobody reads, for it may show secrets.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from select import select
from typing import Final

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


def read(
    process: subprocess.Popen[bytes],
    *,
    timeout_s: float,
    max_bytes: int,
    is_enough: Callable[[bytes | bytearray], bool] = lambda _: False,
) -> bytes:
    """What it prints, to the end or until that is enough.

    Raises:
        OutOfBounds: It took too long, or printed too much.
    """
    assert process.stdout is not None  # noqa: S101 - `start` gives it a pipe
    descriptor, deadline, output = process.stdout.fileno(), time.monotonic() + timeout_s, bytearray()
    while (left := deadline - time.monotonic()) > 0:
        if not select([descriptor], [], [], left)[0]:
            break
        data = os.read(descriptor, _CHUNK_BYTES)
        output += data
        if len(output) > max_bytes:
            raise OutOfBounds("prints too much")
        if not data or is_enough(output):
            return bytes(output)
    raise OutOfBounds(f"did not answer within {timeout_s:g} s")


def end(process: subprocess.Popen[bytes], *, wait_s: float = LEAVE_TIMEOUT_S) -> int | None:
    """Let it leave, or kill it with its process group; its exit code, None if it was killed for this.

    What a program that has left has started goes on.
    """
    try:
        return process.wait(wait_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_TIMEOUT_S)
        return None
    finally:
        if process.stdout is not None:
            process.stdout.close()

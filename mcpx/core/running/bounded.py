"""The bounded runner: programs that are asked for something, for a limited time and a limited output.

`run` is the way to have one answer and end; `running`, `read` and `end` are its parts, for who takes an
answer before the end. Each program has its own session, and leaves no process of its group behind when it is
cut short. Standard library only; blocks.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from mcpx.core.system.input import readable
from mcpx.core.system.reaping import kill_group

LEAVE_TIMEOUT_S: Final = 2.0  # for its last scripts, after it has answered
MAX_OUTPUT_BYTES: Final = 1 << 20  # where a caller names no other limit
_CHUNK_BYTES: Final = 65536


class OutOfBounds(Exception):
    """The program did not answer in time, or prints too much; the text says which."""


class Done(NamedTuple):
    """The output of a program that has ended, and its exit code; None if it did not leave by itself."""

    output: bytes
    code: int | None

    @property
    def last_line(self) -> str:
        """The last line that is not blank; empty if there is none."""
        lines = [line for line in self.output.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def run(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    timeout_s: float,
    max_bytes: int = MAX_OUTPUT_BYTES,
    sent: bytes = b"",
    with_errors: bool = False,
) -> Done:
    """Run a program to its end, in the home folder of that environment.

    `sent` is its standard input. Its standard error is a part of the output only `with_errors`: it may show
    secrets.

    Raises:
        OSError: It cannot be started.
        ValueError: Likewise: there is a null character in the command or in a variable.
        OutOfBounds: It took too long, or printed too much.
    """
    errors = subprocess.STDOUT if with_errors else subprocess.DEVNULL
    with running(
        command, environ, stdin=subprocess.PIPE if sent else subprocess.DEVNULL, stderr=errors
    ) as process:
        if sent:
            threading.Thread(target=send, args=(process, sent), daemon=True).start()
        output = read(process, timeout_s=timeout_s, max_bytes=max_bytes)
        return Done(output, end(process))


def send(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Write to the standard input of a program that was started with a pipe for it, and close that."""
    assert process.stdin is not None
    with suppress(OSError), process.stdin as stream:  # it need not read all, or anything
        stream.write(data)


def start(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    folder: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a folder, or else in the home folder of that environment. The caller ends it.

    Raises:
        OSError: It cannot be started.
    """
    home = environ.get("HOME", "")
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=environ,
        cwd=folder or (home if os.path.isdir(home) else "/"),
        start_new_session=True,
    )


@contextmanager
def running(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    folder: str | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, and kill it with its process group at the end, unless it was left to `end` before.

    Raises:
        OSError: It cannot be started.
        ValueError: Likewise: there is a null character in the command or in a variable.
    """
    process = start(command, environ, stdin=stdin, stderr=stderr, folder=folder)
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
    assert process.stdout is not None  # `start` gives it a pipe
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
    """Let it leave, or kill it with its process group; return its exit code, None if it was killed for this.

    The children of a program that has left keep running.
    """
    try:
        return process.wait(wait_s)
    except BaseException as error:
        kill_group(process.pid)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_TIMEOUT_S)
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()

"""Projections of results: on the event loop where they are cheap, else in a process of their own.

The process is started for one projection (0.1 s), and killed when it takes too long. At most `MAX_PROCESSES`
run at a time; others wait for their turn.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from mcpx.rendering.projection import (
    DEADLINE_S,
    Projected,
    decode_answer,
    encode_job,
    is_cheap,
    parse,
    project,
)

MAX_PROCESSES: Final = 2
MAX_VALUE_BYTES: Final = 64 << 20  # of a projection; one larger could not be kept
_HOME: Final = str(Path(__file__).parents[2])
_MAIN: Final = "import sys; sys.path.append(sys.argv[1]); from mcpx.rendering.projection import main; main()"
"""As in `mcpx.validation.pool`: this very package wherever it is, without the main module of MCPX."""


class Projector:
    """Applies expressions to the JSON of results."""

    def __init__(self) -> None:
        self._turn = anyio.Semaphore(MAX_PROCESSES)

    async def project(self, expression: str, texts: Sequence[str]) -> Projected:
        """The projection; a failure is one of its forms.

        Raises:
            BadExpression: The expression cannot be parsed.
        """
        if is_cheap(parse(expression), texts):
            return project(expression, texts)
        async with self._turn:
            return await _in_process(encode_job(expression, texts))


async def _in_process(job: bytes) -> Projected:
    try:
        popen = _start()
    except OSError as error:
        return Projected(problem=f"no process can be started for it ({error.strerror})")
    answer = b""
    try:
        with anyio.move_on_after(DEADLINE_S) as scope:
            answer = await anyio.to_thread.run_sync(partial(_talk, popen, job), abandon_on_cancel=True)
    finally:
        popen.kill()  # the thread, which waits for its end, ends too
    if scope.cancelled_caught:
        return Projected(
            problem=f"it took over {DEADLINE_S:g} s; take less, or begin with a filter or a slice"
        )
    try:
        return decode_answer(answer)
    except msgspec.DecodeError:
        return Projected(problem="it takes too much memory, or gives too much")


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _MAIN, _HOME],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a signal from the terminal is for MCPX, which ends it
    )


def _talk(popen: subprocess.Popen[bytes], job: bytes) -> bytes:
    """Hand the job over, read the answer as far as it may go, and collect the process. Runs in a thread."""
    with popen:
        assert popen.stdin is not None  # noqa: S101 - it was started with pipes
        assert popen.stdout is not None  # noqa: S101 - as above
        with suppress(BrokenPipeError):
            popen.stdin.write(job)
            popen.stdin.close()
        answer = popen.stdout.read(MAX_VALUE_BYTES + 1024)
        popen.kill()
        return answer

"""Processes around the tests: starting one that serves, and finding one below another.

`serving` starts a process and waits until it says that it is ready. `child_of` finds a running descendant by
a word of its command line, so that a test kills the process it means and no other.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio

from tests.forking import client
from tests.forking.processes import open_python
from tests.live.mcpx_log import PATIENCE_S, lines_of_a_pipe

FORKS_S = 2.0
FORKED = str(client.HERE / "forked.py")
END_S = 5.0  # for a process that was asked to end


@asynccontextmanager
async def serving(
    command: Sequence[str], *, ready: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[str]:
    """Run a command until the context is left; gives the line of its stderr that holds the word `ready`.

    One that is Python is forked off the fork server.
    """
    told = anyio.Event()
    lines: list[str] = []

    def take(line: bytes) -> None:
        lines.append(line.decode(errors="replace"))
        if ready in lines[-1] and not told.is_set():
            told.set()

    async with lines_of_a_pipe(take) as stderr:
        process = await open_python(
            [*command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, **(env or {})},
        )
        stderr.close()
        try:
            with anyio.move_on_after(PATIENCE_S):
                await told.wait()
            assert told.is_set(), f"{command} did not say {ready!r} but {lines}"
            yield next(line for line in lines if ready in line)
        finally:
            await end(process)


async def end(process: anyio.abc.Process, *, patience: float = END_S) -> int:
    """Ask a process to end, and kill it if it does not; its exit code."""
    with anyio.CancelScope(shield=True):
        with suppress(ProcessLookupError):
            process.terminate()
        with anyio.move_on_after(patience) as scope:
            await process.wait()
        if scope.cancelled_caught:
            process.kill()
            await process.wait()
        await process.aclose()
    assert process.returncode is not None
    return process.returncode


def child_of(ancestor: int, word: str) -> int:
    """The one process below `ancestor` whose command line holds `word`; not who only stands for another."""
    until = time.monotonic() + FORKS_S
    found: list[int] = []
    while len(found) != 1 and time.monotonic() < until:  # one that is being started looks like its parent
        found = [pid for pid, command in _descendants(ancestor) if word in command and FORKED not in command]
    assert len(found) == 1, f"{len(found)} processes below {ancestor} hold {word!r}"
    return found[0]


def _descendants(ancestor: int) -> list[tuple[int, str]]:
    """`(pid, command line)` of everything below a process."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,command="],
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    )
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, *command in rows:
        children.setdefault(int(parent), []).append((int(pid), " ".join(command)))
    found = list(children.get(ancestor, []))
    for pid, _ in found:  # grows while it is walked
        found.extend(children.get(pid, []))
    return found

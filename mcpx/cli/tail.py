"""The end of a log file on standard output, and what is added to it; escaped on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from mcpx.cli.printing import RawOutput
from mcpx.errors import MCPXError

LINES: Final = 100  # shown by default
MAX_TAIL_BYTES: Final = 1 << 20  # from the end, in which the lines are looked for
POLL_INTERVAL_S: Final = 0.2
ASK_INTERVAL_S: Final = 1.0  # of a daemon, which asks another machine
MOST_ASKED: Final = 1000  # lines


def show(path: Path, *, lines: int, follow: bool) -> None:
    """Print the last lines; with `follow`, go on until interrupted, across a rotation of the file.

    Raises:
        MCPXError: It cannot be read.
    """
    try:
        with path.open("rb") as log:
            output = RawOutput()
            _last(log, lines, output)
            identity = _identity(path)
            while follow:
                _rest(log, output)
                time.sleep(POLL_INTERVAL_S)
                if _identity(path) not in {identity, None}:
                    break
            else:
                return
    except OSError as error:
        raise MCPXError(f"{path}: {error.strerror}") from None
    show(path, lines=sys.maxsize, follow=True)


def show_lines(answer: dict[str, Any]) -> None:
    """Print the lines that a daemon has answered with.

    Raises:
        MCPXError: It has answered with an error.
    """
    if "error" in answer:
        raise MCPXError(str(answer["error"]))
    RawOutput().write("".join(f"{line}\n" for line in answer["lines"]).encode(errors="replace"))


def follow_lines(ask: Callable[[int], dict[str, Any] | None], lines: list[str]) -> None:
    """Print what is added to lines that are elsewhere, until interrupted: `ask` gives the last so many.

    Where more are added between two questions than one answer holds, the oldest of them are left out.

    Raises:
        MCPXError: The daemon has ended, or says that it cannot be had any more.
    """
    while True:
        time.sleep(ASK_INTERVAL_S)
        answer = ask(MOST_ASKED)
        if answer is None:
            raise MCPXError("the daemon has ended")
        found = answer.get("lines", [])
        show_lines({**answer, "lines": added(lines, found)})
        lines = found


def added(before: list[str], now: list[str]) -> list[str]:
    """The lines that came after `before`, of which `now` may hold the end, or more of the beginning."""
    if not before:
        return now
    for end in range(len(now), 0, -1):
        start = max(0, end - len(before))
        if now[start:end] == before[len(before) - (end - start) :]:
            return now[end:]
    return now


def _last(log: BinaryIO, lines: int, output: RawOutput) -> None:
    size = os.fstat(log.fileno()).st_size
    log.seek(max(0, size - MAX_TAIL_BYTES))
    output.write(b"".join(log.readlines()[-lines:]))


def _rest(log: BinaryIO, output: RawOutput) -> None:
    if more := log.read():
        output.write(more)


def _identity(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None

"""The topic `log`: what a server says on standard error, from the last lines of its file on.

What is written while somebody follows comes from the writer itself, so nothing is read again and again. Lines
are gathered for a moment, long ones are cut, and of more than can be read the last ones are kept.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from mcpx.observe.server_log import ServerLog
from mcpx.paths import READ_FLAGS
from mcpx.text import cut, escaped
from supervisors import Signal

if TYPE_CHECKING:
    from mcpx.page.page import Page

FIRST_LINES: Final = 200
MAX_LINES: Final = 500  # in one piece of news
MAX_LINE_CHARS: Final = 4_000
MAX_TAIL_BYTES: Final = 1 << 18  # of the file, in which the first lines are looked for
PAUSE_S: Final = 0.1  # in which lines are gathered
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
LOOK_S: Final = 1.0  # after which a server that was replaced is noticed


async def log(page: Page, name: str) -> AsyncGenerator[Any, None]:
    """`{lines, from_start: true}` with the last lines, then `{lines, skipped?}` with those that follow.

    Raises:
        CallError: `unknown_server`.
    """
    page.hub.registry.upstream(name)
    new: deque[str] = deque(maxlen=MAX_LINES)
    written, news = 0, Signal()

    def take(text: str) -> None:
        nonlocal written
        lines = text.split("\n")
        written += len(lines)
        new.extend(map(_line, lines[-MAX_LINES:]))
        news.pulse()

    first = True
    while (upstream := page.hub.upstreams.get(name)) is not None:
        with _following(upstream.server_log, take) as file:
            if first:
                lines = [] if file is None else await anyio.to_thread.run_sync(partial(_tail, *file))
                yield {"lines": lines, "from_start": True}
                first = False
            while page.hub.upstreams.get(name) is upstream:
                if not new:
                    with anyio.move_on_after(LOOK_S):
                        await news.wait()
                    continue
                lines, skipped = list(new), written - len(new)
                new.clear()
                written = 0
                yield {"lines": lines, **({"skipped": skipped} if skipped else {})}
                await anyio.sleep(PAUSE_S)


@contextmanager
def _following(server_log: ServerLog, take: Callable[[str], None]) -> Iterator[tuple[int, int] | None]:
    """Have `take` called with what is written from now on; what was written before is the file so far.

    The file is an open descriptor and a size; None where there is none.
    """
    server_log.followers.append(take)
    file = _opened(server_log.path)
    try:
        yield file
    finally:
        server_log.followers.remove(take)
        if file is not None:
            os.close(file[0])


def _opened(path: Path) -> tuple[int, int] | None:
    try:
        descriptor = os.open(path, READ_FLAGS)
    except OSError:
        return None
    return descriptor, os.fstat(descriptor).st_size


def _tail(descriptor: int, size: int) -> list[str]:
    """The last lines of a file of that size."""
    start = max(0, size - MAX_TAIL_BYTES)
    try:
        read = os.pread(descriptor, size - start, start)
    except OSError:
        return []
    lines = read.decode(errors="replace").split("\n")
    return [_line(line) for line in lines[1 if start else 0 :][-FIRST_LINES - 1 :] if line]


def _line(text: str) -> str:
    """A line as it is shown: without colours, and what else would harm as an escape."""
    return escaped(_COLOUR.sub("", cut(text, MAX_LINE_CHARS)))

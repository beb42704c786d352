"""`mcpx status --watch`: what is asked for every second, drawn on the terminal's alternate screen.

It fits the window, whatever size that takes: the arrow keys, space and `b` move it, `q` ends it. What cannot
be had for a while, because the daemon restarts, is drawn as it was, with the reason above it. Where standard
output is no terminal that can do so, each answer is printed below the last.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from mcpx.cli.printing import console, echo
from mcpx.core.system.input import mode_of, on_stop, read_keys, readable, set_mode, stop_here
from mcpx.core.text import one_line
from mcpx.errors import MCPXError

REFRESH_INTERVAL_S: Final = 1.0
_STEPS: Final = {"\x1b[A": -1, "k": -1, "\x1b[B": 1, "j": 1}
_PAGES: Final = {"\x1b[5~": -1, "b": -1, "\x1b[6~": 1, " ": 1}
_ENDS: Final = {"\x1b[H": 0, "g": 0, "\x1b[F": sys.maxsize, "G": sys.maxsize}
_KEY_BYTES: Final = 64
_ALTERNATE_SCREEN: Final = b"\x1b[?1049h\x1b[?25l"
_ORDINARY_SCREEN: Final = b"\x1b[?1049l\x1b[?25h"


def watch_on_screen(ask: Callable[[], Any], draw: Callable[[Any], RenderableType]) -> None:
    """Show what `ask` returns, as `draw` draws it, until the person ends it.

    Raises:
        MCPXError: The first time that it was asked.
    """
    output = console()
    first = ask()
    if not output.is_terminal or output.is_dumb_terminal:
        for answer in _answers(first, ask):
            output.print(draw(answer))
    page = Page(draw(first))
    with _ended_in_order(), output.screen(hide_cursor=True) as screen, _keys() as wait_for_key:
        while True:
            screen.update(page)
            due = time.monotonic() + REFRESH_INTERVAL_S
            while (left := due - time.monotonic()) > 0:
                key = wait_for_key(left)
                if key in {"q", "Q"}:
                    return
                page.move(key)
                screen.update(page)
            try:
                page.body, page.problem = draw(ask()), None
            except MCPXError as error:
                page.problem = str(error)


def watch_plainly(ask: Callable[[], Any], show: Callable[[Any], None]) -> NoReturn:
    """Print what `ask` returns, every second, for programs.

    Raises:
        MCPXError: The first time that it was asked.
    """
    for answer in _answers(ask(), ask):
        show(answer)
    raise AssertionError("endless")


def _answers(first: Any, ask: Callable[[], Any]) -> Iterator[Any]:
    """An answer every second, without end. What fails meanwhile is said on standard error, once."""
    yield first
    said = None
    while True:
        time.sleep(REFRESH_INTERVAL_S)
        try:
            answer = ask()
        except MCPXError as error:
            if said != str(error):
                said = str(error)
                echo(f"mcpx: {said}", err=True)
            continue
        said = None
        yield answer


class Page:
    """The part of a body that fits the window, over a line that says what does not."""

    def __init__(self, body: RenderableType) -> None:
        self.body = body
        self.problem: str | None = None
        """Why the body is not that of this moment."""
        self._top = 0
        self._room = 1

    def move(self, key: str) -> None:
        """Move as a key says, if it says so."""
        if key in _ENDS:
            self._top = _ENDS[key]
        self._top += _STEPS.get(key, 0) + _PAGES.get(key, 0) * max(1, self._room - 1)

    def __rich_console__(self, output: Console, options: ConsoleOptions) -> RenderResult:
        above: list[list[Segment]] = []
        if self.problem is not None:
            above = output.render_lines(
                Text(one_line(self.problem), style="red"), options.update(height=None)
            )
        lines = output.render_lines(self.body, options.update(height=None), pad=False)
        self._room = max(1, options.max_height - len(above) - 1)
        self._top = max(0, min(self._top, len(lines) - self._room))
        shown = lines[self._top : self._top + self._room]
        below = len(lines) - self._top - len(shown)
        for line in [*above, *shown, *[[]] * (self._room - len(shown))]:
            yield from line
            yield Segment.line()
        yield self._footer(below)

    def _footer(self, below: int) -> Text:
        hidden = [f"{self._top} more above"] * bool(self._top) + [f"{below} more below"] * bool(below)
        keys = "arrows move, q quits" if hidden else "q quits"
        parts = [time.strftime("%H:%M:%S"), *hidden, keys]
        return Text("  ".join(parts), style="dim", no_wrap=True, overflow="crop", end="")


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Have SIGTERM end the process in order, so that the terminal is as it was."""

    def end(number: int, _frame: object) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits for a key or for another size of the window; "" where neither came in time."""
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    fd = sys.stdin.fileno() if sys.stdin.isatty() else None
    mode = None if fd is None else mode_of(fd)

    def enter() -> None:
        if fd is not None:
            read_keys(fd)

    def leave() -> None:
        if fd is not None and mode is not None:
            set_mode(fd, mode)

    def stop(*_: object) -> None:
        """Give the terminal back to the shell until the process is continued (Ctrl-Z, fg)."""
        leave()
        os.write(sys.stdout.fileno(), _ORDINARY_SCREEN)
        stop_here()
        os.write(sys.stdout.fileno(), _ALTERNATE_SCREEN)
        enter()

    undo = on_stop(stop)
    woken_before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def wait(seconds: float) -> str:
        watched = [woken] if fd is None else [woken, fd]
        ready = readable(watched, seconds)
        if woken in ready:
            os.read(woken, _KEY_BYTES)
        return os.read(fd, _KEY_BYTES).decode(errors="replace") if fd is not None and fd in ready else ""

    try:
        enter()
        yield wait
    finally:
        signal.set_wakeup_fd(woken_before)
        undo()
        leave()
        os.close(woken)
        os.close(wakes)

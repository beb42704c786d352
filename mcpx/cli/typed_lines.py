"""Lines from standard input, taken while the command waits for something else.

At a terminal they may be longer than its own line editing allows (1024 bytes on macOS, 4096 on Linux): the
addresses that browsers come back to are. Backspace, Ctrl-U and Ctrl-D work as they do there.
"""

from __future__ import annotations

import codecs
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from mcpx.core.system.polling import readable

JOIN_TIMEOUT_S: Final = 2.0  # for a line that is being taken
_CHUNK: Final = 65536
MAX_LINE_CHARS: Final = 65536
_ERASE: Final = {"\x7f", "\b"}
_KILL: Final = "\x15"
_END: Final = "\x04"


class TypedLines:
    """Calls `take` with each line, and `ended` at the end of input, while its context is open.

    Both are called in a thread, and must not raise; `take` says whether more lines are wanted.
    """

    def __init__(self, take: Callable[[str], bool], ended: Callable[[], None], prompt: str = "") -> None:
        self._take = take
        self._ended = ended
        self._prompt = prompt
        self._fd = sys.stdin.fileno()
        self._mode: list[Any] | None = None
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._run, name="typed lines", daemon=True)
        self._line = ""
        self._before: Any = signal.SIG_DFL

    def __enter__(self) -> Self:
        if os.isatty(self._fd):
            self._mode = termios.tcgetattr(self._fd)
            mode = termios.tcgetattr(self._fd)
            mode[3] &= ~(termios.ICANON | termios.ECHO)
            self._before = signal.signal(signal.SIGTERM, self._end_at_once)
            termios.tcsetattr(self._fd, termios.TCSADRAIN, mode)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._stopped)
        self._thread.join(JOIN_TIMEOUT_S)
        os.close(self._stop)
        if self._mode is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._mode)
            signal.signal(signal.SIGTERM, self._before)
            self._show("\n")

    def _end_at_once(self, number: int, _frame: object) -> None:
        """End by a signal as without this, with the terminal as it was."""
        if self._mode is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._mode)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def _run(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        take_in = self._key if self._mode else self._character
        self._show(self._prompt)
        while self._stop not in (ready := readable([self._fd, self._stop])):
            chunk = os.read(self._fd, _CHUNK) if ready else b""
            if not all(map(take_in, decode(chunk) if chunk else "\n")):
                return
            if not chunk:
                self._ended()
                return

    def _character(self, character: str) -> bool:
        """Take in a character; whether more are wanted."""
        if character not in "\r\n":
            self._line = (self._line + character)[:MAX_LINE_CHARS]
            return True
        line, self._line = self._line.strip(), ""
        if line and not self._take(line):
            return False
        self._show(self._prompt)
        return True

    def _key(self, key: str) -> bool:
        """Take in a key of a terminal, and show what it does; whether more are wanted."""
        if key == _END and not self._line:
            self._ended()
            return False
        if key in _ERASE or key == _KILL:
            gone = len(self._line) if key == _KILL else min(1, len(self._line))
            self._line = self._line[: len(self._line) - gone]
            self._show("\b \b" * gone)
        elif key in "\r\n" or key.isprintable():
            self._show("\n" if key in "\r\n" else key)
            return self._character(key)
        return True

    def _show(self, text: str) -> None:
        if self._mode is not None:
            sys.stderr.write(text)
            sys.stderr.flush()

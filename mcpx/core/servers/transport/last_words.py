"""The last lines that a process wrote to standard error, for error messages: bounded, and without secrets.

Also splits its output into whole lines for the log file of the server: a secret that came in two pieces would
be found in neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from mcpx.core.text import cut

MAX_KEPT_LINES: Final = 100
MAX_LINE_CHARS: Final = 300
MAX_TAIL_LINES: Final = 5  # in an error message
MAX_TAIL_CHARS: Final = 1000
MAX_UNENDED_BYTES: Final = 65536  # of a line without an end; then it counts as one


class LastWords:
    """The last lines of one process. `redact` removes secrets from a text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._lines: deque[str] = deque(maxlen=MAX_KEPT_LINES)
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next piece of output; return the whole lines that end in it.

        A flood costs little: only its last lines are looked at.
        """
        said = self._rest + data
        end = said.rfind(b"\n") + 1
        if not end and len(said) > MAX_UNENDED_BYTES:
            end = len(said)
        whole, self._rest = said[:end], said[end:]
        self._keep(whole)
        return whole

    def finish(self) -> bytes:
        """Note the end of the output; return the last line, if it had no end."""
        whole, self._rest = self._rest, b""
        self._keep(whole)
        return whole

    def _keep(self, whole: bytes) -> None:
        _, *lines = (b"\n" + whole.rstrip()).rsplit(
            b"\n", MAX_KEPT_LINES
        )  # the first of more is all before them
        for line in lines:
            if text := self._redact(line.decode(errors="replace")).rstrip():
                self._lines.append(cut(text, MAX_LINE_CHARS))

    def tail(self) -> str:
        """The last lines, for an error message; the empty string if there are none."""
        tail: list[str] = []
        left = MAX_TAIL_CHARS
        for line in reversed(list(self._lines)[-MAX_TAIL_LINES:]):
            if len(line) > left:
                break
            tail.insert(0, line)
            left -= len(line) + 1
        return "\n".join(tail)

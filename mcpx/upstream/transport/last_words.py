"""What a process said last on standard error: kept for error messages, within bounds, and without secrets.

Also cuts what it says into whole lines for whoever writes it down: a secret that comes in two pieces would be
in neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

KEPT_LINES: Final = 100
LINE_LEN: Final = 300  # characters of one line
TAIL_LINES: Final = 5  # in an error message
TAIL_LEN: Final = 1000  # characters in all
LONGEST: Final = 65536  # bytes of a line without an end; then it is taken for one


class LastWords:
    """The last lines of one process. `redact` takes the secrets out of a text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take what was just said; what of it, and of what came before, makes whole lines.

        A flood costs little: of its lines only the last ones are looked at.
        """
        said = self._rest + data
        end = said.rfind(b"\n") + 1
        if not end and len(said) > LONGEST:
            end = len(said)
        whole, self._rest = said[:end], said[end:]
        self._keep(whole)
        return whole

    def finish(self) -> bytes:
        """There is no more: a last line without an end counts too."""
        whole, self._rest = self._rest, b""
        self._keep(whole)
        return whole

    def _keep(self, whole: bytes) -> None:
        _, *lines = (b"\n" + whole.rstrip()).rsplit(b"\n", KEPT_LINES)  # the first of more is all before them
        for line in lines:
            if text := self._redact(line.decode(errors="replace")).rstrip():
                self._lines.append(shortened(text, LINE_LEN))

    def tail(self) -> str:
        """The last lines, for an error message; empty if there are none."""
        tail: list[str] = []
        left = TAIL_LEN
        for line in reversed(list(self._lines)[-TAIL_LINES:]):
            if len(line) > left:
                break
            tail.insert(0, line)
            left -= len(line) + 1
        return "\n".join(tail)


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of a text, with `...` at the end of one that had more."""
    return text if len(text) <= limit else text[: limit - 3] + "..."

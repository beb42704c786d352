"""A process on a terminal of its own: a real pty that it controls, with a size, keys and signals.

What it writes is kept whole. `wait_for` reads until a text has come; a key such as `CTRL_C` reaches the
process as a terminal's driver sends it.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.forking.client import Python

CTRL_C, CTRL_Z = "\x03", "\x1a"
PATIENCE_S = 50.0
SIZES = {"LINES", "COLUMNS"}
"""Variables that would stand for the size of the window: workers of xdist set them."""


class Terminal:
    """`python ARGUMENTS` on a terminal; a context manager, which kills what still runs.

    A process that is waited for by its id has to be `real`; see `tests.forking.client`.
    """

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str],
        rows: int = 24,
        columns: int = 80,
        cwd: Path | None = None,
        real: bool = False,
        **pipes: Any,
    ) -> None:
        self.written = ""
        self._ours, theirs = os.openpty()
        self.resize(rows, columns)
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs} | pipes
        self.process = Python(
            [sys.executable, *arguments],
            real=real,
            env={"TERM": "xterm-256color", **{name: env[name] for name in env if name not in SIZES}},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: _control(theirs),
            pass_fds=[theirs],
            **streams,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        os.close(self._ours)

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size; the process gets SIGWINCH."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Type: a line ends with a carriage return or a line feed."""
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str, *, after: int = 0) -> int:
        """Read until `text` stands in what was written from offset `after` on; the offset behind it."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.written.find(text, after)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} does not come: {self.written[after:]!r}"
            assert self._read(left), f"ended without {text!r}: {self.written[after:]!r}"
        return found + len(text)

    def end(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(max(0.0, deadline - time.monotonic())):
            assert time.monotonic() < deadline, f"does not end: {self.written!r}"
        return self.process.wait(PATIENCE_S)

    def _read(self, within: float) -> bool:
        """Read what comes within that time; False at the end."""
        if not select.select([self._ours], [], [], within)[0]:
            return True
        try:
            part = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.written += part.decode(errors="replace").replace("\r\n", "\n")
        return bool(part)


def _control(terminal: int) -> None:
    """Make it the process's own terminal, whose Ctrl-C it does not ignore (as workers of xdist do)."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)

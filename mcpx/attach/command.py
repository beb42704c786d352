"""The command line of `mcpx attach`: read by hand, because a parser costs more than all the rest."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

from mcpx.attach.shim import Shim
from mcpx.daemon.paths import daemon_paths
from mcpx.errors import MCPXError

USAGE: Final = """Usage: mcpx attach [--config CONFIG]

  Join standard input and output to the daemon, which is started if none runs.
  This is what desktop clients start.

Options:
  --config FILE  Configuration file; else $MCPX_CONFIG, else the usual one.
  -h, --help     Show this message and exit.
"""


def main(arguments: list[str]) -> int:
    """Run to the client's end; the exit code."""
    config: str | None = None
    words = iter(arguments)
    for word in words:
        if word in {"-h", "--help"}:
            sys.stdout.write(USAGE)
            return 0
        if word == "--config":
            config = next(words, None)
            if config is None:
                return _usage("--config wants a file")
        elif word.startswith("--config="):
            config = word.removeprefix("--config=")
        elif word.startswith("-") or config is not None:
            return _usage(f"no such option: {word}")
        else:
            config = word
    return _attach(config)


def _usage(problem: str) -> int:
    sys.stderr.write(f"mcpx attach: {problem}\n\n{USAGE}")
    return 2


def _attach(config: str | None) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        paths = daemon_paths(config)
    except MCPXError as error:
        sys.stderr.write(f"mcpx: {error}\n")
        return 1
    diverted = [fd for fd in (0, 1) if not os.isatty(fd)]  # a terminal is shared with the shell
    before = {fd: os.get_blocking(fd) for fd in diverted}
    try:
        for fd in diverted:
            os.set_blocking(fd, False)
        Shim(paths, 0, 1).run()
    finally:
        for fd, blocking in before.items():
            os.set_blocking(fd, blocking)
    return 0

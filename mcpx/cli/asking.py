"""Requests for servers: to the daemon, if one runs for the configuration, else to servers started for one.

In the second case only the servers that are needed are started, and ended again before the command returns.
Both answer the same (`mcpx.core.gateway.frontends.control`).
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from mcpx.cli.known_names import complete_profile
from mcpx.core.text import one_line

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON

profile_option = click.option(
    "--profile",
    metavar="NAME",
    help="As the clients of this profile see it.",
    shell_complete=complete_profile,
)
QUIET_S: Final = 2.0  # that a call runs before a terminal is told so


def ask(config_path: str | None, control_request: JSON, progress: ProgressLine | None = None) -> JSON:
    """The response of the daemon, or of servers started for this alone.

    Raises:
        MCPXError: The request failed.
    """
    report = progress.show if progress is not None else None
    if (answer := ask_daemon(config_path, control_request, report)) is not None:
        return answer
    from mcpx.core.system.light_imports import light_sdk

    with light_sdk():
        from mcpx.cli.own_process import perform_alone

    return perform_alone(config_path, control_request, report or (lambda _step: None))


def ask_daemon(
    config_path: str | None, control_request: JSON, report: Callable[[JSON], None] | None = None
) -> JSON | None:
    """The response of the daemon; None where none runs.

    Raises:
        MCPXError: The request failed.
    """
    from mcpx.core.daemon.control_client import request
    from mcpx.core.system.paths import daemon_paths
    from mcpx.errors import DaemonError

    try:
        # a call has deadlines of its own
        return request(daemon_paths(config_path), control_request, within=None, on_progress=report)
    except DaemonError:  # then no daemon can be there
        return None


class ProgressLine:
    """A line on a terminal that says how far a call is; gone when the call has ended."""

    def __init__(self, what: str) -> None:
        self._what = one_line(what)
        self._began = time.monotonic()
        self._last = ""
        self.shown = False

    def show(self, step: JSON) -> None:
        """Draw the line anew: with what the server reports, or only with the time if that is empty."""
        seconds = time.monotonic() - self._began
        self._last = _described(step) or self._last
        if not self._last and seconds < QUIET_S:
            return
        parts = [self._what, self._last, f"{seconds:.0f} s"]
        line = "  ".join(part for part in parts if part)
        room = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{line[:room]}\x1b[K")
        sys.stderr.flush()
        self.shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def progress_of(what: str) -> Iterator[ProgressLine | None]:
    """A line for the progress of a call; None where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    line = ProgressLine(what)
    try:
        yield line
    finally:
        line.clear()


def _described(step: JSON) -> str:
    """`3/7 (43 %) message`: what a server reports of its progress."""
    done, total, message = step.get("progress"), step.get("total"), step.get("message")
    parts: list[Any] = []
    if isinstance(done, int | float):
        parts.append(f"{done:g}")
        if isinstance(total, int | float) and total > 0:
            parts[0] += f"/{total:g} ({100 * done / total:.0f} %)"
    if message:
        parts.append(one_line(str(message)))
    return " ".join(parts)

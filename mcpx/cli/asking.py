"""Requests for servers: to the daemon, if one runs for the configuration, else to servers started for one.

In the second case only the servers that are needed are started, and ended again before the command returns.
Both answer the same (`mcpx.core.gateway.frontends.control`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mcpx.core.text import one_line
from mcpx.errors import DaemonError

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON

_AS_CLIENT: Final = frozenset({"exec", "inspect", "prompts", "resources"})
"""Requests that are those of a client in the folder of the command."""
RELOAD_TIMEOUT_S: Final = 60.0  # servers that stop get their grace time
Report = Callable[[Any], None]
QUIET_S: Final = 2.0  # that a call runs before a terminal is told so


class Control:
    """The control requests of one command: carried out by the daemon, else in this process.

    Where no daemon ran for the first request, none is looked for again: what is open in this process (a
    sign-in that waits for its answer) is no daemon's business.
    """

    def __init__(self, config_path: str | None) -> None:
        self._config_path = config_path
        self._in_process = False

    def ask(self, request: JSON, report: Report | None = None) -> JSON:
        """Return the response. `report` takes what comes before it; what it raises ends the request.

        Raises:
            MCPXError: The request failed.
        """
        if request["mcpx"] in _AS_CLIENT:
            import msgspec  # here and below: completion needs none of it

            from mcpx.core.system.endpoint import surroundings

            request = {
                **request,
                **msgspec.to_builtins(surroundings()),
            }  # its first key is what it is told by
        if not self._in_process and (answer := ask_daemon(self._config_path, request, report)) is not None:
            return answer
        self._in_process = True
        from mcpx.cli.in_process import perform  # configuration and policy, which a daemon has loaded already

        return perform(self._config_path, request, report or (lambda _step: None))


def ask(config_path: str | None, request: JSON, report: Report | None = None) -> JSON:
    """Return the response to the only control request of a command, as `Control.ask`."""
    return Control(config_path).ask(request, report)


def ask_daemon(config_path: str | None, request: JSON, report: Report | None = None) -> JSON | None:
    """The response of the daemon; None where none runs.

    Raises:
        MCPXError: The request failed.
    """
    from mcpx.core.daemon.control_client import request as send
    from mcpx.core.store.paths import daemon_paths

    try:
        # a call has deadlines of its own
        return send(daemon_paths(config_path), request, within=None, on_progress=report)
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
        import shutil  # for a terminal alone

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

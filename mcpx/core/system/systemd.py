"""Notifications to systemd: ready, the status line, stopping, and the watchdog's keep-alive.

The protocol is that of sd_notify(3): datagrams to the socket that `NOTIFY_SOCKET` names; without one, nothing
is sent. Nothing here raises: a service manager that does not listen must not end a session. The keep-alive
(`WATCHDOG=1`, twice in the time that `WATCHDOG_USEC` gives) is sent by a task of the event loop, so that
systemd starts MCPX again when the loop hangs.

The composition root owns one `Notifier`: `announce` runs as the last child of the root supervisor, `watch`
for as long as the process lives, its orderly end included.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import anyio
import structlog

from mcpx.core.system.linux import HIDDEN
from supervisors import Incarnation

log = structlog.get_logger()
STATUS_INTERVAL_S: Final = 5.0  # between two checks of the status line; a watchdog may need shorter ones
_MICRO: Final = 1_000_000


class Notifier:
    """Notifies the service manager of this process; does nothing without one."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self.watchdog_s = _watchdog(environ) if self._address else None
        """Seconds of silence after which the service manager ends this process; None without a watchdog."""
        self._failing = False

    @property
    def enabled(self) -> bool:
        """True if there is a service manager to notify."""
        return self._address is not None

    def send(self, *lines: str) -> None:
        """Send assignments (`READY=1`, `STATUS=...`) in one datagram. Never raises, never waits."""
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.settimeout(0.0)
                line.sendto("\n".join(each.replace("\n", " ") for each in lines).encode(), self._address)
        except (OSError, ValueError) as error:  # gone, full, or a name that cannot be one
            if not self._failing:
                log.warning("notify.failed", socket=self._address, reason=str(error))
            self._failing = True
        else:
            self._failing = False

    async def announce(self, incarnation: Incarnation) -> None:
        """Report that MCPX is ready and, once it is asked to stop, that it is stopping: a child's `run`."""
        incarnation.ready()
        self.send("READY=1")
        await incarnation.stopping.wait()
        self.send("STOPPING=1")

    async def watch(self, status: Callable[[], str]) -> None:
        """Send the keep-alive in time, and the status line whenever it changes, until cancelled."""
        shown = ""
        while self.enabled:
            lines = ["WATCHDOG=1"] if self.watchdog_s is not None else []
            if (now := status()) != shown:
                lines.append(f"STATUS={now}")
                shown = now
            if lines:
                self.send(*lines)
            pace = (
                STATUS_INTERVAL_S if self.watchdog_s is None else min(STATUS_INTERVAL_S, self.watchdog_s / 2)
            )
            await anyio.sleep(pace)

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """For the length of a reload: `RELOADING=1`, and `READY=1` at its end, failed or not."""
        self.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            yield
        finally:
            self.send("READY=1")


def _address(given: str) -> str | None:
    """The socket's address for Python: `@` at the start stands for the null byte of an abstract one."""
    if given.startswith("@"):
        return None if HIDDEN else "\0" + given[1:]
    return given if given.startswith("/") else None  # vsock and the like: not spoken here


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """The watchdog's time in seconds; None if there is none, or it is meant for another process."""
    time_given, process = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if process and process != str(os.getpid()):
        return None
    return (
        int(time_given) / _MICRO
        if time_given.isascii() and time_given.isdigit() and int(time_given)
        else None
    )

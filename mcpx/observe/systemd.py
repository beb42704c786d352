"""Telling systemd how this process stands: ready, its status line, stopping, and a sign of life.

Speaks the protocol of sd_notify(3): datagrams to the socket that `NOTIFY_SOCKET` names. Where there is none,
nothing is done. Nothing here raises: a service manager that has gone deaf must not cost a session. The sign
of life (`WATCHDOG=1`, twice in the time that `WATCHDOG_USEC` gives) is sent by a task of the event loop, so
that a loop that hangs falls silent, and the service manager starts MCPX again.

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

from supervisors import Incarnation

log = structlog.get_logger()
STATUS_EVERY_S: Final = 5.0  # looks for a new status line, where no watchdog sets the pace
_MICRO: Final = 1_000_000


class Notifier:
    """One process's line to its service manager; quiet where there is none."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self.watchdog_s = _watchdog(environ) if self._address else None
        """Seconds of silence after which the service manager ends this process; None without a watchdog."""
        self._deaf = False

    @property
    def listened_to(self) -> bool:
        """Whether there is anybody to tell."""
        return self._address is not None

    def send(self, *lines: str) -> None:
        """Send assignments (`READY=1`, `STATUS=...`) in one datagram. Never raises, never waits."""
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.setblocking(False)  # noqa: FBT003 - the library's signature
                line.sendto("\n".join(each.replace("\n", " ") for each in lines).encode(), self._address)
        except (OSError, ValueError) as error:  # gone, full, or a name that cannot be one
            if not self._deaf:
                log.warning("notify.failed", socket=self._address, reason=str(error))
            self._deaf = True
        else:
            self._deaf = False

    async def announce(self, incarnation: Incarnation) -> None:
        """Say that MCPX serves, and, once it is asked to leave, that it is stopping: a child's `run`."""
        incarnation.ready()
        self.send("READY=1")
        await incarnation.stopping.wait()
        self.send("STOPPING=1")

    async def watch(self, status: Callable[[], str]) -> None:
        """Give a sign of life in time, and the status line whenever it differs, until cancelled."""
        shown = ""
        while self.listened_to:
            lines = ["WATCHDOG=1"] if self.watchdog_s is not None else []
            if (now := status()) != shown:
                lines.append(f"STATUS={now}")
                shown = now
            if lines:
                self.send(*lines)
            pace = STATUS_EVERY_S if self.watchdog_s is None else min(STATUS_EVERY_S, self.watchdog_s / 2)
            await anyio.sleep(pace)

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """For the length of a reload: `RELOADING=1`, then `READY=1` again, whatever came of it."""
        self.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            yield
        finally:
            self.send("READY=1")


def _address(given: str) -> str | None:
    """The socket's address as Python has it: `@` at the start is the null byte of an abstract one."""
    if given.startswith("@"):
        return "\0" + given[1:]
    return given if given.startswith("/") else None  # vsock and the like: not spoken here


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """The watchdog's time, where it is meant for this process."""
    time_given, process = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if process and process != str(os.getpid()):
        return None
    return (
        int(time_given) / _MICRO
        if time_given.isascii() and time_given.isdigit() and int(time_given)
        else None
    )

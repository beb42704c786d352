"""How a shim gets from one daemon to the next: when it tries, how often, and when it gives up.

Connecting: a `DaemonLauncher` gets a connection. Idle: no daemon is wanted (it was stopped on purpose), or
none can be reached; a request of the client ends that, and so does a daemon that another process has started.
"""

from __future__ import annotations

import socket
import sys
import time
from contextlib import suppress
from typing import Final

from mcpx.daemon.launch import DaemonLauncher
from mcpx.daemon.paths import POLL_INTERVAL_S, DaemonPaths, connect, daemon_paths
from mcpx.errors import DaemonError

IDLE_POLL_S: Final = 1.0  # while idle, between two attempts to find a daemon that others have started
COOLDOWN_S: Final = 2.0  # after giving up, until it is tried again
MAX_ATTEMPTS: Final = 4  # daemons in a row that end before they have answered anything
STABLE_AFTER_S: Final = 10.0  # of connection, after which earlier failures are forgotten
RETRY_DELAY_S: Final = 0.25  # before the second attempt; doubled for each one after it
NO_DAEMON: Final = "There is no MCPX daemon, and none can be had"


class Connecting:
    """The attempts of one shim to get a connection. `start` begins the first."""

    def __init__(self, paths: DaemonPaths) -> None:
        self.paths = paths
        self._launcher: DaemonLauncher | None = None
        self._not_before = 0.0  # when the next attempt may be made
        self._failures = 0  # in a row
        self._cause = "it goes away as soon as it is asked"
        self._given_up = DaemonError()
        self._gave_up_at = -COOLDOWN_S

    @property
    def poll_interval_s(self) -> float:
        """The time between two calls of `poll`."""
        return IDLE_POLL_S if self._launcher is None else POLL_INTERVAL_S

    def start(self) -> None:
        """Connect, after a delay if it has failed before."""
        self.stop()
        self.paths = daemon_paths(self.paths.config)  # a link may lead elsewhere now
        self._launcher = DaemonLauncher(self.paths)
        self._not_before = time.monotonic()
        if self._failures > 1:
            self._not_before += RETRY_DELAY_S * 2 ** (self._failures - 2)

    def stop(self) -> None:
        """Become idle."""
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None

    def existing(self) -> socket.socket | None:
        """A connection to a daemon that runs; None if there is none."""
        with suppress(DaemonError):
            return connect(self.paths)
        return None

    def poll(self, *, wanted: bool) -> socket.socket | None:
        """A connection, or None: poll again. `wanted` is whether a request of the client waits for it.

        Raises:
            DaemonError: There is none for now, and why: a sentence without its full stop.
        """
        if self._launcher is None:
            return self._stay_idle(wanted=wanted)
        if time.monotonic() < self._not_before:
            return None
        try:
            connection = self._launcher.poll()
        except DaemonError as error:
            self._cause = str(error)
            self._failures += 1
            if self._failures > MAX_ATTEMPTS:
                raise self.give_up(self._cause) from None
            self.start()
            return None
        if connection is not None:
            self.stop()
        return connection

    def _stay_idle(self, *, wanted: bool) -> socket.socket | None:
        """Start connecting for a request of the client, or use a daemon that another process has started."""
        if wanted and time.monotonic() - self._gave_up_at < COOLDOWN_S:
            raise self._given_up
        connection = None if wanted else self.existing()
        if wanted or connection is not None:
            self._failures = 0
        if wanted:
            self.start()
        return connection

    def succeeded(self) -> None:
        """A daemon has answered: earlier failures are forgotten."""
        self._failures = 0

    def lost(self, connected_s: float) -> DaemonError | None:
        """Count a connection that has ended after that time; the error if that was the last attempt."""
        steady = self._failures < MAX_ATTEMPTS and connected_s > STABLE_AFTER_S
        self._failures = 1 if steady else self._failures + 1
        return self.give_up(self._cause) if self._failures > MAX_ATTEMPTS else None

    def give_up(self, cause: str, *, trouble: str = NO_DAEMON) -> DaemonError:
        """Become idle; the error that says why. The cause goes to standard error."""
        self.stop()
        self._gave_up_at, self._given_up = time.monotonic(), DaemonError(f"{trouble}: {cause}")
        sys.stderr.write(f"mcpx: {cause}\n")
        return self._given_up

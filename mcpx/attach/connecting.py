"""The way of a shim from one daemon to the next: when it tries, how often, and when it gives up.

Connecting: a `DaemonLauncher` gets a connection. Idle: no daemon is wanted (it was stopped on purpose), or
none can be reached. A request of the client ends that, and so does a daemon that another process has started.
Where none could be reached, so do a configuration file that has changed, and the time.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from typing import Final, Protocol

from mcpx.core.daemon.launch import ConfigProblemError, DaemonLauncher, StartFailedError
from mcpx.core.store.paths import POLL_INTERVAL_S, DaemonPaths, connect, daemon_paths
from mcpx.errors import DaemonError
from mcpx.paths import config_hint

IDLE_POLL_S: Final = 1.0  # while idle, between two looks at the daemon's socket and at the configuration
COOLDOWN_S: Final = 2.0  # after giving up, until a request of the client makes it try again
MAX_ATTEMPTS: Final = 4  # daemons in a row that end before they have answered anything
STABLE_AFTER_S: Final = 10.0  # of connection, after which earlier failures are forgotten
RETRY_DELAY_S: Final = 0.25  # before the second attempt; doubled for each one after it
FIRST_PAUSE_S: Final = 2.0  # after giving up, until it is tried again by itself; doubled each time
LONGEST_PAUSE_S: Final = 60.0
NO_DAEMON: Final = "There is no MCPX daemon, and none can be had"
NO_CONFIG: Final = "MCPX cannot use its configuration"
REFUSED: Final = "The MCPX daemon does not serve this client"
NO_SERVER: Final = "The MCPX daemon cannot open this session now"


class Launcher(Protocol):
    """One attempt to get a connection, as `DaemonLauncher`."""

    def poll(self) -> socket.socket | None: ...
    def close(self) -> None: ...


class Connecting:
    """The attempts of one shim to get a connection. `begin` makes the first."""

    greets = True
    """Whether a connection begins with the greeting of `mcpx.core.system.endpoint`."""

    def __init__(self, paths: DaemonPaths) -> None:
        self.paths = paths
        self._launcher: Launcher | None = None
        self._not_before = 0.0  # when the next attempt may be made
        self._failures = 0  # in a row
        self._cause = "it goes away as soon as it is asked"
        self._given_up: DaemonError | None = None
        self._gave_up_at = 0.0
        self._is_refused = False  # by a daemon that runs
        self._pause_s = FIRST_PAUSE_S
        self._config_state = _state(paths.config)  # before the last attempt
        self._complained: str | None = None  # the last cause on standard error

    @property
    def poll_interval_s(self) -> float:
        """The time between two calls of `poll`."""
        return IDLE_POLL_S if self._launcher is None else POLL_INTERVAL_S

    def begin(self) -> None:
        """Connect for the first time."""
        self.start()

    def start(self) -> None:
        """Connect, after a delay if it has failed before."""
        self._stop()
        self.paths = daemon_paths(self.paths.config)  # a link may lead elsewhere now
        self._config_state = _state(self.paths.config)
        self._launcher = self._launch()
        self._not_before = time.monotonic()
        if self._failures > 1 and self._given_up is None:
            self._not_before += RETRY_DELAY_S * 2 ** (self._failures - 2)

    def _launch(self) -> Launcher:
        return DaemonLauncher(self.paths)

    def _stop(self) -> None:
        """Become idle."""
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None

    def existing(self) -> socket.socket | None:
        """A connection to a daemon that runs; None if there is none."""
        with suppress(DaemonError):
            return connect(self.paths)
        return None

    def was_stopped(self) -> bool:
        """Return True if the daemon was ended on purpose: only a request of the client starts the next."""
        return self.paths.stopped.exists()

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
        except StartFailedError as error:
            self._cause = str(error)
            self._failures += 1
            if self._failures > MAX_ATTEMPTS:
                raise self.give_up(self._cause) from None
            self.start()
            return None
        except ConfigProblemError as error:  # another attempt would find the same
            raise self.give_up(str(error), trouble=NO_CONFIG) from None
        except DaemonError as error:  # likewise
            raise self.give_up(str(error)) from None
        if connection is not None:
            self._stop()
        return connection

    def _stay_idle(self, *, wanted: bool) -> socket.socket | None:
        """Start connecting for a request of the client, or use a daemon that another process has started.

        After giving up: also when the configuration has changed, or a pause is over.
        """
        if self._given_up is None:
            if wanted:
                self._failures = 0
                self.start()
            return None if wanted else self.existing()
        idle_s = time.monotonic() - self._gave_up_at
        has_changed = _state(self.paths.config) != self._config_state
        if has_changed:
            self._pause_s = FIRST_PAUSE_S
        elif wanted and idle_s < COOLDOWN_S:
            raise self._given_up
        elif not wanted and idle_s < self._pause_s:
            return None if self._is_refused else self.existing()
        self._failures = MAX_ATTEMPTS  # the next failure is the last
        self.start()
        return None

    def succeeded(self) -> None:
        """A daemon has answered the client: earlier failures are forgotten."""
        self._failures = 0
        self._given_up = self._complained = None
        self._pause_s = FIRST_PAUSE_S

    def lost(self, connected_s: float) -> DaemonError | None:
        """Count a connection that has ended after that time; the error if that was the last attempt."""
        steady = self._failures < MAX_ATTEMPTS and connected_s > STABLE_AFTER_S
        self._failures = 1 if steady else self._failures + 1
        return self.give_up(self._cause) if self._failures > MAX_ATTEMPTS else None

    def give_up(self, cause: str, *, trouble: str = NO_DAEMON) -> DaemonError:
        """Become idle; the error that says why, and what to do. The cause goes to standard error, once."""
        self._stop()
        self._is_refused = trouble in (REFUSED, NO_SERVER)
        if self._given_up is not None:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        advice = _advice(self.paths.config, trouble)
        self._gave_up_at, self._given_up = time.monotonic(), DaemonError(f"{trouble}: {cause}. {advice}")
        if cause != self._complained:
            self._complained = cause
            sys.stderr.write(f"mcpx: {cause}\n")
        return self._given_up


class NoDaemon(Connecting):
    """In place of attempts: no daemon can ever be had by this process, and why."""

    def __init__(self, reason: str) -> None:  # no paths: there are none
        self._reason = reason

    @property
    def poll_interval_s(self) -> float:
        return LONGEST_PAUSE_S

    def start(self) -> None:
        """Nothing can be started."""

    def existing(self) -> socket.socket | None:
        return None

    def poll(self, *, wanted: bool) -> socket.socket | None:
        """Nothing to wait for.

        Raises:
            DaemonError: The client wants a daemon.
        """
        if wanted:
            raise DaemonError(self._reason)
        return None


def _advice(config: str, trouble: str) -> str:
    """Advice for a person at a terminal, without its full stop."""
    option = config_hint(config, {})  # a terminal has another environment
    if not os.path.lexists(config):
        return (
            f"In a terminal, mcpx setup{option} takes over the servers of your AI clients,"
            f" and mcpx add{option} NAME -- COMMAND adds one"
        )
    if trouble == NO_CONFIG:
        return f"In a terminal, mcpx check{option} shows every mistake"
    if trouble == NO_SERVER:
        return f"In a terminal, mcpx status{option} shows the servers"
    if trouble == REFUSED:
        return f"In a terminal, mcpx daemon restart{option} replaces a daemon of another version"
    return f"In a terminal, mcpx doctor{option} says more"


def _state(config: str) -> tuple[int, int, int] | None:
    """Identity, time and size of the configuration file; None if there is none."""
    try:
        found = os.stat(config)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size  # the mode counts, too

"""A connection to a daemon: to the one that runs, or to one that is started; many callers start only one.

A `DaemonLauncher` does not block: its owner polls it every `POLL_INTERVAL_S` and does its own work meanwhile.
Standard library only, for `mcpx attach`. The daemon runs in a session of its own, in the user's home folder
(from which it loads nothing), with the environment of the process that starts it, less what loads code
(`mcpx.core.system.environment`). Its log goes to a file in the state folder.

The reason why it ended at its start comes back by `mcpx.core.daemon.startup_report`.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Final

from mcpx.core.daemon.startup_report import StartupReport
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.paths import POLL_INTERVAL_S, DaemonPaths, claim_folder, connect, take_lock
from mcpx.core.system.environment import for_daemon
from mcpx.errors import DaemonError
from mcpx.paths import STATE_VARIABLE, config_hint, home

if TYPE_CHECKING:
    import subprocess

START_TIMEOUT_S: Final = 40.0  # for a daemon to answer: LOCK_TIMEOUT_S, then Python and the SDK are loaded
MAX_LOG_BYTES: Final = 5_000_000  # of a daemon's log; then a new one is begun, and one old one is kept
LAST_WORDS_BYTES: Final = 2000  # of a daemon's log, read for the reason why it ended
BAD_CONFIG: Final = 2  # the exit code of a daemon that cannot use its configuration: a restart is useless


class ConfigProblemError(DaemonError):
    """No daemon can use the configuration, as long as it is as it is."""


class StartFailedError(DaemonError):
    """A daemon was started, and ended or did not answer: the next may do better."""


class DaemonLauncher:
    """One attempt to get a connection. `close` it in the end; the daemon stays.

    `lock` is the `starting` lock, if the caller holds it already; the launcher closes it.
    """

    def __init__(self, paths: DaemonPaths, *, lock: int | None = None) -> None:
        self._paths = paths
        self._lock = lock
        self._deadline = time.monotonic() + START_TIMEOUT_S
        self._log_began = 0
        self._report: StartupReport | None = None
        self.started: subprocess.Popen[bytes] | None = None
        """The daemon, if this launcher started it."""

    def poll(self) -> socket.socket | None:
        """A connection, or None: poll again.

        Raises:
            ConfigProblemError: There is no configuration, or it cannot be used.
            StartFailedError: The daemon has ended, or does not answer.
            DaemonError: None can be started, for another reason.
        """
        if (connection := connect(self._paths)) is not None:
            return connection
        if self.started is None:
            self._start_if_first()
        elif (code := self.started.poll()) is not None:
            words = self._last_words()
            if code == BAD_CONFIG:
                raise ConfigProblemError(words)
            raise StartFailedError(f"the daemon ended at once (exit code {code}): {words}")
        if time.monotonic() > self._deadline:
            raise StartFailedError(f"no daemon answers within {START_TIMEOUT_S:g} s; see {self._paths.log}")
        return None

    def wait(self) -> socket.socket:
        """Block until there is a connection.

        Raises:
            DaemonError: There will be none.
        """
        while (connection := self.poll()) is None:
            time.sleep(POLL_INTERVAL_S)
        return connection

    def close(self) -> None:
        """Release the lock, so that others may start a daemon."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._report is not None:
            self._report.close()
            self._report = None

    def _start_if_first(self) -> None:
        if not os.path.lexists(self._paths.config):
            raise ConfigProblemError(f"{self._paths.config}: no such file")
        if self._lock is None:
            claim_folder(self._paths)
            self._lock = take_lock(self._paths.starting)
        if self._lock is None:
            return
        if (connection := connect(self._paths)) is not None:  # another caller was quicker
            connection.close()
            return
        self._spawn()

    def _spawn(self) -> None:
        import subprocess  # noqa: PLC0415 - few of many shims start a daemon

        log = self._open_log()
        self._report = StartupReport()
        environ = for_daemon(os.environ) | self._report.environment
        if folder := environ.get(STATE_VARIABLE):
            environ[STATE_VARIABLE] = os.path.abspath(folder)
        where = home()
        # -P, because -m alone would import from the home folder before anything else
        command = [sys.executable, "-P", "-m", "mcpx", "daemon", "run", "--config", self._paths.config]
        try:
            self.started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=where if os.path.isdir(where) else "/",
                env=environ,
                pass_fds=(self._report.descriptor,),
                start_new_session=True,
            )
        except OSError as error:
            raise DaemonError(f"cannot start {sys.executable}: {error.strerror}") from None
        finally:
            os.close(log)

    def _open_log(self) -> int:
        """The daemon's log; if it cannot be opened, the daemon runs without one, and a warning says so."""
        path = self._paths.log
        try:
            ensure_folder(path.parent)
            if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
                path.replace(path.with_suffix(".log.1"))
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._log_began = os.fstat(log).st_size
        except OSError as error:
            reason = f"{error.strerror}; the daemon runs without a log"
            sys.stderr.write(f"mcpx: {path}: {reason}\n")
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        return log

    def _last_words(self) -> str:
        """Return what the daemon has reported, else the last line that it logged, or where to look."""
        if self._report is not None and (reported := self._report.read()):
            return reported
        try:
            with self._paths.log.open("rb") as log:
                if self._paths.log.is_file():
                    log.seek(max(self._log_began, os.fstat(log.fileno()).st_size - LAST_WORDS_BYTES))
                    said = log.read(LAST_WORDS_BYTES).decode(errors="replace").strip()
                    return said.rpartition("\n")[2].removeprefix("mcpx: ") or f"see {self._paths.log}"
        except OSError:
            pass
        return f"it has no log; run: mcpx daemon run{config_hint(self._paths.config)}"

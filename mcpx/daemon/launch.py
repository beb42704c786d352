"""Getting a daemon that answers: join the one that runs, or start one, of many callers together just one.

A `Summons` never blocks: its owner asks again every `POLL_S`, and does its own work between. Standard library
only, for `mcpx attach`. The daemon runs in a session of its own, in the user's home folder (from which it
loads nothing), with the environment of whoever started it, less what loads code
(`mcpx.daemon.environment`). Its log goes to a file in the state folder.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Final

from mcpx.daemon.environment import for_daemon
from mcpx.daemon.paths import POLL_S, Meeting, MeetingError, claim_folder, connect, open_lock, try_lock
from mcpx.paths import STATE_VARIABLE, ensure_folder, home

if TYPE_CHECKING:
    import subprocess

START_S: Final = 40.0  # for a daemon to answer: the end of the one before it (SEAT_S), Python, the SDK
LARGEST_LOG: Final = 5_000_000  # bytes of a daemon's log, which is begun anew then; one is kept
LAST_WORDS: Final = 2000  # bytes of a daemon's log that may tell why it ended


class Summons:
    """One attempt to get a connection. Close it in the end; the daemon stays.

    `lock` is the place's `starting` lock, if the caller holds it already; it is closed with the summons.
    """

    def __init__(self, place: Meeting, *, lock: int | None = None) -> None:
        self._place = place
        self._lock = lock
        self._deadline = time.monotonic() + START_S
        self._log_began = 0
        self.started: subprocess.Popen[bytes] | None = None
        """The daemon, if this summons started it."""

    def look(self) -> socket.socket | None:
        """A connection, or None: ask again.

        Raises:
            MeetingError: There will be none; the text says why.
        """
        if (joined := connect(self._place)) is not None:
            return joined
        if self.started is None:
            self._start_if_first()
        elif (code := self.started.poll()) is not None:
            raise MeetingError(f"the daemon ended at once (exit code {code}): {self._last_words()}")
        if time.monotonic() > self._deadline:
            raise MeetingError(f"no daemon answers within {START_S:g} s; see {self._place.log}")
        return None

    def wait(self) -> socket.socket:
        """A connection. Raises MeetingError."""
        while (joined := self.look()) is None:
            time.sleep(POLL_S)
        return joined

    def close(self) -> None:
        """Let the others have their turn."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _start_if_first(self) -> None:
        if self._lock is None:
            claim_folder(self._place)
            self._lock = open_lock(self._place.starting)
        if not try_lock(self._lock):
            return
        if (joined := connect(self._place)) is not None:  # somebody was quicker
            joined.close()
            return
        self._spawn()

    def _spawn(self) -> None:
        import subprocess  # noqa: PLC0415 - only one shim of many needs it

        log = self._open_log()
        environ = for_daemon(os.environ)
        if folder := environ.get(STATE_VARIABLE):
            environ[STATE_VARIABLE] = os.path.abspath(folder)  # noqa: PTH100 - text to text
        where = home()
        # -P, because -m alone would import from the home folder before anything else
        command = [sys.executable, "-P", "-m", "mcpx", "daemon", "run", "--config", self._place.config]
        try:
            self.started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=where if os.path.isdir(where) else "/",  # noqa: PTH112 - text to text
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            raise MeetingError(f"cannot start {sys.executable}: {error.strerror}") from None
        finally:
            os.close(log)

    def _open_log(self) -> int:
        """The daemon's log; a session without one is better than none, so it may be lost, with a word."""
        path = self._place.log
        try:
            ensure_folder(path.parent)
            if path.exists() and path.stat().st_size > LARGEST_LOG:
                path.replace(path.with_suffix(".log.1"))
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._log_began = os.fstat(log).st_size
        except OSError as error:
            reason = f"{error.strerror}; the daemon runs without a log"
            sys.stderr.write(f"mcpx: {path}: {reason}\n")
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        return log

    def _last_words(self) -> str:
        """What the daemon said before it ended."""
        try:
            with self._place.log.open("rb") as log:
                if self._place.log.is_file():
                    log.seek(max(self._log_began, os.fstat(log.fileno()).st_size - LAST_WORDS))
                    said = log.read(LAST_WORDS).decode(errors="replace").strip()
                    return said.rpartition("\n")[2].removeprefix("mcpx: ") or f"see {self._place.log}"
        except OSError:
            pass
        return f"it has no log; run: mcpx daemon run --config {self._place.config}"

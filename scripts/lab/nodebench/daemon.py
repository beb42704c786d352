"""One MCPX process to measure: a daemon in the foreground, with a configuration and folders of its own.

Its clients connect to the socket as any client of the daemon does. It is the only process that is signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.lab.benchmarks.process import Unmeasured
from scripts.lab.nodebench import processes

HERE = Path(__file__).resolve().parent
START_S = 60.0
STOP_S = 60.0
POLL_S = 0.02


class Daemon:
    """A daemon that runs: its process and its socket."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self._folder = folder
        file = folder / "config.json"
        file.write_text(json.dumps(config))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MCPX_", "XDG_"))}
        self._tasks = folder / "tasks"
        env = kept | {"MCPX_STATE_DIR": str(folder / "state"), "NODEBENCH_TASKS": str(self._tasks)}
        self._log = (folder / "log").open("wb")
        self._popen = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "counted.py"), "daemon", "run", "--config", str(file)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.socket = self._socket()

    def _socket(self) -> str:
        """Where it listens, once it does."""
        until = time.monotonic() + START_S
        while time.monotonic() < until and self._popen.poll() is None:
            for found in self._folder.glob("state/**/*.sock"):
                return str(found)
            time.sleep(POLL_S)
        raise Unmeasured(f"the daemon does not listen\n{self.log()}")

    def log(self) -> str:
        """The end of its log."""
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def tasks(self) -> int:
        """How many tasks its event loop has."""
        self._tasks.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._tasks.exists():
                return int(self._tasks.read_text())
            time.sleep(POLL_S)
        raise Unmeasured("the daemon does not count its tasks")

    def servers(self) -> list[int]:
        """The processes that it runs."""
        return processes.descendants(self.pid)

    def close(self) -> None:
        """End it, and wait for that."""
        self._popen.terminate()
        try:
            self._popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._log.close()


@contextmanager
def running(folder: Path, config: dict[str, Any]) -> Iterator[Daemon]:
    """A daemon, ended at the end of the block."""
    folder.mkdir(parents=True)
    daemon = Daemon(folder, config)
    try:
        yield daemon
    finally:
        daemon.close()

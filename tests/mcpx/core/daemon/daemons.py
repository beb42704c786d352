"""A daemon of a test's own: where it is, what it says, and its end.

`House` owns one state folder; `attached` is a raw client on a shim, `by_hand` a raw client on the socket.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import anyio
import pytest
from mcp import StdioServerParameters

from mcpx.core.store.paths import DaemonPaths, daemon_paths, lock_owner_pid
from tests.mcpx.serving import PATIENCE_S, Served, environment, run_cli, serving, write_config

PROC = Path("/proc") if Path("/proc/self/cmdline").exists() else Path("/nowhere")


class House:
    """One folder with a configuration, and the daemon that serves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    @contextmanager
    def opened(cls, *more: Any, of_user: bool = False) -> Iterator[Self]:
        """One in a folder of its own, which is its home folder too if it is all `of_user`.

        The name is short: raw clients connect by the socket's path, which holds a hundred bytes.
        """
        with (
            tempfile.TemporaryDirectory(prefix="mcpx-", ignore_cleanup_errors=True) as folder,
            pytest.MonkeyPatch.context() as patched,
        ):
            patched.setenv("MCPX_STATE_DIR", f"{folder}/state")
            if of_user:
                patched.setenv("HOME", folder)
            made = cls(Path(folder), *more)
            try:
                yield made
            finally:
                made.close()

    def write(self, servers: dict[str, Any], **settings: Any) -> None:
        """Write the configuration; each server's entry as in a client's file."""
        write_config(self.folder, servers, **settings)

    @property
    def config(self) -> str:
        return str(self.folder / "config.json")

    @property
    def place(self) -> DaemonPaths:
        return daemon_paths(self.config)

    @property
    def pid(self) -> int | None:
        """The daemon's process, if one holds the lock."""
        return lock_owner_pid(self.place)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """`mcpx COMMAND --config ...` to its end."""
        return run_cli(self.folder, *command, "--config", self.config)

    def attached(
        self, *options: str, cwd: Path | None = None, **more: str
    ) -> AbstractAsyncContextManager[Served]:
        """A shim, with the test as its client; `cwd` is the folder in which the client starts it."""
        return serving(self.folder, "attach", "--config", self.config, *options, cwd=cwd, **more)

    def status(self) -> dict[str, Any]:
        done = self.run("status", "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def log(self) -> list[dict[str, Any]]:
        """The daemon's log so far."""
        lines = self.place.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def daemons(self) -> list[int]:
        """Every process that runs this configuration's daemon."""
        return processes("daemon", "run", self.config)

    async def joined(self, count: int) -> None:
        """Wait until the daemon has that many clients."""
        await until(lambda: _last(self.log(), "clients") == count)

    def close(self) -> None:
        """End the daemon, and what it may have left."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 10
            leaving = self.daemons()
            for pid in leaving:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            while any(map(command_line, leaving)) and time.monotonic() < deadline:
                time.sleep(0.01)
        for pid in processes(str(self.folder)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _last(log: list[dict[str, Any]], field: str) -> Any:
    return next((line[field] for line in reversed(log) if field in line), 0)


async def until(holds: Any, *, within: float = PATIENCE_S) -> None:
    """For what tells nobody: looks every few milliseconds."""
    with anyio.fail_after(within):
        while not holds():  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.01)


def command_line(pid: int) -> str:
    """The command line of a process; empty for one that has ended."""
    if not PROC.is_dir():
        done = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return "" if "<defunct>" in done.stdout else done.stdout.strip()
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def processes(*words: str) -> list[int]:
    """The running processes, but for this one, that have all these words in their command lines."""
    if PROC.is_dir():  # tests look often, and `ps` takes ten times as long
        pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
        lines = {pid: command_line(pid) for pid in pids if pid != os.getpid()}
        found = {pid: line for pid, line in lines.items() if line and all(word in line for word in words)}
        # what its parent has forked off and not yet begun still has the parent's command line
        return [pid for pid, line in found.items() if found.get(_parent(pid)) != line]
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [
        int(row[0])
        for row in rows
        if len(row) == 3
        and not row[1].startswith("Z")
        and all(word in row[2] for word in words)
        and int(row[0]) != os.getpid()
    ]


def _parent(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()[1])
    except OSError:  # it has ended
        return 0


def parameters(house: House) -> Any:
    """How the SDK's client starts a shim."""
    args = ["-m", "mcpx", "attach", "--config", house.config]
    return StdioServerParameters(command=sys.executable, args=args, env=environment(house.folder))


@asynccontextmanager
async def by_hand(house: House) -> AsyncIterator[socket.socket]:
    """A connection to the daemon's socket, which must run."""
    with socket.socket(socket.AF_UNIX) as joined:
        joined.settimeout(PATIENCE_S)
        joined.connect(str(house.place.socket))
        yield joined

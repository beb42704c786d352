"""An MCPX process for the rows of the hostile table: a daemon, its healthy neighbour, and who calls that.

`Mcpx` is one daemon with a state folder and a configuration of its own; `add` gives it servers while it runs,
`clear` takes them away again. `House` hands out one that serves row after row, and starts another where the
last one has suffered, so that rows are independent and memory is judged for each.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcpx.core.store.paths import DaemonPaths, connect, daemon_paths
from tests.faults import traces
from tests.forking.client import Python

HERE = Path(__file__).parent
START_S = 30.0  # for a daemon to start on a loaded machine, and its neighbour
CONTROL_S = 10.0  # for an answer on the control side
END_S = 10.0  # for a daemon to end in order
LOOK_S = 0.01
PACE_S = 0.01  # between an answer to the neighbour's client and its next call
DESCRIPTORS = 1024  # the soft limit that most systems start processes with
MAY_KEEP = 24 << 20  # bytes above its first size with which a daemon may serve another row
SETTINGS: dict[str, Any] = {"shutdown_grace": 0.2, "http": {"port": 0}}


class McpxError(Exception):
    """MCPX does not do what every row needs of it."""


class Memory:
    """How far the resident memory of a process rises from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        traces.forget_peak(pid)
        self._before = traces.memory(pid)

    def risen_mb(self) -> float:
        """The most since then. Raises OSError or LookupError if the process is gone."""
        return max(traces.memory(self._pid, "VmHWM") - self._before, 0) / (1 << 20)


class NeighbourCaller:
    """The process that calls the healthy neighbour all the while."""

    def __init__(self, path: Path, pace_s: float) -> None:
        command = [sys.executable, "-S", "-E", str(HERE / "neighbour.py"), str(path), str(pace_s)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def order(self, what: str) -> dict[str, Any]:
        """`mark` or `report`: what was seen since the last mark."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{what}\n".encode())
            self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], CONTROL_S)[0]:
            raise McpxError("the neighbour's client hangs")
        line = self._process.stdout.readline()
        if not line:
            raise McpxError("the neighbour's client has ended")
        return dict(json.loads(line))

    def called(self, times: int, within_s: float) -> dict[str, Any]:
        """The report, once so many calls were answered or the time is over."""
        deadline = time.monotonic() + within_s
        while (report := self.order("report"))["calls"] < times and time.monotonic() < deadline:
            if report["problems"]:
                break
            time.sleep(LOOK_S)
        return report

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


class Mcpx:
    """One running daemon. `pid` is its process; `mark` is in the environment of each server of its rows.

    `prepare` is given the state folder before the daemon starts. The neighbour is called `pace_s` after each
    answer.
    """

    def __init__(
        self, *, prepare: Callable[[Path], None] | None = None, pace_s: float = PACE_S, **settings: Any
    ) -> None:
        self.pace_s = pace_s
        self.settings = {**SETTINGS, **settings}
        self._temporary = TemporaryDirectory(prefix="mcpx-hostile-")
        self.folder = Path(self._temporary.name)
        self.state = self.folder / "state"
        self.log = self.folder / "daemon.log"
        self.mark = uuid.uuid4().hex
        self._own_mark = uuid.uuid4().hex
        self._healthy = self.stdio("neighbour", {}, mark=self._own_mark)
        self._write({})
        self.state.mkdir(mode=0o700)
        if prepare is not None:
            prepare(self.state)
        try:
            self._process = self._start()
            self.pid = self._process.pid
            self.place = self._place()
            self._until_it_listens()
            self.neighbour = NeighbourCaller(self.place.socket, pace_s)
            self._until_it_serves()
            self.first_size = traces.memory(self.pid)
        except BaseException:
            self.close()
            raise

    # --- its life

    def _start(self) -> Python:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MCPX_", "XDG_"))}
        with self.log.open("ab") as log:
            started = Python(
                [sys.executable, "-P", "-m", "mcpx", "daemon", "run", "--config", self.config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=kept | {"MCPX_STATE_DIR": str(self.state), "MCPX_LOG_FORMAT": "json"},
                start_new_session=True,
            )
        _, most = resource.prlimit(started.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(started.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, most))
        return started

    def _place(self) -> DaemonPaths:
        before = os.environ.get("MCPX_STATE_DIR")
        os.environ["MCPX_STATE_DIR"] = str(self.state)
        try:
            return daemon_paths(self.config)
        finally:
            os.environ.pop("MCPX_STATE_DIR")
            if before is not None:
                os.environ["MCPX_STATE_DIR"] = before

    def _until_it_listens(self) -> None:
        deadline = time.monotonic() + START_S
        while not self.place.socket.exists() or (joined := connect(self.place)) is None:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise McpxError(f"MCPX does not start: {self.said()[-2000:]}")
            time.sleep(LOOK_S)
        joined.close()

    def _until_it_serves(self) -> None:
        report = self.neighbour.called(1, START_S)
        if report["problems"] or not report["calls"] or not self.runs():
            raise McpxError(f"MCPX does not serve its neighbour: {report} {self.said()[-1000:]}")

    def runs(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def has_ended(self, within_s: float) -> bool:
        """Whether the process ends within `within_s`, whose sockets close a little earlier."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        return not self.runs()

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """End it, and whatever it has left."""
        if hasattr(self, "neighbour"):
            self.neighbour.close()
        if hasattr(self, "_process") and self.runs():
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S if self._answers() else LOOK_S)
            self._process.kill()
            self._process.wait()
        for mark in (self.mark, self._own_mark):
            for pid in traces.marked(mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._temporary.cleanup()

    def _answers(self) -> bool:
        try:
            return "daemon" in self.control("status", within_s=2.0)
        except (OSError, McpxError):
            return False

    # --- its configuration

    @property
    def config(self) -> str:
        return str(self.folder / "config.json")

    def _write(self, servers: dict[str, Any]) -> None:
        document = {**self.settings, "mcpServers": {"neighbour": self._healthy, **servers}}
        Path(self.config).write_text(json.dumps(document))

    def stdio(self, name: str, script: dict[str, Any], *, mark: str, **settings: Any) -> dict[str, Any]:
        """The entry of a server that follows a script of `hostile_server.py`."""
        folder = self.server_folder(name)
        folder.mkdir()
        file = folder / "script.json"
        file.write_text(json.dumps(script))
        args = ["-S", "-E", str(HERE / "hostile_server.py"), str(file)]
        return {"command": sys.executable, "args": args, "env": {traces.MARK: mark}, **settings}

    def server_folder(self, name: str) -> Path:
        """Where a server of this row keeps its notes."""
        return self.folder / f"{self.mark if name != 'neighbour' else 'neighbour'}-{name}"

    def add(self, servers: dict[str, Any]) -> dict[str, Any]:
        """Serve these beside the neighbour, in place of those before; what the reload says."""
        self._write(servers)
        return self.control("reload")

    def clear(self) -> None:
        """Serve the neighbour alone, and begin a new row."""
        self.add({})
        self.mark = uuid.uuid4().hex

    # --- what it says

    def control(self, what: str, *, within_s: float = CONTROL_S, **more: Any) -> dict[str, Any]:
        """The answer to a control request. Raises McpxError."""
        deadline = time.monotonic() + within_s
        answer = b""
        try:
            with socket.socket(socket.AF_UNIX) as joined:
                joined.settimeout(within_s)
                _connect(joined, str(self.place.socket), deadline)
                joined.sendall(json.dumps({"mcpx": what, **more}, separators=(",", ":")).encode() + b"\n")
                while not answer.endswith(b"\n"):
                    joined.settimeout(max(deadline - time.monotonic(), LOOK_S))
                    if not (chunk := joined.recv(1 << 16)):
                        raise McpxError(f"MCPX closes the connection where it is asked for {what}")
                    answer += chunk
        except OSError as error:
            raise McpxError(f"MCPX does not answer {what} within {within_s:g} s: {error}") from None
        return dict(json.loads(answer))

    def status(self, server: str) -> dict[str, Any]:
        """What `mcpx status` says of one server."""
        return next(dict(each) for each in self.control("status")["servers"] if each["name"] == server)

    def said(self) -> str:
        """The log."""
        return self.log.read_text(errors="replace")

    def http(self) -> tuple[int, str]:
        """Port and token of its HTTP endpoint."""
        lines = [json.loads(line) for line in self.said().splitlines() if '"http.listening"' in line]
        port = int(lines[-1]["url"].split(":")[2].partition("/")[0])
        return port, (self.state / "token").read_text().strip()


def _connect(joined: socket.socket, path: str, deadline: float) -> None:
    """Connect; a full backlog is waited for, as a socket without a timeout does. Raises OSError."""
    while True:
        try:
            joined.connect(path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_S)
        else:
            return


class House:
    """Keeps one MCPX for the rows that want the same settings."""

    def __init__(self, *, pace_s: float = PACE_S) -> None:
        self._pace_s = pace_s
        self._mcpx: Mcpx | None = None
        self._settings: dict[str, Any] = {}

    def open(self, settings: dict[str, Any]) -> Mcpx:
        """A daemon with these settings that is as good as new."""
        kept = self._mcpx
        if kept is not None and (settings != self._settings or not self._is_fit(kept)):
            self.close()
        if self._mcpx is None:
            self._mcpx, self._settings = Mcpx(pace_s=self._pace_s, **settings), settings
        return self._mcpx

    def _is_fit(self, mcpx: Mcpx) -> bool:
        return mcpx.runs() and traces.memory(mcpx.pid) <= mcpx.first_size + MAY_KEEP

    def close(self) -> None:
        """End it: the next row gets another."""
        kept, self._mcpx = self._mcpx, None
        if kept is not None:
            kept.close()

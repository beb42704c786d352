"""A real `mcpx` process: its lines in and out, its log, how it ends, and what it leaves behind.

`serving` starts one and ends it, whatever the test did. `run_cli` runs a command to its end. Every process
gets a state folder of its own, and logs JSON, so that a test can wait for an event of the log. All are forked
off a process that has imported MCPX (`tests.forking.client`), unless a test says `real`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from tests.forking.client import Python, run

PATIENCE_S = 50.0  # starting costs a second on an idle machine
LEGACY = "2025-06-18"
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A process's environment: this one's, with nothing of MCPX in it but what is given."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MCPX_", "XDG_"))}
    return kept | {"MCPX_STATE_DIR": str(folder / "state"), "MCPX_LOG_FORMAT": "json"} | more


def run_cli(
    folder: Path, *arguments: str, real: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """`python -m mcpx ARGUMENTS` to its end, without input."""
    return run(
        [sys.executable, "-m", "mcpx", *arguments],
        env=environment(folder, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        real=real,
    )


def write_config(folder: Path, servers: dict[str, Any], **settings: Any) -> str:
    """A config file in `folder`, as text for a command line."""
    file = folder / "config.json"
    file.write_text(json.dumps({"shutdown_grace": 0.2, **settings, "mcpServers": servers}))
    return str(file)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_stopped(pid: int) -> bool:
    """Return True once the system has carried out a SIGSTOP."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return done.stdout.startswith("T")


def alive_in_group(group: int) -> list[int]:
    """The processes of that group that run. The dead that nobody has collected yet are not alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,stat=,ppid=,pgid="], capture_output=True, text=True, check=True
        ).stdout
        rows = [line.split() for line in listed.splitlines()]
    else:  # tests look often, and `ps` takes ten times as long
        rows = list(filter(None, map(_stat, Path("/proc").iterdir())))
    return [int(pid) for pid, stat, _, pgid, *_ in rows if int(pgid) == group and not stat.startswith("Z")]


def _stat(process: Path) -> list[str]:
    """What proc(5) says of a process: its id, state, parent and group; empty for what is none."""
    if not process.name.isdigit():
        return []
    try:
        return [process.name, *(process / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]]
    except OSError:
        return []


def started_with(pid: int, variable: str, value: str) -> bool:
    """Return True if a process was started with that variable (proc(5), environ)."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(f"{variable}={value}") in environ.split(b"\0")


def end_group(group: int) -> None:
    """Kill what a failed test may have left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class Served:
    """A running process of MCPX with a client on its standard streams."""

    def __init__(self, process: Python, stdout: int) -> None:
        self.process = process
        self.patience_s = PATIENCE_S
        """For each answer."""
        self.log: list[dict[str, Any]] = []
        self.other_stderr: list[str] = []
        """Lines of standard error that are not of the log, without their ends."""
        self._log_over = anyio.Event()
        self._stdout: int | None = stdout
        self._lines: list[bytes] = []
        self._rest = b""
        self._news = anyio.Event()
        self._last_id = 0
        self._replies: dict[Any, dict[str, Any]] = {}
        self.notifications: list[dict[str, Any]] = []
        self.refusals: list[dict[str, Any]] = []
        """Errors without an id: the answers to what could not be read."""
        self.arrays: list[list[dict[str, Any]]] = []
        """The answers to batches."""

    # --- its log

    async def follow_log(self) -> None:
        assert self.process.stderr is not None
        fd, rest = self.process.stderr.fileno(), b""
        while True:
            await anyio.wait_readable(fd)
            if not (chunk := os.read(fd, 65536)):
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                text = line.decode(errors="replace")
                try:
                    self.log.append(json.loads(text))
                except ValueError:
                    self.other_stderr.append(text)
            news, self._news = self._news, anyio.Event()
            news.set()
        self._log_over.set()

    async def whole_log(self) -> list[dict[str, Any]]:
        """The log of a process that has ended, to its last line."""
        with anyio.fail_after(PATIENCE_S):
            await self._log_over.wait()
        return self.log

    async def logged(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first such event of the log; waits for it."""
        wanted = {"event": event, **fields}
        with anyio.fail_after(PATIENCE_S):
            while True:
                for line in self.log:
                    if all(line.get(key) == value for key, value in wanted.items()):
                        return line
                await self._news.wait()

    async def said(self, part: str) -> str:
        """The first line of standard error that is not of the JSON log and holds that; waits for it."""
        with anyio.fail_after(PATIENCE_S):
            while not (found := [line for line in self.other_stderr if part in line]):
                await self._news.wait()
        return found[0]

    # --- talking

    async def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        fd = self.process.stdin.fileno()
        while data:
            await anyio.wait_writable(fd)
            data = data[os.write(fd, data) :]

    async def send(self, method: str, params: Any = None, **more: Any) -> None:
        message = {
            "jsonrpc": "2.0",
            "method": method,
            **({} if params is None else {"params": params}),
            **more,
        }
        await self.send_bytes(json.dumps(message).encode() + b"\n")

    async def ask(self, method: str, params: Any = None) -> int:
        """Send a request and go on; the id that its answer has."""
        self._last_id += 1
        await self.send(method, params, id=self._last_id)
        return self._last_id

    async def answer(self, request_id: Any) -> dict[str, Any]:
        """The whole answer to that id. Every line on standard output must be a message."""
        with anyio.fail_after(self.patience_s):
            while request_id not in self._replies:
                self._take(await self._line())
        return self._replies.pop(request_id)

    async def array(self) -> list[dict[str, Any]]:
        """The next answer to a batch."""
        with anyio.fail_after(PATIENCE_S):
            while not self.arrays:
                self._take(await self._line())
        return self.arrays.pop(0)

    async def refusal(self) -> dict[str, Any]:
        """The next error without an id."""
        with anyio.fail_after(PATIENCE_S):
            while not self.refusals:
                self._take(await self._line())
        return dict(self.refusals.pop(0)["error"])

    async def _line(self) -> bytes:
        """The next whole line of standard output. Raises EndOfStream."""
        while not self._lines:
            if self._stdout is None:
                raise anyio.EndOfStream
            await anyio.wait_readable(self._stdout)
            if not (chunk := os.read(self._stdout, 65536)):
                assert not self._rest, f"half a line at the end: {self._rest!r}"
                raise anyio.EndOfStream
            *self._lines, self._rest = (self._rest + chunk).split(b"\n")
        return self._lines.pop(0)

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        if isinstance(message, list):
            assert all(each["jsonrpc"] == "2.0" for each in message), line
            self.arrays.append(message)
            return
        assert message["jsonrpc"] == "2.0", line
        if "error" in message and message["id"] is None:
            self.refusals.append(message)
        elif "id" in message and "method" not in message:
            assert message["id"] not in self._replies, line
            self._replies[message["id"]] = message
        else:
            self.notifications.append(message)

    async def request(self, method: str, params: Any = None) -> dict[str, Any]:
        """The result; fails for an error."""
        answer = await self.answer(await self.ask(method, params))
        assert "result" in answer, answer
        return dict(answer["result"])

    async def initialize(self, version: str = LEGACY) -> dict[str, Any]:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        result = await self.request("initialize", params)
        await self.send("notifications/initialized")
        return result

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    # --- its end

    async def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close_output(self) -> None:
        """The client reads no more, ever."""
        if self._stdout is not None:
            os.close(self._stdout)
            self._stdout = None

    async def rest_of_output(self) -> list[dict[str, Any]]:
        """Everything still said until standard output ends; every line must be a message."""
        messages: list[dict[str, Any]] = []
        with anyio.fail_after(PATIENCE_S), suppress(anyio.EndOfStream):
            while True:
                messages.append(json.loads(await self._line()))
        return messages

    async def exit_code(self, *, within: float = PATIENCE_S) -> int:
        """Wait for its end."""
        with anyio.fail_after(within):
            return await self.process.ended()


@asynccontextmanager
async def serving(
    folder: Path,
    *arguments: str,
    command: Callable[[], list[str]] | None = None,
    real: bool = False,
    cwd: Path | None = None,
    **more: str,
) -> AsyncIterator[Served]:
    """`python -m mcpx ARGUMENTS` (or `python COMMAND ARGUMENTS`), killed at the end if it still runs.

    `cwd` is the folder that it is started in, if not that of the test.
    """
    start = command() if command else ["-m", "mcpx"]
    # a pipe of our own for its output: one end of it can be closed, as a client that dies does
    reading, writing = os.pipe()
    try:
        process = Python(
            [sys.executable, *start, *arguments],
            stdin=subprocess.PIPE,
            stdout=writing,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment(folder, **more),
            start_new_session=True,
            real=real,
            cwd=cwd,
        )
    finally:
        os.close(writing)
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    served = Served(process, reading)
    with process:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.follow_log)
            try:
                yield served
            finally:
                if process.poll() is None:
                    end_group(process.pid)
                with anyio.CancelScope(shield=True), anyio.move_on_after(PATIENCE_S):
                    await process.ended()
                served.close_output()
                tasks.cancel_scope.cancel()

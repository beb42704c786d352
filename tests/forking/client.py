"""Starting Python programs that have imported MCPX and the SDK already: forked off a server that has.

Starting MCPX costs 0.7 s of CPU, nearly all of it for importing the SDK; forking it off costs 20 ms, and is
a process of its own all the same, with its own id, environment, folder and pipes. `Python` is a `Popen` of
`python ARGUMENTS`, `run` is `subprocess.run` of it, and `command` is a command line for those who can only
start one. What is about the start itself (flags, what is imported, memory) asks for `real`; so does whoever
sets `MCPX_TESTS_FORK=0`, for everything. Other systems than Linux always start for real.

A forked process is the fork server's child: wait for it with `Python.wait`, never by its id.
"""

from __future__ import annotations

import atexit
import marshal
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

HERE = Path(__file__).parent
EXECUTABLE = sys.executable  # whatever a test puts there
CONSOLE_SCRIPT = str(Path(EXECUTABLE).with_name("mcpx"))
START_S = 60.0  # it imports everything, beside seven others on a busy machine
FORKING = sys.platform == "linux" and os.environ.get("MCPX_TESTS_FORK") != "0"
HARMLESS = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}  # which many machines set
INT = 4  # bytes of a number on the socket
COMMAND_BYTES = 8_000
"""Room for the command line that `ps` shows of a forked process."""
ENVIRON_BYTES = 32_000
"""Room for the environment that /proc shows of it."""


class _Server:
    """The fork server of this process, started when it is first needed."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.environ: Mapping[str, str] = os.environ
        self.owner: int | None = None
        """The process that has started it, or will."""
        self.listener: socket.socket | None = None
        """What it is asked on, until it is started."""
        self._process: subprocess.Popen[bytes] | None = None

    def address(self) -> str:
        if self.path is None:
            self.listen()
            self.start()
        assert self.path is not None
        return self.path

    def listen(self) -> None:
        """Have an address, at which whoever asks waits for the start."""
        folder = tempfile.TemporaryDirectory(prefix="mcpx-fork-")
        atexit.register(folder.cleanup)
        self.path = f"{folder.name}/s"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(128)
        self.environ = {**os.environ}
        self.owner = os.getpid()

    def start(self) -> None:
        if self.listener is None:
            return
        with self.listener as listener:
            fd = listener.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", HERE / "server.py", str(fd), self.path, "x" * COMMAND_BYTES],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={**self.environ, "_PADDING": "x" * ENVIRON_BYTES},
                pass_fds=[fd],
            )
        self.listener = None
        atexit.register(self.stop)

    def stop(self) -> None:
        """End it, and wait, so that its time is counted."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(START_S)
            self._process = None


SERVER = _Server()


def run_of_tests() -> int:
    """The process below which is whatever the tests start: this one, or that whose worker it is."""
    return SERVER.owner or os.getpid()


def stop() -> None:
    """End the server, if one was started. Whatever was forked off for `command` ends too."""
    SERVER.stop()


def command(*arguments: str) -> list[str]:
    """A command line for `python ARGUMENTS`."""
    if not FORKING:
        return [sys.executable, *arguments]
    return [sys.executable, "-S", "-E", "-P", str(HERE / "forked.py"), SERVER.address(), *arguments]


def fork_sweeps(ledger: Any) -> None:
    """Have what sweeps up behind this process, if it is killed, forked off too, in place of 0.2 s of CPU."""
    real = ledger.python_running
    ledger.python_running = lambda *given: command(*real(*given)[1:]) if SERVER.path else real(*given)


class Python(subprocess.Popen[Any]):
    """`python ARGUMENTS`, or the console script, as a `Popen`; forked where that is the same.

    It is started for real where `real` says so, where the command is not Python, and where the environment
    holds other variables for Python itself than this process had.
    """

    def __init__(self, args: Sequence[str], *, real: bool = False, **options: Any) -> None:
        self._real = real
        self._control: socket.socket | None = None
        super().__init__(args, **options)

    async def ended(self) -> int:
        """Wait for its end without blocking the event loop; its exit code as in `returncode`."""
        if self.poll() is None:
            if self._control is not None:
                await anyio.wait_readable(self._control)
            else:
                await anyio.to_thread.run_sync(self.wait, abandon_on_cancel=True)
        return int(self.wait())

    def _execute_child(self, args: Any, *options: Any) -> None:
        _executable, _preexec, _close, passed, cwd, env = options[:6]
        pipes = options[9:15]
        new_session = options[20]
        arguments = None if self._real or not FORKING else _python_arguments(list(args), env)
        if arguments is None:
            super()._execute_child(args, *options)  # type: ignore[misc]
            return
        theirs = [pipes[end] if pipes[end] != -1 else own for own, end in enumerate((0, 3, 5))]
        environ = os.environ if env is None else env
        folder = os.fspath(Path.cwd() if cwd is None else cwd)
        request = (arguments, folder, _encoded(environ), bool(new_session), False, tuple(passed))
        self._control = _ask(SERVER.address(), marshal.dumps(request), [*theirs, *passed])
        self.pid = int.from_bytes(_receive(self._control), "big")
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *given: Any, **more: Any) -> int | None:
        if self._control is None:
            found: int | None = super()._internal_poll(*given, **more)  # type: ignore[misc]
            return found
        if self.returncode is None and _readable(self._control, 0):
            said = _receive(self._control)
            self.returncode = int.from_bytes(said, "big", signed=True) if said else -9
            self._control.close()
        return self.returncode

    def _wait(self, timeout: float | None) -> int | None:
        if self._control is None:
            ended: int | None = super()._wait(timeout)  # type: ignore[misc]
            return ended
        if self.returncode is None and not _readable(self._control, timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._internal_poll()


def run(
    args: Sequence[str],
    *,
    input: Any = None,  # noqa: A002 - as in subprocess
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` of a `Python`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Python(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _python_arguments(args: list[str], env: Mapping[str, str] | None) -> list[str] | None:
    """What follows `python` on the command line; None where a fork would not be the same."""
    ours, theirs = (_of_python(environ) for environ in (SERVER.environ, os.environ if env is None else env))
    if ours != theirs:
        return None
    if args[0] == CONSOLE_SCRIPT:
        return args
    return args[1:] if args[0] == EXECUTABLE else None


def _of_python(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environ.items() if key.startswith("PYTHON") and key not in HARMLESS}


def _encoded(environ: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(key): os.fsencode(value) for key, value in environ.items()}


def _ask(path: str, request: bytes, streams: list[int]) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.settimeout(START_S)
    server.connect(path)
    socket.send_fds(server, [len(request).to_bytes(INT, "big")], streams)
    server.sendall(request)
    return server


def _receive(server: socket.socket) -> bytes:
    said = b""
    while len(said) < INT and (chunk := server.recv(INT - len(said))):
        said += chunk
    return said


def _readable(server: socket.socket, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(server, select.POLLIN)
    return bool(poll.poll(None if timeout is None else max(0, timeout) * 1000))

"""The fork server: a Python that has imported MCPX and the SDK, and forks off Python programs that start so.

Run by `tests.forking.client` as `python -P server.py LISTENER PATH PADDING`. A request on the socket is the
four bytes of its length and, marshalled, `(arguments of python, folder, environment, new session, tied,
passed)`, with the three standard streams as its file descriptors, and behind them those that the process is
to have under the numbers `passed`. It is answered with the process's id and, when that
has ended, its exit code (negative for a signal), four bytes each. A tied process is killed when its
connection ends. The server ends when its standard input does, and with it whatever is tied.

It runs no event loop and no thread, so that a fork is as good as a start; what a program can see of its own
start (arguments, environment also in /proc, folder, streams, session, signals, module path) is made so.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import io
import marshal
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import traceback
import types
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).parents[2]
OTHERS = (  # what MCPX, its demo servers and the servers of the tests import only when they run
    "asyncio",
    "concurrent.futures.thread",
    "encodings.idna",
    "httpcore2",
    "jmespath.functions",
    "jmespath.parser",
    "jmespath.visitor",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.server.runner",
    "mcp.server.stdio",
    "mcp.server.streamable_http_manager",
    "mcp.server.subscriptions",
    "mcp.shared.subscriptions",
    "multiprocessing.connection",
    "rich.console",
    "rich.live",
    "rich.table",
    "starlette.applications",
    "starlette.responses",
    "starlette.routing",
    "uvicorn.lifespan.on",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.h11_impl",
    "anyio._backends._asyncio",
)
WITH_RAY = "mcpx.cluster.ray_process."  # at the end of a process Ray imports half of itself
CONFIG = '{"mcpServers": {"a": {"command": "a"}, "b": {"url": "http://127.0.0.1/"}}}'
KILLED_BY_ID = {
    "mcpx.demo.tools"
}  # a forked one, behind the process that was started, still answers for a moment
PIDFD_OPEN = getattr(os, "pidfd_open", None)  # before MCPX is imported, which may hide it
FORK_ALL = "MCPX_TESTS_FORK_ALL"  # in the environment of a test that kills none
MAX_PASSED = 4  # descriptors, beside the three streams
PLAIN_LOCALES = {"C", "POSIX", "C.UTF-8", "C.utf8"}  # Python lets any byte through its streams there


class Request(NamedTuple):
    """What is to be run, and where its streams are."""

    arguments: list[str]
    folder: str
    environ: Mapping[bytes, bytes]
    new_session: bool
    tied: bool
    passed: tuple[int, ...]
    """Under which numbers the process has the descriptors that follow its streams."""
    streams: list[int]
    connection: socket.socket


def load() -> None:
    """Import everything."""
    import mcpx  # noqa: PLC0415

    for module in pkgutil.walk_packages(mcpx.__path__, "mcpx."):
        if not module.name.endswith("__main__") and not module.name.startswith(WITH_RAY):
            import_module(module.name)
    for name in OTHERS:
        import_module(name)
    # which fills caches that otherwise each process fills for itself
    import_module("mcpx.core.config").parse(CONFIG, where="warm")
    import_module("mcpx.core.catalog.words").groups_of("")
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a fork would lose threads"
    gc.collect()
    gc.freeze()  # or the first collection of each fork copies every page


# --- the server


class Server:
    """The loop; `next` comes back in the children only."""

    def __init__(self, listener: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(0, selectors.EVENT_READ, self._end)
        self._listener = listener
        self._tied: set[int] = set()

    def next(self) -> Request:
        while True:
            (key, _), *_ = self._selector.select()  # one at a time: each may take others out
            if (request := key.data()) is not None:
                return request  # type: ignore[no-any-return]

    def _accept(self) -> Request | None:
        connection, _ = self._listener.accept()
        data, size, streams = b"", 1, []
        with suppress(OSError):  # the caller has ended in between
            head, streams, _, _ = socket.recv_fds(connection, 4, 3 + MAX_PASSED)
            size = int.from_bytes(head, "big") or 1
            while len(data) < size and (chunk := connection.recv(size - len(data))):
                data += chunk
        if len(data) < size:
            for fd in streams:
                os.close(fd)
            connection.close()
            return None
        request = Request(*marshal.loads(data), streams, connection)
        if (pid := os.fork()) == 0:
            return request
        for fd in streams:
            os.close(fd)
        self._look_after(pid, request)
        return None

    def _look_after(self, pid: int, request: Request) -> None:
        pidfd = PIDFD_OPEN(pid)
        connection = request.connection

        def ended() -> None:
            _, status = os.waitpid(pid, 0)
            self._tied.discard(pid)
            self._selector.unregister(pidfd)
            os.close(pidfd)
            answer(os.waitstatus_to_exitcode(status))
            with suppress(KeyError, ValueError):
                self._selector.unregister(connection)
            connection.close()

        def left() -> None:
            self._selector.unregister(connection)
            os.kill(pid, signal.SIGKILL)

        def answer(number: int) -> None:
            with suppress(OSError):
                connection.sendall(number.to_bytes(4, "big", signed=True))

        self._selector.register(pidfd, selectors.EVENT_READ, ended)
        if request.tied:
            self._tied.add(pid)
            self._selector.register(connection, selectors.EVENT_READ, left)
        answer(pid)

    def _end(self) -> NoReturn:
        for pid in self._tied:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        sys.exit()


# --- the child


def become(request: Request, *, path: str) -> None:
    """Make this process what a new one would be."""
    above = max(request.passed, default=2) + 1
    safe = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in request.streams]
    for number, fd in zip((0, 1, 2, *request.passed), safe, strict=True):
        os.dup2(fd, number)
    for number in range(3, above):
        if number not in request.passed:
            with suppress(OSError):
                os.close(number)
    os.closerange(above, os.sysconf("SC_OPEN_MAX"))
    if request.new_session:
        os.setsid()
        if terminals := [fd for fd in (0, 1, 2) if os.isatty(fd)]:
            fcntl.ioctl(terminals[0], termios.TIOCSCTTY, 0)  # as who starts it on one asks for
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request.folder)
    os.environ.clear()
    os.environb.update(request.environ)
    show(b"\0".join([os.fsencode(sys.executable), *map(os.fsencode, request.arguments), b""]), "arg")
    if not request.tied:  # else the process that was started has it, and is the one to be found by it
        show(b"".join(b"%b=%b\0" % pair for pair in request.environ.items()), "env")
    sys.orig_argv = [sys.executable, *request.arguments]
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    errors = "surrogateescape" if next(filter(None, names), "C") in PLAIN_LOCALES else "strict"
    sys.stdin = sys.__stdin__ = open_stream(0, "r", errors)
    sys.stdout = sys.__stdout__ = open_stream(1, "w", errors)
    sys.stderr = sys.__stderr__ = open_stream(2, "w", "backslashreplace")
    start_by_fork(path)


def open_stream(fd: int, mode: str, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(fd, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    lines = fd == 2 or raw.isatty()
    stream = io.TextIOWrapper(buffered, encoding="utf-8", errors=errors, line_buffering=lines)
    stream.mode = mode  # type: ignore[misc]
    return stream


def show(text: bytes, region: str) -> None:
    """Write what /proc, and so `ps`, shows as this process's command line (`arg`) or environment (`env`)."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b") ")[2].split()
    first = {"arg": 45, "env": 47}[region]  # proc(5): fields 48 to 51, counted from the third
    begin, end = int(fields[first]), int(fields[first + 1])
    ctypes.memmove(begin, text[: end - begin - 1].ljust(end - begin, b"\0"), end - begin)


def start_by_fork(path: str) -> None:
    """Let the daemon, the demo servers and the sweep that this process may start be forked off too."""
    from tests.forking import client  # noqa: PLC0415

    client.SERVER.path, client.SERVER.environ = path, {**os.environ}
    client.fork_sweeps(import_module("mcpx.core.servers.transport.ledger"))

    class Popen(client.Python):
        def __init__(self, args: Any, *given: Any, **options: Any) -> None:
            is_module = list(args[:3]) == [sys.executable, "-P", "-m"]
            by_id = () if FORK_ALL in os.environ else KILLED_BY_ID
            if is_module and args[3].startswith("mcpx.demo.") and args[3] not in by_id:
                args = client.command(*args[1:])
            self._real, self._control = not (is_module and args[3] == "mcpx"), None
            super(client.Python, self).__init__(args, *given, **options)

    subprocess.Popen = Popen  # type: ignore[misc]


def run(arguments: list[str]) -> NoReturn:
    """`python ARGUMENTS`, to the end of this process."""
    code = 1
    try:
        code = exit_code_of(arguments)
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - the interpreter's own last resort
        traceback.print_exc()
        code = 120
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def exit_code_of(arguments: list[str]) -> int:
    try:
        execute(arguments)
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return (leaving.code or 0) & 0xFF
        print(leaving.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def execute(arguments: list[str]) -> None:
    words, safe = list(arguments), False
    while words[0] in {"-P", "-S", "-E", "-u"}:
        safe = words.pop(0) == "-P" or safe
    main = types.ModuleType("__main__")
    if words[0] == "-c":
        code, sys.argv, first = compile(words[1], "<string>", "exec"), ["-c", *words[2:]], ""
    elif words[0] == "-m":
        try:
            _, spec, code = runpy._get_module_details(words[1], runpy._Error)  # type: ignore[attr-defined]
        except runpy._Error as error:  # type: ignore[attr-defined]
            sys.exit(f"{sys.executable}: {error}")
        main.__spec__, main.__package__ = spec, spec.parent
        main.__file__ = spec.origin
        sys.argv, first = [spec.origin, *words[2:]], str(Path.cwd())
    else:
        script = Path(words[0])
        code = compile(script.read_bytes(), words[0], "exec")
        sys.argv, first = words, str(script.absolute().parent)
        main.__file__ = words[0]
    if not safe:
        sys.path.insert(0, first)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener, path = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    listener.set_inheritable(False)
    os.environ.pop("_PADDING", None)
    sys.path.insert(0, str(ROOT))
    import_module("tests.forking.client")
    sys.path.remove(str(ROOT))
    load()
    server = Server(listener)  # kept in the children, which have closed what it would close at its end
    request = server.next()
    become(request, path=path)
    run(request.arguments)


if __name__ == "__main__":
    main()

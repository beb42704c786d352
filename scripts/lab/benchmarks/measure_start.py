"""The start of the daemon: how soon a client has its tools, what it takes idle, what a first call costs.

A row is a number of servers, known or not (a daemon with the same state folder has listed them before), and
warm or cold. Cold means that no file of Python, the packages and MCPX is in the page cache, as far as the
kernel drops them at our request (posix_fadvise); their compiled modules are there. The servers of a row are
real ones from npm and PyPI as far as `scripts/test --all` has installed them, else those of the corpus, which
are trivial and for that the harder yardstick: nothing hides behind their own start.

The first call goes to a server that does not run. Its own start is the same without MCPX: the process, the
handshake, the list of tools and the same call.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from client import SHAKE, Client
from process import Process, Unmeasured, deadline
from targets import CHILD, HERE, SERVER, Target, mcpx

from mcpx.core.system.endpoint import SETTLED_KEY

ROOT = HERE.parents[2]
LIVE = ROOT / "tests" / "live"
COUNTS = (1, 15, 70)
REAL_COUNT = 15  # of real servers
START_S = 90.0
POLL_S = 0.005
ATTACHES = 10  # of which the median counts
QUIET_S = 1.0  # after the answer to a list, until memory is looked at
COPIES = REAL_COUNT // 5


def measure_starts(corpus: dict[str, list[str]], work: Path, *, rounds: int) -> list[dict]:
    """A row for each number of servers, known or not, cold or warm, with a value a round.

    `tools_ms` from the start of the process to the first answer to `tools/list`; `rss` in bytes and
    `processes` of servers after it; `first_call_ms` and `own_ms` where the first server does not run.
    """
    rows: list[dict] = []
    for count in COUNTS:
        servers, kind = _servers(count, corpus, work)
        for cold in (False, True):
            unknown, known = (
                {"servers": count, "kind": kind, "cold": cold, "known": known} for known in (False, True)
            )
            for number in range(rounds):
                state = work / f"start-{count}-{'cold' if cold else 'warm'}-{number}"
                for row in (unknown, known):
                    _add(row, _one_start(state, servers, cold=cold, own_first=number % 2 == 0))
            rows += [unknown, known]
    return rows


def _add(row: dict, figures: dict[str, float]) -> None:
    for name, value in figures.items():
        row.setdefault(name, []).append(value)


def _one_start(state: Path, servers: dict[str, dict], *, cold: bool, own_first: bool) -> dict[str, float]:
    """The figures of one daemon. The second of two starts of a server finds its files in the page cache."""
    target = mcpx(state, {SERVER: [sys.executable]})
    config = state / "config.json"
    config.write_text(json.dumps({"mcpServers": servers, "result_token_budget": 0}))
    if cold:
        _forget_files()
    with daemon(target, config) as (process, began, client):
        client.request("initialize", SHAKE)
        client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        client.request("tools/list", {})
        figures = {"tools_ms": (time.perf_counter() - began) * 1000}
        client.request("tools/list", {"_meta": {SETTLED_KEY: True}})  # every server is ready, or asleep
        time.sleep(QUIET_S)
        figures |= {"rss": process.memory()["rss"], "processes": len(_children_of(process.pid))}
        if not figures["processes"]:
            name, entry = next(iter(servers.items()))
            tool, arguments = _call_of(name)
            given = {"server_name": name, "tool_name": tool, "arguments": arguments}
            if own_first:
                figures["own_ms"] = _own_start(name, entry, tool, arguments)
            figures["first_call_ms"] = _timed(client, "tools/call", {"name": "exec", "arguments": given})
            if not own_first:
                figures["own_ms"] = _own_start(name, entry, tool, arguments)
    return figures


def attach_times(corpus: dict[str, list[str]], work: Path) -> dict[str, list[float]]:
    """Milliseconds from the start of `mcpx attach` to the tools, for a client program that MCPX knows.

    `cold_ms` where no daemon runs, `warm_ms` where one does; `python_ms` for an interpreter that does
    nothing, and `rss` of the shim in bytes. The servers are those of fifteen.
    """
    servers, _ = _servers(REAL_COUNT, corpus, work)
    target = mcpx(work / "attach", {SERVER: [sys.executable]})
    config = work / "attach" / "config.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    program = str(Path(sys.executable).with_name("mcpx"))
    shim = Target("mcpx attach", [program, "attach", "--config", str(config)], target.call, set(), target.env)
    figures: dict[str, list[float]] = {"cold_ms": [], "warm_ms": [], "python_ms": [], "rss": []}

    def daemon(command: str) -> None:
        arguments = [program, "daemon", command, "--config", str(config)]
        log = subprocess.DEVNULL
        subprocess.run(arguments, env=os.environ | target.env, stdout=log, check=True, timeout=START_S)

    try:
        _attach(shim, settled=True)
        for _ in range(ATTACHES):
            daemon("stop")
            milliseconds, memory = _attach(shim)
            daemon("start")  # which the shim has begun
            _attach(shim)  # the first client of a daemon pays for what is imported late
            figures["warm_ms"].append(_attach(shim)[0])
            figures["cold_ms"].append(milliseconds)
            figures["rss"].append(memory)
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            figures["python_ms"].append((time.perf_counter() - began) * 1000)
    finally:
        daemon("stop")
    return figures


def _attach(shim: Target, *, settled: bool = False) -> tuple[float, float]:
    """One client: milliseconds to its tools, and bytes of the shim. `settled`: it waits for all servers."""
    began = time.perf_counter()
    client = Client(shim)
    try:
        client.open(set())
        milliseconds = (time.perf_counter() - began) * 1000
        memory = client.process.memory()["rss"]
        if settled:
            with client.bounded(START_S, "all servers"):
                client.request("tools/list", {"_meta": {"mcpx/settled": True}})
                client.request("tools/list", {})
        return milliseconds, memory
    finally:
        client.close()


def _own_start(name: str, entry: dict, tool: str, arguments: dict) -> float:
    """Milliseconds from the start of a server without MCPX to its answer to a call."""
    command = [entry["command"], *entry["args"]]
    began = time.perf_counter()
    client = Client(Target(name, command, lambda *_: {}, set(), entry.get("env", {})))
    try:
        with deadline(START_S, f"{name} alone"):
            client.open(set())
            client.request("tools/call", {"name": tool, "arguments": arguments})
        return (time.perf_counter() - began) * 1000
    finally:
        client.close()


def _timed(client: _Stream, method: str, params: dict) -> float:
    began = time.perf_counter()
    result = client.request(method, params)
    if result.get("isError"):
        raise Unmeasured(f"the first call failed: {json.dumps(result)[:300]}")
    return (time.perf_counter() - began) * 1000


# --- a daemon


class _Stream:
    """A client on a daemon's socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._file = connection.makefile("rwb")
        self._id = 0

    def send(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()

    def request(self, method: str, params: dict) -> dict:
        self._id += 1
        line = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.send(json.dumps(line).encode() + b"\n")
        while line := self._file.readline():
            answer = json.loads(line)
            if answer.get("id") == self._id and "method" not in answer:
                if "result" not in answer:
                    raise Unmeasured(f"the daemon refuses {method}: {answer.get('error')}")
                return answer["result"]
        raise Unmeasured("the daemon has left")


@contextmanager
def daemon(
    target: Target, config: Path, *, within_s: float = START_S
) -> Iterator[tuple[Process, float, _Stream]]:
    """A daemon in the foreground, when it was started, and a client of it; ended in order, `within_s`."""
    command = [*target.command[: target.command.index("serve")], "daemon", "run", "--config", str(config)]
    began = time.perf_counter()
    process = Process("daemon", command, target.env)
    try:
        with deadline(within_s, f"a daemon\n{process.log()[-600:]}"):
            with _connected(config.parent / "run", process) as connection:
                yield process, began, _Stream(connection)
            os.kill(process.pid, signal.SIGTERM)  # what it knows is written as it ends
            while not process.has_left():
                time.sleep(POLL_S)
    finally:
        process.close()


def _connected(folder: Path, process: Process) -> socket.socket:
    while True:
        for path in folder.glob("*.sock"):
            connection = socket.socket(socket.AF_UNIX)
            with suppress(OSError):
                connection.connect(str(path))
                return connection
            connection.close()
        if process.has_left():
            raise Unmeasured(f"the daemon has left: {process.log()[-600:]}")
        time.sleep(POLL_S)


def _children_of(pid: int) -> list[int]:
    """The processes of servers: those that lead a group of their own."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            child = int(status.parent.name)
            if int(fields[1]) == pid and int(fields[2]) == child:
                found.append(child)
    return found


def _forget_files() -> None:
    """Ask the kernel to drop from the page cache what a start of MCPX reads."""
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(ROOT / "mcpx")}:
        for path in Path(folder).rglob("*"):
            with suppress(OSError):
                opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(opened)


# --- the servers


def _servers(count: int, corpus: dict[str, list[str]], work: Path) -> tuple[dict[str, dict], str]:
    """The entries of that many servers, and what they are; the first one takes the call of `_call_of`."""
    if count <= REAL_COUNT and (real := real_servers(work / "real")):
        return dict(list(real.items())[:count]), "real"
    commands = {SERVER: CHILD} | dict(list(corpus.items())[: count - 1])
    return {name: {"command": argv[0], "args": argv[1:]} for name, argv in commands.items()}, "corpus"


def _call_of(name: str) -> tuple[str, dict]:
    return ("echo", {"text": "x"}) if name == SERVER else ("read_graph", {})


def real_servers(folder: Path) -> dict[str, dict]:
    """Five servers from npm and PyPI, each with three entries; none unless all are installed."""
    node = LIVE / "node_modules" / "@modelcontextprotocol"
    python = LIVE / ".venv-servers" / "bin"
    programs = [
        node / f"server-{name}" / "dist" / "index.js" for name in ("memory", "filesystem", "everything")
    ]
    programs += [python / f"mcp-server-{name}" for name in ("git", "time")]
    if not all(path.exists() for path in programs) or not (shutil.which("node") and shutil.which("git")):
        return {}
    memory, files, everything, git, clock = map(str, programs)
    entries: dict[str, dict] = {}
    for number in range(COPIES):
        here = folder / str(number)
        if not here.exists():
            here.mkdir(parents=True)
            subprocess.run(["git", "init", "--quiet", here], check=True, timeout=30)
        graph = {"MEMORY_FILE_PATH": str(here / "memory.jsonl")}
        entries |= {
            f"memory{number}": {"command": "node", "args": [memory], "env": graph},
            f"files{number}": {"command": "node", "args": [files, str(here)]},
            f"everything{number}": {
                "command": "node",
                "args": [everything, "stdio"],
                "env": {"NUMBER": str(number)},
            },
            f"git{number}": {"command": git, "args": ["--repository", str(here)]},
            f"time{number}": {
                "command": clock,
                "args": ["--local-timezone", "UTC"],
                "env": {"NUMBER": str(number)},
            },
        }
    return entries

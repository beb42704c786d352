"""Three desks, each with and without MCPX: what clients and their servers take, and what a model reads first.

A desk is a number of clients and of servers. Without MCPX each client starts every server, as hosts do. With
it each has one shim (`mcpx attach`), and one daemon starts the servers once. Five servers are real ones from
npm and PyPI (`scripts/test --all` installs them), the others are those of the corpus, whose processes are
trivial: with real ones in their place both ways would take more memory, and the way without MCPX most. All
clients of a desk open their sessions at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from client import SHAKE
from measure_start import ROOT, real_servers
from process import Process, Unmeasured
from targets import mcpx

DESKS = {"one person, one client": (1, 5), "one person, three clients": (3, 20), "a team of ten": (10, 20)}
REAL_COUNT = 5
READY_S = 300.0
LISTED = b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"mcpx/settled":true}}}\n'


def measure_desks(corpus: dict[str, list[str]], work: Path) -> list[dict]:
    """For each desk its `clients` and `servers`, and of both ways what `_figures` says."""
    return [
        {"desk": name, "clients": clients, "servers": servers}
        | {"without": _without(clients, _entries(servers, corpus, work / name))}
        | {"with": _with(clients, _entries(servers, corpus, work / name), work / f"mcpx {name}")}
        for name, (clients, servers) in DESKS.items()
    ]


def _entries(count: int, corpus: dict[str, list[str]], work: Path) -> dict[str, dict]:
    real = real_servers(work)
    if not real:
        raise Unmeasured("the real servers are not installed: scripts/test --all does it")
    entries = dict(list(real.items())[:REAL_COUNT])
    more = list(corpus.items())[: count - len(entries)]
    return entries | {name: {"command": argv[0], "args": argv[1:]} for name, argv in more}


def _without(clients: int, entries: dict[str, dict]) -> dict[str, float]:
    commands = [
        ([entry["command"], *entry["args"]], entry.get("env", {})) for entry in entries.values()
    ] * clients
    with _running(commands) as (processes, took):
        menu = [tool for process in processes[: len(entries)] for tool in process.tools]
        return _figures([process.pid for process in processes], took, menu)


def _with(clients: int, entries: dict[str, dict], state: Path) -> dict[str, float]:
    target = mcpx(state, {"x": [sys.executable]})
    config = state / "config.json"
    config.write_text(json.dumps({"mcpServers": entries}))
    command = [sys.executable, "-P", "-m", "mcpx"]

    def daemon(what: str) -> str:
        words = [*command, "daemon", what, "--config", str(config)]
        return subprocess.run(
            words, env=_environment(target.env), check=True, capture_output=True, text=True, timeout=READY_S
        ).stdout

    began = time.perf_counter()
    pid = int(daemon("start").partition("pid ")[2].partition(",")[0])
    try:
        with _running([([*command, "attach", "--config", str(config)], target.env)] * clients) as (shims, _):
            took = time.perf_counter() - began
            return _figures([pid, *(shim.pid for shim in shims)], took, shims[0].tools)
    finally:
        daemon("stop")


def _environment(env: dict[str, str]) -> dict[str, str]:
    return {**os.environ, **env}


class _Listed(Process):
    """A process that has listed its `tools`."""

    tools: list[dict]

    def list(self) -> None:
        """Shake hands and list. Raises Unmeasured if it leaves."""
        with open(self.stdin, "wb", closefd=False) as to, open(self.stdout, "rb", closefd=False) as out:
            shake = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": SHAKE}
            to.write(json.dumps(shake).encode() + b"\n")
            to.flush()
            self._answer(out, 1)
            to.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n' + LISTED)
            to.flush()
            self.tools = self._answer(out, 2)["tools"]

    def _answer(self, out: BinaryIO, number: int) -> dict:
        for line in out:
            answer = json.loads(line)
            if answer.get("id") == number and "method" not in answer:
                return answer["result"]
        raise Unmeasured(f"{self.name} has left: {self.log()[-600:]}")


@contextmanager
def _running(commands: list[tuple[list[str], dict[str, str]]]) -> Iterator[tuple[list[_Listed], float]]:
    """All of them started at once, each asked to list; and the seconds until the last has."""
    with ExitStack() as stack:
        began = time.perf_counter()
        processes = []
        for command, env in commands:
            processes.append(_Listed(command[0], command, env))
            stack.callback(processes[-1].close)
        with ThreadPoolExecutor(len(processes)) as pool:
            list(pool.map(_Listed.list, processes))
        yield processes, time.perf_counter() - began


def _figures(roots: list[int], took: float, menu: list[dict]) -> dict[str, float]:
    """`ready_s`, the `processes` under these roots, their `pss` in bytes, and the `tokens` of the menu."""
    tree = list(_tree(roots))
    return {
        "ready_s": took,
        "processes": len(tree),
        "pss": sum(_pss(pid) for pid in tree),
        "tokens": _tokens(menu),
    }


def _tokens(menu: list[dict]) -> int:
    """What a model reads of these tools; counted by a process of its own, for the tables take 200 MB."""
    command = [sys.executable, "-m", "scripts.lab.contextbench.counting"]
    counted = subprocess.run(
        command, input=json.dumps(menu), cwd=ROOT, check=True, capture_output=True, text=True
    )
    return int(counted.stdout)


def _tree(roots: list[int]) -> Iterator[int]:
    for pid in roots:
        yield pid
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from _tree(list(map(int, (task / "children").read_text().split())))


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))

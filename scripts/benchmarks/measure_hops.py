"""What each MCPX on the way to a server costs: small calls over 0, 1, 2 and 3 hops, over HTTP and attach.

The client's own MCPX (`mcpx serve`) has the child itself (0 hops), or takes it from a daemon, which may take
it from another daemon, and so on. All targets take turns, as for the calls of `measure_calls`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from measure_calls import measure_calls
from process import Unmeasured
from targets import SERVER, Target

MOST_HOPS = 3
PREFIX = "p"
START_S = 30
MCPX = [sys.executable, "-P", "-m", "mcpx"]


def measure_hops(work: Path, child: list[str], *, rounds: int, seconds: float) -> dict:
    """For each way and number of hops what `measure_calls` says."""
    with ExitStack() as stack:
        found = [_target("0 hops", work, {SERVER: _entry(child)}, SERVER)]
        for way in ("http", "attach"):
            found += stack.enter_context(_chain(way, work, child))
        return measure_calls(found, rounds=rounds, seconds=seconds)


@contextmanager
def _chain(way: str, work: Path, child: list[str]) -> Iterator[list[Target]]:
    """The targets behind daemons that take the child from each other."""
    found, running = [], []
    entry, name = {SERVER: _entry(child)}, SERVER
    try:
        for hops in range(1, MOST_HOPS + 1):
            port = _free_port()
            config = _write(work / f"{way}-{hops}.json", entry, http={"port": port})
            _daemon("start", config, work)
            running.append(config)
            entry = {PREFIX: _peer(way, config, port, work)}
            name = f"{PREFIX}/{name}"
            found.append(_target(f"{hops} over {way}", work, entry, name))
        yield found
    finally:
        for config in reversed(running):
            _daemon("stop", config, work)


def _peer(way: str, config: Path, port: int, work: Path) -> dict:
    if way == "attach":
        reached: dict = {"command": MCPX[0], "args": [*MCPX[1:], "attach", "--config", str(config)]}
        reached["env"] = {"MCPX_STATE_DIR": str(work / "state")}
    else:
        token = (work / "state" / "token").read_text().strip()
        reached = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    return {**reached, "mcpx": True, "as": PREFIX}


def _target(name: str, work: Path, entries: dict, server: str) -> Target:
    config = _write(work / f"{name.replace(' ', '-')}-client.json", entries)

    def call(tool: str, given: dict) -> dict:
        return {"name": "exec", "arguments": {"server_name": server, "tool_name": tool, "arguments": given}}

    state = work / f"state of {name}"  # its id must not be that of a daemon
    return Target(name, [*MCPX, "serve", str(config)], call, {"exec"}, {"MCPX_STATE_DIR": str(state)})


def _entry(child: list[str]) -> dict:
    return {"command": child[0], "args": child[1:]}


def _write(file: Path, entries: dict, **settings: object) -> Path:
    whole = {"result_token_budget": 0, "startup_wait": 20, "mcpServers": entries, **settings}
    file.write_text(json.dumps(whole))
    return file


def _daemon(do: str, config: Path, work: Path) -> None:
    environment = {**os.environ, "MCPX_STATE_DIR": str(work / "state")}
    command = [*MCPX, "daemon", do, "--config", str(config)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=START_S, check=False
    )
    if done.returncode and do == "start":
        raise Unmeasured(f"a daemon does not start: {done.stderr.strip()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

"""What each MCPX on the way to a server costs: small calls over 0, 1, 2 and 3 hops, over HTTP and attach.

The client's own MCPX (`mcpx serve`) has the child itself (0 hops), or takes it from a daemon, which may take
it from another daemon, and so on. All targets take turns, as for the calls of `measure_calls`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from measure_calls import measure_calls
from process import Unmeasured, free_port, written
from targets import SERVER, Target

MOST_HOPS = 3
NO_HOP, ONE_HTTP = "0 hops", "1 over http"
PREFIX = "p"
START_S = 30
MCPX = [sys.executable, "-P", "-m", "mcpx"]


def measure_hops(work: Path, child: list[str], *, rounds: int, seconds: float) -> dict:
    """For each way and number of hops what `measure_calls` says."""
    with ExitStack() as stack:
        found = [target_before(NO_HOP, work, {SERVER: entry_of(child)}, SERVER)]
        for way in ("http", "attach"):
            found += stack.enter_context(chain(way, work, child, hops=MOST_HOPS))[0]
        return measure_calls(found, rounds=rounds, seconds=seconds)


@contextmanager
def chain(way: str, work: Path, child: list[str], *, hops: int) -> Iterator[tuple[list[Target], list[int]]]:
    """The targets behind daemons that take the child from each other, and the daemons' process ids."""
    found, running, pids = [], [], []
    entry, name = {SERVER: entry_of(child)}, SERVER
    try:
        for number in range(1, hops + 1):
            port = free_port()
            config = write_config(work / f"{way}-{number}.json", entry, http={"port": port})
            said = _daemon("start", config, work)
            running.append(config)
            pids.append(int(said.partition("pid ")[2].partition(",")[0]))
            entry = {PREFIX: _peer(way, config, port, work)}
            name = f"{PREFIX}/{name}"
            found.append(target_before(f"{number} over {way}", work, entry, name))
        yield found, pids
    finally:
        for config in reversed(running):
            _daemon("stop", config, work)


def _peer(way: str, config: Path, port: int, work: Path) -> dict:
    if way == "attach":
        reached: dict = {"command": MCPX[0], "args": [*MCPX[1:], "attach", "--config", str(config)]}
        reached["env"] = {"MCPX_STATE_DIR": str(work / "state")}
    else:
        token = written(work / "state" / "token")
        reached = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    return {**reached, "mcpx": True, "as": PREFIX}


def target_before(name: str, work: Path, entries: dict, server: str, **settings: object) -> Target:
    """The client's own MCPX with these entries, whose `server` is called."""
    config = write_config(work / f"{name.replace(' ', '-')}-client.json", entries, **settings)

    def call(tool: str, given: dict) -> dict:
        return {"name": "exec", "arguments": {"server_name": server, "tool_name": tool, "arguments": given}}

    state = work / f"state of {name}"  # its id must not be that of a daemon
    return Target(name, [*MCPX, "serve", str(config)], call, {"exec"}, {"MCPX_STATE_DIR": str(state)})


def entry_of(child: list[str]) -> dict:
    """The entry of the child in a configuration."""
    return {"command": child[0], "args": child[1:]}


def write_config(file: Path, entries: dict, **settings: object) -> Path:
    """Write a configuration with these entries; the file again."""
    whole = {"result_token_budget": 0, "startup_wait": 20, "mcpServers": entries, **settings}
    file.write_text(json.dumps(whole))
    return file


def _daemon(do: str, config: Path, work: Path) -> str:
    environment = {**os.environ, "MCPX_STATE_DIR": str(work / "state")}
    command = [*MCPX, "daemon", do, "--config", str(config)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=START_S, check=False
    )
    if done.returncode and do == "start":
        raise Unmeasured(f"a daemon does not start: {done.stderr.strip()}")
    return done.stdout

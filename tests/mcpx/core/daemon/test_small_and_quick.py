"""The shim is a process for each client: what it imports, how long it takes, what it and its daemon hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from math import inf
from pathlib import Path

import pytest

from tests.mcpx.core.daemon.test_attach import resident
from tests.mcpx.scripted import entry
from tests.mcpx.serving import LEGACY, environment, run_cli

HEAVY = {
    "mcp",
    "anyio",
    "asyncio",
    "click",
    "structlog",
    "pydantic",
    "rich",
    "jsonschema",
    "json",
    "subprocess",
    "inspect",  # by typing_extensions, which msgspec takes if it may
    "mcpx.core.wire.malformed",
}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
LONGEST_S = 100.0
pytestmark = pytest.mark.timeout(120)


def test_nothing_heavy_is_imported():
    shim = [sys.executable, "-X", "importtime", "-m", "mcpx", "attach", "--help"]
    done = subprocess.run(shim, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "mcpx.attach.shim" in imported
    assert not HEAVY & imported


def test_initialize_is_answered_soon_after_the_start_and_in_little_memory(house):
    house.write({"s": entry()})
    assert house.run("daemon", "start").returncode == 0
    until, took, alone = time.monotonic() + LONGEST_S, inf, python_alone()
    while took - alone >= 0.135:  # the target is 150 ms, of which a quiet machine's Python takes 15
        # the best of some: what else runs on the machine is not what is measured
        assert time.monotonic() < until, f"{took:.3f} s, and Python alone {alone:.3f} s"
        seconds, size = attach(house)
        assert size < 17_000_000
        took = min(took, seconds)


def test_a_daemon_whose_servers_are_asleep_is_small(house):
    house.write({"s": entry()})
    assert house.run("daemon", "start").returncode == 0
    assert (
        house.run("inspect", "s").returncode == 0
    )  # waits for its first list, which the next daemon remembers
    # for real: a forked one holds what the fork server has imported
    restarted = run_cli(house.folder, "daemon", "restart", "--config", house.config, real=True)
    assert restarted.returncode == 0
    attach(house)
    (server,) = house.status()["servers"]
    assert (server["state"], server["pid"]) == ("asleep", None)
    assert resident(house.pid) < 62_000_000


def attach(house) -> tuple[float, int]:
    """Seconds to the answer, but for the wait for a processor, and the bytes that the shim then holds."""
    began, waited = time.perf_counter(), waits("self") + waits(house.pid)
    with subprocess.Popen(
        [sys.executable, "-m", "mcpx", "attach", "--config", house.config],
        env=environment(house.folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        shim.stdin.write(json.dumps(hello).encode() + b"\n")
        shim.stdin.flush()
        assert "result" in json.loads(shim.stdout.readline())
        took = time.perf_counter() - began
        took -= waits("self") + waits(house.pid) - waited + waits(shim.pid)
        size = resident(shim.pid)
        shim.stdin.close()
    return took, size


def waits(pid) -> float:
    """Seconds in which a process had work and no processor, on Linux."""
    schedule = Path(f"/proc/{pid}/schedstat")
    return int(schedule.read_text().split()[1]) / 1e9 if schedule.exists() else 0.0


def python_alone() -> float:
    """Seconds of a processor that Python takes for nothing, at best."""
    took = []
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
        took.append(usage.ru_utime + usage.ru_stime)
    return min(took)

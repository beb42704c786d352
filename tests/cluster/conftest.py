"""One Ray cluster of three nodes for all tests here; they run in one worker (see `tests/conftest.py`).

Its nodes are `one` (the head), `two` and `three`, which are `far`; `three` has a `gpu`. A test that takes a node
away puts it back.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpx.cluster.ray_client import RayProcess
from supervisors import Supervisor

START_TIMEOUT_S = 60.0


class RayCluster:
    """The cluster's process."""

    def __init__(self, folder: Path) -> None:
        script = Path(__file__).with_name("ray_cluster.py")
        self._log = (folder / "cluster.log").open("wb")
        self._popen = subprocess.Popen(
            [sys.executable, str(script), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.address = str(self._answer()["address"])

    def kill(self, name: str) -> float:
        """Kill a node; when that began."""
        self._tell(f"kill {name}")
        at = self._answer()["at"]
        self._answer()
        return float(at)

    def add(self, name: str) -> None:
        self._tell(f"add {name}")
        self._answer()

    def close(self) -> None:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(30)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._popen.stdout.close()
        self._log.close()

    def _tell(self, line: str) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(line.encode() + b"\n")
        self._popen.stdin.flush()

    def _answer(self) -> Any:
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, "the cluster has ended"
        return json.loads(line)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'mcpx-gateway[ray]'")
    folder = Path(tempfile.mkdtemp(prefix="mcpx-ray-", dir="/tmp"))  # short, for the names of sockets
    cluster = RayCluster(folder)
    yield cluster
    cluster.close()
    shutil.rmtree(folder, ignore_errors=True)


class Joined:
    """A gateway's link to the cluster."""

    def __init__(self, ray: RayProcess) -> None:
        self.ray = ray
        self._changed = anyio.Event()
        ray.observe(self._tell)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until that holds of what Ray says."""
        with anyio.fail_after(seconds):
            while not holds():
                await self._changed.wait()

    def id_of(self, name: str) -> str:
        return next(node.id for node in self.ray.nodes.values() if node.name == name)

    def name_of(self, node: str) -> str:
        return self.ray.nodes[node].name

    def are_up(self) -> bool:
        nodes = self.ray.nodes.values()
        return len(nodes) == 3 and all(node.endpoint is not None for node in nodes)


@asynccontextmanager
async def joined(address: str) -> AsyncIterator[Joined]:
    """A link of its own to the cluster, with all three nodes up."""
    link = Joined(RayProcess(address))
    supervisor = Supervisor()
    supervisor.add(link.ray.child())
    async with anyio.create_task_group() as tasks:
        await tasks.start(supervisor.run)
        try:
            await link.until(link.are_up, START_TIMEOUT_S)
            yield link
        finally:
            supervisor.stop()

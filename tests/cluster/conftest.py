"""One Ray cluster of three nodes for all tests here; they run in one worker (see `tests/conftest.py`).

Its nodes are `one` (the head), `two` and `three`, which are `far`; `three` has a `gpu`. A test that takes a
node away puts it back.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpx.cluster.ray_client import RayProcess
from supervisors import Supervisor
from tests.cluster import machine

START_TIMEOUT_S = 60.0
NODES: dict[str, dict[str, float]] = {"one": {}, "two": {"far": 9}, "three": {"far": 9, "gpu": 1}}
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef"}
OPEN = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": ""}
os.environ.setdefault("RAY_AUTH_TOKEN", TOKEN["RAY_AUTH_TOKEN"])  # the gateways of the tests have it
QUICK = {"RAY_health_check_period_ms": "500", "RAY_health_check_initial_delay_ms": "1000"}
"""Ray's own detection of a death takes 15 s by default, with checks that are 3 s apart."""


class RayCluster:
    """The cluster's process, and the nodes of it that run."""

    def __init__(self, folder: Path, nodes: dict[str, dict[str, float]], **environment: str) -> None:
        script = Path(__file__).with_name("ray_cluster.py")
        self._log = (folder / "cluster.log").open("wb")
        self._popen = subprocess.Popen(
            [sys.executable, str(script), str(folder), json.dumps(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | TOKEN | environment,
        )
        self._telling = threading.Lock()
        said = self._answer()
        self.address = str(said["address"])
        self.raylets: dict[str, int] = {each["name"]: each["pid"] for each in said["nodes"]}
        self.ids: dict[str, str] = {each["name"]: each["id"] for each in said["nodes"]}
        """Those that Ray gave them, also of those that are gone."""

    def kill(self, name: str) -> float:
        """End a node as if its machine had lost its power; when that was."""
        at, _ = machine.kill(self.raylets[name])
        self.gone(name)
        return at

    def gone(self, name: str) -> None:
        """Clean up after a node whose processes were killed."""
        if self.raylets.pop(name, None) is not None:
            self._tell(f"gone {name}")

    def add(self, name: str) -> None:
        said = self._tell(f"add {name}")
        self.raylets[name], self.ids[name] = said["pid"], said["id"]

    def table(self) -> dict[str, Any]:
        """What Ray knows: the nodes that live, when it saw others die, and where its placement groups are."""
        return dict(self._tell("table"))

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

    def _tell(self, line: str) -> Any:
        assert self._popen.stdin is not None
        with self._telling:
            self._popen.stdin.write(line.encode() + b"\n")
            self._popen.stdin.flush()
            answer = self._answer()
        if "error" in answer:
            raise RuntimeError(f"{line}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._popen.wait(30)
        return Path(self._log.name).read_text()[-2000:]

    def _answer(self) -> Any:
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, f"the cluster has ended: {self._last_words()}"
        return json.loads(line)


@contextmanager
def cluster_of(nodes: dict[str, dict[str, float]], **environment: str) -> Iterator[RayCluster]:
    """A cluster of these nodes, the head first, with what each has; the only one on this machine."""
    machine.take_turn()
    folder = Path(tempfile.mkdtemp(prefix="mcpx-ray-", dir="/tmp"))  # short, for the names of sockets
    try:
        cluster = RayCluster(folder, nodes, **environment)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for other clusters before the first test here, outside the time that a test may take.

    pytest calls this for the tests of all folders.
    """
    if Path(__file__).parent in item.path.parents and find_spec("ray") is not None:
        machine.take_turn()
    return (yield)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'mcpx-gateway[ray]'")
    with cluster_of(NODES, **QUICK) as cluster:
        yield cluster


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

"""Two daemons on one real cluster: what is approved at one holds at the other, and a reload is for both."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import RayCluster
from tests.mcpx.scripted import entry
from tests.mcpx.serving import run_cli, write_config

pytestmark = pytest.mark.timeout(120)

JOIN_S = 40.0  # for Ray to be joined: 3 s on a quiet machine
WITHIN_S = 2.0  # an approval holds everywhere
COMMAND_S = 3.0  # that a command itself takes, on a busy machine


class Gateway:
    """A daemon with a state folder and a configuration of its own."""

    def __init__(self, folder: Path, address: str, tools: Path) -> None:
        folder.mkdir(mode=0o700)
        self.folder, self._address, self._tools = folder, address, tools
        self.configure()

    def configure(self, **settings: Any) -> None:
        server = entry(settings={"start": "eager", "place": False}, tools=str(self._tools))
        fixed = {"cluster": {"address": self._address}, "pin": "block", "watch_config": False}
        self._config = write_config(self.folder, {"s": server}, login_shell=False, **fixed, **settings)

    def mcpx(self, *arguments: str, code: int | None = 0) -> str:
        done = run_cli(self.folder, *arguments, "--config", self._config)
        assert code in {None, done.returncode}, done.stdout + done.stderr
        return done.stdout

    def gateways(self) -> list[dict[str, Any]]:
        answer = json.loads(self.mcpx("cluster", "status", "--json", code=None) or "{}")
        return answer.get("gateways", [])

    def may_commit(self) -> bool:
        return "not_approved" not in self.mcpx("exec", "s", "commit", "--json", code=None)


def describe(tools: Path, text: str) -> None:
    tool = {"name": "commit", "description": text, "inputSchema": {"type": "object"}}
    tools.write_text(json.dumps([tool]))


@pytest.fixture
def two(ray_cluster: RayCluster, tmp_path: Path) -> Iterator[list[Gateway]]:
    tmp_path.chmod(0o700)
    describe(tools := tmp_path / "tools.json", "Commits.")
    both = [Gateway(tmp_path / name, ray_cluster.address, tools) for name in ("a", "b")]
    try:
        for each in both:
            each.mcpx("daemon", "start")
        deadline = time.monotonic() + JOIN_S
        while any(len(each.gateways()) < 2 for each in both):
            assert time.monotonic() < deadline, [each.gateways() for each in both]
        yield both
    finally:
        for each in both:
            each.mcpx("daemon", "stop", code=None)


def test_two_gateways_share_what_is_approved_and_reload_together(two: list[Gateway], tmp_path: Path) -> None:
    a, b = two
    assert a.may_commit()
    assert b.may_commit()
    describe(tmp_path / "tools.json", "Commits, and mails it.")
    for each in two:
        each.mcpx("restart", "s")
        assert not each.may_commit()
    a.mcpx("approve", "s", "--yes")
    began = time.monotonic()
    while not b.may_commit():
        assert time.monotonic() < began + WITHIN_S + COMMAND_S
    for each in two:
        each.configure(approve_timeout=33)
    assert a.mcpx("reload", "--all").count(": reloaded") == 2
    b.configure(approve_timeout=34)
    assert "configuration differs" in a.mcpx("reload", "--all")
    shown = b.mcpx("cluster", "status")
    assert shown.count("gateway ") == 2
    b.mcpx("daemon", "stop")
    began = time.monotonic()
    while len(a.gateways()) != 1:  # it has said that it leaves, and is not only missed
        assert time.monotonic() < began + WITHIN_S + COMMAND_S

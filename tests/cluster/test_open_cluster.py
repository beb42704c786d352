"""A Ray cluster that asks for no token, which other users of its machines can read; and one that does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.cluster.conftest import OPEN, RayCluster, cluster_of
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.scripted import entry

pytestmark = pytest.mark.timeout(180)
STRANGER = """
import sys
from ray._raylet import GcsClient
print(GcsClient(address=sys.argv[1]).internal_kv_keys(b"", b"mcpx", 5.0))
"""


@pytest.fixture
def open_cluster() -> Iterator[RayCluster]:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'mcpx-gateway[ray]'")
    with cluster_of({"one": {}}, **OPEN) as cluster:
        yield cluster


@pytest.fixture
def house() -> Iterator[House]:
    with House.opened() as made:
        yield made


def seen_by_a_stranger(address: str) -> str:
    """What whoever reaches Ray, and has no token, reads of MCPX in its store; or why not."""
    nothing = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "", "HOME": "/nonexistent"}
    look = [sys.executable, "-c", STRANGER, address]
    done = subprocess.run(look, env=os.environ | nothing, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_an_open_cluster_is_refused_unless_it_is_wanted_and_then_named_everywhere(
    house: House, open_cluster: RayCluster
) -> None:
    house.write({"s": entry()})
    start = ("cluster", "start", "--address", open_cluster.address)
    refused = house.run(*start)
    assert refused.returncode == 1
    said = " ".join((refused.stdout + refused.stderr).split())
    assert "answers without a token" in said
    assert "RAY_AUTH_MODE=token" in said
    assert "--allow-open" in said
    assert seen_by_a_stranger(open_cluster.address) == "[]"
    assert "answers without a token" in house.run("doctor").stdout

    joined = house.run(*start, "--allow-open")
    assert joined.returncode == 0, joined.stdout + joined.stderr
    assert "answers without a token" in " ".join(joined.stdout.split())
    assert "credentials" in seen_by_a_stranger(open_cluster.address)
    status = house.run("cluster", "status")
    assert (status.returncode, "answers without a token" in " ".join(status.stdout.split())) == (0, True)
    assert json.loads(house.run("status", "--json").stdout)["cluster"]["open"] is True
    assert "answers without a token" in house.run("doctor").stdout


def test_with_a_token_the_store_is_closed_and_nothing_is_said(house: House, ray_cluster: RayCluster) -> None:
    house.write({"s": entry()})
    done = house.run("cluster", "start", "--address", ray_cluster.address)
    assert (done.returncode, "without a token" in done.stdout) == (0, False), done.stdout + done.stderr
    assert "AuthenticationError" in seen_by_a_stranger(ray_cluster.address)
    assert json.loads(house.run("status", "--json").stdout)["cluster"]["open"] is False
    assert "without a token" not in house.run("doctor").stdout


def test_a_token_that_is_missing_or_another_is_said(
    house: House, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write({"s": entry()})
    monkeypatch.setenv("RAY_AUTH_TOKEN", "f" * 32)
    done = house.run("cluster", "start", "--address", ray_cluster.address)
    assert (done.returncode, "wants a token" in " ".join(done.stdout.split())) == (1, True), done.stdout

"""Which servers' processes are started before the SDK is imported: those of the fleet's first starts."""

from __future__ import annotations

import os
import time

import msgspec
import pytest

from mcpx.core.catalog.model import Catalogue
from mcpx.core.config import load
from mcpx.core.servers.early_start import early_children, needed_first
from mcpx.core.servers.offers.remembered import CatalogueFiles
from mcpx.core.servers.offers.server_identity import server_identity
from mcpx.core.servers.transport.spawning import EARLY


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def configured(tmp_path):
    def load_with(servers, **settings):
        path = tmp_path / "config.json"
        path.write_bytes(msgspec.json.encode({"mcpServers": servers, **settings}))
        return load(str(path))

    return load_with


def remember(server, *, age_s):
    files, identity = CatalogueFiles(), server_identity(server)
    files.write(server, identity, Catalogue(generation=0), {})
    (path,) = files.folder.glob(f"{identity}*")
    os.utime(path, (time.time() - age_s,) * 2)


def test_those_that_will_not_sleep_those_that_nobody_knows_first(configured):
    config = configured(
        {
            "off": {"command": "off", "disabled": True},
            "far": {"url": "http://127.0.0.1:1/mcp"},
            "old": {"command": "old"},
            "fresh": {"command": "fresh"},
            "eager": {"command": "eager", "start": "eager"},
            "asleep": {"command": "asleep", "start": "on_demand"},
            "new": {"command": "new", "start": "on_demand"},
        }
    )
    for name, age_s in {"old": 90_000, "fresh": 10, "eager": 10, "asleep": 90_000}.items():
        remember(config.servers[name], age_s=age_s)
    assert [stdio.command for stdio in needed_first(config)] == ["new", "old", "eager"]


def test_they_run_for_the_length_of_the_import_and_no_longer_than_somebody_takes_them(configured):
    config = configured({"a": {"command": "cat"}})
    with early_children(lambda: config) as resolved:
        assert resolved() is config
        ((_, child),) = EARLY._waiting
        assert child.popen.poll() is None
    assert child.popen.returncode == -9

from __future__ import annotations

import os

import pytest

from mcpx.core.config import starting_limit
from mcpx.core.config.model import Settings
from mcpx.core.system import processes as processes_module


def limit(**settings):
    return starting_limit(Settings(**settings))


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Set the processors that the process may use, and the quota of its container."""

    def set_up(usable, quota=None):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(usable)), raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: usable)
        monkeypatch.setattr(processes_module, "CGROUPS", tmp_path)
        if quota is not None:
            (tmp_path / "cpu.max").write_text(quota)

    return set_up


@pytest.mark.parametrize(
    ("usable", "quota", "at_once"),
    [
        (2, None, 8),
        (1, None, 4),
        (64, None, 32),
        (64, "max 100000\n", 32),
        (64, "150000 100000\n", 6),
        (2, "800000 100000\n", 8),
        (64, "50000 100000\n", 4),
        (2, "rubbish", 8),
    ],
)
def test_as_many_servers_start_as_suit_the_processors(machine, usable, quota, at_once):
    machine(usable, quota)
    assert limit() == at_once
    assert limit(max_starting=0) == at_once


def test_the_configuration_may_say_how_many(machine):
    machine(64)
    assert limit(max_starting=1) == 1
    assert limit(max_starting=500) == 500

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcpx.core.config import json_schema, parse, starting_limit
from mcpx.core.config.model import Replica, Settings
from mcpx.core.config.per_server import ProcessLimits
from mcpx.core.system import processes as processes_module
from mcpx.errors import ConfigError


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


def config(servers, **settings):
    return parse(json.dumps({**settings, "mcpServers": servers}), where="test")


def test_limits_for_all_servers_and_for_one_reach_the_processes():
    servers = {
        "a": {"command": "a"},
        "b": {"command": "b", "limits": {"nice": 5, "calls_per_minute": 10}},
        "c": {"command": "c", "limits": {"open_files": None}},
        "d": {"url": "http://127.0.0.1/", "limits": {"nice": 5, "calls_per_minute": 10}},
    }
    found = config(servers, limits={"open_files": 100})
    limits = {name: found.servers[name].transport.limits for name in "abc"}
    assert limits == {
        "a": ProcessLimits(open_files=100),
        "b": ProcessLimits(open_files=100, nice=5),
        "c": ProcessLimits(),
    }
    assert found.servers["d"].quota.calls_per_minute == 10
    assert [notice for notice in found.notices if "limits" in notice] == [
        "$.mcpServers.d.limits.nice: has no effect on a server that is reached by a URL"
    ]


def test_a_slip_in_limits_disables_the_server():
    found = config({"a": {"command": "a", "limits": {"niec": 5}}})
    assert "niec" in found.servers["a"].disabled


SECRET = "0123456789abcdef"
ENVIRON = {"POD_IP": "10.0.0.3", "SHARED": SECRET, "SHORT": "0123456789abcde"}


def read(replica: Any) -> Replica:
    document = {"mcpServers": {"s": {"command": "x"}}, "http": {"replica": replica}}
    assert Draft202012Validator(json_schema()).is_valid(document)
    return parse(json.dumps(document), where="c.json", environ=ENVIRON).http.replica


def test_variables_are_expanded_and_the_secret_is_not_shown() -> None:
    made = read({"url": "http://${POD_IP}:8765/", "secret": "${SHARED}"})
    assert (made.url, made.secret) == ("http://10.0.0.3:8765", SECRET)
    assert SECRET not in repr(made)
    assert read({}) == Replica()


@pytest.mark.parametrize(
    ("url", "secret", "says"),
    [
        ("http://a:1", "${SHORT}", "16 bytes or more"),
        ("http://a:1", "", "16 bytes or more"),
        ("http://a:1", "${MISSING}", "MISSING is not set"),
        ("http://a:1", "${keychain:x}", "only variables"),
        ("", SECRET, "starts with http"),
        ("ftp://a", SECRET, "starts with http"),
        ("http://a:99999", SECRET, "port"),
        ("http://a/mcp", SECRET, "scheme, host and port alone"),
        ("http://user:word@a", SECRET, "scheme, host and port alone"),
        ("http://a:1?x=1", SECRET, "scheme, host and port alone"),
        ("http://" + "a" * 300, SECRET, "scheme, host and port alone"),
    ],
)
def test_what_cannot_be_used_is_a_mistake_of_the_whole_file(url: str, secret: str, says: str) -> None:
    with pytest.raises(ConfigError) as failure:
        read({"url": url, "secret": secret})
    assert says in str(failure.value)
    assert SECRET not in str(failure.value)


def test_an_unknown_key_is_a_mistake() -> None:
    document = {"mcpServers": {}, "http": {"replica": {"url": "http://a", "secret": SECRET, "name": "b"}}}
    with pytest.raises(ConfigError, match="unknown key"):
        parse(json.dumps(document), where="c.json", environ={})
